"""The journal after a crash, a power cut or an accident: it goes on, or refuses with words that help."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from honeybadger_host.compose import build
from honeybadger_host.configuration import load_settings
from honeybadger_host.errors import JournalError
from honeybadger_host.files.home import JOURNAL_FILE, LOCK_FILE
from honeybadger_host.journal.journal import Journal
from honeybadger_host.journal.schema import Receipt, Row


def commit(journal: Journal, count: int, *, note: bytes = b"\n## Notes (ann, 2026-11-21 06:00)\n- Tea.\n") -> None:
    """Commit one change after the other."""
    for _ in range(count):
        seq = journal.next_seq
        journal.next_seq += 1
        row = Row(seq, 0, "main", "ann", f"r{seq}", "note", "groups/main/MEMORY.md", 0, note)
        journal.commit([row], [Receipt(seq, 0, "main", "ann", f"r{seq}", b"d", b"reply")])


def start_and_end(home: Path) -> None:
    """Build a host and end it."""
    build(home, load_settings(home).settings).close()


@pytest.fixture
def served(home: Path) -> Path:
    """A home that had a host, with a journal of some size."""
    host = build(home, load_settings(home).settings)
    commit(host.journal, 100)
    host.close()
    return home


def test_an_interrupted_first_start_begins_again(home: Path) -> None:
    """SQLite writes its header before our tables are committed."""
    with closing(sqlite3.connect(home / JOURNAL_FILE)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    assert (home / JOURNAL_FILE).stat().st_size > 0
    start_and_end(home)


def test_a_missing_journal_is_not_replaced(served: Path) -> None:
    (served / JOURNAL_FILE).unlink()
    with pytest.raises(JournalError, match=r"is missing.*[Rr]estore.*host\.lock"):
        start_and_end(served)
    assert not (served / JOURNAL_FILE).exists()


def test_an_emptied_journal_is_not_taken_for_new(served: Path) -> None:
    (served / JOURNAL_FILE).write_bytes(b"")
    with pytest.raises(JournalError, match=r"is empty.*[Rr]estore.*host\.lock"):
        start_and_end(served)
    (served / JOURNAL_FILE).unlink()
    with closing(sqlite3.connect(served / JOURNAL_FILE)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    with pytest.raises(JournalError, match=r"is empty.*[Rr]estore.*host\.lock"):
        start_and_end(served)


def test_removing_the_lock_file_makes_a_new_journal(served: Path) -> None:
    (served / JOURNAL_FILE).unlink()
    (served / LOCK_FILE).unlink()
    start_and_end(served)


def test_another_home_s_journal_is_refused(served: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    Journal.open(other).close()
    (served / JOURNAL_FILE).write_bytes(other.read_bytes())
    with pytest.raises(JournalError, match="another home"):
        start_and_end(served)


def test_a_torn_journal_loses_only_the_uncommitted_end(home: Path, tmp_path: Path) -> None:
    """All that the log of SQLite holds up to the tear is there; the rest was never acknowledged."""
    journal = Journal.open(tmp_path / "journal.db")
    sizes: list[int] = []
    for _ in range(6):
        commit(journal, 1)
        sizes.append((tmp_path / "journal.db-wal").stat().st_size)
    database = (tmp_path / "journal.db").read_bytes()
    wal = (tmp_path / "journal.db-wal").read_bytes()
    journal.close()
    for torn in [wal[:size] for size in range(0, len(wal), 1997)] + [
        wal[:size] + b"\0" * (len(wal) - size) for size in range(4096, len(wal), 2999)
    ]:
        whole = sum(1 for size in sizes if wal[:size] == torn[:size])
        folder = tmp_path / "torn"
        folder.mkdir(exist_ok=True)
        for name, data in (("", database), ("-wal", torn)):
            (folder / f"journal.db{name}").write_bytes(data)
        (folder / "journal.db-shm").unlink(missing_ok=True)
        again = Journal.open(folder / "journal.db")
        assert again.committed_seq == whole
        assert len(list(again.unprojected())) == whole
        commit(again, 1)
        again.close()
