"""What people do to their files is told from what the host does, whatever the order, and nothing is told twice."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.domain import FileRemoved, FileWritten
from honeybadger_host.errors import WorldFailed
from honeybadger_host.memory import edit_recorder, peoples_files
from honeybadger_host.memory.archive import Retired, archive_notes, bring_back_notes, standing_span
from honeybadger_host.memory.edit_recorder import EditRecorder
from honeybadger_host.memory.entry_store import EntryFiles
from honeybadger_host.memory.file_events import Past, read_past
from honeybadger_host.memory.file_history import version_at, versions
from honeybadger_host.memory.notes import note_spans
from honeybadger_host.memory.peoples_files import group_of
from honeybadger_host.storage import file_cache
from honeybadger_host.storage.edits import Edit, EditReader, digest_of
from honeybadger_host.storage.journal_reader import LogFilter
from honeybadger_host.storage.line_hunks import (
    Overlapping,
    apply_hunks,
    carried_over,
    hunks_between,
    lines_of,
    reversed_hunks,
)
from honeybadger_host.storage.revised import revision_of
from tests.host.storage.projected import MEMORY, World, note

NOW = datetime(2026, 11, 22, 10, tzinfo=UTC)
PERSONA = "groups/main/CLAUDE.md"
ENTRY = "groups/main/memory/drinks/tea.json"
PAIRS = ((b"tea", b"1"), (b"green tea", b"1"), (b"green tea", b"2"))


class Recorded:
    """A world whose people's edits are recorded, from one start of the host to the next."""

    def __init__(self, world: World) -> None:
        self.world = world
        (world.home / ENTRY).parent.mkdir(parents=True)
        self.start()
        self.record()

    def start(self) -> None:
        world = self.world
        self.recorder = EditRecorder(world.home, world.journal.path, world.projections, EntryFiles(world.home))

    def kill(self) -> None:
        self.world.journal.close()
        self.world.start()
        self.world.recover()
        self.start()

    def look(self) -> None:
        """Look once at everything, and keep what was found."""
        for _ in self.recorder.sweep():
            pass
        looked = self.recorder.look()
        if looked is not None:
            first = self.world.journal.next_seq if looked.edits else 0
            self.world.journal.next_seq += len(looked.edits)
            self.world.journal.keep_looked(looked, first)
            self.recorder.kept(first)

    def record(self) -> None:
        """Let time pass until everything was looked at."""
        deadline = time.monotonic() + 20
        while True:
            time.sleep(0.005)  # a tick of the file system's clock
            self.world.now += 1
            self.world.look()
            self.look()
            if not self.recorder._touched and not self.recorder._own:
                return
            assert time.monotonic() < deadline, self.recorder._touched

    @property
    def edits(self) -> list[Edit]:
        return EditReader(self.world.journal.path).edits(LogFilter("main"), 1000)[::-1]

    def write(self, data: bytes, file: str = PERSONA) -> None:
        time.sleep(0.005)
        self.world.save_as_an_editor(data, file)

    def save(self, data: bytes, file: str = ENTRY, *, is_told: bool = False) -> None:
        """As the host; one that lives on is told of what it replaces."""
        path = self.world.home / file
        held = path.read_bytes() if path.exists() else None
        time.sleep(0.005)
        change = FileWritten("main", "entry", file, data, held)
        if is_told:
            self.recorder.apply(change)
        with self.world.decided(change):
            pass


@pytest.fixture
def recorded(world: World, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    monkeypatch.setattr(edit_recorder, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(file_cache, "_GRAIN_NS", 0)
    return Recorded(world)


def _copied(past: Past) -> list[tuple[bytes, list[str]]]:
    """Return every version with its authors: they are the same object each time."""
    return [
        (version.text, [getattr(one, "author", "host") for one in version.origins]) for _, version in versions(past)
    ]


def lines_in(edits: list[Edit], side: str) -> Counter[bytes]:
    return Counter(line for edit in edits for hunk in edit.hunks or () for line in getattr(hunk, side))


# --------------------------------------------------------------------------------------------------------- the lines

_LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"", b"d"]), max_size=30).map(b"".join).map(lines_of)


@given(_LINES, _LINES)
def test_hunks_make_one_text_of_the_other_and_back(before: list[bytes], after: list[bytes]) -> None:
    hunks = hunks_between(before, after)
    assert apply_hunks(before, hunks) == after
    assert apply_hunks(after, reversed_hunks(hunks)) == before
    assert bool(hunks) == (before != after)


@given(_LINES, _LINES, _LINES)
def test_hunks_are_carried_over_to_what_others_made_of_the_text_or_overlap(
    before: list[bytes], mine: list[bytes], others: list[bytes]
) -> None:
    hunks, since = hunks_between(before, mine), hunks_between(before, others)
    try:
        carried = carried_over(hunks, since)
    except Overlapping:
        return
    assert len(apply_hunks(others, carried)) == len(mine) + len(others) - len(before)
    assert carried_over(hunks, []) == hunks


@given(st.binary(max_size=50))
def test_the_lines_of_a_text_are_the_text(text: bytes) -> None:
    assert b"".join(lines_of(text)) == text


def test_two_texts_without_a_line_in_common_are_compared_in_no_time() -> None:
    before, after = ([b"%d %d\n" % (side, number) for number in range(20_000)] for side in range(2))
    begun = time.process_time()
    (hunk,) = hunks_between(before, after)
    assert (len(hunk.removed), len(hunk.added), time.process_time() - begun < 20) == (20_000, 20_000, True)


# -------------------------------------------------------------------------------------------------------- what counts


@pytest.mark.parametrize(
    ("file", "group"),
    [
        ("AGENT.md", "global"),
        ("config/agents/keeper/soul.md", "global"),
        ("groups/global/CLAUDE.md", "global"),
        ("groups/main/MEMORY.md", "main"),
        ("groups/main/archive/MEMORY.md", "main"),
        ("groups/main/memory/a/b/c.json", "main"),
        ("groups/main/memory/.c.json.12.tmp", None),
        ("groups/main/.MEMORY.md.before-3", None),
        ("groups/main/other.md", None),
        ("groups/main/memory/a/\udcff.json", None),
        ("data/sessions/main/main.jsonl", None),
    ],
)
def test_files_of_people_are_told_from_others(file: str, group: str | None) -> None:
    assert group_of(file) == group


def test_what_stood_before_anything_was_recorded_is_not_an_edit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edit_recorder, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(file_cache, "_GRAIN_NS", 0)
    (world.home / ENTRY).parent.mkdir(parents=True)
    world.write(b"# Ours\n")
    world.write(b"Be brief.\n", PERSONA)
    recorded = Recorded.__new__(Recorded)
    recorded.world = world
    recorded.start()
    recorded.record()
    assert recorded.edits == []
    recorded.write(b"Be kind.\n")
    recorded.kill()
    recorded.record()
    (edit,) = recorded.edits
    assert (edit.author, edit.kind, edit.file, edit.before) == ("human", "edit", PERSONA, digest_of(b"Be brief.\n"))


def test_an_edit_is_recorded_once_whether_the_host_is_killed_before_or_after_it_is_kept(recorded: Recorded) -> None:
    recorded.write(b"one\n")
    for _ in recorded.recorder.sweep():
        pass
    assert recorded.recorder.look() is not None  # found, and not kept
    recorded.kill()
    recorded.record()
    assert len(recorded.edits) == 1
    recorded.kill()
    recorded.record()
    assert len(recorded.edits) == 1


def test_numbers_of_edits_and_of_changes_are_one_sequence_over_a_restart(recorded: Recorded) -> None:
    recorded.world.add(MEMORY, note("a"))
    recorded.write(b"one\n")
    recorded.record()
    recorded.kill()
    recorded.world.add(MEMORY, note("b"))
    recorded.write(b"two\n")
    recorded.record()
    assert [edit.seq for edit in recorded.edits] == [2, 4]
    assert [row.seq for row in EditReader(recorded.world.journal.path).changes(1, 9, [MEMORY])] == [1, 3]


def test_a_file_of_another_owner_is_theirs(recorded: Recorded) -> None:
    if os.geteuid():
        pytest.skip("only root gives files away")
    recorded.write(b"one\n")
    os.chown(recorded.world.home / PERSONA, 1, 1)
    recorded.record()
    assert [edit.author for edit in recorded.edits] == ["daemon"]


def test_an_edit_that_the_host_replaced_before_it_was_looked_at_is_told_without_its_text(recorded: Recorded) -> None:
    recorded.save(b'{\n  "content": "tea"\n}\n')
    recorded.record()
    recorded.write(b'{\n  "content": "green tea"\n}\n', ENTRY)
    recorded.save(b'{\n  "content": "mint tea"\n}\n')
    recorded.record()
    (edit,) = recorded.edits
    assert (edit.kind, edit.hunks, edit.before) == ("edit", None, digest_of(b'{\n  "content": "tea"\n}\n'))


def test_an_edit_that_this_host_replaced_before_it_was_looked_at_is_the_persons_with_its_text(
    recorded: Recorded,
) -> None:
    tea, green, mint = (b'{\n  "content": "%b",\n  "n": %b\n}\n' % of for of in PAIRS)
    recorded.save(tea)
    recorded.record()
    recorded.write(green, ENTRY)
    recorded.save(mint, is_told=True)
    recorded.record()
    (edit,) = recorded.edits
    assert edit.hunks == [(1, [b'  "content": "tea",\n'], [b'  "content": "green tea",\n'])]
    past = read_past(recorded.world.journal.path, ENTRY)
    texts = _copied(past)
    assert [text for text, _ in texts] == [b"", tea, green, mint]
    assert texts[-1][1] == ["host", "human", "host", "host"]
    assert version_at(past, edit.seq - 2).text == tea
    assert version_at(past, edit.seq - 1).text == mint


def test_a_look_takes_no_more_memory_however_much_the_host_wrote_since_the_last_one(recorded: Recorded) -> None:
    recorded.world.add(MEMORY, note("before"))
    recorded.save(b"0")
    recorded.record()
    texts = [b"%d" % number + b" " * 2000 for number in range(5_000)]
    recorded.world.add(MEMORY, *map(note, map(bytes.decode, texts)))
    saved = [FileWritten("main", "entry", ENTRY, after, before) for before, after in pairwise([b"0", *texts])]
    with recorded.world.decided(*saved):
        pass
    recorded.write(recorded.world.read() + b"Mine.\n", MEMORY)
    tracemalloc.start()
    recorded.record()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [(edit.file, edit.hunks) for edit in recorded.edits] == [(MEMORY, None)]
    assert peak < 12 << 20


def test_an_entry_that_was_saved_in_place_before_its_folder_was_watched_is_found_then(recorded: Recorded) -> None:
    recorded.save(b'{"content": "tea"}')
    recorded.record()
    (recorded.world.home / ENTRY).write_bytes(b'{"content": "coffee"}')
    assert [*recorded.recorder.sweep_changed()]
    assert ENTRY not in recorded.recorder._touched
    recorded.recorder.touch_folder(ENTRY.rpartition("/")[0])
    assert [*recorded.recorder.sweep_changed()]
    assert ENTRY in recorded.recorder._touched


def test_an_edit_of_an_entry_the_host_wrote_long_ago_has_its_lines(recorded: Recorded) -> None:
    recorded.save(b'{\n  "content": "tea"\n}\n')
    recorded.record()
    recorded.kill()
    recorded.write(b'{\n  "content": "green tea"\n}\n', ENTRY)
    recorded.record()
    (edit,) = recorded.edits
    assert edit.hunks == [(1, [b'  "content": "tea"\n'], [b'  "content": "green tea"\n'])]


def test_a_large_memory_md_that_only_the_host_adds_to_is_nobodys_edit(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peoples_files, "MOST_BYTES", 200)
    recorded.world.add(MEMORY, *(note(f"note {number}") for number in range(9)))
    recorded.record()
    recorded.world.add(MEMORY, note("one more"))
    recorded.record()
    assert recorded.edits == []
    recorded.write(b"x" + recorded.world.read(), MEMORY)
    recorded.record()
    (edit,) = recorded.edits
    assert (edit.hunks, edit.after) == (None, hashlib.sha256(recorded.world.read()).digest()[:16])


def test_an_older_text_that_the_host_repairs_is_an_edit_of_its_new_line_only(recorded: Recorded) -> None:
    recorded.world.add(MEMORY, note("a"))
    recorded.world.settle()
    older = recorded.world.read()
    recorded.world.add(MEMORY, note("b"))
    recorded.write(older + b"Mine.\n", MEMORY)
    recorded.look()  # before the repair
    recorded.record()
    assert recorded.world.read() == older + b"Mine.\n" + note("b")
    assert (lines_in(recorded.edits, "added"), lines_in(recorded.edits, "removed")) == ({b"Mine.\n": 1}, {})


# --------------------------------------------------------------------------------------------------------------- a life


class Life:
    """People and a host at the same files, with kills."""

    def __init__(self, recorded: Recorded, rng: random.Random) -> None:
        self.recorded, self.world, self.rng = recorded, recorded.world, rng
        self.number = 0
        self.theirs: Counter[bytes] = Counter()
        """Lines that people put into MEMORY.md, less those they took out."""
        self.persona = b""

    def next(self) -> int:
        self.number += 1
        return self.number

    def host_notes(self) -> None:
        self.world.add(MEMORY, note(f"note {self.next()}"))

    def host_removes(self) -> None:
        self.world.settle()
        if not (self.world.home / MEMORY).exists():
            return
        held = self.world.read()
        spans = [span for span in note_spans(held) if held[slice(*span)].lstrip().startswith(b"## ")]
        if spans:  # what stands below them is a person's, and no pass touches it
            retired = [Retired(self.rng.choice(spans), "why")]
            with (
                contextlib.suppress(WorldFailed),
                self.world.decided(*archive_notes("main", held, retired, "consolidator", NOW)),
            ):
                pass

    def host_restores(self) -> None:
        rows = EditReader(self.world.journal.path).changes(1, 1 << 40, [MEMORY])
        if removed := [row for row in rows if row.kind == "note_removed"]:
            archive = self.world.home / "groups/main/archive/MEMORY.md"
            notes = revision_of(self.rng.choice(removed).data).notes
            held = self.world.read()
            if any(standing_span(held, place.data) for place in notes):
                return  # as `undo`
            changes = bring_back_notes("main", held, archive.read_bytes(), notes)
            with contextlib.suppress(WorldFailed), self.world.decided(*changes):
                pass

    def host_saves(self) -> None:
        self.recorded.record()  # what is replaced before it was looked at is told without its text: see above
        self.recorded.save(b'{\n  "content": "%d"\n}\n' % self.next())

    def host_deletes(self) -> None:
        self.recorded.record()
        path = self.world.home / ENTRY
        if path.exists():
            with self.world.decided(FileRemoved("main", "entry", ENTRY, path.read_bytes())):
                pass

    def person_adds(self) -> None:
        line = b"Line %d.\n" % self.next()
        path = self.world.home / MEMORY
        lines = lines_of(path.read_bytes() if path.exists() else b"")
        between = [at for at, text in enumerate(lines) if text == b"\n"]  # within a note it would break it
        lines.insert(self.rng.choice([*between, len(lines)]), line)
        self.recorded.write(b"".join(lines), MEMORY)
        self.theirs[line] += 1

    def person_removes(self) -> None:
        if mine := +self.theirs:
            line = self.rng.choice([*mine])
            self.recorded.write(self.world.read().replace(line, b"", 1), MEMORY)
            self.theirs[line] -= 1

    def person_rules(self) -> None:
        lines = lines_of(self.persona)
        if lines and self.rng.random() < 0.4:
            lines.pop(self.rng.randrange(len(lines)))
        else:
            lines.insert(self.rng.randint(0, len(lines)), b"Rule %d.\n" % self.next())
        self.persona = b"".join(lines)
        self.recorded.write(self.persona)

    def person_edits_the_entry(self) -> None:
        self.recorded.write(b'{\n  "content": "mine %d"\n}\n' % self.next(), ENTRY)

    def look(self) -> None:
        self.recorded.look()

    def record(self) -> None:
        self.recorded.record()

    def kill(self) -> None:
        self.recorded.kill()

    def live(self, steps: int) -> None:
        acts: list[Callable[[], Any]] = [
            *(self.host_notes, self.host_removes, self.host_restores, self.host_saves, self.host_deletes),
            *(self.person_adds, self.person_adds, self.person_removes, self.person_rules, self.person_edits_the_entry),
            *(self.look, self.record, self.kill),
        ]
        for _ in range(steps):
            self.rng.choice(acts)()
            self.world.now += 0.7
            self.world.look()


@pytest.mark.parametrize("number", range(5))
def test_whatever_people_and_the_host_do_every_line_of_theirs_is_recorded_once_and_none_of_its(
    recorded: Recorded, number: int
) -> None:
    life = Life(recorded, random.Random(random.getrandbits(64)))
    life.live(40)
    recorded.record()
    edits = recorded.edits
    memory = [edit for edit in edits if edit.file == MEMORY]
    added, removed = lines_in(memory, "added"), lines_in(memory, "removed")
    added.subtract(removed)  # what moved is both
    assert {line: count for line, count in added.items() if count} == +life.theirs
    persona = [edit for edit in edits if edit.file == PERSONA]
    lines: list[bytes] = []
    for edit in persona:
        lines = apply_hunks(lines, edit.hunks or ())
        assert digest_of(b"".join(lines)) == (edit.after or digest_of(b""))
    assert b"".join(lines) == life.persona
    assert {edit.author for edit in edits} <= {"human"}
    assert {edit.file for edit in edits} <= {MEMORY, PERSONA, ENTRY}
    entry = [edit for edit in edits if edit.file == ENTRY]
    assert all(any(b"mine" in line for line in lines_in([edit], "added")) for edit in entry if edit.after)
