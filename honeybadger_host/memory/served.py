"""The contexts that models were shown, byte for byte: tables of the ledger's database.

The beginning that many contexts share is kept once, by its hash; the rest of each context by the hash of the whole.
Both are compressed. A context is returned only if its bytes have the hash.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from honeybadger_host.journal.edits import digest_of

MAX_BYTES = 256 << 20  # size limit of the database; above it the oldest eighth of its rows is removed
TABLES: Final = """
DROP TABLE IF EXISTS served;             -- of earlier versions
DROP TABLE IF EXISTS made_with;
CREATE TABLE IF NOT EXISTS contexts (      -- `at`: milliseconds since the epoch
    number INTEGER PRIMARY KEY, hash TEXT NOT NULL, stable TEXT NOT NULL, grp TEXT NOT NULL, session TEXT NOT NULL,
    sender TEXT NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS stable (hash TEXT PRIMARY KEY, packed BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS rest (hash TEXT PRIMARY KEY, packed BLOB NOT NULL);
"""
_TOO_MANY: Final = "DELETE FROM {0} WHERE number <= (SELECT min(number) + (max(number) - min(number)) / 8 FROM {0})"


@dataclass(frozen=True, slots=True)
class Injection:
    """The recollections in a context.

    Args:
        entries: ids of the entries recalled.
        turn: number of the turn they were recalled for.
        said: (id, number in the index) of each turn and note recalled.
    """

    group: str
    session: str
    entries: tuple[str, ...]
    turn: int
    said: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Served:
    """A context that a sender was given.

    Args:
        at: milliseconds since the epoch.
        result: its `ContextResult`.
        injection: the recollections in it; None: there are none.
    """

    group: str
    session: str
    sender: str
    at: int
    result: Mapping[str, Any]
    injection: Injection | None = None


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


def keep(db: sqlite3.Connection, served: Served) -> None:
    """Keep a context. Raises sqlite3.Error."""
    result = served.result
    hash_, stable_hash, length = result["hash"], result["stable_hash"], result["stable_characters"]
    members = hash_, stable_hash, served.group, served.session, served.sender, result["seq"], served.at
    insert = "INSERT INTO contexts (hash, stable, grp, session, sender, seq, at) VALUES (?, ?, ?, ?, ?, ?, ?)"
    db.execute(insert, members)
    _keep_text(db, "stable", stable_hash, lambda: result["system"][:length].encode())
    _keep_text(db, "rest", hash_, lambda: orjson.dumps({**result, "system": result["system"][length:]}))


def _keep_text(db: sqlite3.Connection, table: str, hash_: str, text: Callable[[], bytes]) -> None:
    """Keep a text in one of the two tables, unless it is there."""
    if db.execute(f"SELECT 1 FROM {table} WHERE hash = ?", (hash_,)).fetchone() is None:  # noqa: S608  one of two names
        db.execute(f"INSERT INTO {table} VALUES (?, ?)", (hash_, zlib.compress(text(), 1)))  # noqa: S608  one of two names


def is_full(db: sqlite3.Connection) -> bool:
    """Return whether the contexts take more than `MAX_BYTES`. Raises sqlite3.Error."""
    (pages,) = db.execute("PRAGMA page_count").fetchone()
    (free,) = db.execute("PRAGMA freelist_count").fetchone()
    (size,) = db.execute("PRAGMA page_size").fetchone()
    return bool((pages - free) * size > MAX_BYTES)


def newest(db: sqlite3.Connection, group: str, condition: str, *values: object) -> ServedContext | None:
    """Return the newest context of a group that meets a condition in SQL. Raises sqlite3.Error."""
    query = f"SELECT hash, sender, seq, at FROM contexts WHERE grp = ? AND {condition} ORDER BY number DESC LIMIT 1"  # noqa: S608  constants
    found = db.execute(query, (group, *values)).fetchone()
    return None if found is None else ServedContext(*found)


def result_of(db: sqlite3.Connection, hash_: str) -> dict[str, Any] | None:
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


def prune(db: sqlite3.Connection, oldest_at: int) -> None:
    """Remove contexts served before a time, and the oldest eighth of all rows if it is full. Raises sqlite3.Error."""
    gone = db.execute("DELETE FROM contexts WHERE at < ?", (oldest_at,)).rowcount
    if is_full(db):
        gone += sum(db.execute(_TOO_MANY.format(table)).rowcount for table in ("contexts", "shown"))
    if gone:
        _remove_texts(db)


def doomed(
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
        result = result_of(db, hash_)
        yield number, result is None or is_doomed(result, session, sender)


def remove(db: sqlite3.Connection, numbers: Iterable[int]) -> None:
    """Remove contexts. Raises sqlite3.Error."""
    db.executemany("DELETE FROM contexts WHERE number = ?", [(number,) for number in numbers])
    _remove_texts(db)


def _remove_texts(db: sqlite3.Connection) -> None:
    """Remove texts that no context has."""
    db.execute("DELETE FROM rest WHERE hash NOT IN (SELECT hash FROM contexts)")
    db.execute("DELETE FROM stable WHERE hash NOT IN (SELECT stable FROM contexts)")
