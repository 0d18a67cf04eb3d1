"""The journal's file: what its tables hold, how older ones are brought forward, connections and their errors."""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from honeybadger_host.errors import JournalError, StorageFailed, WorldFailed, may_clear

APPLICATION_ID: Final = 0x486F6E42  # "HonB"
SCHEMA_VERSION: Final = 7
SYNCHRONOUS: Final = "FULL"
LAST_SEQ: Final = (1 << 63) - 1
"""The greatest number SQLite knows."""
LOG_SEQ: Final = "log_seq"
"""In `meta`: the last message of the shared log that this journal has; missing where it is of one machine."""
FILES_BEHIND: Final = "files_behind"
"""In `meta`: another machine has owned the home since the files of this one were kept up."""
FORGOTTEN_BASE: Final = -2
"""In place of the fingerprint of what a file held, of which something was forgotten since."""
LONGEST_ID: Final = 60
"""Characters of a turn's id in its name."""
TOOL_REQUEST: Final = re.compile(r"(?P<turn>(?P<id>.+)\.[0-9a-f]{12})\.\d+\.\d+", re.DOTALL)
"""What a turn's tools call their requests: the turn's name, which begins with its id; the answer; the call in it."""
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
_SPENT: Final = """
CREATE TABLE spent (              -- what models cost that looked after memory
    day TEXT NOT NULL, grp TEXT NOT NULL, kind TEXT NOT NULL,
    tokens INTEGER NOT NULL,      -- booked before each call, settled after it
    PRIMARY KEY (day, grp, kind)
) WITHOUT ROWID;
"""
_EDITS: Final = """
CREATE TABLE edits (              -- what people changed in files, as far as the host noticed
    seq INTEGER PRIMARY KEY,      -- of one sequence with `changes`
    at INTEGER NOT NULL,          -- milliseconds since the epoch, when it was noticed
    grp TEXT NOT NULL, author TEXT NOT NULL,
    event INTEGER NOT NULL,       -- the first seq of what was noticed together
    file TEXT NOT NULL,           -- below the home folder
    before BLOB, after BLOB,      -- the first 16 bytes of the SHA-256 of the file; NULL: there was none
    hunks BLOB                    -- JSON: [line, [hashes removed], [hashes added]] each; NULL: the text was not kept
);
CREATE TABLE lines (              -- the lines of all edits, each once
    hash BLOB PRIMARY KEY, text BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE seen (               -- files of people as they were looked at last
    file TEXT PRIMARY KEY,
    seq INTEGER NOT NULL,         -- with all changes of the host up to it
    inode INTEGER NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, ctime_ns INTEGER NOT NULL,
    length INTEGER NOT NULL, digest BLOB NOT NULL,
    text BLOB                     -- zlib; NULL: not kept
) WITHOUT ROWID;
"""
_TASKS: Final = """
CREATE TABLE tasks (              -- the newest record of each task
    grp TEXT NOT NULL, task TEXT NOT NULL,
    seq INTEGER NOT NULL,         -- of `changes`
    PRIMARY KEY (grp, task)
) WITHOUT ROWID;
"""
_FORGOTTEN: Final = """
CREATE TABLE emptied (            -- changes and edits of which something was forgotten
    seq INTEGER PRIMARY KEY,
    digest BLOB NOT NULL          -- salted SHA-256 of what they held
);
CREATE TABLE tombstones (         -- what is not to be learnt again, see storage/tombstones.py
    grp TEXT NOT NULL, words INTEGER NOT NULL, digest BLOB NOT NULL,
    PRIMARY KEY (grp, words, digest)
) WITHOUT ROWID;
"""
SCHEMA: Final = f"""
CREATE TABLE meta (               -- identity; settled_seq, see Marks; ages; pushed; salt, forgetting; of several
                                  -- machines log_seq, log_chain, files_behind
    key TEXT PRIMARY KEY, value
) WITHOUT ROWID;
CREATE TABLE changes (
    seq INTEGER PRIMARY KEY,      -- one number for each change, in the order they were decided
    at INTEGER NOT NULL,          -- milliseconds since the epoch, never falling
    grp TEXT NOT NULL, sender TEXT NOT NULL, request TEXT NOT NULL,
    kind TEXT NOT NULL,           -- note, note_archived, turn, feedback, message, task_record; entry, working, session,
                                  -- task: whole files, with _removed when they go; note_removed, note_restored,
                                  -- note_edited, edit_undone: see storage/revised.py
    file TEXT NOT NULL,           -- what it was appended to, below the home folder
    offset INTEGER NOT NULL,      -- where, -1 when that was not known; of a file that is replaced what it held
    data BLOB NOT NULL            -- the bytes as appended, written or removed
);
CREATE TABLE receipts (
    seq INTEGER PRIMARY KEY,      -- the last change of the request; of one without changes a number of its own
    at INTEGER NOT NULL,
    grp TEXT NOT NULL, sender TEXT NOT NULL, request TEXT NOT NULL,
    digest BLOB NOT NULL,         -- SHA-256 of the request's bytes
    reply BLOB NOT NULL,
    UNIQUE (grp, sender, request)
);
{_MARKS}{_TURNS}{_SPENT}{_EDITS}{_TASKS}{_FORGOTTEN}"""
EDITS_OF_FILE: Final = "CREATE INDEX IF NOT EXISTS edits_of_file ON edits (file, seq)"
"""Not of the schema: a host that does not know it keeps it up all the same."""
_FORWARD: Final = {
    1: _MARKS + "UPDATE meta SET key = 'settled_seq' WHERE key = 'projected_seq'",  # noqa: S608  constants
    2: _TURNS,
    3: _SPENT,
    4: _EDITS,
    5: _TASKS,
    6: _FORGOTTEN,
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


def turn_name(turn: TurnKey, digest: bytes) -> str:
    """Return what the requests of a turn's tools begin with, unlike those of any other turn."""
    told_apart = hashlib.sha256(f"{turn.sender}\0{turn.request}\0".encode() + digest).hexdigest()[:12]
    return f"{turn.request[:LONGEST_ID]}.{told_apart}"


class BegunTurn(NamedTuple):
    """What is known of a turn that begins.

    Args:
        attempts: how often it was begun before and cut short by an end of the host, this time included.
        steps: what the model answered before that, as given to `keep_step`.
    """

    attempts: int
    steps: Sequence[bytes]


class Spent(NamedTuple):
    """Tokens that a model cost; negative where less was needed than was booked.

    Args:
        day: UTC, as 2026-11-22.
        kind: what it was for.
    """

    day: str
    group: str
    kind: str
    tokens: int


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

    def first_unsettled(self, file: str) -> int:
        """Return a seq before which all changes of a file are settled."""
        return self.unsettled.get(file, self.settled_seq + 1)

    def up_to(self, other: Marks) -> Marks:
        """Return what both say is settled."""
        settled_seq = min(self.settled_seq, other.settled_seq)
        unsettled = dict(self.unsettled)
        for file, seq in other.unsettled.items():
            unsettled[file] = min(seq, unsettled.get(file, seq))
        return Marks(settled_seq, {file: seq for file, seq in unsettled.items() if seq <= settled_seq})


class JournalPosition(NamedTuple):
    """A journal as it was at one moment; see `Journal`."""

    identity: str
    committed_seq: int
    marks: Marks

    @property
    def projected_seq(self) -> int:
        return self.marks.projected_seq


class SharedLog(Protocol):
    """Takes each transaction before the journal of this machine does, where several machines keep one journal."""

    def record(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        """Return what runs the statements of a transaction, and remembers those that write."""

    def commit(self, connection: sqlite3.Connection) -> None:
        """Make what was remembered durable on other machines, then here. Raises StorageFailed, sqlite3.Error."""


class Transaction:
    """One write transaction: committed at the end, rolled back on any error, errors translated.

    Args:
        shared: takes it first; None: it is of this machine alone.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path, shared: SharedLog | None = None) -> None:
        self._connection = connection
        self._path = path
        self._shared = shared

    def __enter__(self) -> sqlite3.Connection:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise translated(error, self._path) from error
        return self._connection if self._shared is None else self._shared.record(self._connection)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                if self._shared is None:
                    self._connection.execute("COMMIT")
                else:
                    self._shared.commit(self._connection)
                return
        except (sqlite3.Error, StorageFailed) as failed:
            error = failed
        if self._connection.in_transaction:
            try:
                self._connection.execute("ROLLBACK")
            except sqlite3.Error as failed:
                raise StorageFailed(f"{self._path}: cannot roll back: {failed}") from failed
        if isinstance(error, sqlite3.Error):
            raise translated(error, self._path) from error
        if kind is None and error is not None:
            raise error


def make_file(path: Path) -> None:
    """Make the file 0600 when it is not there. Raises OSError: it is not a plain file, or cannot be made.

    Only before the first connection: a process that closes the file gives up all its locks on it, and without them the
    next program that opens the journal takes the WAL away (SQLite, "How to corrupt", 2.2).
    """
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))


def connect(path: Path, *, is_shared: bool = False) -> sqlite3.Connection:
    """Open one connection to a file that is there. Statements run outside a transaction unless BEGIN was said.

    Args:
        is_shared: what a power cut takes of it is in the shared log.
    """
    connection = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False, cached_statements=64)
    try:
        connection.execute(f"PRAGMA synchronous = {'NORMAL' if is_shared else SYNCHRONOUS}")
        connection.execute("PRAGMA wal_autocheckpoint = 0")  # a commit never pays for it; `checkpoint` does
        connection.execute("PRAGMA foreign_keys = OFF")
    except BaseException:
        connection.close()
        raise
    return connection


def connect_to_read(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=5)


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a journal, which a host may have open, to read it. Raises JournalError, also for what is done with it."""
    try:
        with closing(connect_to_read(path)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise JournalError(f"cannot read {path}: {error}") from error


def read_rows(path: Path, query: str, values: Sequence[object] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query from a journal that a host may have open. Raises JournalError."""
    with reading(path) as connection:
        yield from connection.execute(query, values)


def read_meta(path: Path, key: str) -> Any:
    """Return what `meta` says, of a journal that a host may have open; None: nothing. Raises JournalError."""
    return next((value for (value,) in read_rows(path, "SELECT value FROM meta WHERE key = ?", (key,))), None)


def use_wal(connection: sqlite3.Connection) -> None:
    """Switch to the WAL, which the file remembers: only for a database that is known to be a journal, or new."""
    connection.execute("PRAGMA journal_mode = WAL")


def execute_all(connection: sqlite3.Connection, statements: str) -> None:
    """Run statements one by one, in the transaction that is open."""
    for statement in statements.split(";\n"):
        if statement.strip():
            connection.execute(statement)


def bring_forward(connection: sqlite3.Connection, path: Path) -> None:
    """Make the current schema of an older one, all or nothing. Raises JournalError: it is of a later version."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if not 1 <= version <= SCHEMA_VERSION:
        raise unknown_version(path, version)
    connection.execute("BEGIN IMMEDIATE")
    try:
        while version < SCHEMA_VERSION:
            execute_all(connection, _FORWARD[version])
            version += 1
        connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def unknown_version(path: Path, version: int) -> JournalError:
    return JournalError(f"{path} has schema {version}, this host knows {SCHEMA_VERSION}: run the version that made it")


def read_marks(connection: sqlite3.Connection) -> Marks:
    """Return the marks of a journal of any version that was."""
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    if "projected_seq" in meta:  # version 1 had one mark for all files
        return Marks(int(meta["projected_seq"]), {})
    return Marks(int(meta["settled_seq"]), dict(connection.execute("SELECT file, first_seq FROM unsettled")))


def write_marks(connection: sqlite3.Connection, marks: Marks, before: Marks) -> None:
    connection.execute("UPDATE meta SET value = ? WHERE key = 'settled_seq'", (marks.settled_seq,))
    gone = [(file,) for file in before.unsettled if file not in marks.unsettled]
    changed = [item for item in marks.unsettled.items() if before.unsettled.get(item[0]) != item[1]]
    connection.executemany("DELETE FROM unsettled WHERE file = ?", gone)
    connection.executemany("INSERT OR REPLACE INTO unsettled VALUES (?, ?)", changed)


@contextmanager
def translating(path: Path) -> Iterator[None]:
    """Raise what SQLite says of the journal as `translated` has it."""
    try:
        yield
    except sqlite3.Error as error:
        raise translated(error, path) from error


def translated(error: sqlite3.Error, path: Path) -> Exception:
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
    if may_clear(error):
        return StorageFailed(f"{path}: {error}: nothing more can be acknowledged; check the disk and its permissions")
    return JournalError(f"{path}: {error}")
