"""The journal of a home when it is opened: made when there never was one, else checked and brought forward."""

from __future__ import annotations

import os
import sqlite3
import uuid
from contextlib import closing
from pathlib import Path
from typing import Final

import structlog

from honeybadger_host.errors import JournalError
from honeybadger_host.files.safe_files import open_new, sync_folder
from honeybadger_host.journal.folding import fold_edits
from honeybadger_host.journal.schema import (
    APPLICATION_ID,
    FORWARD,
    LOG_SEQ,
    SCHEMA,
    SCHEMA_VERSION,
)

log = structlog.get_logger()

BEFORE: Final = ".before-"  # In the name of a kept earlier journal: the schema follows that took its place


def use_wal(connection: sqlite3.Connection) -> None:
    """Switch to the WAL, which the file remembers: only for a database that is known to be a journal, or new."""
    connection.execute("PRAGMA journal_mode = WAL")


def execute_all(connection: sqlite3.Connection, statements: str) -> None:
    """Run statements one by one, in the transaction that is open."""
    for statement in statements.split(";\n"):
        if statement.strip():
            connection.execute(statement)


def bring_forward(connection: sqlite3.Connection, path: Path) -> None:
    """Make the current schema of an older one, all or nothing. Raises JournalError if it is of an unknown version."""
    version = known_version(connection, path)
    if version == SCHEMA_VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        execute_all(connection, FORWARD[version])
        fold_edits(connection)
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def keep_before(connection: sqlite3.Connection, path: Path) -> None:
    """Keep a journal of an earlier version next to it, until the operator or `forget` removes it.

    Raises sqlite3.Error, OSError, JournalError.
    """
    if known_version(connection, path) == SCHEMA_VERSION:
        return
    kept = path.with_name(f"{path.name}{BEFORE}{SCHEMA_VERSION}")
    temporary = kept.with_name(f"{kept.name}.tmp")
    temporary.unlink(missing_ok=True)
    os.close(open_new(temporary))
    try:
        with closing(sqlite3.connect(temporary, isolation_level=None)) as copy:
            connection.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file
        os.rename(temporary, kept)
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def known_version(connection: sqlite3.Connection, path: Path) -> int:
    """Return the schema of a journal. Raises JournalError: this version neither has it nor brings it forward."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version != SCHEMA_VERSION and version not in FORWARD:
        older = " and ".join(map(str, FORWARD))
        raise JournalError(
            f"{path} has schema {version}; this host knows {SCHEMA_VERSION} and brings {older} forward: run the "
            "version that made it, or take the home to a version of schema 10 first"
        )
    return version


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
        connection.execute("BEGIN IMMEDIATE")
        execute_all(connection, SCHEMA)
        connection.execute("INSERT INTO meta VALUES ('identity', ?), ('settled_seq', 0)", (uuid.uuid4().hex,))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
        application = APPLICATION_ID
    if application != APPLICATION_ID:
        raise JournalError(f"{path} is a database, but not a Honeybadger journal: move it away or choose another home")
    version = known_version(connection, path)
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
    if version != SCHEMA_VERSION:
        keep_before(connection, path)
        bring_forward(connection, path)
        log.info("journal.brought_forward", before=version, now=SCHEMA_VERSION)
    return str(meta["identity"])


def gone(path: Path, state: str, identity: str) -> JournalError:
    return JournalError(
        f"{path} {state}, but this home had a journal ({identity}). Starting without it would forget which requests "
        f"were done. Restore it from a backup; or, if you accept that, remove {path.parent / 'host.lock'} and start "
        f"again: notes and turns in the files stay."
    )
