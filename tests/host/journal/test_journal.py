"""The journal: all of a batch or none of it, receipts, and refusing to start on something that is not it."""

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from honeybadger_host.errors import JournalError, StorageFailed, WorldFailed
from honeybadger_host.journal.journal import Journal
from honeybadger_host.journal.opening import copy_journal, read_position
from honeybadger_host.journal.reader import read_request
from honeybadger_host.journal.schema import APPLICATION_ID, SCHEMA_VERSION, BegunTurn, Marks, Receipt, Row, TurnKey
from tests.host.journal.older import VERSION_7
from tests.hosting import little_space

FILE = "groups/main/MEMORY.md"


def row(seq: int, *, group: str = "main", request: str = "", data: bytes = b"", file: str = FILE) -> Row:
    data = data or b"\n- note %d\n" % seq
    return Row(seq, 1000 + seq, group, "user", request or f"r{seq}", "note", file, seq * 10, data)


def receipt(seq: int, *, group: str = "main", sender: str = "user", request: str = "", at: int = 0) -> Receipt:
    request = request or f"r{seq}"
    return Receipt(seq, at or 1000 + seq, group, sender, request, hashlib.sha256(b"x").digest(), b"reply %d" % seq)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data" / "journal.db"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    opened = Journal.open(path)
    yield opened
    opened.close()


def content(path: Path) -> tuple[list[int], list[int]]:
    """Return the seqs of changes and of receipts, as another program reads them."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        changes = [found for (found,) in connection.execute("SELECT seq FROM changes ORDER BY seq")]
        return changes, [found for (found,) in connection.execute("SELECT seq FROM receipts ORDER BY seq")]


def test_a_batch_with_a_known_receipt_changes_nothing(journal: Journal, path: Path) -> None:
    journal.commit([row(1)], [receipt(1)])
    with pytest.raises(JournalError):
        journal.commit([row(2), row(3)], [receipt(2), receipt(3, request="r1")])
    assert content(path) == ([1], [1])
    assert journal.committed_seq == 1
    journal.commit([row(2)], [receipt(2)])
    assert content(path) == ([1, 2], [1, 2])


def test_a_commit_is_synced_before_it_returns(journal: Journal) -> None:
    for connection in (journal._writer, journal._reader):
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_only_its_owner_reads_it_whatever_the_umask(path: Path) -> None:
    before = os.umask(0)
    try:
        journal = Journal.open(path)
        journal.commit([row(1)], [receipt(1)])
        modes = {each.name: each.stat().st_mode & 0o777 for each in path.parent.iterdir()}
        journal.close()
    finally:
        os.umask(before)
    assert modes == {"journal.db": 0o600, "journal.db-wal": 0o600, "journal.db-shm": 0o600}


def test_receipts_belong_to_one_sender_of_one_group(journal: Journal) -> None:
    journal.commit([row(1)], [receipt(1, request="same")])
    assert journal.receipts_of("main", "user", ["same", "other"]).keys() == {"same"}
    assert journal.receipts_of("main", "agent", ["same"]) == {}
    assert journal.receipts_of("kitchen", "user", ["same"]) == {}
    journal.commit(
        [row(2), row(3)], [receipt(2, sender="agent", request="same"), receipt(3, group="k", request="same")]
    )
    assert journal.receipts_of("main", "agent", ["same"])["same"][1] == b"reply 2"
    assert journal.receipts_of("k", "user", ["same"])["same"][1] == b"reply 3"


@pytest.mark.parametrize("asks_first", [True, False])
def test_ids_are_found_in_any_order(path: Path, asks_first: bool) -> None:
    ids = ["m", "a", "z", "Z", "0", "m.1", "m-1", "m_1", "019", "zz", "zzz"]
    first = Journal.open(path)
    for number, request in enumerate(ids, 1):
        if asks_first:
            assert first.receipts_of("main", "user", [request]) == {}
        first.commit([row(number)], [receipt(number, request=request)])
        assert first.receipts_of("main", "user", ids).keys() == set(ids[:number])
    first.close()
    second = Journal.open(path)
    assert second.receipts_of("main", "user", [*ids, "absent"]).keys() == set(ids)
    second.close()


def test_old_receipts_are_forgotten_in_portions_and_changes_never(journal: Journal, path: Path) -> None:
    journal.commit([row(seq) for seq in range(1, 11)], [receipt(seq) for seq in range(1, 11)])
    assert journal.prune_receipts(0) == 0
    assert journal.prune_receipts(7, most=5) == 5
    assert journal.prune_receipts(7, most=5) == 2
    assert journal.prune_receipts(7, most=5) == 0
    assert content(path) == (list(range(1, 11)), [8, 9, 10])
    assert journal.receipts_of("main", "user", ["r7", "r8"]).keys() == {"r8"}
    journal.commit([row(11)], [receipt(11, request="r1")])  # after its receipt, an old id is a new request
    assert journal.receipts_of("main", "user", ["r1"]).keys() == {"r1"}


def test_receipts_of_imported_entries_stay(journal: Journal, path: Path) -> None:
    imported = [receipt(seq, sender="operator", request=f"imported-{seq}") for seq in range(1, 11)]
    journal.commit([row(seq) for seq in range(1, 11)], imported)
    for seq in (11, 12, 13):
        journal.commit([row(seq)], [receipt(seq)])
        assert journal.prune_receipts(1 << 60) == 1
        assert journal.prune_receipts(1 << 60) == 0
    assert content(path)[1] == list(range(1, 11))


TURN = TurnKey("main", "user", "t1")


def test_a_turn_goes_with_its_answer_or_receipt_age(journal: Journal) -> None:
    for number in (1, 2):
        journal.begin_turn(TURN, b"d")
        journal.keep_step(TURN, b"{}")
        journal.commit([row(number)], [receipt(number)], [TURN])
        assert journal.begin_turn(TURN, b"d") == BegunTurn(1, [])
        journal.commit((), (), [TURN])
    journal.begin_turn(TURN, b"d")
    journal.keep_step(TURN, b"{}")
    journal.prune_receipts(1)
    assert journal.begin_turn(TURN, b"d") == BegunTurn(2, [b"{}"])
    journal.prune_receipts(2)
    assert journal.begin_turn(TURN, b"d") == BegunTurn(1, [])


def test_no_number_is_marked_projected_before_it_is_committed(path: Path) -> None:
    journal = Journal.open(path)
    journal.commit([row(1)], [receipt(1)])
    journal.mark_projected(7)
    journal.commit([row(2)], [receipt(2)])
    journal.close()
    again = Journal.open(path)
    assert [found.seq for found in again.unprojected()] == [2]
    again.close()


def refused(path: Path, identity: str | None = None) -> str:
    """Return why a journal is not opened; nothing may have changed."""
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(JournalError) as caught:
        Journal.open(path, expected_identity=identity)
    assert (path.read_bytes() if path.is_file() else None) == before
    assert str(path) in str(caught.value)
    assert caught.value.exit_code == 6
    return str(caught.value)


@pytest.mark.parametrize(
    "data",
    [b"\0" * 8192, os.urandom(8192), b"SQLite format 3\0" + b"\0" * 4080, b"hello\n"],
    ids=["zeroed", "random", "header", "text"],
)
@pytest.mark.parametrize("identity", [None, "0123abcd"])
def test_garbage_is_refused_and_not_touched(path: Path, data: bytes, identity: str | None) -> None:
    path.write_bytes(data)
    assert refused(path, identity)


def test_another_programs_database_is_refused_and_not_touched(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE recipes (name)")
    assert "not a Honeybadger journal: move it away" in refused(path)
    assert [each.name for each in path.parent.iterdir()] == ["journal.db"]


def test_a_journal_of_another_version_is_refused(path: Path) -> None:
    Journal.open(path).close()
    for version in (SCHEMA_VERSION + 1, 9):
        with contextlib.closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
            connection.execute(f"PRAGMA user_version = {version}")
        assert f"has schema {version}; this host knows {SCHEMA_VERSION} and brings 7 forward" in refused(path)


@pytest.fixture
def old(path: Path) -> Path:
    """A journal of schema 7; the first two of its 2,000 changes are projected."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(VERSION_7)
        rows = [row(seq) for seq in range(1, 2001)]
        connection.executemany("INSERT INTO changes VALUES (?,?,?,?,?,?,?,?,?)", rows)
        connection.execute("INSERT INTO receipts VALUES (?,?,?,?,?,?,?)", receipt(2000))
        connection.commit()
    return path


def shape(path: Path) -> list[tuple[object]]:
    """Return what a journal's tables and indices are called, and its version."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        names = connection.execute("SELECT type || ' ' || name FROM sqlite_master ORDER BY 1").fetchall()
        return [*names, *connection.execute("PRAGMA user_version")]


def test_an_older_journal_is_upgraded_whole(old: Path, tmp_path: Path) -> None:
    assert read_position(old).marks == Marks(2, {})
    for _ in range(2):
        journal = Journal.open(old, expected_identity="0123abcd")
        assert (journal.committed_seq, journal.last_at, journal.marks) == (2000, 3000, Marks(2, {}))
        assert [found.seq for found in journal.unprojected()] == list(range(3, 2001))
        assert journal.receipts_of("main", "user", ["r2000"]).keys() == {"r2000"}
        journal.close()
    Journal.open(tmp_path / "new.db").close()
    assert shape(old) == shape(tmp_path / "new.db")


def test_a_backup_of_an_older_journal_is_upgraded_by_its_host(old: Path, tmp_path: Path) -> None:
    before = shape(old)
    assert copy_journal(old, tmp_path / "copy.db", marks=Marks(1, {})).marks == Marks(1, {})
    assert shape(old) == shape(tmp_path / "copy.db") == before
    Journal.open(tmp_path / "copy.db").close()
    assert shape(tmp_path / "copy.db")[-1] == (SCHEMA_VERSION,)


def test_an_upgrade_on_a_full_disk_keeps_the_schema(old: Path) -> None:
    before = shape(old)
    with contextlib.closing(sqlite3.connect(old)) as other:
        other.execute("SELECT * FROM meta").fetchall()  # keeps the WAL and its index, so only pages are written
        with little_space(6_000), pytest.raises((WorldFailed, StorageFailed)):
            Journal.open(old)
    assert [path.name for path in old.parent.glob("*before*")] == []
    assert shape(old) == before
    Journal.open(old).close()
    assert shape(old) != before


def test_a_folder_or_link_in_its_place_is_refused(path: Path, tmp_path: Path) -> None:
    path.mkdir()
    assert "cannot be opened" in refused(path)
    path.rmdir()
    Journal.open(tmp_path / "elsewhere.db").close()
    path.symlink_to(tmp_path / "elsewhere.db")
    assert "cannot be opened" in refused(path)


def test_a_call_on_a_full_disk_may_be_repeated(journal: Journal, path: Path) -> None:
    journal.commit([row(1)], [receipt(1)])
    pages = journal._writer.execute("PRAGMA page_count").fetchone()[0]
    journal._writer.execute(f"PRAGMA max_page_count = {pages}")
    batch = [row(2), row(3, data=b"x" * 100_000)], [receipt(2), receipt(3)]
    for _ in range(2):
        with pytest.raises(WorldFailed, match="no space"):
            journal.commit(*batch)
        assert journal.committed_seq == 1
        assert content(path) == ([1], [1])
    journal._writer.execute("PRAGMA max_page_count = 1000000")
    journal.commit(*batch)
    assert content(path) == ([1, 2, 3], [1, 2, 3])


def test_a_journal_another_program_locks_is_met_again(journal: Journal, path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    journal._writer.execute("PRAGMA busy_timeout = 20")
    try:
        with pytest.raises(WorldFailed, match="is locked by another program"):
            journal.commit([row(1)], [receipt(1)])
    finally:
        other.execute("ROLLBACK")
        other.close()
    journal.commit([row(1)], [receipt(1)])


def test_a_long_wal_begins_again(journal: Journal, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("honeybadger_host.journal.journal.LONG_WAL", 10)
    wal = path.with_name(f"{path.name}-wal")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as reader:
        journal.commit([row(1)], [receipt(1)])
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM changes").fetchone() == (1,)  # folded up to here, while it reads
        for seq in range(2, 20):
            journal.commit([row(seq, data=b"x" * 4000)], [receipt(seq)])
        assert journal.checkpoint()
        reader.execute("COMMIT")
    journal.begin_wal()
    before = wal.stat().st_size
    for seq in range(20, 25):
        journal.commit([row(seq, data=b"x" * 4000)], [receipt(seq)])
    assert wal.stat().st_size == before
    assert not journal.checkpoint()
    assert content(path)[0] == list(range(1, 25))


def test_neighbouring_changes_of_one_id_stay_apart(journal: Journal) -> None:
    def row(seq: int, at: int, sender: str) -> Row:
        return Row(seq, at, "main", sender, "r1", "note", "groups/main/MEMORY.md", seq, b"n\n")

    rows = [row(1, 1, "ann"), row(2, 1, "ann"), row(3, 1, "bob"), row(4, 9, "bob"), row(5, 9, "bob")]
    journal.commit(rows[:3], [])
    journal.commit(rows[3:], [])  # when the receipt of its first request was gone
    assert [[one.seq for one in read_request(journal.path, each)] for each in rows] == [
        *([1, 2], [1, 2], [3], [4, 5], [4, 5])
    ]
