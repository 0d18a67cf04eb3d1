"""The journal's file as a whole: made when there never was one, brought forward, checked, copied."""

import os
import sqlite3
import uuid
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from honeybadger_agent.wording import listed
from honeybadger_host.errors import JournalError, WorldFailed
from honeybadger_host.files.safe_files import connect_to_read, open_new, sync_all, sync_folder
from honeybadger_host.journal.folding import fold_edits
from honeybadger_host.journal.schema import (
    APPLICATION_ID,
    COLUMNS,
    FORWARD,
    LOG_SEQ,
    NUMBERS,
    ROWS_AT_ONCE,
    SCHEMA,
    SCHEMA_VERSION,
    Marks,
    read_marks,
    read_rows,
    reading,
    row_digest,
    transaction,
    write_marks,
)
from honeybadger_host.log import log

BEFORE = ".before-"  # In the name of a kept earlier journal: the schema follows that took its place


def use_wal(connection: sqlite3.Connection) -> None:
    """Switch to the WAL, which the file remembers: only for a database that is known to be a journal, or new."""
    connection.execute("PRAGMA journal_mode = WAL")


def execute_all(connection: sqlite3.Connection, statements: str) -> None:
    """Run statements one by one, in the transaction that is open."""
    for statement in statements.split(";\n"):
        if statement.strip():
            connection.execute(statement)


def bring_forward(connection: sqlite3.Connection, path: Path) -> None:
    """Make the current schema of an older one, all or nothing, and keep the older journal next to it.

    The operator or `forget` removes that one.

    Raises JournalError if it is of an unknown version; sqlite3.Error, OSError, WorldFailed, StorageFailed.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == SCHEMA_VERSION:
        return
    if version not in FORWARD:
        raise JournalError(
            f"{path} has schema {version}; this host knows {SCHEMA_VERSION} and brings {min(FORWARD)} forward: run the "
            "version that made it"
        )
    _keep_before(connection, path)
    with transaction(connection, path):
        execute_all(connection, FORWARD[version])
        fold_edits(connection)
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    log.info("journal.brought_forward", before=version, now=SCHEMA_VERSION)


def _keep_before(connection: sqlite3.Connection, path: Path) -> None:
    kept = path.with_name(f"{path.name}{BEFORE}{SCHEMA_VERSION}")
    temporary = kept.with_name(f"{kept.name}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        copy_journal(path, temporary, marks=read_marks(connection))
        sync_all([temporary], path.parent)
        os.rename(temporary, kept)
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def make_or_check(connection: sqlite3.Connection, path: Path, *, expected_identity: str | None, is_shared: bool) -> str:
    """Make the tables of a new journal, or see that it is ours and bring it forward; return its identity.

    Raises JournalError, sqlite3.Error.
    """
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application == 0 and not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        # new; or the first start was cut short after SQLite wrote its header and before our tables were committed
        if expected_identity is not None:
            raise gone(path, "is empty", expected_identity)
        use_wal(connection)
        with transaction(connection, path):
            execute_all(connection, SCHEMA)
            connection.execute("INSERT INTO meta VALUES ('identity', ?), ('settled_seq', 0)", (uuid.uuid4().hex,))
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    elif application != APPLICATION_ID:
        raise JournalError(f"{path} is a database, but not a Honeybadger journal: move it away or choose another home")
    use_wal(connection)
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    if expected_identity is not None and meta["identity"] != expected_identity:
        raise JournalError(
            f"{path} is the journal of another home ({meta['identity']}, expected {expected_identity}): put "
            f"the right one back; or remove {path.parent / 'host.lock'} if the exchange was meant"
        )
    if LOG_SEQ in meta and not is_shared:
        raise JournalError(
            f"{path} is kept by several machines: set cluster.servers and start a host, which this asks then; or "
            "take this machine out with `honeybadger-host cluster leave`"
        )
    bring_forward(connection, path)
    return str(meta["identity"])


def gone(path: Path, state: str, identity: str) -> JournalError:
    return JournalError(
        f"{path} {state}, but this home had a journal ({identity}). Starting without it would forget which requests "
        f"were done. Restore it from a backup; or, if you accept that, remove {path.parent / 'host.lock'} and start "
        f"again: notes and turns in the files stay."
    )


# Advice about rows that changed by themselves.
DAMAGED_NOW_WHAT = (
    "a disk or memory fails: replace it; restore the last backup from before, or let another machine of the cluster "
    "own the home; until then the rest is served"
)


class JournalPosition(NamedTuple):
    """A journal as it was at one moment; see `Journal`."""

    identity: str
    committed_seq: int
    marks: Marks


def check_journal(path: Path) -> int:
    """Look through a journal that a host may have open; return the number of its changes. Raises JournalError."""
    with reading(path) as connection:
        verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        changes = connection.execute("SELECT count(*) FROM changes").fetchone()[0]
        is_old = connection.execute("PRAGMA user_version").fetchone()[0] < SCHEMA_VERSION
    damaged = [] if is_old else [row for numbers in stretches(path) for row in damaged_rows(path, numbers)]
    if verdict != "ok" or damaged:
        raise JournalError(f"{path} is damaged: {listed(damaged) if damaged else verdict}")
    return int(changes)


def stretches(path: Path) -> list[range]:
    """Return numbers of changes and receipts to be checked together, the newest first. Raises JournalError.

    Only existing numbers: a damaged number may be any; a row may have none if the text of the schema is damaged.
    """
    numbers = " UNION ".join(f"SELECT DISTINCT coalesce(seq, 0) / {ROWS_AT_ONCE} FROM {table}" for table in COLUMNS)  # noqa: S608  constants
    query = f"SELECT 0 UNION SELECT DISTINCT id / {4 * ROWS_AT_ONCE} FROM digests UNION {numbers} ORDER BY 1 DESC"  # noqa: S608  constants
    return [range(number * ROWS_AT_ONCE, (number + 1) * ROWS_AT_ONCE) for (number,) in read_rows(path, query)]


def damaged_rows(path: Path, numbers: range) -> list[str]:
    """Return which changes and receipts of some numbers changed by themselves, as `changes 17`.

    Unreadable ones are among them.
    """
    damaged: set[str] = set()
    try:
        with reading(path) as connection:
            connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
            connection.execute("BEGIN")  # one moment for all of it
            for table, columns in COLUMNS.items():
                number = NUMBERS[table]
                digests = (
                    f"SELECT id / 4, digest FROM digests WHERE id BETWEEN 4 * ? AND 4 * ? + 3 AND id % 4 = {number}"  # noqa: S608  constants
                )
                rows = f"SELECT {', '.join(columns)} FROM {table} WHERE seq BETWEEN ? AND ?"  # noqa: S608  constants
                ends = numbers[0], numbers[-1]
                known = dict(connection.execute(digests, ends))
                found = {row[0]: row_digest(*row) for row in connection.execute(rows, ends)}
                damaged |= {f"{table} {seq}" for seq, _ in known.items() ^ found.items()}
    except JournalError as error:
        return [f"{numbers[0]} to {numbers[-1]}: {error}"]
    return sorted(damaged)


def read_position(path: Path) -> JournalPosition:
    """Return the position of a journal that a host may have open. Raises JournalError."""
    try:
        with reading(path) as connection:
            return _position_in(connection)
    except LookupError as error:
        raise JournalError(f"cannot read {path}: {error}; see `honeybadger-host doctor`") from error


def copy_journal(path: Path, to: Path, *, marks: Marks) -> JournalPosition:
    """Copy a journal that a host may have open, as it is at one moment, into one checked file; return what it holds.

    Args:
        to: must not exist.
        marks: as they were before the copy's files were read: a restored host looks for every other change.
    Raises:
        JournalError: it is damaged, or cannot be read.
        WorldFailed: no space for the copy.
    """
    os.close(open_new(to))
    try:
        with closing(connect_to_read(path)) as source, closing(sqlite3.connect(to, isolation_level=None)) as copy:
            copy.execute("PRAGMA synchronous = OFF")  # whoever packs it makes that durable
            source.backup(copy)  # in one step, so under one read lock: writers of a WAL do not wait for it
            copy.execute("PRAGMA journal_mode = DELETE")  # one file
            write_marks(copy, marks)
            verdict = copy.execute("PRAGMA quick_check(1)").fetchone()[0]
            if verdict != "ok":
                raise JournalError(f"{path} is damaged ({verdict}): a backup of it would be useless")
            return _position_in(copy)
    except (sqlite3.Error, LookupError) as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            raise WorldFailed(f"cannot copy {path} to {to}: {error}") from error
        raise JournalError(f"cannot copy {path}: {error}") from error


def _position_in(connection: sqlite3.Connection) -> JournalPosition:
    connection.execute("BEGIN")  # one moment for all of it
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    (last,) = connection.execute("SELECT coalesce(max(seq), 0) FROM changes").fetchone()
    found = JournalPosition(str(meta["identity"]), last, read_marks(connection))
    connection.execute("COMMIT")
    return found
