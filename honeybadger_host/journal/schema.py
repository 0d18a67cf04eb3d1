"""The journal's database: its tables, older versions included, their rows as values, and connections to it.

Triggers keep a digest of each change and receipt, so that a bit that flipped in the file is noticed: whatever inserts,
changes or deletes such a row does so through `know_digests`.
"""

import hashlib
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import orjson

from honeybadger_host.errors import JournalError, StorageFailed, WorldFailed, may_clear
from honeybadger_host.files.safe_files import connect_to_read
from honeybadger_host.journal.changes import TASK_RECORD

ROWS_AT_ONCE = 1000  # changes that are read, or checked in 20 ms, together
COLUMNS = {
    "changes": ("seq", "at", "grp", "sender", "request", "kind", "file", "offset", "data"),
    "receipts": ("seq", "at", "grp", "sender", "request", "digest", "reply"),
}
NUMBERS = {"changes": 0, "receipts": 2}


def row_digest(*values: object) -> bytes:
    """Return eight bytes that tell the values of a row, with their types."""
    return hashlib.blake2b(ascii(values).encode(), digest_size=8).digest()


def know_digests(connection: sqlite3.Connection) -> None:
    """Let a connection write rows that have digests."""
    connection.create_function("row_digest", -1, row_digest, deterministic=True)
    connection.execute("PRAGMA trusted_schema = ON")  # triggers call it; SQLite may be built to distrust them


def _triggers(table: str, columns: Sequence[str]) -> str:
    number = NUMBERS[table]
    new, old = (", ".join(f"{row}.{column}" for column in columns) for row in ("NEW", "OLD"))
    changed, left = f"id = 4 * OLD.seq + {number}", f"digest = row_digest({old})"
    return f"""
CREATE TRIGGER {table}_inserted AFTER INSERT ON {table} BEGIN
    INSERT OR REPLACE INTO digests VALUES (4 * NEW.seq + {number}, row_digest({new})); END;
CREATE TRIGGER {table}_updated AFTER UPDATE ON {table} BEGIN -- a row that was damaged before stays known as damaged
    UPDATE digests SET digest = row_digest({new}) WHERE {changed} AND {left}; END;
CREATE TRIGGER {table}_deleted AFTER DELETE ON {table} BEGIN
    DELETE FROM digests WHERE {changed}; END;
INSERT INTO digests SELECT 4 * seq + {number}, row_digest({", ".join(columns)}) FROM {table};
"""  # noqa: S608  constants


DIGESTS = """
CREATE TABLE digests (            -- of changes and receipts
    id INTEGER PRIMARY KEY,       -- 4 * seq; + 2 of a receipt
    digest BLOB NOT NULL          -- row_digest of the row's columns
);
""" + "".join(_triggers(table, columns) for table, columns in COLUMNS.items())


APPLICATION_ID = 0x486F6E42  # "HonB"
SCHEMA_VERSION = 11
LAST_SEQ = (1 << 63) - 1  # the greatest number SQLite knows
# In `meta`: the last message of the shared log that this journal has; missing where it is of one machine.
LOG_SEQ = "log_seq"
# In `meta`: another machine has owned the home since the files of this one were kept up.
FILES_BEHIND = "files_behind"
# In `meta`: rows that were found damaged, as JSON; missing where none were looked for.
DAMAGED = "damaged"
EDIT_KINDS = ("edit", "edit_new", "edit_removed")  # kinds of changes that people made to files
IS_EDIT = "kind IN ('edit', 'edit_new', 'edit_removed')"
# The host's changes that may be missing in their files, behind the mark of each; values: `Marks.projected_seq`, and
# `Marks.settled_seq`. In this order one scan suffices, whatever the number of files.
UNPROJECTED = (
    "FROM changes LEFT JOIN unsettled USING (file) "
    f"WHERE seq > ? AND seq >= coalesce(first_seq, ? + 1) AND NOT {IS_EDIT}"
)
# The edits that took notes which their author may not have read.
IS_UNREAD = f"{IS_EDIT} AND instr(data, CAST('\"unread\":0,' AS BLOB)) = 0"
FORGOTTEN_BASE = -2  # replaces the fingerprint of a content of which something was forgotten since
MAX_ID_LENGTH = 60  # characters of a turn's id in its name
# The id of a request by a turn's tool: the turn's name, which begins with its id; the answer; the call in it.
TOOL_REQUEST = re.compile(r"(?P<turn>(?P<id>.+)\.[0-9a-f]{12})\.\d+\.\d+", re.DOTALL)
_SAVED = """
CREATE TABLE saved (              -- texts as people saved them in the last hour, where they were merged
    file TEXT NOT NULL, digest BLOB NOT NULL,
    at INTEGER NOT NULL,          -- milliseconds since the epoch
    text BLOB NOT NULL,           -- zlib
    PRIMARY KEY (file, digest)
) WITHOUT ROWID;
"""
_TEXTS = """
CREATE TABLE texts (              -- where the past of a file begins with a text that no change tells of
    file TEXT NOT NULL,
    seq INTEGER NOT NULL,         -- of the first change that came after that text, or a smaller one
    text BLOB NOT NULL,           -- zlib
    PRIMARY KEY (file, seq)
) WITHOUT ROWID;
"""
_FOUND_BY = f"""
CREATE INDEX edits_of_file ON changes (file, seq) WHERE {IS_EDIT};
CREATE INDEX edits_unread ON changes (at) WHERE {IS_UNREAD};
CREATE INDEX IF NOT EXISTS working ON changes (seq) WHERE kind = 'working';
"""
SCHEMA = f"""
CREATE TABLE meta (               -- identity; settled_seq, see Marks; ages; pushed; salt, forgetting; of several
                                  -- machines log_seq, log_chain, files_behind
    key TEXT PRIMARY KEY, value
) WITHOUT ROWID;
CREATE TABLE changes (
    seq INTEGER PRIMARY KEY,      -- one number for each change, in the order they were decided
    at INTEGER NOT NULL,          -- milliseconds since the epoch, never falling
    grp TEXT NOT NULL, sender TEXT NOT NULL, request TEXT NOT NULL,
    kind TEXT NOT NULL,           -- turn, turns_withdrawn, turns_restored, note, note_archived, feedback, message,
                                  -- task_record; whole files, with _removed when they go: entry, working, session,
                                  -- task; lines within a file: note_removed, note_restored, note_edited,
                                  -- edit_undone, and people's edit, edit_new, edit_removed: see journal/edits.py
    file TEXT NOT NULL,           -- what it was appended to, below the home folder
    offset INTEGER NOT NULL,      -- where, -1 when that was not known; of a document the fingerprint of the text
                                  -- after it, 0 where it was empty before; of a file that is replaced that of what
                                  -- it held
    data BLOB NOT NULL            -- the bytes as appended, written or removed
);
CREATE TABLE receipts (
    seq INTEGER PRIMARY KEY,      -- the last change of the request; a number reserved for it if it changed nothing
    at INTEGER NOT NULL,
    grp TEXT NOT NULL, sender TEXT NOT NULL, request TEXT NOT NULL,
    digest BLOB NOT NULL,         -- SHA-256 of the request's bytes
    reply BLOB NOT NULL,
    UNIQUE (grp, sender, request)
);
CREATE TABLE unsettled (          -- files with changes that are not settled, though meta.settled_seq is past them
    file TEXT PRIMARY KEY,
    first_seq INTEGER NOT NULL    -- the oldest of them
) WITHOUT ROWID;
CREATE TABLE turns (              -- turns of agents that were begun and are not answered
    grp TEXT NOT NULL, sender TEXT NOT NULL, request TEXT NOT NULL,
    digest BLOB NOT NULL,         -- SHA-256 of the request's bytes
    seq INTEGER NOT NULL,         -- the last change when it was begun first
    attempts INTEGER NOT NULL,    -- how often it was begun and neither answered nor given up in order
    steps BLOB NOT NULL,          -- what the model answered so far, JSON lines
    PRIMARY KEY (grp, sender, request)
) WITHOUT ROWID;
CREATE TABLE spent (              -- what models cost that looked after memory
    day TEXT NOT NULL, grp TEXT NOT NULL, kind TEXT NOT NULL,
    tokens INTEGER NOT NULL,      -- booked before each call, settled after it
    PRIMARY KEY (day, grp, kind)
) WITHOUT ROWID;
CREATE TABLE seen (               -- files of people as they were looked at last
    file TEXT PRIMARY KEY,
    seq INTEGER NOT NULL,         -- with all changes of the host up to it
    inode INTEGER NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, ctime_ns INTEGER NOT NULL,
    length INTEGER NOT NULL, digest BLOB NOT NULL,
    text BLOB                     -- zlib; NULL: not kept
) WITHOUT ROWID;
CREATE TABLE tasks (              -- the newest record of each task
    grp TEXT NOT NULL, task TEXT NOT NULL,
    seq INTEGER NOT NULL,         -- of `changes`
    PRIMARY KEY (grp, task)
) WITHOUT ROWID;
CREATE TABLE emptied (            -- changes of which something was forgotten
    seq INTEGER PRIMARY KEY,
    digest BLOB NOT NULL          -- salted SHA-256 of what they held
);
CREATE TABLE tombstones (         -- what is not to be learnt again, see journal/forgetting.py
    grp TEXT NOT NULL, words INTEGER NOT NULL, digest BLOB NOT NULL,
    PRIMARY KEY (grp, words, digest)
) WITHOUT ROWID;
{_SAVED}{_TEXTS}{_FOUND_BY}{DIGESTS}"""
# Schema of a home that this version brings forward -> what it lacks; `folding.fold_edits` does the rest.
FORWARD = {7: f"DROP INDEX IF EXISTS edits_of_file;\n{_SAVED}{_TEXTS}{_FOUND_BY}{DIGESTS}"}


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
    """The key of a turn in `turns`."""

    group: str
    sender: str
    request: str


def turn_name(turn: TurnKey, digest: bytes) -> str:
    """Return the prefix of the request ids of a turn's tools; no other turn has it."""
    told_apart = hashlib.sha256(f"{turn.sender}\0{turn.request}\0".encode() + digest).hexdigest()[:12]
    return f"{turn.request[:MAX_ID_LENGTH]}.{told_apart}"


class BegunTurn(NamedTuple):
    """A turn that is about to start.

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
    """The changes that are durable in their files; recovery does not look for them.

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


def insert_changes(connection: sqlite3.Connection, rows: Sequence[Row], receipts: Iterable[Receipt]) -> None:
    """Take in changes and receipts; of each task its newest record is found. The transaction is the caller's."""
    connection.executemany("INSERT INTO changes VALUES (?,?,?,?,?,?,?,?,?)", rows)
    connection.executemany("INSERT INTO receipts VALUES (?,?,?,?,?,?,?)", receipts)
    if newest := [(row.group, orjson.loads(row.data)["task"], row.seq) for row in rows if row.kind == TASK_RECORD]:
        connection.executemany("INSERT OR REPLACE INTO tasks VALUES (?,?,?)", newest)


def read_marks(connection: sqlite3.Connection) -> Marks:
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    return Marks(int(meta["settled_seq"]), dict(connection.execute("SELECT file, first_seq FROM unsettled")))


def write_marks(connection: sqlite3.Connection, marks: Marks) -> None:
    connection.execute("UPDATE meta SET value = ? WHERE key = 'settled_seq'", (marks.settled_seq,))
    connection.execute("DELETE FROM unsettled")
    connection.executemany("INSERT INTO unsettled VALUES (?, ?)", marks.unsettled.items())


SYNCHRONOUS = "FULL"
MAX_READER_SECONDS = 10.0  # how long erasing waits for other readers of the journal


class SharedLog(Protocol):
    """Takes each transaction before the journal of this machine does, where several machines keep one journal."""

    def record(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        """Return a connection for one transaction that records its writing statements."""

    def settle(self) -> list[tuple[str, str]]:
        """Wait a minute at most until that is gone everywhere; return each place where it is left, and its form."""

    def commit(self, connection: sqlite3.Connection, *, is_last: bool) -> None:
        """Make the recorded statements durable on other machines, then here. Raises StorageFailed, sqlite3.Error.

        Args:
            is_last: the servers drop the log up to the end of this transaction once nobody needs it.
        """


@contextmanager
def transaction(
    connection: sqlite3.Connection, path: Path, shared: SharedLog | None = None, *, is_last: bool = False
) -> Iterator[sqlite3.Connection]:
    """Yield a connection in a write transaction: committed at the end, rolled back on any error, errors translated.

    Args:
        shared: takes it first; None: it is of this machine alone.
        is_last: see `SharedLog.commit`.
    """
    with translating(path):
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            yield connection if shared is None else shared.record(connection)
            if shared is not None:
                shared.commit(connection, is_last=is_last)


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
        know_digests(connection)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a journal, which a host may have open, to read it. Raises JournalError, also while it is used."""
    try:
        with closing(connect_to_read(path)) as connection:
            yield connection
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the names of columns may be damaged, too
        raise JournalError(f"cannot read {path}: {error}; see `honeybadger-host doctor`") from error


def read_rows(path: Path, query: str, values: Sequence[object] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query from a journal that a host may have open. Raises JournalError."""
    with reading(path) as connection:
        yield from connection.execute(query, values)


def read_meta(path: Path, key: str) -> Any:
    """Return a value of `meta`, or None; a host may have the journal open. Raises JournalError."""
    return next((value for (value,) in read_rows(path, "SELECT value FROM meta WHERE key = ?", (key,))), None)


@contextmanager
def translating(path: Path) -> Iterator[None]:
    """Raise what SQLite says of the journal as `translated` has it."""
    try:
        yield
    except sqlite3.Error as error:
        raise translated(error, path) from error


def vacuum(connection: sqlite3.Connection, path: Path) -> None:
    """Rewrite a journal, so that nothing deleted is left in it. Raises sqlite3.Error, WorldFailed."""
    connection.execute("VACUUM")
    until = time.monotonic() + MAX_READER_SECONDS
    while connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:  # at once, if another one is under way
        if time.monotonic() > until:
            raise WorldFailed(f"{path} is read by another program: what was deleted is still in its WAL")
        time.sleep(0.02)


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
