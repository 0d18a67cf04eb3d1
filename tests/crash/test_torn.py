"""Files that a crash tore, an editor changed or a person cut: recovery completes them, and adds nothing else."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from honeybadger_host.compose import build
from honeybadger_host.configuration import load_settings
from honeybadger_host.storage.home import JOURNAL_FILE
from honeybadger_host.storage.journal import Journal
from honeybadger_host.storage.journal_schema import Row
from honeybadger_host.storage.projections import Projections
from tests.crash.conftest import IS_LONG
from tests.crash.hosts import Nursery, attend, ended
from tests.crash.story import Story, read
from tests.hosting import wait_for
from tests.people import settle

MEMORY = "groups/main/MEMORY.md"
LOG = "data/sessions/main/main.jsonl"


def note(content: str, sender: str = "ann") -> bytes:
    """Return a note as it stands in MEMORY.md."""
    return f"\n## Notes ({sender}, 2026-11-21 06:00)\n- {content}\n".encode()


def turn(number: int, content: str = "How are you?") -> bytes:
    """Return a turn as it stands in the log of a session."""
    return (
        b'{"turn":%d,"at":"2026-11-21T06:00:00.000Z","role":"user","sender":"user","by":"ann","content":"%b",'
        b'"token_count":3,"request":"r%d"}\n' % (number, content.encode(), number)
    )


def commit(
    home: Path, file: str, entries: Sequence[bytes], *, is_projected: bool = True, is_settled: bool = False
) -> list[Row]:
    """Take entries into the journal as a host does, and perhaps no further."""
    journal = Journal.open(home / JOURNAL_FILE)
    projections = projections_on(home, journal)
    batch = projections.batch(0.0)
    target = batch.target(file)
    rows = [
        Row(seq, 0, "main", "ann", f"r{seq}", "note", file, target.place(len(data)), data)
        for seq, data in enumerate(entries, journal.next_seq)
    ]
    journal.commit(rows, [])
    if is_projected:
        batch.project(rows, 0.0)
    if is_settled:
        projections.sync(projections.settle(0.0, is_final=True)[0])
        journal.mark_projected(rows[-1].seq)
    journal.close()
    return rows


def projections_on(home: Path, journal: Journal) -> Projections:
    return Projections(home, settle_seconds=0, count_projected=journal.count_projected)


def recover(home: Path) -> None:
    """Start a host as far as it is built, which brings the files up to date, and end it."""
    build(home, load_settings(home).settings).close()


@pytest.fixture
def recovered(home: Path, tmp_path: Path) -> Iterator[Callable[[str, bytes], bytes]]:
    """Recover copies of `home` in which a file has other bytes: what it has then."""
    count = 0

    def run(file: str, text: bytes) -> bytes:
        nonlocal count
        count += 1
        copy = tmp_path / f"copy{count}"
        shutil.copytree(home, copy)
        (copy / file).write_bytes(text)
        recover(copy)
        after = (copy / file).read_bytes()
        if count % 16 == 1:
            recover(copy)
            assert (copy / file).read_bytes() == after
        shutil.rmtree(copy)
        return after

    yield run
    assert count, "nothing was recovered"


Recovered = Callable[[str, bytes], bytes]


@pytest.mark.parametrize(
    ("file", "before", "entries"),
    [
        (MEMORY, note("Older."), [note("Likes tea."), note("Two lines:\n  here.", "bob")]),
        (MEMORY, b"# Memory\n\nWritten by hand", [note("Likes tea.")]),
        (MEMORY, b"", [note("The same."), note("The same.")]),
        (LOG, turn(1), [turn(2, "Yes."), turn(3, "Yes.")]),
    ],
    ids=["notes", "first note in a file of somebody", "identical notes", "turns"],
)
def test_what_was_torn_at_any_byte_is_completed(
    home: Path, recovered: Recovered, file: str, before: bytes, entries: list[bytes]
) -> None:
    path = home / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(before)
    commit(home, file, entries, is_projected=False)
    whole = b"".join(entries)
    for cut in range(0, len(whole) + 1, 1 if IS_LONG else 37):  # of these, test_projections tries every one
        for zeros in sorted({0, (len(whole) - cut) // (1 + cut % 3)}):
            lead = b"\n" if cut < 2 and not zeros and before[-1:] not in (b"", b"\n") else b""
            assert recovered(file, before + whole[:cut] + bytes(zeros)) == before + lead + whole, (cut, zeros)


@pytest.mark.parametrize(("file", "entry"), [(MEMORY, note("Likes tea.")), (LOG, turn(1))], ids=["note", "turn"])
def test_blocks_of_zeros_in_the_middle_are_filled(home: Path, recovered: Recovered, file: str, entry: bytes) -> None:
    entries = [entry, entry.replace(b"1", b"2"), entry.replace(b"1", b"3")]
    commit(home, file, entries, is_projected=False)
    whole = b"".join(entries)
    for start in range(0, len(whole), 1 if IS_LONG else 83):
        for length in (1, 16, len(entry)):
            torn = whole[:start] + bytes(length) + whole[start + length :]
            assert recovered(file, torn[: len(whole)]) == whole, (start, length)


def test_what_somebody_wrote_behind_a_torn_note_stays(home: Path, recovered: Recovered) -> None:
    entries = [note("Likes tea."), note("Likes cake.")]
    commit(home, MEMORY, entries, is_projected=False)
    whole = b"".join(entries)
    for cut in range(0, len(whole), 1 if IS_LONG else 11):
        theirs = whole[:cut] + b"\nMy own words.\n"
        after = recovered(MEMORY, theirs)
        assert after.startswith(theirs)
        assert [after.count(entry) for entry in entries] == [1, 1]


@pytest.mark.parametrize(
    ("file", "theirs", "entry"),
    [(MEMORY, note("Likes tea.") + b"An editor's line.\n", note("Likes cake.")), (LOG, turn(7), turn(2))],
    ids=["note", "turn"],
)
def test_an_entry_that_is_torn_once_more_while_it_is_put_back_is_completed(
    home: Path, recovered: Recovered, file: str, theirs: bytes, entry: bytes
) -> None:
    """An old save dropped it, and the host died while it appended it again, not where it was placed at first."""
    commit(home, file, [entry], is_projected=False)
    for cut in range(2, len(entry) - 1, 1 if IS_LONG else 17):
        for zeros in {0, len(entry) - cut}:
            assert recovered(file, theirs + entry[:cut] + bytes(zeros)) == theirs + entry


def test_an_entry_that_was_torn_behind_an_old_save_is_completed(home: Path, recovered: Recovered) -> None:
    """The save had dropped the entry before it, so that not the first one that is missing is the torn one."""
    first, second = note("Likes tea."), note("Likes cake.")
    commit(home, MEMORY, [first])
    theirs = b"An old text.\n"
    (home / MEMORY).write_bytes(theirs)
    commit(home, MEMORY, [second], is_projected=False)
    for cut in range(0, len(second), 1 if IS_LONG else 7):
        for zeros in {0, len(second) - cut}:
            after = recovered(MEMORY, theirs + second[:cut] + bytes(zeros))
            assert after in (theirs + second + first, theirs + first + second), (cut, zeros)
            assert cut < 2 or after == theirs + second + first


@pytest.mark.parametrize("there", range(4))
def test_of_identical_notes_as_many_are_added_as_are_missing(home: Path, recovered: Recovered, there: int) -> None:
    same = note("Likes tea.")
    commit(home, MEMORY, [same] * 3, is_projected=False)
    moved = b"# Memory\n" + same * there
    assert recovered(MEMORY, same * there) == same * 3
    assert recovered(MEMORY, moved) == b"# Memory\n" + same * 3


def test_identical_notes_are_counted_with_those_settled_before_them(home: Path, recovered: Recovered) -> None:
    same = note("Likes tea.")
    commit(home, MEMORY, [same, same], is_settled=True)
    commit(home, MEMORY, [same])
    assert recovered(MEMORY, b"A line above.\n" + same * 2) == b"A line above.\n" + same * 3
    assert recovered(MEMORY, b"A line above.\n" + same * 3) == b"A line above.\n" + same * 3


def test_a_note_is_not_taken_for_an_older_one_that_is_settled_and_not_marked_so(home: Path) -> None:
    """One file that cannot be written holds the mark back for all; the others settle all the same."""
    same = note("Likes tea.")
    journal = Journal.open(home / JOURNAL_FILE)
    projections = projections_on(home, journal)
    batch = projections.batch(0.0)
    for seq, data in enumerate((same, same), 1):
        target = batch.target(MEMORY)
        row = Row(seq, 0, "main", "ann", f"r{seq}", "note", MEMORY, target.place(len(data)), data)
        journal.commit([row], [])
        batch.project([row], 0.0)
        if seq == 1:
            assert projections.settle(0.0).unsettled == {}  # settled, and nobody says so to the journal
    (home / MEMORY).write_bytes(b"Saved by an editor that had read the first.\n" + same)
    projections.settle(1.0)
    journal.close()
    assert (home / MEMORY).read_bytes().count(same) == 2


def test_moved_notes_are_found_where_they_went(home: Path, recovered: Recovered) -> None:
    entries = [note("Likes tea."), note("Likes cake."), note("Three\n  lines\n  here.")]
    commit(home, MEMORY, entries)
    for moved in (
        b"".join(reversed(entries)),
        b"# Memory\n" + b"".join(entries),
        b"# Memory\n" + b"\n\n".join(entries) + b"\n\n",
        b"".join(entries).strip(b"\n"),
        b"".join(entries).replace(b"\n", b"\r\n"),
        b"".join(entries) + b"\n- a list item of somebody\n",
    ):
        assert recovered(MEMORY, moved) == moved


def test_a_note_that_was_moved_is_not_completed_at_the_end_of_a_file_that_became_shorter(
    home: Path, recovered: Recovered
) -> None:
    commit(home, MEMORY, [note("An older one."), note("Likes tea!!!!")], is_settled=True)
    commit(home, MEMORY, [note("Likes cake.")])
    moved = note("Likes cake.") + note("Likes tea!!!!") + b"\n"
    assert len(moved) <= len(note("An older one.") + note("Likes tea!!!!"))
    for padding in range(4):
        text = moved + b" " * padding
        assert recovered(MEMORY, text) == text


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("Likes tea", "Likes tea and cake"),
        ("Likes tea", "Likes tea\n  and cake"),
        ("tea", "Likes tea"),
        ("a.c (x|y)* [", "abc (x|y)* ["),
    ],
)
def test_a_note_is_not_taken_for_another_that_contains_it(
    home: Path, recovered: Recovered, short: str, long: str
) -> None:
    commit(home, MEMORY, [note(long), note(short)])
    top = b"# Memory\n"
    assert recovered(MEMORY, top + note(long)) == top + note(long) + note(short)
    assert recovered(MEMORY, top + note(short)) == top + note(short)  # a person took the earlier one out


def test_a_turn_does_not_stick_to_a_line_without_an_end(home: Path, recovered: Recovered) -> None:
    path = home / LOG
    path.parent.mkdir(parents=True)
    torn = turn(1) + turn(2)[:40]
    path.write_bytes(torn)
    commit(home, LOG, [turn(3)], is_projected=False)
    assert recovered(LOG, torn) == torn + b"\n" + turn(3)
    assert recovered(LOG, torn + b"\n" + turn(3)[:30]) == torn + b"\n" + turn(3)
    assert recovered(LOG, b"somebody cut it") == b"somebody cut it\n" + turn(3)


def test_a_long_file_that_an_editor_shifted_is_looked_through_once(home: Path) -> None:
    """A search for each of the thousands of notes of a busy second took a quarter of a minute."""
    entries = [note(f"Number {number // 2}.", ("ann", "bob")[number % 2]) for number in range(20_000)]
    commit(home, MEMORY, entries[:10_000], is_settled=True)
    commit(home, MEMORY, entries[10_000:])
    shifted = b"An editor's line.\n" + b"".join(entries[:15_000])
    (home / MEMORY).write_bytes(shifted)
    began = time.process_time()
    recover(home)
    assert time.process_time() - began < 10
    assert (home / MEMORY).read_bytes() == shifted + b"".join(entries[15_000:])


def test_what_is_settled_is_synced_even_when_the_first_to_hear_of_it_is_cancelled(home: Path) -> None:
    journal = Journal.open(home / JOURNAL_FILE)
    projections = projections_on(home, journal)
    batch = projections.batch(0.0)
    target = batch.target(MEMORY)
    data = note("Likes tea.")
    batch.project([Row(1, 0, "main", "ann", "r1", "note", MEMORY, target.place(len(data)), data)], 0.0)
    journal.close()
    paths, unsettled = projections.settle(1.0)
    assert home / MEMORY in paths
    assert unsettled == {}
    again, _ = projections.settle(2.0)
    assert sorted(again) == sorted(paths)
    projections.sync(again)
    assert projections.settle(3.0) == ([], {})


@pytest.mark.parametrize("is_killed", [False, True], ids=["stop", "kill"])
def test_what_a_person_deletes_after_it_settled_does_not_rise_again(
    home: Path, nursery: Nursery, is_killed: bool
) -> None:
    story = Story(home)
    story.drop_some(2)
    with ended(nursery.start(home, faults=("--constant", "ops.maintenance.CHECKPOINT_SECONDS=0.01"))) as host:
        if is_killed:
            wait_for(lambda: not story.is_waiting(), what="all answered")
            settle(home)
            host.kill()
        else:
            assert attend(story, host) == 0
    kept = read(story.memory("alpha")).split(b"\n## ", 2)[-1]
    story.memory("alpha").write_bytes(b"\n## " + kept)
    story.memory("beta").unlink()
    before = story.drop(("alpha", "bob"), "note", "One more.")
    with ended(nursery.start(home)) as host:
        assert attend(story, host) == 0
    assert before.request_id in story.acknowledged
    text = read(story.memory("alpha"))
    assert text.startswith(b"\n## " + kept)
    assert text.count(b"## Notes") == kept.count(b"## Notes") + 2
    assert not story.memory("beta").exists()


def test_a_file_that_is_appended_to_all_the_time_settles_all_the_same(home: Path) -> None:
    journal = Journal.open(home / JOURNAL_FILE)
    projections = Projections(home, settle_seconds=2, count_projected=journal.count_projected)
    for seq, at in enumerate((0.0, 1.5, 3.0), 1):
        batch = projections.batch(0.0)
        target = batch.target(MEMORY)
        data = note(f"Number {seq}.")
        batch.project([Row(seq, 0, "main", "ann", f"r{seq}", "note", MEMORY, target.place(len(data)), data)], at)
    journal.close()
    oldest = [projections.settle(now).unsettled.get(MEMORY) for now in (1.0, 2.0, 3.5, 4.0, 5.0)]
    assert oldest == [1, 2, 3, 3, None]
