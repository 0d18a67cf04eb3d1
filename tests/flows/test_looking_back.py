"""`blame`, `show --as-of` and `diff` on a real home: who wrote what, and what it said earlier."""

import shutil
from pathlib import Path

import pytest

from honeybadger_host.files.home import make_home
from tests.commands import cli_error, cli_json, cli_text
from tests.conftest import HostFactory
from tests.hosting import AT_ONCE, HostProcess, RawSender, request, run_cli
from tests.people import looking, newest_edit, settle


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with two notes (1, 2), an entry (3), and an edit of each (4, 5), and no host."""
    home = tmp_path_factory.mktemp("life") / "home"
    make_home(home)
    stranger = RawSender(home).make()
    with looking(HostProcess(home, AT_ONCE)) as host:
        assert stranger.ask("n1", request("n1", content="likes tea"))["seq"] == 1
        assert stranger.ask("n2", request("n2", content="likes cake"))["seq"] == 2
        saved = stranger.ask("e1", request("e1", "save_memory", payload={"content": "has a cat", "name": "cat"}))
        settle(home)
        text = stranger.memory_text().replace("- likes cake\n", "- likes cake\nOnly on Sundays.\n")
        stranger.memory.write_text(text)
        newest_edit(home, "MEMORY.md")
        (entry,) = (home / "groups" / "main" / "memory" / "general").iterdir()
        entry.write_bytes(entry.read_bytes().replace(b"has a cat", b"has two cats"))
        newest_edit(home, saved["result"]["id"])
        host.stop()
    return home


@pytest.fixture
def lived(life: Path, tmp_path: Path) -> RawSender:
    """The stranger of a copy of that home."""
    return RawSender(shutil.copytree(life, tmp_path / "lived"))


def test_a_removed_file_is_told_to_be_gone(lived: RawSender) -> None:
    cli_text("undo", 5, 3, home=lived.home)
    (removed,) = (one for one in cli_json("log", "main", home=lived.home) if one["kind"] == "entry_removed")
    for command in ("show", "blame"):
        told = cli_error(command, "main", Path(removed["file"]).stem, home=lived.home, code=9)
        assert f"{removed['file']} is not there" in told


def test_an_earlier_file_is_shown_and_two_moments_compared(lived: RawSender) -> None:
    home = lived.home
    first = cli_text("show", "main/MEMORY.md", "--as-of", 1, home=home)
    second = cli_text("show", "main/MEMORY.md", "--as-of", 3, home=home)
    assert first.endswith("- likes tea\n")
    assert second.startswith(first)
    assert second.endswith("- likes cake\n")
    assert cli_text("show", "main/MEMORY.md", "--as-of", "2999-01-01", home=home) == lived.memory_text()
    for named in (["main/MEMORY.md"], ["main", "MEMORY.md"]):
        assert cli_text("show", *named, home=home) == lived.memory_text()
        assert cli_text("blame", *named, home=home) == cli_text("blame", "main", "MEMORY.md", home=home)
    gone = cli_error("show", "main/MEMORY.md", "--as-of", "yesterday", home=home, code=9)
    assert "groups/main/MEMORY.md was not there at yesterday" in gone
    told = cli_text("diff", "main", 3, home=home)
    assert "--- a/groups/main/MEMORY.md\n+++ b/groups/main/MEMORY.md\n" in told
    assert "\n+Only on Sundays.\n" in told
    assert "has two cats" in told
    assert "has two cats" not in cli_text("diff", "main", 3, "--file", "MEMORY.md", home=home)
    assert cli_text("diff", "main", 0, 1, home=home).startswith("--- /dev/null\n+++ b/groups/main/MEMORY.md\n")
    assert cli_text("diff", "main", 5, home=home) == ""
    assert cli_text("diff", "main", home=home) == cli_text("diff", "main", 4, 5, home=home) != ""
    for arguments, code, says in (
        (("diff", "main", 5, 3), 2, "TO 3 is before FROM 5"),
        (("diff", "main", "soon"), 2, "'soon' is not a time"),
    ):
        assert says in cli_error(*arguments, home=home, code=code)
    assert cli_text("show", "main", home=home) == cli_text("show", "main", "MEMORY.md", home=home)


def test_an_oversized_past_is_reported_not_guessed(home: Path, make_host: HostFactory) -> None:
    host = looking(make_host(AT_ONCE))
    (home / "groups" / "main" / "CLAUDE.md").write_text("A line of a large file.\n" * 400_000)
    edit = newest_edit(home, "CLAUDE.md")
    message = cli_error("undo", edit.seq, home=home)
    assert f"of edit {edit.seq} its text is not kept, only that groups/main/CLAUDE.md changed; nothing" in message
    host.stop()
    refused = cli_error("show", "main/CLAUDE.md", "--as-of", edit.seq, home=home, code=9)
    assert f"the text of change {edit.seq} was not kept" in refused
    compared = run_cli("diff", "main", 0, home=home)
    assert (compared.stdout, "groups/main/CLAUDE.md: how it was at change" in compared.stderr) == ("", True)


UNKNOWN = (
    (("rewind", "main", "--to", 99999), "--to: there is no change 99999 yet: the newest is 5"),
    (("show", "main/MEMORY.md", "--as-of", 6), "there is no change 6 yet: the newest is 5"),
    (("context", "main", "--as-of", "9" * 60), "there is no change 9999"),
    (("diff", "main", 1, 99999), "there is no change 99999 yet"),
    (
        ("diff", "main", 1, "--file", "HISTORY.md"),
        "main has no file or entry 'HISTORY.md': `honeybadger-host log main` shows the names",
    ),
    (("diff", "nosuch", 1), "has no group 'nosuch'"),
    (("blame", "main", "summary.md"), "main has no file or entry 'summary.md'"),
    (("show", "nosuch/MEMORY.md", "--as-of", 1), "has no group 'nosuch'"),
    (("undo", 4, 99999), "has no change 99999"),
)


@pytest.mark.parametrize(("asked", "said"), UNKNOWN, ids=lambda value: str(value)[:60])
def test_a_missing_change_group_or_file_is_not_found(life: Path, asked: tuple[object, ...], said: str) -> None:
    assert said in cli_error(*asked, home=life, code=9)


def test_a_refused_undo_names_those_before_it(lived: RawSender) -> None:
    refused = cli_error("undo", 3, 4, home=lived.home)  # the entry of 3 was edited by 5
    assert "was changed since in the same members (changes since: 5 by human); nothing was changed" in refused
    assert refused.rstrip().endswith("; undone before that: 4")
    assert "Only on Sundays." not in lived.memory_text()
