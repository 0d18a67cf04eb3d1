"""`rewind`: a group's files come back as they were, all or none, by new changes that can be looked back at, too."""

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.commands import cli_json
from tests.conftest import HostFactory
from tests.crash.story import read
from tests.hosting import AT_ONCE, HostProcess, RawSender, run_cli, wait_for
from tests.people import looking, newest_edit, settle


@pytest.fixture
def host(make_host: HostFactory) -> HostProcess:
    return looking(make_host(AT_ONCE))


def held(home: Path) -> dict[str, str]:
    """Return what people's files of the group hold; an empty file is as good as none."""
    group = home / "groups" / "main"
    files = [*group.glob("*.md"), *group.glob("archive/*.md"), *(group / "memory").rglob("*.json")]
    texts = {str(path.relative_to(home)): read(path).decode() for path in sorted(files)}  # one may go just now
    return {file: text for file, text in texts.items() if text}


def lived(host: HostProcess, stranger: RawSender) -> tuple[int, dict[str, str], dict[str, str]]:
    """Let things happen; return a moment, what the files held then, and what they hold in the end."""
    home = host.home
    stranger.do("n1", content="likes tea")
    kept = stranger.do("e1", "save_memory", content="has a cat")
    gone = stranger.do("e2", "save_memory", content="has a dog")
    (home / "groups/main/CLAUDE.md").write_text("Be brief.\n")
    seq = newest_edit(home, "CLAUDE.md").seq
    then = held(home)
    stranger.do("n2", content="likes cake")
    stranger.do("e3", "edit_memory", id=kept["id"], content="has two cats")
    stranger.do("e4", "delete_memory", id=gone["id"])
    stranger.do("e5", "save_memory", content="has a house")
    settle(home)
    stranger.memory.write_text(stranger.memory_text().replace("tea", "green tea") + "Only on Sundays.\n")
    (home / "groups/main/CLAUDE.md").unlink()
    newest_edit(home, "MEMORY.md")
    newest_edit(home, "CLAUDE.md", 2)
    settle(home)
    return seq, then, held(home)


def rewound(home: Path, to: object, *more: str) -> dict[str, Any]:
    found: dict[str, Any] = cli_json("rewind", "main", "--to", to, *more, home=home)
    return found


def test_a_rewind_restores_files_and_can_be_undone(host: HostProcess, stranger: RawSender) -> None:
    seq, then, last = lived(host, stranger)
    home = host.home
    before = cli_json("log", "main", "--limit", "99", home=home)
    dry = rewound(home, seq, "--dry-run")
    assert held(home) == last
    assert sorted(one["did"] for one in dry["files"]) == ["put_back", "put_back", "removed", "restored", "restored"]
    assert rewound(home, seq)["files"] == dry["files"]
    assert held(home) == then
    assert rewound(home, seq)["files"] == []
    log = cli_json("log", "main", "--limit", "99", home=home)
    assert log[-len(before) :] == before
    assert {row["sender"] for row in log[: -len(before)]} == {"operator"}
    blamed = cli_json("blame", "main", "MEMORY.md", home=home)
    assert {(one["author"], one["seq"]) for one in blamed} == {("stranger", 1)}
    settle(home)
    rewound(home, before[0]["seq"])
    assert held(home) == last


def test_a_rewind_brings_back_nothing_of_what_was_forgotten(host: HostProcess, stranger: RawSender) -> None:
    home = host.home
    stranger.do("n1", content="Ann has a dog")
    stranger.do("n2", content="likes tea")
    stranger.do("e1", "save_memory", content="the key is under the mat")
    then = stranger.do("e2", "save_memory", content="has a cat")
    for text in ("has a dog", "under the mat"):
        assert run_cli("forget", "main", "--text", text, home=home).returncode == 0
    left = held(home)
    stranger.do("n3", content="likes cake")
    stranger.do("d1", "delete_memory", id=then["id"])
    settle(home)
    rewound(home, 4)
    assert held(home) == left
    assert not any("[forgotten]" in text for text in left.values())


def test_an_impossible_rewind_changes_nothing_and_says_why(host: HostProcess, stranger: RawSender) -> None:
    seq, _, _ = lived(host, stranger)
    home = host.home
    host.stop()
    (home / "groups/main/summary.md").write_bytes(b"x" * ((8 << 20) + 1))
    last = held(home)
    refused = run_cli("rewind", "main", "--to", seq, home=home)
    assert (refused.returncode != 0, held(home)) == (True, last)
    assert "groups/main/summary.md holds now is not in the journal" in refused.stderr
    early = run_cli("rewind", "main", "--to", "yesterday", home=home)
    assert (early.returncode, held(home)) == (2, last)
    assert "--to: main was empty then: its first change is 1, of 20" in early.stderr
    nowhere = run_cli("rewind", "main", "--to", "f" * 32, home=home)
    assert "no context of main with the hash" in nowhere.stderr


def test_a_killed_or_concurrent_rewind_is_all_or_nothing(host: HostProcess, stranger: RawSender) -> None:
    seq, then, last = lived(host, stranger)
    home = host.home
    asked = ("rewind", "main", "--to", seq)
    commands = [threading.Thread(target=run_cli, args=asked, kwargs={"home": home}) for _ in "ab"]
    for command in commands:
        command.start()
    wait_for(lambda: held(home) != last, what="the first of it")
    host.kill()
    for command in commands:  # who waits for a reply serves the home alone now
        command.join()
    host.start()
    wait_for(lambda: held(home) == then, what="all of it")
    log = cli_json("log", "main", "--by", "operator", home=home)
    assert len({row["request"] for row in log}) == 1


@pytest.mark.parametrize("how", ["undo", "rewind"])
@pytest.mark.parametrize("changed", [False, True])
def test_an_entry_deleted_by_a_person_returns(host: HostProcess, stranger: RawSender, how: str, changed: bool) -> None:
    home = host.home
    stranger.do("n", content="likes cake")
    file = stranger.do("e", "save_memory", content="has a cat")["file"]
    path = home / "groups" / "main" / file
    settle(home)
    if changed:
        path.write_text(path.read_text().replace("a cat", "two cats"))
        newest_edit(home, path.name)
        settle(home)
    saved, seq = path.read_bytes(), cli_json("log", "main", home=home)[0]["seq"]
    path.unlink()
    edit = newest_edit(home, path.name, 1 + changed)
    assert edit.kind == "edit_removed"
    if how == "undo":
        back = run_cli("undo", edit.seq, home=home)
        assert (back.returncode, back.stderr) == (0, ""), back.stderr
    else:
        assert [one["did"] for one in rewound(home, seq)["files"]] == ["restored"]
    assert path.read_bytes() == saved
    assert stranger.do("s", "get_memory", id=path.stem)["id"] == path.stem
