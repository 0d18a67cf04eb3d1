"""A note settles when nobody else is at the file: older texts lose nothing, and what a person deletes stays deleted."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from io import FileIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from honeybadger_host.storage.appended import to_put_back
from honeybadger_host.storage.files import read_all
from honeybadger_host.storage.journal_schema import Row
from tests.host.storage.projected import LOOKS, MEMORY, SETTLE, TURNS, World, note, turn

TEXT = b"# Ours\n\nWhat a person wrote.\n" * 8


@pytest.fixture(autouse=True)
def _written_by_a_person(world: World) -> None:
    (world.home / MEMORY).parent.mkdir(parents=True)
    world.write(TEXT)


def save_in_place(world: World) -> FileIO:
    """Begin to save MEMORY.md as many editors do: it is empty until they write."""
    return (world.home / MEMORY).open("wb", buffering=0)


def look_for(world: World, seconds: float) -> None:
    """Let the host look every second, for a while."""
    until = world.now + seconds
    while world.now < until:
        world.now += min(LOOKS, until - world.now)
        world.look()


def counts(world: World, *texts: str) -> list[int]:
    return [world.read().count(note(text)) for text in texts]


# ------------------------------------------------------------------------------------------------------- older texts


@pytest.mark.parametrize("rest", [5, len(TEXT) // 2], ids=["all but a word", "half"])
@pytest.mark.parametrize("at", [0.0, 0.5, 1.5, 3.5])
def test_a_save_in_place_that_lasts_four_seconds_loses_and_doubles_no_note_of_its_middle(
    world: World, at: float, rest: int
) -> None:
    world.add(MEMORY, note("before"))
    with save_in_place(world) as editor:
        editor.write(TEXT[:-rest])
        look_for(world, at)
        world.add(MEMORY, note("one"), note("two"))
        look_for(world, 4 - at)
        editor.write(TEXT[-rest:])
    world.settle()
    assert world.read() == TEXT + note("before") + note("one") + note("two")
    assert world.unsettled_from() == 4


def test_the_same_older_text_saved_again_after_each_repair_loses_nothing(world: World) -> None:
    world.add(MEMORY, note("one"), note("two"))
    for pause in (0.3, 0.3, 1.7, 0.1):
        world.write(TEXT)
        look_for(world, 3)
        assert counts(world, "one", "two") == [1, 1]
        world.now += pause
    world.settle()
    assert world.read() == TEXT + note("one") + note("two")


def test_a_program_that_writes_small_pieces_all_the_time_takes_no_note(world: World) -> None:
    """400 bytes every 4 ms; a note every 40 ms; a look every second."""
    notes: list[str] = []
    for save in range(40):
        text = world.read()
        with save_in_place(world) as writer:
            for number, at in enumerate(range(0, len(text), 400)):
                writer.write(text[at : at + 400])
                world.now += 0.004
                if number % 10 == 0:
                    notes.append(f"number {len(notes)}")
                    world.add(MEMORY, note(notes[-1]))
        world.now += 0.05
        if save % 5 == 4:
            world.look()
    world.settle()
    assert counts(world, *notes) == [1] * len(notes)
    assert world.read().startswith(TEXT)


def test_rsync_in_place_takes_no_note(world: World) -> None:
    """`rsync --inplace` writes an older copy over the file as it is, and cuts off the rest in the end."""
    notes: list[str] = []
    for _ in range(10):
        copy = world.read()
        fd = os.open(world.home / MEMORY, os.O_WRONLY)
        for at in range(0, len(copy), 100):
            os.write(fd, copy[at : at + 100])
            if at % 300 == 0:
                notes.append(f"number {len(notes)}")
                world.add(MEMORY, note(notes[-1]))
                world.now += 0.1
        world.look()
        os.ftruncate(fd, len(copy))
        os.close(fd)
    world.settle()
    assert counts(world, *notes) == [1] * len(notes)
    assert world.read().startswith(TEXT)


@pytest.mark.parametrize("pause", [0.4, 1.5, 3.0])
def test_ten_checkouts_of_an_older_version_take_no_note_that_was_settling_at_the_first(
    world: World, pause: float
) -> None:
    """`git checkout` removes the file and makes it anew."""
    notes: list[str] = []
    for _ in range(10):
        for _ in range(3):
            notes.append(f"number {len(notes)}")
            world.add(MEMORY, note(notes[-1]))
        (world.home / MEMORY).unlink()
        world.save_as_an_editor(TEXT)
        look_for(world, pause)
    world.settle()
    assert counts(world, *notes) == [1] * len(notes)


def test_two_editors_with_texts_of_different_age_take_no_note_from_each_other(world: World) -> None:
    first = world.read()
    world.add(MEMORY, note("one"))
    second = world.read()
    world.add(MEMORY, note("two"))
    for _ in range(3):
        world.save_as_an_editor(first)
        world.add(MEMORY, note("three"))  # it comes behind the older text, and proves nothing
        world.save_as_an_editor(b"one more line\n" + world.read())
        look_for(world, 2)
        world.save_as_an_editor(second)
        look_for(world, 2)
    world.settle()
    assert counts(world, "one", "two", "three") == [1, 1, 3]


def test_a_note_that_was_written_over_while_a_later_one_survived_is_not_taken_for_a_deletion(world: World) -> None:
    world.add(MEMORY, note("one"), note("two"))
    with (world.home / MEMORY).open("r+b") as editor:
        editor.seek(len(TEXT))
        editor.write(b"\n## Something else (by hand)\n- 3\n")
    world.settle()
    assert counts(world, "one", "two") == [1, 1]


# --------------------------------------------------------------------------------------------------- saves in place


def test_a_repair_waits_until_a_save_in_place_is_done(world: World) -> None:
    world.add(MEMORY, *(note(f"number {number}") for number in range(30)))
    text = world.read()
    with save_in_place(world) as editor:
        look_for(world, 3)
        assert world.read() == b""
        editor.write(text[:500])
        look_for(world, 3)
        assert world.read() == text[:500]
        editor.write(text[500:])
    world.settle()
    assert world.read() == text


def test_an_older_text_that_ends_a_byte_behind_where_a_note_stood_does_not_pass_for_a_torn_note(world: World) -> None:
    world.add(MEMORY, note("one"))
    older = TEXT[:-1] + b"!\n"
    assert len(older) == len(TEXT) + 1
    world.save_as_an_editor(older)
    world.settle()
    assert world.read() == older + note("one")


@pytest.mark.parametrize("missing", range(1, len(note("two")) + 2))
def test_a_save_in_place_that_pauses_for_long_anywhere_leaves_the_blank_line_before_a_later_note(
    world: World, missing: int
) -> None:
    """What is put back in the pause stands where the rest of the save puts it, too."""
    world.add(MEMORY, note("one"), note("two"))
    text = b"A line above.\n" + world.read()
    world.add(MEMORY, note("three"))
    with save_in_place(world) as editor:
        editor.write(text[:-missing])
        os.utime(world.home / MEMORY, (0, 0))
        look_for(world, 3)
        editor.write(text[-missing:])
    world.settle()
    assert world.read() == text + note("three")


@pytest.mark.parametrize("is_killed", [False, True], ids=["stop", "kill"])
def test_a_save_in_place_over_a_restart_doubles_nothing(world: World, is_killed: bool) -> None:
    world.add(MEMORY, *(note(f"number {number}") for number in range(30)))
    text = world.read()
    with save_in_place(world) as editor:
        editor.write(text[:500])
        if not is_killed:
            world.look(is_final=True)
        world.journal.close()
        world.start()
        world.recover()
        world.add(MEMORY, note("one more"))
        assert world.read() == text[:500]
        editor.write(text[500:])
    world.settle()
    assert world.read() == text + note("one more")


def test_a_file_that_changes_between_the_look_and_the_write_is_not_written(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.add(MEMORY, note("one"))
    world.save_as_an_editor(TEXT)
    look_for(world, 1)

    def read_and_be_overtaken(fd: int, size: int) -> bytes:
        text = read_all(fd, size)
        world.write(TEXT + note("one") + b"My last word.\n")
        return text

    monkeypatch.setattr("honeybadger_host.storage.projections.read_all", read_and_be_overtaken)
    look_for(world, 1)
    monkeypatch.undo()
    world.settle()
    assert world.read() == TEXT + note("one") + b"My last word.\n"


def test_a_batch_that_a_save_in_place_overtakes_is_written_behind_it(world: World) -> None:
    with world.committed(MEMORY, note("one")):
        editor = save_in_place(world)
    assert world.read() == b""
    editor.write(TEXT)
    editor.close()
    world.settle()
    assert world.read() == TEXT + note("one")


def test_a_program_that_only_has_the_file_open_keeps_no_note_waiting(world: World) -> None:
    os.utime(world.home / MEMORY, (1e9, 1e9))
    with (world.home / MEMORY).open("ab"):
        world.add(MEMORY, note("one"))
        assert counts(world, "one") == [1]


def test_a_program_that_goes_on_appending_keeps_notes_waiting_for_half_a_minute_at_most(world: World) -> None:
    with (world.home / MEMORY).open("ab", buffering=0) as writer:
        for number in range(60):
            writer.write(b"%d\n" % number)
            world.add(MEMORY, note(f"number {number}"))
            look_for(world, 1)
            if number > 31:
                assert counts(world, f"number {number - 31}") == [1]
    world.settle()
    assert counts(world, *(f"number {number}" for number in range(60))) == [1] * 60
    assert world.unsettled_from() == 61


def test_a_log_of_turns_is_kept_in_the_same_way(world: World) -> None:
    world.add(TURNS, turn(1), turn(2))
    text = world.read(TURNS)
    with (world.home / TURNS).open("wb", buffering=0) as editor:
        editor.write(text[:10])
        world.add(TURNS, turn(3))
        look_for(world, 3)
        editor.write(text[10:])
    world.settle()
    assert world.read(TURNS) == text + turn(3)


# ---------------------------------------------------------------------------------------------------------- deletions


@pytest.mark.parametrize("is_killed", [False, True], ids=["alive", "killed"])
@pytest.mark.parametrize("in_place", [False, True], ids=["by rename", "in place"])
def test_an_earlier_note_that_a_person_deletes_while_it_settles_stays_deleted(
    world: World, is_killed: bool, in_place: bool
) -> None:
    world.add(MEMORY, note("one"), note("wrong"))
    world.add(MEMORY, note("three"))
    text = world.read().replace(note("wrong"), b"")
    world.write(text) if in_place else world.save_as_an_editor(text)
    world.restart() if is_killed else world.settle()
    assert world.read() == text
    world.add(MEMORY, note("four"))
    world.restart()
    assert world.read() == text + note("four")


def test_a_note_behind_an_older_text_of_the_same_length_does_not_pass_for_one_behind_the_lost(world: World) -> None:
    text = world.read()
    world.add(MEMORY, note("lost"))
    world.save_as_an_editor(text + b"x" * (len(note("lost")) - 1) + b"\n")
    world.add(MEMORY, note("kept"))
    world.save_as_an_editor(b"A line.\n" + world.read())
    world.settle()
    assert counts(world, "lost", "kept") == [1, 1]


def test_earlier_notes_are_deleted_one_after_another(world: World) -> None:
    notes = [f"number {number}" for number in range(8)]
    world.add(MEMORY, *map(note, notes))
    for text in notes[:-1]:
        world.save_as_an_editor(b"A line.\n" + world.read().replace(note(text), b""))
        look_for(world, 2)
    world.settle()
    assert counts(world, *notes) == [0] * 7 + [1]


def test_a_note_that_is_deleted_after_the_file_was_edited_above_it_stays_deleted(world: World) -> None:
    world.add(MEMORY, note("one"), note("wrong"))
    world.save_as_an_editor(b"A line above.\n" + world.read())
    look_for(world, 1.5)
    world.add(MEMORY, note("three"))
    world.save_as_an_editor(world.read().replace(note("wrong"), b""))
    world.settle()
    assert counts(world, "one", "wrong", "three") == [1, 0, 1]


def test_an_earlier_note_that_a_person_edits_while_it_settles_stays_as_edited(world: World) -> None:
    world.add(MEMORY, note("Likes tee."), note("two"))
    world.save_as_an_editor(world.read().replace(b"Likes tee.", b"Likes green tea."))
    world.settle()
    assert world.read() == TEXT + note("Likes green tea.") + note("two")


def test_the_newest_note_comes_back_once_and_stays_deleted_after_it_settled(world: World) -> None:
    world.add(MEMORY, note("one"), note("wrong"))
    for expected in (1, 0):
        world.save_as_an_editor(world.read().replace(note("wrong"), b""))
        world.settle()
        assert counts(world, "one", "wrong") == [1, expected]
    world.restart()
    assert counts(world, "one", "wrong") == [1, 0]


def test_a_repair_is_not_over_before_a_look_that_needed_none(world: World) -> None:
    world.add(MEMORY, note("one"))
    for _ in range(10):
        world.save_as_an_editor(TEXT)
        with capture_logs() as logs:
            look_for(world, 2)
        assert [line["event"] for line in logs] == ["projection.repaired"]
        assert world.unsettled_from() == 1
    look_for(world, SETTLE)
    assert world.unsettled_from() == 2


def rows_at(*offsets: int) -> list[Row]:
    return [
        Row(seq, 1, "main", "ann", "r", "note", MEMORY, offset, b"%10d" % seq) for seq, offset in enumerate(offsets, 1)
    ]


@pytest.mark.parametrize(
    ("offsets", "moved", "lacking", "expected"),
    [
        ((0, 10, 20), [], [3], [3]),
        ((0, 10, 20), [], [1, 2, 3], [1, 2, 3]),
        ((0, 10, 20), [3], [1, 2], []),
        ((0, 10, 20), [2], [1, 3], [3]),
        ((0, 10, 20), [], [1], [1]),
        ((0, 10, 5), [3], [1, 2], [1, 2]),
        ((0, 10, -1), [3], [1, 2], [1, 2]),
        ((0, 10, 5, 15), [2, 4], [1, 3], []),
    ],
    ids=[
        "the newest alone",
        "all",
        "earlier ones",
        "an earlier one and the newest",
        "written over, with the later ones in their places",
        "a later one that came behind an older text",
        "a later one that waited",
        "earlier ones of two runs",
    ],
)
def test_what_is_put_back(offsets: tuple[int, ...], moved: list[int], lacking: list[int], expected: list[int]) -> None:
    rows = rows_at(*offsets)
    missing = [row for row in rows if row.seq in moved or row.seq in lacking]
    wanted = to_put_back(rows, missing, [row for row in rows if row.seq in lacking])
    assert [row.seq for row in wanted] == expected


@pytest.mark.parametrize(
    ("offsets", "alike", "lacking", "expected"),
    [((0, 10, 20, 5, 15), [2, 4], [3, 4], [3, 4]), ((0, 10, 20, 30), [1, 3], [3], [])],
    ids=["one that came behind an older text without the other", "one that a person deleted from a text with both"],
)
def test_of_two_that_are_alike_the_one_that_an_older_text_lacks_is_put_back(
    offsets: tuple[int, ...], alike: list[int], lacking: list[int], expected: list[int]
) -> None:
    rows = [row._replace(data=b"the same!!") if row.seq in alike else row for row in rows_at(*offsets)]
    wanted = to_put_back(rows, rows, [row for row in rows if row.seq in lacking])
    assert [row.seq for row in wanted] == expected


# --------------------------------------------------------------------------------------------------------- everything


class Editors:
    """People who read, think, save and delete; and what must stand in the file in the end."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self.world = world
        self.rng = rng
        self.notes: list[str] = []
        self.least: dict[str, int] = {}
        """How often each note must stand there at least: 0 when a person took it out."""
        self.text = world.read()
        self.saving: tuple[FileIO, bytes] | None = None

    def add(self) -> None:
        self.notes.append(f"number {len(self.notes)}")
        self.least[self.notes[-1]] = 1
        self.world.add(MEMORY, note(self.notes[-1]))

    def look(self) -> None:
        look_for(self.world, 1)

    def restart(self) -> None:
        self.world.journal.close()
        self.world.start()
        self.world.recover()

    def stop(self) -> None:
        self.world.look(is_final=True)
        self.restart()

    def read(self) -> None:
        if self.saving is None:
            self.text = self.world.read()

    def save(self) -> None:
        self._take_out(self.text)
        self.world.save_as_an_editor(self.text)

    def save_in_place(self) -> None:
        if self.saving is None:
            self._take_out(self.text)
            file = save_in_place(self.world)
            cut = self.rng.randint(0, len(self.text))
            file.write(self.text[:cut])
            self.saving = file, self.text[cut:]

    def finish(self) -> None:
        if self.saving is not None:
            file, rest = self.saving
            file.write(rest)
            file.close()
            self.saving = None

    def delete(self) -> None:
        if self.notes and self.saving is None:
            text = self.rng.choice(self.notes)
            self.least[text] = 0
            self.world.save_as_an_editor(self.world.read().replace(note(text), b""))

    def _take_out(self, saved: bytes) -> None:
        """Take in that a person's text has the last word over what is settled."""
        for number, text in enumerate(self.notes, 1):
            if note(text) not in saved and number < self.world.unsettled_from():
                self.least[text] = 0


ACTS: dict[str, Callable[[Editors], None]] = {
    name: getattr(Editors, name)
    for name in ("add", "look", "restart", "stop", "read", "save", "save_in_place", "finish", "delete")
}


@given(acts=st.lists(st.sampled_from(sorted(ACTS)), max_size=20), seed=st.integers(0, 99))
def test_whatever_editors_do_every_note_stands_once_unless_a_person_took_it_out(
    tmp_path_factory: pytest.TempPathFactory, acts: list[str], seed: int
) -> None:
    world = World(tmp_path_factory.mktemp("home"))
    (world.home / MEMORY).parent.mkdir(parents=True)
    world.write(TEXT)
    editors = Editors(world, random.Random(seed))
    with capture_logs():
        for act in acts:
            ACTS[act](editors)
        editors.finish()
        world.settle()
    world.journal.close()
    assert world.read().startswith(TEXT)
    for text in editors.notes:
        assert editors.least[text] <= world.read().count(note(text)) <= 1, (text, acts)
    assert world.read().count(b"\n## ") == sum(world.read().count(note(text)) for text in editors.notes)


# ------------------------------------------------------------------------------------------------- in small portions


def test_a_round_ends_however_many_files_are_appended_to_all_the_time(world: World) -> None:
    """An import appends faster than a few files at a time are looked at; what it brings is for the next round."""
    files = [f"data/sessions/main/s{number}.jsonl" for number in range(100)]
    for file in files:
        world.add(file, turn(1))
    looks = 0
    while world.projections.look(world.now + SETTLE, most=16):
        looks += 1
        assert looks < 200
        world.now += SETTLE
        for file in files:
            world.add(file, turn(looks + 1))
    oldest = world.projections.settled.unsettled
    assert all(oldest.get(file, 0) > len(files) for file in files), "the first of each has settled"


def test_a_file_with_more_than_is_looked_at_at_once_settles_in_one_round(world: World) -> None:
    world.add(MEMORY, *(note(str(number)) for number in range(50)))
    looks = 1
    while world.projections.look(world.now + SETTLE, most=8):
        looks += 1
    assert looks > 5
    assert world.projections.settled.unsettled == {}
