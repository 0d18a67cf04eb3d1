"""Enrichment: what an agent saves gets focused entries beside it, by a model and gates (RB8)."""

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.commands import cli_text
from tests.conftest import HostFactory
from tests.flows.test_dream import Memory, answering
from tests.hosting import PATIENCE, status_of, wait_for

TEXT = (
    "The flat in Elm Road costs 950 EUR a month, to Mr Glanz. The heating is gas and is serviced every October by the "
    "firm Silva. The parking space number 14 belongs to it. The cellar is shared with the neighbours Ott."
)
RENT = "The flat in Elm Road costs 950 EUR a month, to Mr Glanz."
HEATING = "The heating is gas and is serviced every October by the firm Silva."
SOON: dict[str, object] = {"curation.runner.LOOK_SECONDS": 0.02, "curation.runner.FIRST_PAUSE_SECONDS": 0.2}


@pytest.fixture
def memory(home: Path) -> Memory:
    return Memory(home)


def proposing(home: Path, *facts: list[str], **more: Any) -> dict[str, object]:
    sentences = facts or (["1.1"], ["1.2"])
    return {**SOON, **answering(home, {"sentences": sentences}, **more)}


def noted(home: Path) -> list[str]:
    """Return the ids of what was begun, or is to be looked at, in the journal."""
    with contextlib.closing(sqlite3.connect(home / "data/journal.db")) as journal:
        return [row[0] for row in journal.execute("SELECT request FROM turns")]


def test_facts_of_a_saved_text_become_entries(make_host: HostFactory, home: Path, memory: Memory) -> None:
    host = make_host(proposing(home)).start()
    whole = memory.save(TEXT, "home", tags=["flat"])
    saved = memory.entries()[whole]
    (done,) = wait_for(lambda: host.events("enrichment.finished"))
    assert (done["applied"], done["waiting"], done["refused"]) == (2, 0, 0)
    entries = memory.entries()
    assert entries.pop(whole) == saved
    told = {each["content"]: each for each in entries.values()}
    assert told.keys() == {RENT, HEATING}
    assert all((each["category"], each["tags"]) == ("home", ["flat"]) for each in told.values())
    assert {each["metadata"]["part_of"] for each in told.values()} == {whole}
    assert {each["by"] for each in told.values()} == {"bee"}
    wait_for(
        lambda: (
            status_of(memory.home)["curation"]["spent_today"]
            == [{"group": "main", "kind": "enrichment", "tokens": 780}]
        )
    )
    (proposal,) = memory.review("list", "main", "--all")["proposals"]
    assert proposal["kind"] == "enrichment"
    assert memory.review("revert", "main", proposal["id"])["applied"] == 0
    assert memory.entries() == {whole: saved}


def test_a_text_that_is_saved_again_is_enriched_once(make_host: HostFactory, home: Path, memory: Memory) -> None:
    host = make_host(proposing(home)).start()
    memory.save(TEXT, "home")
    wait_for(lambda: host.events("enrichment.finished"))
    for name in memory.entries():
        memory.ask("delete_memory", id=name)
    whole = memory.save(TEXT, "home")
    other = memory.save(f"{TEXT} The garden has 40 roses.", "home")
    wait_for(lambda: len(memory.proposals()) == 2 and noted(home) == [])
    assert {each["metadata"].get("part_of") for each in memory.entries().values()} == {None, other}
    assert whole in memory.entries()
    assert len(host.events("enrichment.finished")) == 2


def test_forgetting_a_text_forgets_what_was_taken_from_it(make_host: HostFactory, home: Path, memory: Memory) -> None:
    host = make_host(proposing(home)).start()
    other = memory.save("Mr Glanz has a dog.")
    whole = memory.save(TEXT, "home")
    wait_for(lambda: host.events("enrichment.finished"))
    assert len(memory.entries()) > 3
    (home / "curation.json").unlink(missing_ok=True)  # what the model was told to say
    cli_text("forget", "main", "--id", whole, home=home)
    assert memory.entries().keys() == {other}
    told = [path for path, data in memory.state().items() if b"Elm Road" in data or b"firm Silva" in data]
    assert told == []


def test_invented_and_known_facts_are_left_out(make_host: HostFactory, home: Path, memory: Memory) -> None:
    make_host(proposing(home, ["1.1"], ["1.9", "x", "The heating is not gas."], ["1.1-4"])).start()
    standing = memory.save(RENT, "home")
    whole = memory.save(TEXT, "home")
    wait_for(lambda: status_of(memory.home)["curation"]["tokens_today"] == 780)
    wait_for(lambda: noted(home) == [])  # it is not asked again
    assert memory.entries().keys() == {standing, whole}
    assert memory.proposals() == []


def test_an_answer_without_entries_is_not_asked_again(make_host: HostFactory, home: Path, memory: Memory) -> None:
    host = make_host({**SOON, **answering(home, {"entries": [{"content": 7}]})}).start()
    memory.save(TEXT)
    wait_for(lambda: status_of(memory.home)["curation"]["tokens_today"] == 780)
    wait_for(lambda: not status_of(memory.home)["curation"]["running"])
    saved = memory.state()
    host.restart()
    memory.save("Short. And. Sweet.")
    other = memory.save(f"{TEXT} The garden has 40 roses.")
    wait_for(lambda: status_of(memory.home)["curation"]["tokens_today"] == 2 * 780)
    assert {name: memory.state()[name] for name in saved} == saved
    assert memory.proposals() == []
    assert other in memory.entries()


def test_nobody_pays_for_a_model_to_read_imported_entries(
    make_host: HostFactory, home: Path, memory: Memory, tmp_path: Path
) -> None:
    host = make_host(proposing(home)).start()
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault/flat.md").write_text(TEXT)
    cli_text("import", "main", tmp_path / "vault", "--from", "markdown", home=home)
    (imported,) = memory.entries()
    whole = memory.save(f"{TEXT} The garden has 40 roses.", "home")
    wait_for(lambda: host.events("enrichment.finished"))
    host.stop()
    assert [each["id"] for each in memory.proposals()] == [f"enrichment-{whole}"]
    assert imported in memory.entries()
    assert noted(home) == []


def test_a_kill_before_the_answer_loses_and_doubles_nothing(make_host: HostFactory, home: Path, memory: Memory) -> None:
    host = make_host(proposing(home, delay_seconds=10 * PATIENCE)).start()
    whole = memory.save(TEXT, "home")
    wait_for(lambda: status_of(memory.home)["curation"]["tokens_today"] > 0)
    host.kill()
    assert memory.entries().keys() == {whole}
    proposing(home)
    host.start()
    wait_for(lambda: len(memory.proposals()) == 1)
    wait_for(lambda: len(memory.entries()) == 3)
    host.restart()
    memory.dream()
    assert len(memory.entries()) == 3
    assert len(memory.proposals()) == 1
