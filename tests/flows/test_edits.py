"""Changes that people make in their files are in the log, once, as theirs; what the host writes is not."""

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from honeybadger_host.files.home import JOURNAL_FILE
from honeybadger_host.journal.edits import EditReader
from honeybadger_host.journal.reader import LogFilter
from tests.commands import cli_error, cli_json, cli_text
from tests.conftest import HostFactory
from tests.hosting import AT_ONCE, HostProcess, RawSender, request, run_cli, wait_for
from tests.people import edits_in, looking, save, settle


def logged(home: Path, group: str = "main") -> list[dict[str, Any]]:
    """Return the edits of a group, oldest first."""
    rows = json.loads(cli_text("log", group, "--json", "--limit", "1000", home=home) or "[]")
    return [row for row in rows if row["kind"].startswith("edit")][::-1]


def edits(home: Path, count: int, group: str = "main") -> list[dict[str, Any]]:
    wait_for(lambda: len(edits_in(home / JOURNAL_FILE, LogFilter(group))) >= count, what=f"{count} edits")
    found = logged(home, group)
    assert len(found) == count, found
    return found


def told(edit: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(edit[name] for name in ("sender", "kind", "file", "added", "removed", "text"))


@pytest.fixture
def stood(home: Path, make_host: HostFactory, stranger: RawSender) -> HostProcess:
    """A host whose group has a persona, a note and an entry."""
    (home / "groups" / "main").mkdir(exist_ok=True)
    (home / "groups" / "main" / "CLAUDE.md").write_text("# Keeper\nBe brief.\n")
    (home / "groups" / "other").mkdir()
    host = looking(make_host({**AT_ONCE, "documents.in_use.KEEP_SECONDS": 0.2}))
    stranger.do("n", content="likes tea")
    stranger.do("e", "save_memory", content="likes cake", name="cake")
    return host


def test_edits_are_in_the_log_with_their_lines(stood: HostProcess, stranger: RawSender) -> None:
    home, group = stood.home, stood.home / "groups" / "main"
    reader = EditReader(home / JOURNAL_FILE)
    wait_for(lambda: reader.seen(["groups/main/MEMORY.md"]), what="a mark of the note's file")
    settle(home)
    (group / "CLAUDE.md").write_text("# Keeper\nBe kind.\nBe brief.\n")
    (first,) = edits(home, 1)
    assert told(first) == ("human", "edit", "groups/main/CLAUDE.md", 1, 0, "+Be kind.\n")
    stranger.memory.write_text(stranger.memory_text().replace("likes tea", "likes green tea") + "Mine.\n")
    (_, second) = edits(home, 2)
    assert told(second) == (
        *("human", "edit", "groups/main/MEMORY.md", 2, 1),
        "-- likes tea\n+- likes green tea\n+Mine.\n",
    )
    (entry,) = (group / "memory" / "general").iterdir()
    value = orjson.loads(entry.read_bytes())
    save(entry, entry.read_bytes().replace(b"likes cake", b"loves cake"))
    third = edits(home, 3)[2]
    file = f"groups/main/memory/general/{value['id']}.json"
    assert told(third)[:5] == ("human", "edit", file, 1, 1)
    (group / "CLAUDE.md").unlink()
    fourth = edits(home, 4)[3]
    assert told(fourth)[:5] == ("human", "edit_removed", "groups/main/CLAUDE.md", 0, 3)
    printed = cli_text("log", "main", home=home).splitlines()
    assert [line.split(maxsplit=2)[2] for line in printed[:2]] == [
        "human             edit_removed  groups/main/CLAUDE.md  -3 lines: # Keeper Be kind. Be brief.",
        f'human             edit          {file}  +1 -1 lines: "content": "loves cake",',
    ]
    assert stranger.ask("m", request("m", content="likes milk"))["seq"] == fourth["seq"] + 1


def test_what_the_host_writes_is_nobodys_edit(stood: HostProcess, stranger: RawSender) -> None:
    for number in range(10):
        stranger.do(f"n{number}", content=f"note {number}")
        payload = {"content": f"entry {number % 7}", "category": f"c{number % 3}"}
        stranger.do(f"e{number}", "save_memory", **payload)
    settle(stood.home)
    cli_text("undo", 1, home=stood.home)
    (stood.home / "groups" / "main" / "CLAUDE.md").write_text("The only edit.\n")
    assert [told(edit)[2] for edit in edits(stood.home, 1)] == ["groups/main/CLAUDE.md"]
    reader = EditReader(stood.home / JOURNAL_FILE)
    wait_for(lambda: (reader.looked_at() or 0) >= 24, what="marks of all files")
    stood.stop()
    stood.start()
    (stood.home / "groups" / "main" / "CLAUDE.md").write_text("The only edits.\n")
    edits(stood.home, 2)


def test_edits_without_a_host_are_recorded_at_its_start(stood: HostProcess, stranger: RawSender) -> None:
    home, group = stood.home, stood.home / "groups" / "main"
    settle(home)
    stood.kill()
    (group / "CLAUDE.md").write_text("# Keeper\n")
    (group / "summary.md").write_text("Tea.\n")
    (home / "AGENT.md").write_text("For all.\n")
    stranger.memory.write_text("Above.\n" + stranger.memory_text())
    (entry,) = (group / "memory" / "general").iterdir()
    entry.unlink()
    stood.start()
    found = {edit["file"]: told(edit) for edit in edits(home, 4)}
    assert found["groups/main/CLAUDE.md"][1:5] == ("edit", "groups/main/CLAUDE.md", 0, 1)
    assert found["groups/main/summary.md"][1:] == ("edit_new", "groups/main/summary.md", 1, 0, "+Tea.\n")
    assert found["groups/main/MEMORY.md"][1:] == ("edit", "groups/main/MEMORY.md", 1, 0, "+Above.\n")
    assert found[f"groups/main/memory/general/{entry.name}"][1] == "edit_removed"
    assert told(edits(home, 1, "global")[0])[1:] == ("edit_new", "AGENT.md", 1, 0, "+For all.\n")
    texts = [edit for edit in [*logged(home), *logged(home, "global")] if edit["file"].endswith(".md")]
    assert len({edit["event"] for edit in texts}) == 1


def test_a_checkout_of_fifty_files_is_one_event(stood: HostProcess) -> None:
    folder = stood.home / "vault"
    folder.mkdir()
    for number in range(50):
        (folder / f"page-{number}.json").write_text(json.dumps({"content": f"Page {number}"}))
    folder.rename(stood.home / "groups" / "main" / "memory" / "vault")  # at once, however busy the machine is
    found = edits(stood.home, 50)
    assert len({edit["event"] for edit in found}) == 1
    assert {edit["kind"] for edit in found} == {"edit_new"}


def test_an_edit_replaced_before_it_was_noticed_is_kept(
    home: Path, make_host: HostFactory, stranger: RawSender
) -> None:
    looking(make_host({**AT_ONCE, "documents.saves.QUIET_SECONDS": 1.5}))
    entry = {"content": "likes cake", "category": "food"}
    saved = stranger.do("e", "save_memory", **entry)["id"]
    file = f"groups/main/memory/food/{saved}.json"
    path = home / file
    save(path, path.read_bytes().replace(b"likes cake", b"loves cake"))
    changed = {"id": saved, "tags": ["sweet"]}
    stranger.do("t", "edit_memory", **changed)
    (edit,) = edits(home, 1)
    assert (edit["sender"], edit["file"], edit["added"], edit["removed"]) == ("human", file, 1, 1)
    assert "loves cake" in edit["text"]
    lines = cli_json("blame", "main", saved, home=home)
    authors = {line["member"]: line["author"] for line in lines}
    assert (authors["content"], authors["tags"], authors["created"]) == ("human", "stranger", "stranger"), lines

    assert run_cli("undo", edit["seq"], home=home).stderr == ""
    left = json.loads(path.read_bytes())
    assert (left["content"], left["tags"]) == ("likes cake", ["sweet"])


def test_the_log_shows_only_what_was_asked_for(home: Path, make_host: HostFactory, stranger: RawSender) -> None:
    for group in ("main", "other"):
        (home / "groups" / group).mkdir(exist_ok=True)
    looking(make_host(AT_ONCE))
    ann, bob = RawSender(home, sender="ann").make(), RawSender(home, "other", "bob").make()
    assert ann.ask("a1", request("a1", content="likes tea"))["seq"] == 1
    saved = ann.ask("a2", request("a2", "save_memory", payload={"content": "likes cake", "name": "cake"}))
    assert bob.ask("b1", request("b1", content="likes milk"))["seq"] == 3
    assert stranger.ask("s1", request("s1", content="likes tea, too"))["seq"] == 4
    (home / "groups" / "main" / "summary.md").write_text("Be brief.\n")
    edits(home, 1)

    def seqs(*arguments: object) -> list[int]:
        return [row["seq"] for row in cli_json("log", *arguments, home=home)]

    assert seqs() == [5, 4, 3, 2, 1]
    assert seqs("main") == [5, 4, 2, 1]
    assert (seqs("--by", "ann"), seqs("--by", "human"), seqs("other", "--by", "ann")) == ([2, 1], [5], [])
    assert (seqs("--kind", "note"), seqs("main", "--kind", "entry")) == ([4, 3, 1], [2])
    assert seqs("--kind", "edit_new") == [5]
    assert (seqs("--kind", "edit"), seqs("--kind", "edit_removed")) == ([], [])
    assert seqs("--file", "MEMORY.md") == [4, 3, 1]
    assert seqs("--file", "groups/other/MEMORY.md") == [3]
    assert seqs("main", "--file", "EMORY.md") == []
    assert seqs("--file", saved["result"]["id"]) == [2]
    third = next(row["at"] for row in cli_json("log", home=home) if row["seq"] == 3)
    assert set(seqs("--since", third)) >= {3, 4, 5}
    assert (seqs("--since", "yesterday"), seqs("--since", "2999-01-01")) == ([5, 4, 3, 2, 1], [])
    assert seqs("main", "--by", "ann", "--since", "yesterday", "--limit", 1) == [2]
    assert cli_json("log", "--by", "ann", home=home)[1]["request"] == "a1"
    assert cli_text("log", "--by", "nobody", home=home) == "no change is like that\n"
    for arguments, says in (
        (("--kind", "notes"), "there is no kind 'notes' of changes; there are: archived, archived_removed"),
        (("--since", "soon"), "'soon' is not a time: write 2026-11-21"),
    ):
        assert says in cli_error("log", *arguments, home=home, code=2)
