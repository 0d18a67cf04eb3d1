"""People's editors and the host write the same file; nobody's words are lost."""

import pytest

from tests.commands import cli_error, cli_text
from tests.conftest import HostFactory
from tests.hosting import AT_ONCE, RawSender, arguments_of, request, run_cli, wait_for
from tests.people import grow_old, looking, newest_edit, save, settle

# For a command that is its own host.
_QUICKLY = arguments_of({"documents.saves.DELETED_SECONDS": AT_ONCE["documents.saves.DELETED_SECONDS"]})[0]


@pytest.mark.parametrize("is_killed", [True, False], ids=["kill", "stop"])
def test_an_old_save_after_restart_drops_no_note(make_host: HostFactory, stranger: RawSender, is_killed: bool) -> None:
    # on a busy machine it is saved seconds after the host is there again, and before the notes have settled
    host = make_host().start()
    stranger.do("a", content="first")
    read_by_the_editor = stranger.memory_text()
    stranger.do("b", content="second")
    if is_killed:
        host.kill()
        host.start()
    else:
        host.stop()
    save(stranger.memory, f"A person's line.\n{read_by_the_editor}")
    if not is_killed:
        host.start()
    wait_for(lambda: stranger.memory_text().count("- second\n") == 1)
    assert stranger.memory_text().startswith("A person's line.\n")
    assert stranger.memory_text().count("- first\n") == 1


def test_undo_brings_a_removed_note_back_once(make_host: HostFactory, stranger: RawSender) -> None:
    host = looking(make_host(AT_ONCE))
    for stem in ("a", "b"):
        stranger.do(stem, content=f"note {stem}")
    settle(host.home)
    whole = stranger.memory_text()
    grow_old()
    stranger.memory.write_text(whole[: whole.rindex("\n## ")])
    edit = newest_edit(host.home, "MEMORY.md")
    assert "no longer has the notes of change 2: undo the change that took them" in cli_error("undo", 2, home=host.home)
    assert cli_text("undo", edit.seq, home=host.home).endswith(f" undoes {edit.seq}\n")
    wait_for(lambda: stranger.memory_text() == whole, what="the note with its author and its time")
    stranger.memory.write_text("A line above.\n" + whole)
    stranger.do("c", content="note c")
    settle(host.home)
    assert [stranger.memory_text().count(f"- note {stem}\n") for stem in "abc"] == [1, 1, 1]


def test_an_undone_note_returns_to_its_place(make_host: HostFactory, stranger: RawSender) -> None:
    host = make_host(AT_ONCE).start()
    for stem in ("a", "b", "c"):
        stranger.do(stem, content=f"Prefers tea {stem}")
    settle(host.home)
    whole = stranger.memory_text()
    undone = run_cli("undo", 2, home=host.home)
    assert (undone.stdout, undone.stderr) == ("groups/main/MEMORY.md: removed; change 5 undoes 2\n", "")
    archive = stranger.memory.parent / "archive" / "MEMORY.md"
    assert stranger.memory_text() == "".join(part for part in notes_of(whole) if "tea b" not in part)
    assert archive.read_text().startswith(notes_of(whole)[1] + "> Archived 20")
    assert archive.read_text().endswith(" by operator: change 2 was undone\n")
    logged = cli_text("log", "main", home=host.home).splitlines()[:2]
    assert [line.split(maxsplit=4)[2:] for line in logged] == [
        ["operator", "note_archived", "groups/main/archive/MEMORY.md  Prefers tea b"],
        ["operator", "note_removed", "groups/main/MEMORY.md  Prefers tea b"],
    ]
    assert "no longer has the notes of change 2" in cli_error("undo", 2, home=host.home)
    hits = stranger.do("q", "search_memory", query="Prefers tea")["hits"]
    assert sorted(hit["text"] for hit in hits if hit["kind"] == "note") == ["- Prefers tea a", "- Prefers tea c"]
    assert cli_text("undo", 4, 5, home=host.home) == "groups/main/MEMORY.md: restored; change 7 undoes 5 and 4\n"
    assert (stranger.memory_text(), archive.read_text()) == (whole, "")
    assert "is there already" in cli_error("undo", 4, home=host.home)
    assert "is there already" in cli_error("undo", 5, home=host.home)
    again = run_cli("undo", 6, home=host.home)
    assert again.stdout == "groups/main/MEMORY.md: removed; change 9 undoes 6\n"


def notes_of(text: str) -> list[str]:
    return [f"\n## {part}" for part in text.split("\n## ")[1:]]


def test_undoing_a_note_twice_at_once_restores_it_once(make_host: HostFactory, stranger: RawSender) -> None:
    host = looking(make_host(AT_ONCE))
    stranger.do("a", content="note a")
    settle(host.home)
    grow_old()
    stranger.memory.unlink()
    edit = newest_edit(host.home, "MEMORY.md")
    host.stop()
    operator = RawSender(host.home, sender="operator").make()
    for stem in ("u1", "u2"):
        operator.drop(stem, request(stem, "undo", payload={"seq": edit.seq}))
    host.start()
    assert [operator.reply(stem)["ok"] for stem in ("u1", "u2")] == [True, False]
    wait_for(lambda: stranger.memory.exists() and stranger.memory_text().count("- note a\n") == 1)
