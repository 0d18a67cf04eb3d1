"""The contexts that models were shown, and the entries and turns recalled in them.

An entry that the model can still see is not recalled again, and `why` shows the context of an answer (`served`).

One database, written before the reply. It may be deleted at any time: then visible entries are recalled once more, and
earlier contexts are unknown. A kill loses nothing, a power cut the newest seconds; a damaged database is replaced by an
empty one.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from honeybadger_agent.mailbox import GLOBAL_GROUP
from honeybadger_host.files.safe_files import FILE_MODE, connect_to_read, make_folders
from honeybadger_host.log import log
from honeybadger_host.memory import served as contexts
from honeybadger_host.memory.served import Injection, Served, ServedContext

LEDGER_FILE: Final = "data/recalled.db"
_SCHEMA: Final = """
DROP TABLE IF EXISTS recalled;             -- of earlier versions
DROP TABLE IF EXISTS said;
DROP TABLE IF EXISTS last;
CREATE TABLE IF NOT EXISTS shown (         -- `doc`: number in the search index, of turns and notes
    number INTEGER PRIMARY KEY, grp TEXT NOT NULL, session TEXT NOT NULL, id TEXT NOT NULL, turn INTEGER NOT NULL,
    doc INTEGER, UNIQUE (grp, session, id)
);
CREATE INDEX IF NOT EXISTS shown_turn ON shown (grp, session, turn);
CREATE TABLE IF NOT EXISTS begun (one INTEGER PRIMARY KEY, at REAL NOT NULL);
"""
_KEEP: Final = "INSERT OR REPLACE INTO shown (grp, session, id, turn, doc) VALUES (?, ?, ?, ?, ?)"
# Errors that do not mean that the file is damaged.
_WORLD: Final = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
)


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
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._has_failed = False

    def close(self) -> None:
        with self._lock:
            self._close()

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
            db = self._opened()
            query = (
                "SELECT id, turn, doc FROM shown WHERE grp = ? AND session = ? AND turn >= ? AND turn < ? "
                "ORDER BY turn, number"
            )
            found.update({id_: (turn, doc) for id_, turn, doc in db.execute(query, (group, session, oldest, current))})
        return found

    def known_since(self) -> datetime:
        """Return when the ledger was begun."""
        since = self._clock()
        with self._saying_failures():
            (since,) = self._opened().execute("SELECT at FROM begun").fetchone()
        return datetime.fromtimestamp(since, UTC)

    def served(self, group: str, hash_: str) -> ServedContext | None:
        """Return the newest context of a group whose hash begins with `hash_`. Raises sqlite3.Error, OSError."""
        with self._lock:
            return contexts.newest(self._opened(), group, "substr(hash, 1, ?) = ?", len(hash_), hash_)

    def served_until(self, group: str, session: str, seq: int, at: int, sender: str | None) -> ServedContext | None:
        """Return the newest context of a session up to a moment; `sender` None: of any sender.

        Raises sqlite3.Error, OSError.
        """
        condition = "session = ? AND seq <= ? AND at <= ? AND sender = coalesce(?, sender)"
        with self._lock:
            return contexts.newest(self._opened(), group, condition, session, seq, at, sender)

    def result_of(self, hash_: str) -> dict[str, Any] | None:
        """Return the `ContextResult` with a hash, or None if it is not kept. Raises sqlite3.Error, OSError."""
        with self._lock:
            return contexts.result_of(self._opened(), hash_)

    def note(self, served: Served) -> None:
        """Keep the context that a model was given, and what was recalled in it."""
        with self._saying_failures():
            db = self._opened()
            with _transaction(db):
                if self._kept:
                    contexts.keep(db, served)
                if served.injection is not None:
                    self._inject(db, served.injection)
            # the files are an upper bound for the contexts; asking SQLite exactly takes 17 us
            file_bytes = sum(os.stat(f"{self._path}{end}").st_size for end in ("", "-wal"))
            if file_bytes > contexts.MAX_BYTES and contexts.is_full(db):
                self._prune(db)
            self._has_failed = False

    def prune(self) -> None:
        """Remove contexts that are older than `kept_days`."""
        with self._saying_failures():
            self._prune(self._opened())

    def _prune(self, db: sqlite3.Connection) -> None:
        with _transaction(db):
            contexts.prune(db, round((self._clock() - self._kept.total_seconds()) * 1000))

    def _inject(self, db: sqlite3.Connection, injection: Injection) -> None:
        rows = [(entry, None) for entry in injection.entries] + [*injection.said]
        if not rows:
            return
        db.executemany(_KEEP, [(injection.group, injection.session, id_, injection.turn, doc) for id_, doc in rows])

    def all_of(self, group: str) -> list[tuple[str, str, int]]:
        """Return all entries of a group: session, entry and turn, oldest first."""
        shown: list[tuple[str, str, int]] = []
        with self._saying_failures():
            db = self._opened()
            query = "SELECT session, id, turn FROM shown WHERE grp = ? AND doc IS NULL ORDER BY number"
            shown += db.execute(query, (group,)).fetchall()
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
        with self._saying_failures():
            self._opened()
        try:
            with contextlib.closing(connect_to_read(self._path)) as reader:  # contexts are served meanwhile
                for number, is_gone in contexts.doomed(reader, of_group, is_doomed):
                    looked_at[number] = is_gone
                    time.sleep(0)
        except sqlite3.Error as error:
            with self._lock:
                self._failed(error)
        with self._saying_failures():
            db = self._opened()
            looked_at |= contexts.doomed(db, of_group, is_doomed, max(looked_at, default=0))
            db.execute("PRAGMA secure_delete = ON")
            db.execute("PRAGMA synchronous = FULL")
            with _transaction(db):
                db.executemany("DELETE FROM shown WHERE grp = ? AND id = ?", [(group, entry) for entry in entries])
                db.execute("DELETE FROM shown WHERE grp = ? AND session = ?", (group, session))
                contexts.remove(db, [number for number, is_gone in looked_at.items() if is_gone])
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
        if self._db is None:
            make_folders(self._path.parent)
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE))
            self._db = sqlite3.connect(self._path, timeout=10, check_same_thread=False, isolation_level=None)
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.execute("PRAGMA journal_mode = WAL")  # an injection is noted in 0.02 ms, without in 0.1 ms
            self._db.executescript(_SCHEMA + contexts.TABLES)
            self._db.execute("INSERT OR IGNORE INTO begun VALUES (1, ?)", (self._clock(),))
        return self._db

    def _close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def _failed(self, error: OSError | sqlite3.Error) -> None:
        """Log once that the ledger cannot be used; remove its files if they are damaged."""
        with contextlib.suppress(sqlite3.Error):
            self._close()
        is_damaged = isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF not in _WORLD
        if is_damaged:
            for end in ("", "-wal", "-shm"):
                with contextlib.suppress(OSError):
                    os.unlink(f"{self._path}{end}")
        if not self._has_failed or is_damaged:
            now_what = "it begins again" if is_damaged else "entries in view may be recalled once more"
            log.warning("ledger.failed", file=LEDGER_FILE, error=str(error), now_what=now_what)
        self._has_failed = True


@contextlib.contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    with db:
        yield
