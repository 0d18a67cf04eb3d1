"""The journal: one log of what changed, with the receipts of who asked for it (docs/decisions/001-journal.md).

SQLite in WAL mode with synchronous=FULL. One transaction takes a batch of changes and their receipts; when it
returns, the requests of the batch are done, whatever happens afterwards.
"""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from honeybadger_host.domain import REMOVED
from honeybadger_host.errors import JournalError, StorageFailed, WorldFailed

log = structlog.get_logger()

APPLICATION_ID: Final = 0x486F6E42  # "HonB"
SCHEMA_VERSION: Final = 3
SYNCHRONOUS: Final = "FULL"
_LONG_WAL: Final = 4096
"""Pages, 16 MiB."""
_IDENTICAL_WITHIN: Final = 3_600_000
_IDENTICAL_AMONG: Final = 10_000
"""Milliseconds, and changes at least. An entry says the minute in which it was decided, so the same bytes are not given
again much later; the number is for a clock that was far ahead in between."""
_MARKS: Final = """
CREATE TABLE unsettled (          -- files with changes that are not settled, though meta.settled_seq is past them
    file TEXT PRIMARY KEY,
    first_seq INTEGER NOT NULL    -- the oldest of them
) WITHOUT ROWID;
"""
_TURNS: Final = """
CREATE TABLE turns (              -- turns of agents that were begun and are not answered
    grp TEXT NOT NULL, sender TEXT NOT NULL, request TEXT NOT NULL,
    digest BLOB NOT NULL,         -- SHA-256 of the request's bytes
    seq INTEGER NOT NULL,         -- the last change when it was begun first
    attempts INTEGER NOT NULL,    -- how often it was begun and neither answered nor given up in order
    steps BLOB NOT NULL,          -- what the model answered so far, JSON lines
    PRIMARY KEY (grp, sender, request)
) WITHOUT ROWID;
"""
_SCHEMA: Final = f"""
CREATE TABLE meta (               -- identity; settled_seq, see Marks; ages
    key TEXT PRIMARY KEY, value
) WITHOUT ROWID;
CREATE TABLE changes (
    seq INTEGER PRIMARY KEY,      -- one number for each change, in the order they were decided
    at INTEGER NOT NULL,          -- milliseconds since the epoch, never falling
    grp TEXT NOT NULL, sender TEXT NOT NULL, request TEXT NOT NULL,
    kind TEXT NOT NULL,           -- note, turn; entry, working, session: whole files, with _removed when they go
    file TEXT NOT NULL,           -- what it was appended to, below the home folder
    offset INTEGER NOT NULL,      -- where, -1 when that was not known; of a whole file what it replaces
    data BLOB NOT NULL            -- the bytes as appended, written or removed
);
CREATE TABLE receipts (
    seq INTEGER PRIMARY KEY,      -- the last change of the request
    at INTEGER NOT NULL,
    grp TEXT NOT NULL, sender TEXT NOT NULL, request TEXT NOT NULL,
    digest BLOB NOT NULL,         -- SHA-256 of the request's bytes
    reply BLOB NOT NULL,
    UNIQUE (grp, sender, request)
);
{_MARKS}{_TURNS}"""
_FORWARD: Final = {
    1: _MARKS + "UPDATE meta SET key = 'settled_seq' WHERE key = 'projected_seq'",  # noqa: S608  constants
    2: _TURNS,
}
"""Schema version -> what makes the next one of it."""


class Row(NamedTuple):
    """One change as the journal keeps it; the columns of `changes`."""

    seq: int
    at: int
    group: str
    sender: str
    request: str
    kind: str
    file: str
    offset: int
    data: bytes


class Receipt(NamedTuple):
    """A request that is done; the columns of `receipts`."""

    seq: int
    at: int
    group: str
    sender: str
    request: str
    digest: bytes
    reply: bytes


class TurnKey(NamedTuple):
    """Which turn; the key of `turns`."""

    group: str
    sender: str
    request: str


class BegunTurn(NamedTuple):
    """What is known of a turn that begins.

    Args:
        attempts: how often it was begun before and cut short by an end of the host, this time included.
        steps: what the model answered before that, as given to `keep_step`.
    """

    attempts: int
    steps: Sequence[bytes]


class Marks(NamedTuple):
    """Which changes are settled: they stand durably in their files, and recovery does not look for them.

    Args:
        settled_seq: all changes up to it are, but for those of the files in `unsettled`.
        unsettled: file -> the oldest change of it that is not. So one file that cannot be written, or that was just
            written, does not bring back what a person has deleted from another.
    """

    settled_seq: int
    unsettled: Mapping[str, int]

    @property
    def projected_seq(self) -> int:
        """Every change up to it is settled."""
        return min(self.unsettled.values(), default=self.settled_seq + 1) - 1

    def up_to(self, other: Marks) -> Marks:
        """Return what both say is settled."""
        settled_seq = min(self.settled_seq, other.settled_seq)
        unsettled = dict(self.unsettled)
        for file, seq in other.unsettled.items():
            unsettled[file] = min(seq, unsettled.get(file, seq))
        return Marks(settled_seq, {file: seq for file, seq in unsettled.items() if seq <= settled_seq})


class Glance(NamedTuple):
    """A journal as it was at one moment; see `Journal`."""

    identity: str
    committed_seq: int
    marks: Marks

    @property
    def projected_seq(self) -> int:
        return self.marks.projected_seq


@dataclass(slots=True)
class Journal:
    """The open journal. What writes (`commit`, the turns, `mark_projected`, `prune_receipts`, `begin_wal`) is called by
    one thread at a time; `receipts_of` by one other, and `checkpoint` by a third; all may run at once.

    Args:
        next_seq: number for the next change; owned by the event loop.
        committed_seq: number of the last change that is durable.
        marks: what of it stands in the files.
    """

    path: Path
    identity: str
    next_seq: int
    committed_seq: int
    last_at: int
    marks: Marks
    _writer: sqlite3.Connection
    _reader: sqlite3.Connection
    _folder: sqlite3.Connection
    _newest: dict[tuple[str, str], str] = field(default_factory=dict)
    """(group, sender) -> the greatest request id it has a receipt for, or greater."""

    @classmethod
    def open(cls, path: Path, *, expected_identity: str | None = None) -> Journal:
        """Open the journal, making it when this home never had one.

        Args:
            expected_identity: identity of the journal this home had before; then it must be there.
        Raises:
            JournalError: it is missing, damaged, another home's, of another version, or cannot be opened.
        """
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            size = -1
        if size <= 0 and expected_identity is not None:
            raise _gone(path, "is missing" if size < 0 else "is empty", expected_identity)
        try:
            writer = _connect(path)
            try:
                return cls._from(path, writer, expected_identity=expected_identity)
            except BaseException:
                writer.close()
                raise
        except sqlite3.Error as error:
            raise _translated(error, path) from error
        except OSError as error:
            raise JournalError(
                f"{path} cannot be opened ({error.strerror}): the host needs a plain file there"
            ) from None

    @classmethod
    def _from(cls, path: Path, writer: sqlite3.Connection, *, expected_identity: str | None) -> Journal:
        application = writer.execute("PRAGMA application_id").fetchone()[0]
        if application == 0 and not writer.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            # new; or the first start was cut short after SQLite wrote its header and before our tables were committed
            if expected_identity is not None:
                raise _gone(path, "is empty", expected_identity)
            _use_wal(writer)
            writer.execute("BEGIN IMMEDIATE")
            _execute_all(writer, _SCHEMA)
            writer.execute("INSERT INTO meta VALUES ('identity', ?), ('settled_seq', 0)", (uuid.uuid4().hex,))
            writer.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            writer.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            writer.execute("COMMIT")
            application = APPLICATION_ID
        version = writer.execute("PRAGMA user_version").fetchone()[0]
        if application != APPLICATION_ID:
            raise JournalError(
                f"{path} is a database, but not a Honeybadger journal: move it away or choose another home"
            )
        if not 1 <= version <= SCHEMA_VERSION:
            raise _unknown(path, version)
        _use_wal(writer)
        meta = dict(writer.execute("SELECT key, value FROM meta"))
        if expected_identity is not None and meta["identity"] != expected_identity:
            raise JournalError(
                f"{path} is the journal of another home ({meta['identity']}, expected {expected_identity}): put "
                f"the right one back; or remove {path.parent / 'host.lock'} if the exchange was meant"
            )
        if version != SCHEMA_VERSION:
            _bring_forward(writer, path)
            log.info("journal.brought_forward", before=version, now=SCHEMA_VERSION)
        newest = "SELECT seq, at FROM changes ORDER BY seq DESC LIMIT 1"
        last_seq, last_at = writer.execute(newest).fetchone() or (0, 0)
        marks = _read_marks(writer)
        with ExitStack() as opened:
            reader, folder = (opened.enter_context(closing(_connect(path))) for _ in range(2))
            opened.pop_all()
        return cls(path, str(meta["identity"]), last_seq + 1, last_seq, last_at, marks, writer, reader, folder)

    @property
    def projected_seq(self) -> int:
        """Every change up to it stands durably in its file."""
        return self.marks.projected_seq

    def close(self) -> None:
        """Fold the WAL into the database and close."""
        self._reader.close()
        self._folder.close()
        try:
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error:
            pass  # the WAL stays and is read at the next start
        finally:
            self._writer.close()

    def commit(self, changes: Sequence[Row], receipts: Sequence[Receipt], ended: Sequence[TurnKey] = ()) -> None:
        """Make changes and receipts durable, all or none.

        Args:
            ended: turns that are answered by this.
        Raises:
            WorldFailed: no space; nothing was written, the same call may succeed later.
            StorageFailed: the disk failed; nothing more may be acknowledged.
        """
        with self._transaction() as connection:
            connection.executemany("INSERT INTO changes VALUES (?,?,?,?,?,?,?,?,?)", changes)
            connection.executemany("INSERT INTO receipts VALUES (?,?,?,?,?,?,?)", receipts)
            if ended:
                connection.executemany("DELETE FROM turns WHERE grp=? AND sender=? AND request=?", ended)
        self.committed_seq = changes[-1].seq
        for receipt in receipts:
            key = (receipt.group, receipt.sender)
            if receipt.request > self._newest.get(key, "~"):
                self._newest[key] = receipt.request

    def mark_projected(self, seq: int, unsettled: Mapping[str, int] | None = None) -> None:
        """Keep what stands durably in its file: recovery begins behind it.

        Args:
            seq: every change up to it, but for those of the files in `unsettled`.
            unsettled: file -> its oldest change that does not, or may still be dropped by an editor; see `Marks`.
        """
        seq = min(seq, self.committed_seq)  # a number decided and not committed is given again after a restart
        marks = Marks(seq, {file: first for file, first in (unsettled or {}).items() if first <= seq})
        if seq < self.marks.settled_seq or marks == self.marks:
            return
        with self._transaction() as connection:
            _write_marks(connection, marks, self.marks)
        self.marks = marks

    def receipts_of(self, group: str, sender: str, requests: Sequence[str]) -> dict[str, tuple[bytes, bytes]]:
        """Return request id -> (digest, reply) for those of `requests` (at most 512) that are done.

        Ids that sort by time are greater than all before them: for those nothing is looked up (5 us each).
        """
        try:
            newest = self._newest.get((group, sender))
            if newest is None:
                query = "SELECT coalesce(max(request), '') FROM receipts WHERE grp=? AND sender=?"
                newest = self._newest[group, sender] = self._reader.execute(query, (group, sender)).fetchone()[0]
        except sqlite3.Error as error:
            raise _translated(error, self.path) from error
        requests = [request for request in requests if request <= newest]
        if not requests:
            return {}
        marks = ",".join("?" * len(requests))
        query = f"SELECT request, digest, reply FROM receipts WHERE grp=? AND sender=? AND request IN ({marks})"  # noqa: S608  only question marks
        try:
            return {row[0]: (row[1], row[2]) for row in self._reader.execute(query, (group, sender, *requests))}
        except sqlite3.Error as error:
            raise _translated(error, self.path) from error

    def count_between(self, begin: int, end: int, kinds: Collection[str]) -> dict[tuple[str, str], int]:
        """Return (group, sender) -> changes of these kinds that it made from `begin` and before `end`.

        Args:
            begin, end: milliseconds since the epoch. Changes stamped by a clock that was ahead are beyond the end.
        """
        query = "SELECT at, seq FROM changes WHERE seq >= ? ORDER BY seq LIMIT 1"
        low, high = 1, self.next_seq
        try:
            while low < high:  # times never fall: the first change, in 40 steps instead of a whole scan
                middle = (low + high) // 2
                row = self._reader.execute(query, (middle,)).fetchone()
                if row is None or row[0] >= begin:
                    high = middle
                else:
                    low = row[1] + 1
            marks = ",".join("?" * len(kinds))
            counts = self._reader.execute(
                f"SELECT grp, sender, count(*) FROM changes WHERE seq >= ? AND at < ? AND kind IN ({marks}) "  # noqa: S608  only question marks
                "GROUP BY grp, sender",
                (low, end, *kinds),
            )
            return {(group, sender): count for group, sender, count in counts}
        except sqlite3.Error as error:
            raise _translated(error, self.path) from error

    def unprojected(self) -> Iterator[Row]:
        """Return the changes that may not stand in their files, oldest first."""
        first = self.projected_seq + 1
        of_some = (  # CROSS: in this order, one scan whatever the number of files
            "SELECT changes.* FROM changes CROSS JOIN unsettled USING (file) "
            "WHERE seq BETWEEN ? AND ? AND seq >= first_seq ORDER BY seq"
        )
        of_all = "SELECT * FROM changes WHERE seq > ? ORDER BY seq"
        try:
            yield from map(Row._make, self._writer.execute(of_some, (first, self.marks.settled_seq)))
            yield from map(Row._make, self._writer.execute(of_all, (self.marks.settled_seq,)))
        except sqlite3.Error as error:
            raise _translated(error, self.path) from error

    def count_projected(self, file: str, entries: Collection[bytes], before: int) -> Counter[bytes]:
        """Return how many changes before the seq `before` appended just each of `entries` to `file`; for repairs.

        Reads the changes of the hour before, and 10,000 at least: an index by file would make every commit dearer.
        """
        query = "SELECT data FROM changes WHERE seq >= ? AND seq < ? AND file = ?"
        try:
            first = self._first_since(before)
            return Counter(row[0] for row in self._writer.execute(query, (first, before, file)) if row[0] in entries)
        except sqlite3.Error as error:
            raise _translated(error, self.path) from error

    def _first_since(self, seq: int) -> int:
        """Return a seq before which all is older by an hour, and by some changes, than `seq`. Times never fall."""
        query = "SELECT seq, at FROM changes WHERE seq >= ? ORDER BY seq LIMIT 1"
        newest = self._writer.execute(query, (seq,)).fetchone()
        since = (self.last_at if newest is None else newest[1]) - _IDENTICAL_WITHIN
        low, high = 0, seq
        while low < high:
            middle = (low + high) // 2
            found, at = self._writer.execute(query, (middle,)).fetchone() or (seq, since)
            low, high = (found + 1, high) if at < since else (low, middle)
        return min(low, seq - _IDENTICAL_AMONG)

    def last_written(self, file: str) -> bytes | None:
        """Return what a whole file was given last; None: never, or it was removed since. Any thread; for repairs."""
        query = "SELECT kind, data FROM changes WHERE file = ? ORDER BY seq DESC LIMIT 1"
        try:
            with closing(_connect_to_read(self.path)) as connection:
                row = connection.execute(query, (file,)).fetchone()
        except sqlite3.Error as error:
            raise _translated(error, self.path) from error
        return None if row is None or row[0].endswith(REMOVED) else row[1]

    def prune_receipts(self, up_to: int, *, most: int = 5000) -> int:
        """Forget at most `most` receipts of changes up to `up_to`, the oldest first, and turns begun before; return how
        many receipts."""
        oldest = "SELECT seq FROM receipts WHERE seq <= ? ORDER BY seq LIMIT ?"
        with self._transaction() as connection:
            connection.execute("DELETE FROM turns WHERE seq <= ?", (up_to,))
            return connection.execute(f"DELETE FROM receipts WHERE seq IN ({oldest})", (up_to, most)).rowcount  # noqa: S608  a constant

    def begin_turn(self, turn: TurnKey, digest: bytes) -> BegunTurn:
        """Count the beginning of a turn; return what an attempt before left. Raises as `commit`.

        Args:
            digest: SHA-256 of the request; what was kept for other bytes under the same id is forgotten.
        """
        with self._transaction() as connection:
            row = connection.execute(
                "SELECT attempts, steps FROM turns WHERE grp=? AND sender=? AND request=? AND digest=?", (*turn, digest)
            ).fetchone()
            attempts, steps = (row[0] + 1, row[1]) if row else (1, b"")
            if row is None:
                connection.execute(
                    "INSERT OR REPLACE INTO turns VALUES (?,?,?,?,?,1,x'')", (*turn, digest, self.committed_seq)
                )
            else:
                connection.execute(
                    "UPDATE turns SET attempts = ? WHERE grp=? AND sender=? AND request=?", (attempts, *turn)
                )
        return BegunTurn(attempts, steps.splitlines())

    def keep_step(self, turn: TurnKey, step: bytes) -> None:
        """Keep one more answer of the model, one line of JSON, before its tools run. Raises as `commit`."""
        with self._transaction() as connection:
            connection.execute(
                "UPDATE turns SET steps = CAST(steps || ? AS BLOB) WHERE grp=? AND sender=? AND request=?",
                (step + b"\n", *turn),
            )

    def give_up_turn(self, turn: TurnKey) -> None:
        """Count no attempt of a turn that ended in order without an answer; asked again it goes on. Raises as `commit`.

        What an attempt did stays done: its steps are kept as long as a receipt would be.
        """
        with self._transaction() as connection:
            connection.execute("UPDATE turns SET attempts = 0 WHERE grp=? AND sender=? AND request=?", turn)

    def forget_turn(self, turn: TurnKey) -> None:
        """Forget a turn that nobody will try again. Raises as `commit`."""
        with self._transaction() as connection:
            connection.execute("DELETE FROM turns WHERE grp=? AND sender=? AND request=?", turn)

    def kept_ages(self) -> list[float]:
        """Return what `keep_ages` kept, nothing when it never did."""
        row = self._writer.execute("SELECT value FROM meta WHERE key = 'ages'").fetchone()
        return [float(number) for number in row[0].split()] if row else []

    def keep_ages(self, numbers: Sequence[float]) -> None:
        """Keep how long hosts served this home; see `clock.Ages`."""
        with self._transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('ages', ?)", (" ".join(map(repr, numbers)),))

    def checkpoint(self) -> bool:
        """Fold the WAL into the database beside whoever commits; return whether `begin_wal` is due.

        That is when it is long and something was committed meanwhile: only a WAL that is folded to its end begins anew.
        """
        try:
            _, pages, folded = self._folder.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.Error as error:
            raise _translated(error, self.path) from error
        return bool(folded < pages > _LONG_WAL)

    def begin_wal(self) -> None:
        """Fold the rest of the WAL, so that the next commit begins it anew. Whoever wants to commit waits."""
        try:
            self._writer.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
        except sqlite3.Error as error:
            raise _translated(error, self.path) from error

    def _transaction(self) -> _Transaction:
        return _Transaction(self._writer, self.path)


class _Transaction:
    """One write transaction: committed at the end, rolled back on any error, errors translated."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    def __enter__(self) -> sqlite3.Connection:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise _translated(error, self._path) from error
        return self._connection

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                self._connection.execute("COMMIT")
                return
        except sqlite3.Error as failed:
            error = failed
        if self._connection.in_transaction:
            try:
                self._connection.execute("ROLLBACK")
            except sqlite3.Error as failed:
                raise StorageFailed(f"{self._path}: cannot roll back: {failed}") from failed
        if isinstance(error, sqlite3.Error):
            raise _translated(error, self._path) from error


def read_log(path: Path, group: str, limit: int) -> list[Row]:
    """Return the newest changes of a group, newest first, from a journal a host may have open. Raises JournalError."""
    try:
        with closing(_connect_to_read(path)) as connection:
            query = "SELECT * FROM changes WHERE grp = ? ORDER BY seq DESC LIMIT ?"
            return [Row._make(row) for row in connection.execute(query, (group, limit))]
    except sqlite3.Error as error:
        raise JournalError(f"cannot read {path}: {error}") from error


def read_change(path: Path, seq: int) -> Row | None:
    """Return one change from a journal a host may have open. Raises JournalError."""
    try:
        with closing(_connect_to_read(path)) as connection:
            row = connection.execute("SELECT * FROM changes WHERE seq = ?", (seq,)).fetchone()
            return None if row is None else Row._make(row)
    except sqlite3.Error as error:
        raise JournalError(f"cannot read {path}: {error}") from error


def read_request(path: Path, row: Row) -> list[Row]:
    """Return all changes of the request that a change belongs to, in order. Raises JournalError."""
    try:
        with closing(_connect_to_read(path)) as connection:
            query = "SELECT * FROM changes WHERE seq BETWEEN ? - 8 AND ? + 8 ORDER BY seq"  # it has a few, in a row
            rows = map(Row._make, connection.execute(query, (row.seq, row.seq)))
            same = (row.group, row.sender, row.request)
            return [other for other in rows if (other.group, other.sender, other.request) == same]
    except sqlite3.Error as error:
        raise JournalError(f"cannot read {path}: {error}") from error


def read_earlier(path: Path, row: Row, is_it: Callable[[bytes], bool]) -> bytes | None:
    """Return the newest bytes that an earlier change of the same file has and that are the wanted ones.

    None: no change has them. Raises JournalError.
    """
    try:
        with closing(_connect_to_read(path)) as connection:
            query = "SELECT data FROM changes WHERE file = ? AND seq < ? ORDER BY seq DESC"
            earlier = connection.execute(query, (row.file, row.seq))
            return next((data for (data,) in earlier if is_it(data)), None)
    except sqlite3.Error as error:
        raise JournalError(f"cannot read {path}: {error}") from error


def glance(path: Path) -> Glance:
    """Return where a journal stands that a host may have open. Raises JournalError."""
    try:
        with closing(_connect_to_read(path)) as connection:
            return _glance(connection)
    except (sqlite3.Error, LookupError) as error:
        raise JournalError(f"cannot read {path}: {error}") from error


def copy_journal(path: Path, to: Path, *, marks: Marks) -> Glance:
    """Copy a journal that a host may have open, as it is at one moment, into one checked file; return what it holds.

    Args:
        to: must not exist.
        marks: what the copy says of itself at most: a restored host looks for every other change.
    Raises:
        JournalError: it is damaged, or cannot be read.
        WorldFailed: no space for the copy.
    """
    os.close(os.open(to, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    try:
        with closing(_connect_to_read(path)) as source, closing(sqlite3.connect(to, isolation_level=None)) as copy:
            copy.execute("PRAGMA synchronous = OFF")  # whoever packs it makes that durable
            source.backup(copy)  # in one step, so under one read lock: writers of a WAL do not wait for it
            copy.execute("PRAGMA journal_mode = DELETE")  # one file
            _bring_forward(copy, path)
            held = _read_marks(copy)
            _write_marks(copy, held.up_to(marks), held)
            verdict = copy.execute("PRAGMA quick_check(1)").fetchone()[0]
            if verdict != "ok":
                raise JournalError(f"{path} is damaged ({verdict}): a backup of it would be none")
            return _glance(copy)
    except (sqlite3.Error, LookupError) as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            raise WorldFailed(f"cannot copy {path} to {to}: {error}") from error
        raise JournalError(f"cannot copy {path}: {error}") from error


def _connect_to_read(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=5)


def _glance(connection: sqlite3.Connection) -> Glance:
    connection.execute("BEGIN")  # one moment for all of it
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    last = connection.execute("SELECT coalesce(max(seq), 0) FROM changes").fetchone()[0]
    found = Glance(str(meta["identity"]), int(last), _read_marks(connection))
    connection.execute("COMMIT")
    return found


def _read_marks(connection: sqlite3.Connection) -> Marks:
    """Return the marks of a journal of any version that was."""
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    if "projected_seq" in meta:  # version 1 had one mark for all files
        return Marks(int(meta["projected_seq"]), {})
    return Marks(int(meta["settled_seq"]), dict(connection.execute("SELECT file, first_seq FROM unsettled")))


def _write_marks(connection: sqlite3.Connection, marks: Marks, before: Marks) -> None:
    connection.execute("UPDATE meta SET value = ? WHERE key = 'settled_seq'", (marks.settled_seq,))
    gone = [(file,) for file in before.unsettled if file not in marks.unsettled]
    changed = [item for item in marks.unsettled.items() if before.unsettled.get(item[0]) != item[1]]
    connection.executemany("DELETE FROM unsettled WHERE file = ?", gone)
    connection.executemany("INSERT OR REPLACE INTO unsettled VALUES (?, ?)", changed)


def _bring_forward(connection: sqlite3.Connection, path: Path) -> None:
    """Make the current schema of an older one, all or nothing. Raises JournalError: it is of a later version."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if not 1 <= version <= SCHEMA_VERSION:
        raise _unknown(path, version)
    connection.execute("BEGIN IMMEDIATE")
    try:
        while version < SCHEMA_VERSION:
            _execute_all(connection, _FORWARD[version])
            version += 1
        connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _execute_all(connection: sqlite3.Connection, statements: str) -> None:
    """Run statements one by one, in the transaction that is open."""
    for statement in statements.split(";\n"):
        if statement.strip():
            connection.execute(statement)


def _unknown(path: Path, version: int) -> JournalError:
    return JournalError(f"{path} has schema {version}, this host knows {SCHEMA_VERSION}: run the version that made it")


def _connect(path: Path) -> sqlite3.Connection:
    """Open one connection; the file is made 0600. Statements run outside a transaction unless BEGIN was said."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False, cached_statements=64)
    try:
        connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
        connection.execute("PRAGMA wal_autocheckpoint = 0")  # a commit never pays for it; `checkpoint` does
        connection.execute("PRAGMA foreign_keys = OFF")
    except BaseException:
        connection.close()
        raise
    return connection


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to the WAL, which the file remembers: only for a database that is known to be a journal, or new."""
    connection.execute("PRAGMA journal_mode = WAL")


def _gone(path: Path, state: str, identity: str) -> JournalError:
    return JournalError(
        f"{path} {state}, but this home had a journal ({identity}). Starting without it would forget which requests "
        f"were done. Restore it from a backup; or, if you accept that, remove {path.parent / 'host.lock'} and start "
        f"again: notes and turns in the files stay."
    )


def _translated(error: sqlite3.Error, path: Path) -> Exception:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return WorldFailed(f"no space for {path}: free some; the requests wait")
    if code == sqlite3.SQLITE_BUSY:
        return WorldFailed(f"{path} is locked by another program; the requests wait")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return JournalError(
            f"{path} is damaged ({error}). Stop, keep a copy, restore a backup, or try `sqlite3 {path} .recover`; "
            f"the Markdown and JSONL files are not affected."
        )
    if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
        return StorageFailed(f"{path}: {error}: nothing more can be acknowledged; check the disk and its permissions")
    return JournalError(f"{path}: {error}")
