"""A journal in which people's edits had tables and notes rows of their own is folded into one form of changes."""

import contextlib
import sqlite3
import zlib
from pathlib import Path

import orjson
import pytest

from honeybadger_host.documents.history import read_past, version_at
from honeybadger_host.documents.merge import notes_in
from honeybadger_host.journal.changes import fingerprint
from honeybadger_host.journal.edits import digest_of, edit_of, hunks_of
from honeybadger_host.journal.journal import Journal
from honeybadger_host.journal.line_hunks import hunks_between, lines_of
from honeybadger_host.journal.opening import damaged_rows
from honeybadger_host.journal.reader import LogFilter, read_log
from honeybadger_host.journal.schema import Row
from tests.host.journal.older import VERSION_7

MEMORY, PERSONA = "groups/main/MEMORY.md", "groups/main/CLAUDE.md"
TEA, CAKE = (f"\n## Notes (ann, 2026-11-22 06:00)\n- {what}\n".encode() for what in ("tea", "cake"))


class Old:
    """A journal as a host of schema 7 kept it."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.executescript(VERSION_7)
        self.seq = 0

    def change(self, file: str, kind: str, data: bytes, offset: int) -> None:
        self.seq += 1
        row = Row(self.seq, self.seq, "main", "ann", f"r{self.seq}", kind, file, offset, data)
        self.connection.execute("INSERT INTO changes VALUES (?,?,?,?,?,?,?,?,?)", row)

    def edit(self, file: str, before: bytes | None, after: bytes) -> None:
        self.seq += 1
        packed: list[list[object]] = []
        for at, *sides in hunks_between(lines_of(before or b""), lines_of(after)):
            hashes = [[digest_of(line).hex() for line in side] for side in sides]
            lines = [(digest_of(line), line) for side in sides for line in side]
            self.connection.executemany("INSERT OR IGNORE INTO lines VALUES (?,?)", lines)
            packed.append([at, *hashes])
        digests = (None if before is None else digest_of(before), digest_of(after))
        row = (self.seq, self.seq, "main", "human", self.seq, file, *digests, orjson.dumps(packed))
        self.connection.execute("INSERT INTO edits VALUES (?,?,?,?,?,?,?,?,?)", row)

    def saw(self, file: str, text: bytes) -> None:
        row = (file, self.seq, 1, 1, 1, 1, len(text), digest_of(text), zlib.compress(text))
        self.connection.execute("INSERT OR REPLACE INTO seen VALUES (?,?,?,?,?,?,?,?,?)", row)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
def old(path: Path) -> Old:
    return Old(path)


def folded(old: Old, path: Path) -> None:
    old.connection.close()
    with contextlib.closing(Journal.open(path)) as journal:
        assert journal.next_seq == old.seq + 1


def texts(path: Path, file: str, last: int) -> list[bytes | None]:
    """Return what a file held at each moment; None: that is not known."""
    past = read_past(path, file)
    return [version.text if (version := version_at(past, seq)).is_known else None for seq in range(last + 1)]


def test_each_edit_keeps_its_number_and_the_old_journal_is_kept(old: Old, path: Path) -> None:
    old.change(MEMORY, "note", TEA, 0)
    old.edit(MEMORY, TEA, b"Mine.\n" + TEA)
    old.change(MEMORY, "note", CAKE, 1)
    old.saw(MEMORY, b"Mine.\n" + TEA + CAKE)
    folded(old, path)
    assert texts(path, MEMORY, 3) == [b"", TEA, b"Mine.\n" + TEA, b"Mine.\n" + TEA + CAKE]
    rows = read_log(path, LogFilter(), 9)
    assert [(row.seq, row.kind, row.sender) for row in rows] == [
        (3, "note", "ann"),
        (2, "edit", "human"),
        (1, "note", "ann"),
    ]
    assert damaged_rows(path, range(10)) == []
    with contextlib.closing(sqlite3.connect(f"{path}.before-11")) as kept:
        assert kept.execute("SELECT count(*) FROM edits").fetchone() == (1,)


def test_a_past_begins_with_the_oldest_known_text(old: Old, path: Path) -> None:
    old.change(MEMORY, "note", TEA, 7)
    old.edit(PERSONA, b"Ours.\n", b"Ours.\nBe kind.\n")
    old.saw(PERSONA, b"Ours.\nBe kind.\n")
    old.saw(MEMORY, b"Before\n" + TEA)
    folded(old, path)
    assert texts(path, MEMORY, 1) == [b"Before\n", b"Before\n" + TEA]
    assert texts(path, PERSONA, 2) == [b"Ours.\n", b"Ours.\n", b"Ours.\nBe kind.\n"]


def test_a_note_that_came_during_a_save_stays(old: Old, path: Path) -> None:
    old.change(MEMORY, "note", TEA, 0)
    old.change(MEMORY, "note", CAKE, len(TEA))
    old.edit(MEMORY, TEA, b"Mine.\n" + TEA)
    folded(old, path)
    assert texts(path, MEMORY, 3)[-1] == b"Mine.\n" + TEA + CAKE


@pytest.mark.parametrize(("left", "gone"), [(CAKE, [TEA]), (b"", [TEA, CAKE])])
def test_removed_notes_are_lines_that_went(old: Old, path: Path, left: bytes, gone: list[bytes]) -> None:
    old.change(MEMORY, "note", TEA, 7)
    old.change(MEMORY, "note", CAKE, 1)
    held = b"Before" + TEA + CAKE
    notes = [{"at": held.index(note), "text": note.decode(), "above": 0} for note in gone]
    data = orjson.dumps({"size": 1, "to": 1, "notes": notes})
    old.change(MEMORY, "note_removed", data, fingerprint(held))
    old.change(MEMORY, "note_restored", data, fingerprint(b"Before" + left))
    old.saw(MEMORY, held)
    folded(old, path)
    assert texts(path, MEMORY, 4) == [b"Before", b"Before" + TEA, held, b"Before" + left, held]
    rows = read_log(path, LogFilter(kind="note_removed"), 9)
    assert notes_in(b"".join(hunks_of(rows[0])[0].removed)) == [note.lstrip() for note in gone]
    assert damaged_rows(path, range(10)) == []


def test_a_note_removed_from_unknown_text_keeps_its_lines(old: Old, path: Path) -> None:
    note = {"at": len(b"Ours.\n"), "text": TEA.decode(), "above": 0}
    old.change(MEMORY, "note_removed", orjson.dumps({"size": 1, "to": 1, "notes": [note]}), 1)
    folded(old, path)
    (row,) = read_log(path, LogFilter(file=MEMORY), 9)
    assert (texts(path, MEMORY, 1)[-1], edit_of(row).hunks) == (None, [(0, lines_of(TEA), [])])
