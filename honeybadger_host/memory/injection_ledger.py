"""The contexts that models were shown, and the entries and turns recalled in them.

An entry that the model can still see is not recalled again, and `why` shows the context of an answer byte for byte. The
beginning that many contexts share is kept once, by its hash; the rest of each context by the hash of the whole.

One database, written before the reply. It may be deleted at any time: then visible entries are recalled once more, and
earlier contexts are unknown. A kill loses nothing, a power cut the newest seconds; a damaged database is replaced by an
empty one.
"""

import contextlib
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from honeybadger_agent.mailbox import GLOBAL_GROUP
from honeybadger_host.files.safe_files import connect_to_read, make_file, make_folders
from honeybadger_host.journal.edits import digest_of
from honeybadger_host.log import log

LEDGER_FILE = "data/recalled.db"
MAX_BYTES = 256 << 20  # size limit of the database; above it the oldest eighth of its rows is removed
_SCHEMA = """
CREATE TABLE shown (         -- `doc`: number in the search index, of turns and notes
    number INTEGER PRIMARY KEY, grp TEXT NOT NULL, session TEXT NOT NULL, id TEXT NOT NULL, turn INTEGER NOT NULL,
    doc INTEGER, UNIQUE (grp, session, id)
);
CREATE INDEX shown_turn ON shown (grp, session, turn);
CREATE TABLE begun (one INTEGER PRIMARY KEY, at REAL NOT NULL);
CREATE TABLE contexts (      -- `at`: milliseconds since the epoch
    number INTEGER PRIMARY KEY, hash TEXT NOT NULL, stable TEXT NOT NULL, grp TEXT NOT NULL, session TEXT NOT NULL,
    sender TEXT NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL
);
CREATE TABLE stable (hash TEXT PRIMARY KEY, packed BLOB NOT NULL);
CREATE TABLE rest (hash TEXT PRIMARY KEY, packed BLOB NOT NULL);
"""
_TOO_MANY = "DELETE FROM {0} WHERE number <= (SELECT min(number) + (max(number) - min(number)) / 8 FROM {0})"
_KEEP = "INSERT OR REPLACE INTO shown (grp, session, id, turn, doc) VALUES (?, ?, ?, ?, ?)"
# Errors that do not mean that the file is damaged.
_WORLD = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
)


@dataclass(frozen=True, slots=True)
class Served:
    """A context that a sender was given.

    Args:
        at: milliseconds since the epoch.
        result: its `ContextResult`.
        recalled: what it recalls and earlier contexts did not: id, and number in the index or None for an entry.
        turn: number of the turn that was for.
    """

    group: str
    session: str
    sender: str
    at: int
    result: Mapping[str, Any]
    recalled: Sequence[tuple[str, int | None]] = ()
    turn: int = 0


class ServedContext(NamedTuple):
    """A context that is kept.

    Args:
        seq: every change of the group up to it is in the context.
        at: milliseconds since the epoch.
    """

    hash: str
    sender: str
    seq: int
    at: int


class InjectionLedger:
    """The ledger of a home. Any thread.

    Args:
        clock: seconds since the epoch.
        kept_days: days that contexts are kept; 0: none is.
    """

    def __init__(self, home: Path, clock: Callable[[], float] = time.time, kept_days: int = 0) -> None:
        self._path = home / LEDGER_FILE
        self._kept = timedelta(days=kept_days)
        self._clock = clock
        self._lock = threading.RLock()
        self._db: sqlite3.Connection | None = None
        self._has_failed = False

    def close(self) -> None:
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    def in_view(self, group: str, session: str, *, oldest: int, current: int) -> dict[str, tuple[int, int | None]]:
        """Return what was recalled for earlier messages that are still shown, in the order of these messages.

        Args:
            oldest: number of the oldest turn shown.
            current: number of this message's turn, recorded or not, so that a repeated request gets the same answer.
        Returns:
            id -> (number of the turn it was recalled for, number in the index or None for an entry).
        """
        found: dict[str, tuple[int, int | None]] = {}
        with self._saying_failures():
            rows = self._opened().execute(
                "SELECT id, turn, doc FROM shown WHERE grp = ? AND session = ? AND turn >= ? AND turn < ? "
                "ORDER BY turn, number",
                (group, session, oldest, current),
            )
            found.update({id_: (turn, doc) for id_, turn, doc in rows})
        return found

    def known_since(self) -> datetime:
        """Return when the ledger was begun."""
        since = self._clock()
        with self._saying_failures():
            (since,) = self._opened().execute("SELECT at FROM begun").fetchone()
        return datetime.fromtimestamp(since, UTC)

    def served(self, group: str, hash_: str) -> ServedContext | None:
        """Return the newest context of a group whose hash begins with `hash_`. Raises sqlite3.Error, OSError."""
        return self._newest(group, "substr(hash, 1, ?) = ?", len(hash_), hash_)

    def served_until(self, group: str, session: str, seq: int, at: int, sender: str | None) -> ServedContext | None:
        """Return the newest context of a session up to a moment; `sender` None: of any sender.

        Raises sqlite3.Error, OSError.
        """
        return self._newest(
            group, "session = ? AND seq <= ? AND at <= ? AND sender = coalesce(?, sender)", session, seq, at, sender
        )

    def _newest(self, group: str, condition: str, *values: object) -> ServedContext | None:
        query = f"SELECT hash, sender, seq, at FROM contexts WHERE grp = ? AND {condition} ORDER BY number DESC LIMIT 1"  # noqa: S608  constants
        with self._lock:
            found = self._opened().execute(query, (group, *values)).fetchone()
        return None if found is None else ServedContext(*found)

    def result_of(self, hash_: str) -> dict[str, Any] | None:
        """Return the `ContextResult` with a hash, or None if it is not kept. Raises sqlite3.Error, OSError."""
        with self._lock:
            return _result_in(self._opened(), hash_)

    def note(self, served: Served) -> None:
        """Keep the context that a model was given, and what was recalled in it."""
        with self._saying_failures():
            db = self._opened()
            with _transaction(db):
                if self._kept:
                    _keep(db, served)
                rows = [(served.group, served.session, id_, served.turn, doc) for id_, doc in served.recalled]
                db.executemany(_KEEP, rows)
            self._has_failed = False
            # the files are an upper bound for the contexts; asking SQLite exactly takes 17 us
            file_bytes = sum(os.stat(f"{self._path}{end}").st_size for end in ("", "-wal"))
            if file_bytes > MAX_BYTES and _is_full(db):
                self.prune()

    def prune(self) -> None:
        """Remove contexts that are older than `kept_days`, and the oldest eighth of all if the database is full."""
        oldest_at = round((self._clock() - self._kept.total_seconds()) * 1000)
        with self._saying_failures(), _transaction(db := self._opened()):
            gone = db.execute("DELETE FROM contexts WHERE at < ?", (oldest_at,)).rowcount
            if _is_full(db):
                gone += sum(db.execute(_TOO_MANY.format(table)).rowcount for table in ("contexts", "shown"))
            if gone:
                _remove_texts(db)

    def all_of(self, group: str) -> list[tuple[str, str, int]]:
        """Return all entries of a group: session, entry and turn, oldest first."""
        shown: list[tuple[str, str, int]] = []
        with self._saying_failures():
            query = "SELECT session, id, turn FROM shown WHERE grp = ? AND doc IS NULL ORDER BY number"
            shown += self._opened().execute(query, (group,)).fetchall()
        return shown

    def take_in(self, group: str, shown: Iterable[tuple[str, str, int]]) -> None:
        """Replace a group's rows by those that `all_of` returned in another home."""
        with self._saying_failures():
            db = self._opened()
            with _transaction(db):
                for table in ("shown", "contexts"):
                    db.execute(f"DELETE FROM {table} WHERE grp = ?", (group,))  # noqa: S608  one of two names
                db.executemany(_KEEP, [(group, *row, None) for row in shown])

    def forget(
        self,
        group: str,
        entries: Collection[str],
        session: str | None,
        is_doomed: Callable[[Mapping[str, Any], str, str], bool],
    ) -> None:
        """Remove rows of entries, all rows of a session, and contexts; a power cut does not bring them back.

        A damaged ledger is replaced by an empty one instead.

        Args:
            entries: ids.
            session: None: no session's.
            is_doomed: (`ContextResult`, its session, its sender) -> whether to remove it.
        """
        of_group = None if group == GLOBAL_GROUP else group
        looked_at: dict[int, bool] = {}
        # contexts are served meanwhile; a damaged ledger is met again below
        with contextlib.suppress(sqlite3.Error), contextlib.closing(connect_to_read(self._path)) as reader:
            for number, is_gone in _doomed(reader, of_group, is_doomed):
                looked_at[number] = is_gone
                time.sleep(0)
        with self._saying_failures():
            db = self._opened()
            looked_at |= _doomed(db, of_group, is_doomed, max(looked_at, default=0))
            db.execute("PRAGMA secure_delete = ON")
            db.execute("PRAGMA synchronous = FULL")
            with _transaction(db):
                db.executemany("DELETE FROM shown WHERE grp = ? AND id = ?", [(group, entry) for entry in entries])
                db.execute("DELETE FROM shown WHERE grp = ? AND session = ?", (group, session))
                gone = [(number,) for number, is_gone in looked_at.items() if is_gone]
                db.executemany("DELETE FROM contexts WHERE number = ?", gone)
                _remove_texts(db)
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # else a power cut brings back a WAL with removed texts
            db.execute("VACUUM")  # overwrites rows that were removed for their age, too
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            db.execute("PRAGMA synchronous = NORMAL")

    @contextlib.contextmanager
    def _saying_failures(self) -> Iterator[None]:
        """Hold the lock; if the database cannot be used, log that and skip the work."""
        with self._lock:
            try:
                yield
            except (OSError, sqlite3.Error) as error:
                self._failed(error)

    def _opened(self) -> sqlite3.Connection:
        """Return the database, opened or made when needed. Raises OSError, sqlite3.Error."""
        if self._db is not None:
            return self._db
        db = self._connect()
        if db.execute("PRAGMA user_version").fetchone() != (1,):  # new, or of an earlier version
            self.close()
            self._remove()
            db = self._connect()
            db.executescript(_SCHEMA)
            db.execute("INSERT INTO begun VALUES (1, ?)", (self._clock(),))
            db.execute("PRAGMA user_version = 1")
        return db

    def _connect(self) -> sqlite3.Connection:
        make_folders(self._path.parent)
        make_file(self._path)
        self._db = sqlite3.connect(self._path, timeout=10, check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute("PRAGMA journal_mode = WAL")  # an injection is noted in 0.02 ms, without in 0.1 ms
        return self._db

    def _remove(self) -> None:
        for end in ("", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                os.unlink(f"{self._path}{end}")

    def _failed(self, error: OSError | sqlite3.Error) -> None:
        """Log once that the ledger cannot be used; remove its files if they are damaged."""
        with contextlib.suppress(sqlite3.Error):
            self.close()
        is_damaged = isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF not in _WORLD
        if is_damaged:
            self._remove()
        if not self._has_failed or is_damaged:
            now_what = "it begins again" if is_damaged else "entries in view may be recalled once more"
            log.warning("ledger.failed", file=LEDGER_FILE, error=str(error), now_what=now_what)
        self._has_failed = True


@contextlib.contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    with db:
        yield


def _keep(db: sqlite3.Connection, served: Served) -> None:
    """Keep a context. Raises sqlite3.Error."""
    result = served.result
    hash_, stable_hash, length = result["hash"], result["stable_hash"], result["stable_characters"]
    db.execute(
        "INSERT INTO contexts (hash, stable, grp, session, sender, seq, at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (hash_, stable_hash, served.group, served.session, served.sender, result["seq"], served.at),
    )
    _keep_text(db, "stable", stable_hash, lambda: result["system"][:length].encode())
    _keep_text(db, "rest", hash_, lambda: orjson.dumps({**result, "system": result["system"][length:]}))


def _keep_text(db: sqlite3.Connection, table: str, hash_: str, text: Callable[[], bytes]) -> None:
    """Keep a text in one of the two tables, unless it is there."""
    if db.execute(f"SELECT 1 FROM {table} WHERE hash = ?", (hash_,)).fetchone() is None:  # noqa: S608  one of two names
        db.execute(f"INSERT INTO {table} VALUES (?, ?)", (hash_, zlib.compress(text(), 1)))  # noqa: S608  one of two names


def _is_full(db: sqlite3.Connection) -> bool:
    """Return whether the contexts take more than `MAX_BYTES`. Raises sqlite3.Error."""
    pages = "pragma_page_count, pragma_freelist_count, pragma_page_size"
    (size,) = db.execute(f"SELECT (page_count - freelist_count) * page_size FROM {pages}").fetchone()  # noqa: S608  a constant
    return bool(size > MAX_BYTES)


def _result_in(db: sqlite3.Connection, hash_: str) -> dict[str, Any] | None:
    """Return the `ContextResult` with a hash, or None if it is not kept, or damaged. Raises sqlite3.Error."""
    try:
        (packed,) = db.execute("SELECT packed FROM rest WHERE hash = ?", (hash_,)).fetchone() or (b"",)
        result: dict[str, Any] = orjson.loads(zlib.decompress(packed))
        query = "SELECT packed FROM stable WHERE hash = ?"
        (packed,) = db.execute(query, (result["stable_hash"],)).fetchone() or (b"",)
        system = zlib.decompress(packed) + result["system"].encode()
    except (zlib.error, ValueError, KeyError):
        return None
    return None if digest_of(system).hex() != hash_ else {**result, "system": system.decode()}


def _doomed(
    db: sqlite3.Connection, group: str | None, is_doomed: Callable[[Mapping[str, Any], str, str], bool], after: int = 0
) -> Iterator[tuple[int, bool]]:
    """Yield the number of each context, and whether to remove it. Raises sqlite3.Error.

    Args:
        group: only contexts of this group; None: of all.
        is_doomed: (`ContextResult`, session, sender) -> whether to remove it; damaged contexts always are.
        after: only contexts with a higher number.
    """
    query = (
        "SELECT number, hash, session, sender FROM contexts WHERE grp = coalesce(?, grp) AND number > ? ORDER BY number"
    )
    for number, hash_, session, sender in db.execute(query, (group, after)):
        result = _result_in(db, hash_)
        yield number, result is None or is_doomed(result, session, sender)


def _remove_texts(db: sqlite3.Connection) -> None:
    """Remove texts that no context has."""
    db.execute("DELETE FROM rest WHERE hash NOT IN (SELECT hash FROM contexts)")
    db.execute("DELETE FROM stable WHERE hash NOT IN (SELECT stable FROM contexts)")
