"""The contexts put before a model, with their entries and turns: an entry in view is not recalled as
if it were new, and each context can be made again (`served`).

One small database of entries and a file of contexts, written by one recorder behind the queries. They may be deleted at
any time; then what is in view is recalled once more. A kill loses nothing of them; what a power cut damages is begun
again.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import orjson
import structlog

from honeybadger_host.domain import Injection, Served
from honeybadger_host.memory.served import ServedContexts
from honeybadger_host.storage.files import FILE_MODE, make_folders

log = structlog.get_logger()

LEDGER_FILE: Final = "data/recalled.db"
_MAX_ROWS: Final = 100_000  # about 10 MiB; the oldest are forgotten
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS recalled (
    number INTEGER PRIMARY KEY, grp TEXT NOT NULL, session TEXT NOT NULL, entry TEXT NOT NULL, turn INTEGER NOT NULL,
    UNIQUE (grp, session, entry)
);
CREATE TABLE IF NOT EXISTS said (          -- turns and notes; `doc`: number in the search index
    number INTEGER PRIMARY KEY, grp TEXT NOT NULL, session TEXT NOT NULL, id TEXT NOT NULL, turn INTEGER NOT NULL,
    doc INTEGER NOT NULL, UNIQUE (grp, session, id)
);
CREATE TABLE IF NOT EXISTS last (      -- when each entry was recalled last; entry '': since when that is known
    grp TEXT NOT NULL, entry TEXT NOT NULL, at REAL NOT NULL,
    PRIMARY KEY (grp, entry)
) WITHOUT ROWID;
"""
_KEEP_LAST: Final = "INSERT INTO last VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET at = excluded.at"
_KEEP_SAID: Final = "INSERT OR REPLACE INTO said (grp, session, id, turn, doc) VALUES (?, ?, ?, ?, ?)"
_KEEP: Final = "INSERT OR REPLACE INTO recalled (grp, session, entry, turn) VALUES (?, ?, ?, ?)"
_OLD_SERVED: Final = (  # older versions kept contexts here
    "SELECT served.hash, grp, session, sender, seq, at, coalesce(s.text, ''), coalesce(i.text, ''), made FROM served "
    "LEFT JOIN made_with s ON s.hash = settings LEFT JOIN made_with i ON i.hash = identity ORDER BY number"
)
# Errors that the file has no part in.
_WORLD: Final = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)


class InjectionLedger:
    """The ledger of a home. Any thread.

    Args:
        clock: seconds since the epoch.
    """

    def __init__(self, home: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = home / LEDGER_FILE
        self._clock = clock
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._contexts = ServedContexts(home)
        self._has_failed = False

    def close(self) -> None:
        with self._lock:
            self._close()

    def recalled(self, group: str, session: str) -> dict[str, int]:
        """Return entry id -> number of the turn it was recalled for, as far as that is known."""
        found: dict[str, int] = {}
        with self._saying_failures():
            db = self._opened()
            query = "SELECT entry, turn FROM recalled WHERE grp = ? AND session = ?"
            found.update(db.execute(query, (group, session)).fetchall())
        return found

    def said(self, group: str, session: str) -> dict[str, tuple[int, int]]:
        """Return id of a turn or note -> number of the turn it was recalled for, and its own in the index."""
        found: dict[str, tuple[int, int]] = {}
        with self._saying_failures():
            db = self._opened()
            query = "SELECT id, turn, doc FROM said WHERE grp = ? AND session = ?"
            found.update({id_: (turn, doc) for id_, turn, doc in db.execute(query, (group, session))})
        return found

    def last_recalled(self, group: str) -> tuple[dict[str, datetime], datetime]:
        """Return entry id -> when a context had it last, and since when that is known."""
        rows, since = [], self._clock()
        with self._saying_failures():
            db = self._opened()
            rows = db.execute("SELECT entry, at FROM last WHERE grp = ?", (group,)).fetchall()
            (since,) = db.execute("SELECT at FROM last WHERE grp = '' AND entry = ''").fetchone()
        return {entry: _time(at) for entry, at in rows}, _time(since)

    def served(self, group: str, hash_: str) -> Served | None:
        """Return the newest context of a group with a hash that begins so. Raises sqlite3.Error, OSError."""
        with self._lock:
            self._opened()
            return self._contexts.find(group, hash_)

    def served_until(self, group: str, session: str, seq: int, at: int, sender: str | None) -> Served | None:
        """Return the newest context of a session up to a moment. Raises sqlite3.Error, OSError."""
        with self._lock:
            self._opened()
            return self._contexts.until(group, session, seq, at, sender)

    def note(self, served: Served) -> None:
        """Keep what was put before a model, and forget what the session does not show any more."""
        with self._saying_failures():
            db = self._opened()
            self._contexts.note(served)
            if served.injection is not None:
                db.execute("BEGIN IMMEDIATE")
                self._inject(db, served.injection)
                db.execute("COMMIT")
            self._has_failed = False

    def _inject(self, db: sqlite3.Connection, injection: Injection) -> None:
        group, session = injection.group, injection.session
        now = self._clock()
        for table in ("recalled", "said"):
            scrolled_out = f"DELETE FROM {table} WHERE grp = ? AND session = ? AND turn < ?"  # noqa: S608  one of two
            db.execute(scrolled_out, (group, session, injection.oldest))
        db.executemany(_KEEP, [(group, session, entry, injection.turn) for entry in injection.entries])
        db.executemany(_KEEP_SAID, [(group, session, id_, injection.turn, doc) for id_, doc in injection.said])
        for table in ("recalled", "said"):
            too_many = f"DELETE FROM {table} WHERE number <= (SELECT max(number) FROM {table}) - ?"  # noqa: S608  as above
            db.execute(too_many, (_MAX_ROWS,))
        db.executemany(_KEEP_LAST, [(group, entry, now) for entry in injection.entries])

    def every_served(self, group: str) -> Iterator[Served]:
        """Yield the contexts of a group, oldest first. Raises sqlite3.Error, OSError."""
        with self._lock:
            self._opened()
            yield from self._contexts.every(group)

    def all_of(self, group: str) -> tuple[list[tuple[str, str, int]], list[tuple[str, float]]]:
        """Return all of a group: session, entry and turn, oldest first; and when each entry was recalled last."""
        shown: list[tuple[str, str, int]] = []
        last: list[tuple[str, float]] = []
        with self._saying_failures():
            db = self._opened()
            query = "SELECT session, entry, turn FROM recalled WHERE grp = ? ORDER BY number"
            shown = db.execute(query, (group,)).fetchall()
            last = db.execute("SELECT entry, at FROM last WHERE grp = ? ORDER BY entry", (group,)).fetchall()
        return shown, last

    def take_in(
        self,
        group: str,
        shown: Iterable[tuple[str, str, int]],
        last: Iterable[tuple[str, float]],
        served: Iterable[Served],
    ) -> None:
        """Keep all of a group, as `all_of` returned it in another home, instead of what is known of it."""
        with self._saying_failures():
            db = self._opened()
            self._contexts.take_in(group, served)
            db.execute("BEGIN IMMEDIATE")
            for table in ("recalled", "said", "last"):
                db.execute(f"DELETE FROM {table} WHERE grp = ?", (group,))  # noqa: S608  one of three names
            db.executemany(_KEEP, [(group, *row) for row in shown])
            db.executemany(_KEEP_LAST, [(group, *row) for row in last])
            db.execute("COMMIT")

    def forget(self, group: str, entries: Collection[str], session: str | None) -> None:
        """Forget that entries, and what in a session, were recalled; no power cut brings it back.

        A ledger that one damaged before is begun again, whatever is to be forgotten.
        """
        with self._saying_failures():
            db = self._opened()
            db.execute("PRAGMA secure_delete = ON")
            db.execute("PRAGMA synchronous = FULL")
            with db:
                for table in ("recalled", "last"):
                    of_one = f"DELETE FROM {table} WHERE grp = ? AND entry = ?"  # noqa: S608  one of two names
                    db.executemany(of_one, [(group, entry) for entry in entries])
                for table in ("recalled", "said"):
                    of_session = f"DELETE FROM {table} WHERE grp = ? AND session = ?"  # noqa: S608  one of two names
                    db.execute(of_session, (group, session))
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            db.execute("PRAGMA synchronous = OFF")

    @contextlib.contextmanager
    def _saying_failures(self) -> Iterator[None]:
        """Hold the lock; when the database cannot be used that is said, and what was to be done is left out."""
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
            self._db.execute("PRAGMA synchronous = OFF")
            self._db.execute("PRAGMA journal_mode = WAL")  # an injection is noted in 0.02 ms, without in 0.1 ms
            self._db.executescript(_SCHEMA)
            self._db.execute("INSERT OR IGNORE INTO last VALUES ('', '', ?)", (self._clock(),))
            self._move_served(self._db)
        return self._db

    def _move_served(self, db: sqlite3.Connection) -> None:
        """Move the contexts that an older version kept in the database to their file."""
        if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'served'").fetchone() is None:
            return
        db.execute("BEGIN IMMEDIATE")
        for *members, made in db.execute(_OLD_SERVED):
            self._contexts.note(Served(*members, **orjson.loads(made)))
        db.execute("DROP TABLE served")
        db.execute("DROP TABLE made_with")
        db.execute("COMMIT")

    def _close(self) -> None:
        self._contexts.close()
        if self._db is not None:
            self._db.close()
            self._db = None

    def _failed(self, error: OSError | sqlite3.Error) -> None:
        """Say once that the ledger cannot be used; begin it again when it is damaged."""
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


def _time(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
