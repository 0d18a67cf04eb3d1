"""A digest of each change and receipt, so that a bit that flipped in the journal's file is noticed.

Triggers keep the digests: whatever inserts, changes or deletes such a row does so through `know_digests`.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from typing import Final

CHECKED_AT_ONCE: Final = 1000  # numbers of changes that are looked at together: 20 ms
_COLUMNS: Final = {
    "changes": ("seq", "at", "grp", "sender", "request", "kind", "file", "offset", "data"),
    "receipts": ("seq", "at", "grp", "sender", "request", "digest", "reply"),
}
_NUMBERS: Final = {"changes": 0, "receipts": 2}


def row_digest(*values: object) -> bytes:
    """Return eight bytes that tell the values of a row, with their types."""
    return hashlib.blake2b(ascii(values).encode(), digest_size=8).digest()


def know_digests(connection: sqlite3.Connection) -> None:
    """Let a connection write rows that have digests."""
    connection.create_function("row_digest", -1, row_digest, deterministic=True)
    connection.execute("PRAGMA trusted_schema = ON")  # triggers call it; SQLite may be built to distrust them


def _triggers(table: str, columns: Sequence[str]) -> str:
    number = _NUMBERS[table]
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


_TABLE: Final = """
CREATE TABLE digests (            -- of changes and receipts
    id INTEGER PRIMARY KEY,       -- 4 * seq; + 2 of a receipt
    digest BLOB NOT NULL          -- row_digest of the row's columns
);
"""
DIGESTS: Final = _TABLE + "".join(_triggers(table, columns) for table, columns in _COLUMNS.items())


def stretches_in(connection: sqlite3.Connection) -> list[range]:
    """Return numbers of rows in stretches that are checked together, the newest first. Raises sqlite3.Error.

    Only existing numbers: a damaged number may be any.
    """
    numbers = " UNION ".join(f"SELECT DISTINCT seq / {CHECKED_AT_ONCE} FROM {table}" for table in _COLUMNS)  # noqa: S608  constants
    query = f"SELECT 0 UNION SELECT DISTINCT id / {4 * CHECKED_AT_ONCE} FROM digests UNION {numbers} ORDER BY 1 DESC"  # noqa: S608  constants
    firsts = (number * CHECKED_AT_ONCE for (number,) in connection.execute(query))
    return [range(first, first + CHECKED_AT_ONCE) for first in firsts]


def damaged_in(connection: sqlite3.Connection, numbers: range) -> list[str]:
    """Return the rows of some numbers that changed by themselves, as `changes 17`. Raises sqlite3.Error."""
    connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
    connection.execute("BEGIN")  # one moment for all of it
    damaged: set[str] = set()
    for table, columns in _COLUMNS.items():
        number = _NUMBERS[table]
        digests = f"SELECT id / 4, digest FROM digests WHERE id BETWEEN 4 * ? AND 4 * ? + 3 AND id % 4 = {number}"  # noqa: S608  constants
        rows = f"SELECT {', '.join(columns)} FROM {table} WHERE seq BETWEEN ? AND ?"  # noqa: S608  constants
        ends = numbers[0], numbers[-1]
        known = dict(connection.execute(digests, ends))
        found = {row[0]: row_digest(*row) for row in connection.execute(rows, ends)}
        damaged |= {f"{table} {seq}" for seq, _ in known.items() ^ found.items()}
    connection.execute("COMMIT")
    return sorted(damaged)
