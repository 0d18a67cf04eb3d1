"""Connections to the journal's file: to read, to write in transactions, and what SQLite's errors mean there."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from honeybadger_host.errors import JournalError, StorageFailed, WorldFailed, may_clear
from honeybadger_host.journal.digests import know_digests

SYNCHRONOUS: Final = "FULL"
_MAX_READER_SECONDS: Final = 10.0


class SharedLog(Protocol):
    """Takes each transaction before the journal of this machine does, where several machines keep one journal."""

    def record(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        """Return a connection for one transaction that records its writing statements."""

    def end_stream(self) -> None:
        """Let the servers drop the log up to the end of this transaction once nobody needs it."""

    def settle(self) -> list[tuple[str, str]]:
        """Wait a minute at most until that is gone everywhere; return each place where it is left, and its form."""

    def commit(self, connection: sqlite3.Connection) -> None:
        """Make the recorded statements durable on other machines, then here. Raises StorageFailed, sqlite3.Error."""


@contextmanager
def transaction(
    connection: sqlite3.Connection, path: Path, shared: SharedLog | None = None
) -> Iterator[sqlite3.Connection]:
    """Yield a connection in a write transaction: committed at the end, rolled back on any error, errors translated.

    Args:
        shared: takes it first; None: it is of this machine alone.
    """
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield connection if shared is None else shared.record(connection)
        if shared is None:
            connection.execute("COMMIT")
        else:
            shared.commit(connection)
    except BaseException as error:
        if connection.in_transaction:
            try:
                connection.execute("ROLLBACK")
            except sqlite3.Error as failed:
                raise StorageFailed(f"{path}: cannot roll back: {failed}") from failed
        if isinstance(error, sqlite3.Error):
            raise translated(error, path) from error
        raise


def make_file(path: Path) -> None:
    """Make the file 0600 when it is not there. Raises OSError if it is not a plain file, or cannot be made.

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
        know_digests(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_to_read(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=5)


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
    until = time.monotonic() + _MAX_READER_SECONDS
    while connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
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
