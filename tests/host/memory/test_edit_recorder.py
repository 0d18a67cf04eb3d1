"""What people do to their files is told from what the host does, whatever the order, and nothing is told twice."""

from __future__ import annotations

import time
from collections import Counter
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.domain import FileWritten
from honeybadger_host.memory import edit_recorder
from honeybadger_host.memory.edit_recorder import EditRecorder
from honeybadger_host.memory.entry_store import EntryFiles
from honeybadger_host.memory.file_events import Past, read_past
from honeybadger_host.memory.file_history import version_at, versions
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
from tests.host.documents.world import World

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
        self.start()

    def look(self) -> None:
        """Look once at everything, and keep what was found."""
        for _ in self.recorder.sweep():
            pass
        self.world.take_in()
        looked = self.recorder.look()
        if looked is not None:
            first = self.world.journal.next_seq if looked.edits else 0
            self.world.journal.next_seq += len(looked.edits)
            self.world.journal.keep_looked(looked, first)
            self.recorder.kept(looked, first)

    def record(self) -> None:
        """Let time pass until everything was looked at."""
        deadline = time.monotonic() + 20
        while True:
            time.sleep(0.005)  # a tick of the file system's clock
            self.world.passed += 1
            self.world.checkpoint()
            self.look()
            if not (self.recorder._touched or self.recorder._own or self.world.documents.touched):
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
