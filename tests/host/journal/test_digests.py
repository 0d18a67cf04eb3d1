"""A bit that flips in the journal's file is noticed wherever it changes what a row says."""

import contextlib
import random
import sqlite3
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from honeybadger_host.errors import JournalError
from honeybadger_host.files.home import JOURNAL_FILE, make_home
from honeybadger_host.journal.edits import Edit, Looked, digest_of
from honeybadger_host.journal.journal import Journal
from honeybadger_host.journal.line_hunks import Hunk
from honeybadger_host.journal.opening import damaged_rows, stretches
from honeybadger_host.journal.schema import Receipt, Row
from honeybadger_host.ops.doctor.checks import journal as examined

COUNT = 90
FLIPS = 400


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home whose journal has notes, receipts and edits, in one file."""
    make_home(tmp_path)
    path = tmp_path / JOURNAL_FILE
    with contextlib.closing(Journal.open(path)) as journal:
        for seq in range(1, COUNT, 3):
            data = b"\n## Notes (a, 2026-11-21 06:05)\n- likes tea number %d\n" % seq
            row = Row(seq, seq, "main", "researcher", f"r{seq}", "note", "groups/main/MEMORY.md", -1, data)
            journal.commit([row], [Receipt(seq, seq, "main", "researcher", f"r{seq}", b"d" * 32, b'{"n":%d}' % seq)])
            hunks = [Hunk(seq, [], [b"line %d of a person\n" % seq])]
            edit = Edit(seq + 1, None, digest_of(data), hunks)
            journal.keep_looked(Looked([edit.row(seq + 1, seq, "main", "human", "groups/main/CLAUDE.md")]))
            journal.keep_receipt(
                Receipt(seq + 2, 0, "main", "other", f"q{seq}", b"e" * 32, b"{}"), lambda connection: None
            )
        journal.next_seq = COUNT
    return tmp_path


def said(path: Path) -> list[object]:
    """Return all that changes and receipts say; nothing when that cannot be read."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        try:
            return [
                connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall() for table in ("changes", "receipts")
            ]
        except (sqlite3.DatabaseError, UnicodeDecodeError):
            return []


def damage_of(path: Path) -> list[str]:
    try:
        return [row for numbers in stretches(path) for row in damaged_rows(path, numbers)]
    except JournalError as error:
        return [str(error)]


def flipped(whole: bytes, at: int, bit: int) -> bytes:
    return whole[:at] + bytes([whole[at] ^ (1 << bit)]) + whole[at + 1 :]


@pytest.fixture
def chance() -> random.Random:
    return random.Random(25)


def test_any_flipped_bit_that_changes_a_row_is_found(home: Path, chance: random.Random) -> None:
    path = home / JOURNAL_FILE
    whole, before = path.read_bytes(), said(path)
    assert damage_of(path) == []
    changed = 0
    for _ in range(FLIPS):
        path.write_bytes(flipped(whole, chance.randrange(100, len(whole)), chance.randrange(8)))
        if said(path) != before:
            changed += 1
            assert damage_of(path)
    assert changed > FLIPS / 10


def test_damage_is_told_at_start_and_by_doctor(home: Path) -> None:
    path = home / JOURNAL_FILE
    whole = path.read_bytes()
    path.write_bytes(flipped(whole, whole.index(b"likes tea number 7\n"), 0))
    findings = [one for one in examined(home) if one.level == "problem"]
    assert ["changes 7" in one.message and "last backup" in (one.now_what or "") for one in findings] == [True]
    with capture_logs() as logs, contextlib.closing(Journal.open(path)) as journal:
        assert journal.damaged == ["changes 7"]
        journal.change_past(lambda connection: connection.execute("UPDATE changes SET offset = -2"))
    assert [(one["event"], one["rows"]) for one in logs] == [("journal.damaged", ["changes 7"])]
    assert damage_of(path) == ["changes 7"]  # a change of it by the host does not hide it


def test_damage_in_old_rows_is_told_next_start(home: Path) -> None:
    path = home / JOURNAL_FILE
    with contextlib.closing(Journal.open(path)) as journal:
        journal.keep_damaged(["changes 1"])
    with contextlib.closing(Journal.open(path)) as journal:
        assert journal.damaged == ["changes 1"]


def test_added_and_removed_rows_are_no_damage(home: Path) -> None:
    path = home / JOURNAL_FILE
    with contextlib.closing(Journal.open(path)) as journal:
        assert journal.prune_receipts(50)
        journal.vacuum()
    assert damage_of(path) == []
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM digests WHERE id = 4")
    assert damage_of(path) == ["changes 1"]
