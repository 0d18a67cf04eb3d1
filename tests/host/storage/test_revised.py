"""Notes that leave MEMORY.md stay away, come back where they stood, and never cost a person an edit."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from honeybadger_host.domain import Added, NotesRevised
from honeybadger_host.errors import WorldFailed
from honeybadger_host.memory.archive import Retired, archive_notes, bring_back_notes, standing_span
from honeybadger_host.memory.notes import note_spans
from honeybadger_host.storage.revised import revision_of
from tests.host.storage.projected import MEMORY, World, note

ARCHIVE = "groups/main/archive/MEMORY.md"
NOW = datetime(2026, 11, 22, 10, tzinfo=UTC)
PREFACE = b"# Ours\n\nWhat a person wrote.\n"
WHOLE = PREFACE + note("one") + note("two") + note("three")
WITHOUT = PREFACE + note("one") + note("three")
ARCHIVED = note("two") + b"> Archived 2026-11-22T10:00:00Z by consolidator: said again\n"


@pytest.fixture(autouse=True)
def _settled(world: World) -> None:
    (world.home / MEMORY).parent.mkdir(parents=True)
    world.write(PREFACE)
    world.add(MEMORY, note("one"), note("two"), note("three"))
    world.settle()


def removal(world: World, *texts: str) -> tuple[NotesRevised | Added, ...]:
    held = world.read()
    spans = [standing_span(held, note(text)) for text in texts]
    return archive_notes("main", held, [Retired(span, "said again") for span in spans if span], "consolidator", NOW)


def remove(world: World, *texts: str) -> None:
    with world.decided(*removal(world, *texts)):
        pass


def bring_back(world: World, removed: NotesRevised) -> None:
    changes = bring_back_notes("main", world.read(), world.read(ARCHIVE), revision_of(removed.data).notes)
    with world.decided(*changes):
        pass


def hidden(world: World) -> list[str]:
    return [path.name for path in (world.home / "groups" / "main").iterdir() if path.name.startswith(".")]


# --------------------------------------------------------------------------------------------------- there and back


def test_a_note_that_is_removed_is_in_the_archive_as_it_was_signed_and_stays_away(world: World) -> None:
    remove(world, "two")
    assert (world.read(), world.read(ARCHIVE)) == (WITHOUT, ARCHIVED)
    for _ in range(2):
        world.settle()
        world.restart()
        assert (world.read(), world.read(ARCHIVE)) == (WITHOUT, ARCHIVED)
    assert hidden(world) == []
    assert world.unsettled_from() > world.journal.committed_seq


@pytest.mark.parametrize("texts", [("one",), ("two",), ("three",), ("one", "three"), ("one", "two", "three")])
def test_notes_that_come_back_stand_where_they_stood_and_in_no_archive(world: World, texts: tuple[str, ...]) -> None:
    changes = removal(world, *texts)
    with world.decided(*changes):
        pass
    world.add(MEMORY, note("later"))
    world.settle()
    assert isinstance(changes[0], NotesRevised)
    bring_back(world, changes[0])
    world.settle()
    assert (world.read(), world.read(ARCHIVE)) == (WHOLE + note("later"), b"")


def test_notes_come_back_at_the_end_when_a_person_changed_what_stands_above(world: World) -> None:
    changes = removal(world, "one", "three")
    with world.decided(*changes):
        pass
    world.settle()
    world.write(world.read().replace(b"# Ours", b"# Everybody's"))
    world.write(b"", ARCHIVE)
    assert isinstance(changes[0], NotesRevised)
    bring_back(world, changes[0])
    assert world.read() == PREFACE.replace(b"# Ours", b"# Everybody's") + note("two") + note("one") + note("three")


@pytest.mark.parametrize(
    "text",
    [
        b"## A (a, 2026-11-21 06:05)\n- x\n\n## B (b, 2026-11-21 06:05)\n- y\n",
        b"\n## A (a, 2026-11-21 06:05)\n- x\n\n\n\n## B (b, 2026-11-21 06:05)\n- y",
        b"Above.\n## A (a, 2026-11-21 06:05)\n- x\n## B (b, 2026-11-21 06:05)\n- y\n",
        b"Above.\r\n\r\n## A (a, 2026-11-21 06:05)\r\n- x\r\n\r\n## B (b, 2026-11-21 06:05)\r\n- y\r\n",
    ],
    ids=["at the beginning", "with blank lines", "with none", "of another system"],
)
def test_a_note_takes_its_own_blank_line_with_it_and_nothing_else(text: bytes) -> None:
    spans = note_spans(text)
    assert [text[slice(*span)].strip()[:4] for span in spans] == [b"## A", b"## B"]
    for span in spans:
        (change, *_) = archive_notes("main", text, [Retired(span, "why")], "me", NOW)
        assert isinstance(change, NotesRevised)
        (back,) = bring_back_notes("main", change.text or None, None, revision_of(change.data).notes)
        assert isinstance(back, NotesRevised)
        assert back.text == text
        assert len(change.text.split(b"## ")) == 2


def test_what_a_person_wrote_below_a_note_stays(world: World) -> None:
    text = note("one\n\n  and more") + b"A person's line.\n" + note("two") + b"\nAnother.\n"
    first, below, second, _ = note_spans(text)
    assert text[slice(*below)].strip() == b"A person's line."
    removed, *archived = archive_notes("main", text, [Retired(first, "a"), Retired(second, "b")], "me", NOW)
    assert isinstance(removed, NotesRevised)
    assert removed.text == b"A person's line.\n\nAnother.\n"
    assert [b"person" in change.data or b"Another" in change.data for change in archived] == [False, False]


def test_a_note_that_comes_back_at_once_leaves_the_archive_for_good(world: World) -> None:
    changes = removal(world, "two")
    with world.decided(*changes):
        pass
    assert isinstance(changes[0], NotesRevised)
    bring_back(world, changes[0])
    world.restart()
    world.settle()
    assert (world.read(), world.read(ARCHIVE)) == (WHOLE, b"")


def test_the_last_of_equal_notes_is_the_one_that_goes(world: World) -> None:
    world.add(MEMORY, note("two"))
    world.settle()
    remove(world, "two")
    world.add(MEMORY, note("later"))
    world.save_as_an_editor(world.read().replace(note("later"), b""))  # an older text: all is counted again
    world.settle()
    world.restart()
    assert world.read() == WHOLE + note("later")


# ------------------------------------------------------------------------------------------------------------- kills


def test_killed_between_the_commit_and_the_file_the_next_start_removes_it(world: World) -> None:
    with world.decided(*removal(world, "two")):
        world.restart()
        assert (world.read(), world.read(ARCHIVE)) == (WITHOUT, ARCHIVED)
        world.projections.batch = lambda now: None  # type: ignore[method-assign,assignment,return-value]
        return


@pytest.mark.parametrize("call", ["link", "rename"])
@pytest.mark.parametrize("has_more", [False, True])
def test_killed_at_a_call_of_the_replacement_it_is_finished_and_leaves_nothing_behind(
    world: World, monkeypatch: pytest.MonkeyPatch, call: str, has_more: bool
) -> None:
    class Killed(BaseException):
        pass

    def die(*args: object, **more: object) -> None:
        raise Killed

    changes = removal(world, "two")
    real = getattr(os, call)
    with pytest.raises(Killed), world.decided(*changes):
        monkeypatch.setattr(os, call, die)
    monkeypatch.setattr(os, call, real)
    assert world.read() == WHOLE
    if has_more:
        (world.home / MEMORY).parent.joinpath(f".MEMORY.md.{os.getpid()}.tmp").write_bytes(b"half")
    world.restart()
    assert (world.read(), world.read(ARCHIVE), hidden(world)) == (WITHOUT, ARCHIVED, [])


def test_killed_after_the_file_and_before_it_settled_nothing_is_done_twice(world: World) -> None:
    remove(world, "two")
    world.add(MEMORY, note("later"))
    world.restart()
    assert (world.read(), world.read(ARCHIVE), hidden(world)) == (WITHOUT + note("later"), ARCHIVED, [])


def test_a_full_disk_delays_the_removal_and_what_came_behind_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(*args: object, **more: object) -> None:
        raise OSError(28, "No space left on device")

    with world.decided(*removal(world, "two")):
        monkeypatch.setattr(os, "rename", no_space)
    assert world.read() == WHOLE
    world.add(MEMORY, note("later"))
    world.look()
    assert MEMORY in world.projections.behind
    monkeypatch.undo()
    world.settle()
    assert (world.read(), world.read(ARCHIVE)) == (WITHOUT + note("later"), ARCHIVED)


# ----------------------------------------------------------------------------------------------------------- editors


def test_a_text_that_changed_since_it_was_read_is_not_replaced(world: World) -> None:
    changes = removal(world, "two")
    world.write(WHOLE + b"A person's line.\n")
    with pytest.raises(WorldFailed, match="changed meanwhile"), world.decided(*changes):
        pass
    assert world.read() == WHOLE + b"A person's line.\n"


def test_a_text_that_a_program_has_open_for_writing_is_not_replaced(world: World) -> None:
    with (
        (world.home / MEMORY).open("ab"),
        pytest.raises(WorldFailed, match="open for writing"),
        world.decided(*removal(world, "two")),
    ):
        pass
    assert world.read() == WHOLE


def in_place(world: World, data: bytes) -> None:
    world.write(data)


@pytest.mark.parametrize("save", [in_place, World.save_as_an_editor])
def test_an_edit_after_the_commit_makes_the_removal_stale(world: World, save: Callable[[World, bytes], None]) -> None:
    edited = WHOLE + b"A person's line.\n"
    with capture_logs() as logs, world.decided(*removal(world, "two")):
        save(world, edited)
    assert world.read() == edited
    assert [line["event"] for line in logs if "kept" in line["event"]] == ["projection.kept"]
    world.settle()
    world.restart()
    assert world.read() == edited


@pytest.mark.parametrize("save", [in_place, World.save_as_an_editor])
def test_an_older_text_saved_after_the_removal_counts_and_loses_no_later_note(
    world: World, save: Callable[[World, bytes], None]
) -> None:
    remove(world, "two")
    world.add(MEMORY, note("later"))
    save(world, WHOLE + b"A person's line.\n")
    world.settle()
    world.restart()
    assert world.read() == WHOLE + b"A person's line.\n" + note("later")


@pytest.mark.parametrize("is_killed", [False, True])
def test_what_an_editor_saves_into_the_old_text_after_it_was_replaced_is_put_in_place(
    world: World, is_killed: bool
) -> None:
    """It opened the file just before the replacement, as the kernel lets it when the lease ends."""
    editor = os.open(world.home / MEMORY, os.O_RDONLY)
    remove(world, "two")
    world.add(MEMORY, note("later"))
    with open(f"/proc/self/fd/{editor}", "wb", buffering=0) as late:
        late.write(PREFACE)
        for _ in range(4):
            world.now += 1
            world.look()
        late.write(b"A person's line.\n")
    os.close(editor)
    if is_killed:
        world.restart()
    world.settle()
    world.settle()
    assert world.read() == PREFACE + b"A person's line.\n" + note("later")
    assert hidden(world) == []


def test_what_two_people_saved_at_once_is_both_kept(world: World) -> None:
    editor = os.open(world.home / MEMORY, os.O_RDONLY)
    remove(world, "two")
    world.save_as_an_editor(b"Mine.\n")
    Path(f"/proc/self/fd/{editor}").write_bytes(b"Theirs.\n")
    os.close(editor)
    world.settle()
    world.restart()
    assert world.read() == b"Mine.\n"
    assert world.read("groups/main/MEMORY, saved over change 4.md") == b"Theirs.\n"


def test_an_editor_that_opens_the_file_again_and_again_loses_no_line(world: World) -> None:
    """A thread adds a line in place while notes go and come back."""
    path = world.home / MEMORY
    is_over = threading.Event()
    lines: list[bytes] = []

    def edit() -> None:
        while not is_over.wait(0.002):
            fd = os.open(path, os.O_WRONLY | os.O_APPEND)
            line = b"Line %d.\n" % len(lines)
            os.write(fd, line)
            os.close(fd)
            lines.append(line)

    thread = threading.Thread(target=edit)
    thread.start()
    done = 0
    try:
        while done < 60:
            with contextlib.suppress(WorldFailed):
                if standing_span(world.read(), note("two")) is None:
                    bring_back(world, revisions(world)[-1])
                else:
                    remove(world, "two")
                done += 1
            world.settle()
    finally:
        is_over.set()
        thread.join()
    world.settle()
    text = world.read() + b"".join(path.read_bytes() for path in path.parent.glob("*saved over*"))
    assert len(lines) > 10
    assert [line for line in lines if line not in text] == []


def revisions(world: World) -> list[NotesRevised]:
    """Return what was removed so far."""
    return [
        NotesRevised("main", MEMORY, b"", b"", data)
        for (data,) in world.journal._writer.execute("SELECT data FROM changes WHERE kind = 'note_removed'")
    ]
