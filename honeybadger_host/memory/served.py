"""The contexts that were put before models: the hash of each, its moment, and what it takes to make it again.

Tables of the injection ledger's database. The texts are not in them: they are in the journal.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final

import orjson

from honeybadger_host.domain import Served
from honeybadger_host.storage.edits import digest_of

MOST_SERVED: Final = 100_000
"""About 50 MiB; the oldest are forgotten."""
_FORGET_EVERY: Final = 500
SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS served (
    number INTEGER PRIMARY KEY, hash TEXT NOT NULL, grp TEXT NOT NULL, session TEXT NOT NULL, sender TEXT NOT NULL,
    seq INTEGER NOT NULL,              -- every change of the group up to it is in the context
    at INTEGER NOT NULL,               -- milliseconds since the epoch
    settings BLOB NOT NULL, identity BLOB NOT NULL,   -- hashes in `made_with`
    made TEXT NOT NULL                 -- JSON, see `Served`
);
CREATE TABLE IF NOT EXISTS made_with (
    hash BLOB PRIMARY KEY, text TEXT NOT NULL
) WITHOUT ROWID;
"""
_INSERT: Final = (
    "INSERT INTO served (hash, grp, session, sender, seq, at, settings, identity, made) VALUES (?,?,?,?,?,?,?,?,?)"
)
_SELECT: Final = (
    "SELECT served.hash, grp, session, sender, seq, at, s.text, i.text, made FROM served "
    "LEFT JOIN made_with s ON s.hash = settings LEFT JOIN made_with i ON i.hash = identity"
)
_MADE: Final = ("budget_tokens", "message_tokens", "most_turns", "skips_newest", "files", "recalled", "is_torn")


def keep_served(connection: sqlite3.Connection, served: Served, known: dict[str, bytes]) -> None:
    """Write one down.

    Args:
        known: what is in `made_with`, with its hashes.
    """
    hashes: list[bytes] = []
    for text in (served.settings, served.identity):
        if (hash_ := known.get(text)) is None:
            hash_ = digest_of(text.encode())
            connection.execute("INSERT OR IGNORE INTO made_with VALUES (?, ?)", (hash_, text))
            known[text] = hash_
        hashes.append(hash_)
    made = orjson.dumps({name: getattr(served, name) for name in _MADE}).decode()
    row = (served.hash, served.group, served.session, served.sender, served.seq, served.at, *hashes, made)
    number = connection.execute(_INSERT, row).lastrowid or 0
    if number % _FORGET_EVERY == 0:
        connection.execute("DELETE FROM served WHERE number <= ?", (number - MOST_SERVED,))


def find_served(connection: sqlite3.Connection, group: str, hash_: str) -> Served | None:
    """Return the newest context of a group with a hash that begins so."""
    query = f"{_SELECT} WHERE grp = ? AND substr(served.hash, 1, ?) = ? ORDER BY number DESC LIMIT 1"
    return next(_read(connection, query, (group, len(hash_), hash_)), None)


def last_served(connection: sqlite3.Connection, group: str, session: str, seq: int, at: int) -> Iterator[Served]:
    """Yield the contexts of a session up to a moment, the newest first."""
    query = f"{_SELECT} WHERE grp = ? AND session = ? AND seq <= ? AND at <= ? ORDER BY number DESC"
    return _read(connection, query, (group, session, seq, at))


def every_served(connection: sqlite3.Connection, group: str) -> Iterator[Served]:
    """Yield the contexts of a group, oldest first."""
    return _read(connection, f"{_SELECT} WHERE grp = ? ORDER BY number", (group,))


def _read(connection: sqlite3.Connection, query: str, values: tuple[object, ...]) -> Iterator[Served]:
    for hash_, group, session, sender, seq, at, settings, identity, made in connection.execute(query, values):
        yield Served(hash_, group, session, sender, seq, at, settings or "", identity or "", **orjson.loads(made))
