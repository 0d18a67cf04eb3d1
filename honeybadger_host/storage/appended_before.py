"""How often an entry was appended before, as the journal says: what tells a lost one from another just like it."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection
from typing import Final

from honeybadger_agent.mailbox import OPERATOR
from honeybadger_host.storage.revised import REVISED_KINDS, count_notes

_IDENTICAL_WITHIN: Final = 3_600_000
_IDENTICAL_AMONG: Final = 10_000
"""Milliseconds, and changes at least. An entry says the minute in which it was decided, so the same bytes are not given
again much later; the number is for a clock that was far ahead in between."""


def count_appended(
    connection: sqlite3.Connection, file: str, entries: Collection[bytes], before: int, last_at: int
) -> Counter[bytes]:
    """Return how many changes before the seq `before` appended just each of `entries` to `file`.

    Those of the operator are not counted: what is undone stood there before. Notes that were removed since count no
    more. Reads the changes of the hour before, and 10,000 at least: an index by file would make every commit dearer.

    Args:
        last_at: when the newest change was made, milliseconds since the epoch.
    """
    query = "SELECT kind, sender, data FROM changes WHERE seq >= ? AND seq < ? AND file = ?"
    counts: Counter[bytes] = Counter()
    for kind, sender, data in connection.execute(query, (_first_since(connection, before, last_at), before, file)):
        if kind in REVISED_KINDS:
            counts.update(count_notes(kind, data))
        elif sender != OPERATOR:
            counts[data] += 1
    return +Counter({entry: counts[entry] for entry in entries})


def _first_since(connection: sqlite3.Connection, seq: int, last_at: int) -> int:
    """Return a seq before which all is older by an hour, and by some changes, than `seq`. Times never fall."""
    query = "SELECT seq, at FROM changes WHERE seq >= ? ORDER BY seq LIMIT 1"
    newest = connection.execute(query, (seq,)).fetchone()
    since = (last_at if newest is None else newest[1]) - _IDENTICAL_WITHIN
    low, high = 0, seq
    while low < high:
        middle = (low + high) // 2
        found, at = connection.execute(query, (middle,)).fetchone() or (seq, since)
        low, high = (found + 1, high) if at < since else (low, middle)
    return min(low, seq - _IDENTICAL_AMONG)
