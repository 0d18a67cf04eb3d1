"""A group whose writes are reviewed: each waits for a person, is written as it was asked for, and nothing is lost."""

import re
from pathlib import Path

import orjson
import pytest

from honeybadger_agent.errors import NotFound
from honeybadger_agent.wire import SaveMemory
from tests.commands import cli_error, cli_json, cli_text
from tests.conftest import HostFactory, MakeClient
from tests.flows.test_entries import log_of
from tests.hosting import HostProcess, RawSender, run_agent, run_cli, status_of, wait_for

# The groups of the tests are reviewed, and no others.
SERVED_WITH = {"memory.writes": ",".join(f"group-{number}=review" for number in range(30))}


def review(home: Path, *arguments: object) -> str:
    return cli_text("review", *arguments, home=home)


def decide(asker: RawSender, action: str, proposal: str | None) -> str:
    return review(asker.home, action, asker.group, proposal)


def proposal_in(asker: RawSender, name: str | None) -> Path:
    return asker.memory.parent / f"proposals/{name}.json"


def test_waiting_writes_survive_a_restart_and_keep_their_authors(
    served: HostProcess, asker: RawSender, member: MakeClient
) -> None:
    home, group = asker.home, asker.group
    note = member("cook").update_memory("Ann likes tea", "Drinks")
    save = SaveMemory(content="Bob likes coffee", category="drinks", tags=["bob"], metadata={"cups": 3, "milk": None})
    saved = member("cook")(save, request_id="r1")
    assert note.proposal is not None
    assert saved.proposal is not None
    with pytest.raises(NotFound):
        member().get_memory(saved.id)
    assert member().search_memory("coffee").hits == []
    assert member().read_group_files().memory is None
    served.kill()
    served.start()
    assert member("cook")(save, request_id="r1") == saved  # the same again is the same reply, and not a second proposal
    listed = review(home, "list", group)
    assert listed.count("write by cook  1 waiting") == 2
    wait_for(lambda: status_of(home)["review"].get(group) == 2, what="the status")
    assert re.search(rf"review    \d+ proposals? waits? for you: .*\b{group} 2\b.*; see", cli_text("status", home=home))
    assert "+Bob likes coffee" in decide(asker, "show", saved.proposal)
    assert decide(asker, "accept", saved.proposal) == f"{saved.proposal}: accepted; 1 applied\n"
    assert decide(asker, "accept", note.proposal) == f"{note.proposal}: accepted; 1 applied\n"
    wait_for(lambda: group not in status_of(home)["review"], what="the status")
    entry = member().get_memory(saved.id)
    assert (entry.content, entry.by, entry.tags, entry.metadata) == (
        *("Bob likes coffee", "cook", ["bob"]),
        {"cups": 3, "milk": None},
    )
    assert "## Drinks (cook, " in (member().read_group_files().memory or "")
    assert [row[1:] for row in log_of(home, group) if row[2] in ("entry", "note")] == [
        ("operator", "entry"),
        ("operator", "note"),
    ]
    again = cli_error("review", "accept", group, saved.proposal, home=home)
    assert f"nothing of proposal {saved.proposal} waits" in again
    assert member().get_memory(saved.id).reinforced == 0
    assert review(home, "list", group) == "nothing waits for a decision\n"


def test_the_offline_model_does_not_claim_that_it_saved(asker: RawSender, member: MakeClient) -> None:
    told = run_agent("ask", "Remember that I like cheese", "--group", asker.group, home=asker.home).stdout
    assert told.startswith("This is not saved yet. It waits for review as write-")


def test_a_waiting_edit_of_a_changed_entry_is_stale(asker: RawSender, member: MakeClient) -> None:
    first = member().save_memory("Bob likes coffee")
    assert first.proposal is not None
    decide(asker, "accept", first.proposal)
    edits = [member().edit_memory(first.id, content=f"Bob likes {what}") for what in ("tea", "milk")]
    gone = member("cook").delete_memory(first.id)
    assert (edits[0].content, gone.content) == ("Bob likes tea", "Bob likes coffee")
    assert member().get_memory(first.id).content == "Bob likes coffee"
    assert decide(asker, "accept", edits[0].proposal).endswith("1 applied\n")
    for late in (edits[1].proposal, gone.proposal):
        assert decide(asker, "accept", late) == f"{late}: accepted; 1 stale\n"
    assert member().get_memory(first.id).content == "Bob likes tea"
    assert decide(asker, "revert", edits[0].proposal).startswith(f"{edits[0].proposal}: taken back")
    assert member().get_memory(first.id).content == "Bob likes coffee"
    decide(asker, "strike", member().delete_memory(first.id).proposal)
    assert member().get_memory(first.id).content == "Bob likes coffee"


def test_a_person_may_edit_a_waiting_write(asker: RawSender, member: MakeClient) -> None:
    home, group = asker.home, asker.group
    named = member().save_memory("Rules of the house", name="rules.md")
    other = member().save_memory("Other rules", name="rules.md")
    path = proposal_in(asker, named.proposal)
    path.write_bytes(path.read_bytes().replace(b"Rules of the house", b"Rules of the flat"))
    decide(asker, "accept", named.proposal)
    assert member().get_memory(named.id).content == "Rules of the flat"
    assert "has this name" in cli_error("review", "accept", group, other.proposal, home=home)
    assert orjson.loads(proposal_in(asker, other.proposal).read_bytes())["operations"][0]["state"] == "waiting"
    path = proposal_in(asker, other.proposal)
    path.write_bytes(path.read_bytes().replace(b'"name": "rules.md"', b'"name": 5'))
    refused = cli_error("review", "accept", group, other.proposal, home=home)
    assert "name must be a string; edit it, or strike it" in refused


def test_wrong_writes_are_refused_and_no_credential_waits(asker: RawSender, member: MakeClient) -> None:
    with pytest.raises(NotFound):
        member().edit_memory("nobody", content="x")
    assert list(asker.memory.parent.glob("proposals/*")) == []
    member().save_memory("hunter2-Xk9!pq", title="Wi-Fi password")
    member().update_memory("hunter2-Xk9!pq", "Wi-Fi password")
    for path in (asker.memory.parent / "proposals").iterdir():
        assert b"hunter2" not in path.read_bytes(), path.read_text()


def test_other_groups_and_the_operator_are_not_reviewed(asker: RawSender, member: MakeClient) -> None:
    other = member(group="other").save_memory("x")
    assert other.proposal is None
    assert member(group="other").get_memory(other.id).content == "x"
    for command in (("save", "Tea"), ("remember", "Tea")):
        told = run_agent(*command, "--group", asker.group, home=asker.home)
        assert (told.returncode, told.stdout.startswith("It waits for review as write-")) == (0, True)
    unknown = run_cli("config", "--memory.writes", "main=later", home=asker.home)
    assert unknown.returncode != 0


def test_review_without_a_group_lists_all_groups(make_host: HostFactory, client: MakeClient) -> None:
    """It said that nothing waits, as nothing did in `main`."""
    host = make_host({"memory.writes": "kitchen=review,garden=review"}).start()
    kitchen, garden = client(group="kitchen"), client(group="garden")
    for group in ("main", "kitchen", "garden"):
        (host.home / "groups" / group).mkdir(exist_ok=True)
    assert review(host.home) == review(host.home, "list") == "nothing waits for a decision\n"
    notes = [kitchen.update_memory("Ann likes tea"), kitchen.update_memory("Bob likes coffee")]
    notes.append(garden.update_memory("Roses want sun"))
    for _ in range(2):
        listed = review(host.home)
        assert listed == review(host.home, "list")
        assert [line for line in listed.splitlines() if line.endswith(":")] == ["garden:", "kitchen:"]
        assert all(str(note.proposal) in listed for note in notes)
        found = cli_json("review", "list", home=host.home)
        assert {group: len(rows["proposals"]) for group, rows in found.items()} == {"garden": 1, "kitchen": 2}
        if host.is_running:
            host.stop()
    review(host.home, "accept", "garden", notes[2].proposal)
    assert "garden" not in review(host.home)
    assert "garden:" in review(host.home, "--all")
    assert "list takes one group" in cli_error("review", "list", "garden", "kitchen", home=host.home, code=2)
    assert "show needs a group and a proposal" in cli_error("review", "show", "garden", home=host.home, code=2)
