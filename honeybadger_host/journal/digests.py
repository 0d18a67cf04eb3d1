"""A digest of each change and receipt, so that a bit that flipped in the journal's file is noticed.

Triggers keep the digests: whatever inserts, changes or deletes such a row does so through `know_digests`.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from typing import Final

CHECKED_AT_ONCE: Final = 1000  # numbers of changes that are looked at together: 20 ms
COLUMNS: Final = {
    "changes": ("seq", "at", "grp", "sender", "request", "kind", "file", "offset", "data"),
    "receipts": ("seq", "at", "grp", "sender", "request", "digest", "reply"),
}
NUMBERS: Final = {"changes": 0, "receipts": 2}


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


_TABLE: Final = """
CREATE TABLE digests (            -- of changes and receipts
    id INTEGER PRIMARY KEY,       -- 4 * seq; + 2 of a receipt
    digest BLOB NOT NULL          -- row_digest of the row's columns
);
"""
DIGESTS: Final = _TABLE + "".join(_triggers(table, columns) for table, columns in COLUMNS.items())
