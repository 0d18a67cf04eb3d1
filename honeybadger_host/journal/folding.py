"""The journal of an earlier version, in which people's edits stood apart and notes had rows of a form of their own.

Each edit becomes a change with its number, and each change within a file says which lines took the place of which.
If the past of a file does not begin with its first change, the oldest known text is kept. The first host of this
version does it once.
"""

import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import orjson

from honeybadger_host.journal.changes import ABSENT, NOTE_REMOVED, REMOVED, WHOLE_KINDS, fingerprint
from honeybadger_host.journal.edits import (
    FORGOTTEN_DIGEST,
    LINE_KINDS,
    REVISED_KINDS,
    Edit,
    fingerprint_of,
    hunks_of,
    insert_texts,
    is_append,
    is_edit,
    is_first,
    packed_hunks,
    text_after,
    text_before,
)
from honeybadger_host.journal.line_hunks import Hunk, lines_of, reversed_hunks
from honeybadger_host.journal.schema import FORGOTTEN_BASE, Row

_FORGOTTEN: Final = (FORGOTTEN_BASE, fingerprint_of(FORGOTTEN_DIGEST))  # fingerprints of what is not known any more


@dataclass(slots=True)
class _Old:
    """A file as an earlier version knew it.

    Args:
        seen: how it was found last, with all changes up to `seen_seq`; None: that was not kept.
    """

    file: str
    rows: list[Row]
    seen_seq: int
    seen: bytes | None


def fold_edits(connection: sqlite3.Connection) -> None:
    """Make one table of changes, and let the past of each file begin where it is known. The transaction is open."""
    for seq, at, group, author, event, file, before, after, packed in connection.execute("SELECT * FROM edits"):
        hunks = None if packed is None else [*_unpacked(connection, orjson.loads(packed))]
        row = Edit(event, before, after, hunks).row(seq, at, group, author, file)
        connection.execute("INSERT INTO changes VALUES (?,?,?,?,?,?,?,?,?)", row)
    connection.execute("DROP TABLE edits")
    connection.execute("DROP TABLE lines")
    kinds = orjson.dumps([*LINE_KINDS]).decode()
    query = "SELECT file FROM seen UNION SELECT file FROM changes WHERE kind IN (SELECT value FROM json_each(?))"
    begin_pasts(connection, [file for (file,) in connection.execute(query, (kinds,))])


def _unpacked(connection: sqlite3.Connection, packed: Iterable[Sequence[Any]]) -> Iterator[Hunk]:
    for at, *sides in packed:
        yield Hunk(at, *([_line(connection, hash_) for hash_ in side] for side in sides))


def _line(connection: sqlite3.Connection, hash_: str) -> bytes:
    (text,) = connection.execute("SELECT text FROM lines WHERE hash = ?", (bytes.fromhex(hash_),)).fetchone()
    return bytes(text)


def begin_pasts(connection: sqlite3.Connection, files: Iterable[str]) -> None:
    """Keep the texts with which the pasts of some files begin, and give their rows the form of this version."""
    names = orjson.dumps([*files]).decode()
    query = "SELECT file, seq, text FROM seen WHERE file IN (SELECT value FROM json_each(?))"
    seen = {file: (seq, text and zlib.decompress(text)) for file, seq, text in connection.execute(query, (names,))}
    query = "SELECT * FROM changes WHERE file IN (SELECT value FROM json_each(?)) ORDER BY file, seq"
    rows = map(Row._make, connection.execute(query, (names,)).fetchall())
    for file, of_file in groupby(rows, lambda row: row.file):
        _begin_past(connection, _Old(file, [*of_file], *seen.pop(file, (0, None))))
    unchanged = [(file, seq + 1, text) for file, (seq, text) in seen.items() if text is not None]
    insert_texts(connection, unchanged)


def _begin_past(connection: sqlite3.Connection, old: _Old) -> None:
    """Follow the past of a file, and keep a text where no change tells of it."""
    known_from, oldest = _oldest_known(old)
    now: bytes | None = b"" if is_first(old.rows[0]) else None
    for number, row in enumerate(old.rows):
        if number == known_from and now != oldest:
            insert_texts(connection, [(old.file, row.seq, oldest)])
            now = oldest
        now = _after(now, _united(connection, row, now))
    if known_from == len(old.rows) and now != oldest:
        insert_texts(connection, [(old.file, max(old.seen_seq, old.rows[-1].seq) + 1, oldest)])


def _rewrite(connection: sqlite3.Connection, row: Row, data: bytes) -> Row:
    connection.execute("UPDATE changes SET data = ? WHERE seq = ?", (data, row.seq))
    return row._replace(data=data)


def _after(text: bytes | None, row: Row) -> bytes | None:
    """Return a text after a change, or None if it is not known."""
    if text is None and row.kind not in WHOLE_KINDS and not is_first(row):
        return None
    try:
        return text_after(text or b"", row)
    except ValueError:
        return None


# ----------------------------------------------------------------------------------------------------------- backward


def _oldest_known(old: _Old) -> tuple[int, bytes]:
    """Return where the text is known from, when the newest is followed back: how many changes before, and the text.

    -1: the newest is not known.
    """
    rows = old.rows
    last, text = len(rows), old.seen
    if text is None:
        whole = [number for number, row in enumerate(rows) if row.kind in (*WHOLE_KINDS, "edit_removed")]
        if not whole:
            return -1, b""
        last = whole[-1] + 1
        text = b"" if rows[whole[-1]].kind.endswith(REMOVED) else rows[whole[-1]].data
    for number in range(last - 1, -1, -1):
        row = rows[number]
        if old.seen is not None and row.seq > old.seen_seq and not is_edit(row):
            continue
        earlier = _before(text, row)
        if earlier is None:
            return number + 1, text
        text = earlier
    return 0, text


def _before(text: bytes, row: Row) -> bytes | None:
    """Return the text before a change, or None if it is unknown."""
    if row.kind in WHOLE_KINDS:
        return b"" if row.offset == ABSENT else None
    try:
        notes = _notes_of(row)
        found = text_before(text, row) if notes is None else _with_notes(text, row, notes, is_back=True)
    except ValueError:
        return None
    if is_append(row):
        return None if found and is_first(row) else found
    is_nothing = not found and row.offset == ABSENT
    return found if is_nothing or row.offset in (*_FORGOTTEN, fingerprint(found)) else None


# -------------------------------------------------------------------------------------------------------- rows of notes


def _notes_of(row: Row) -> list[tuple[int, bytes]] | None:
    """Return place and text of the notes that a row of the earlier form has, or None if it has another form."""
    value = orjson.loads(row.data) if row.kind in REVISED_KINDS else {}
    return [(note["at"], note["text"].encode()) for note in value["notes"]] if "size" in value else None


def _hunks_alone(row: Row) -> bytes:
    """Return the data of a row of the earlier form without its notes."""
    return orjson.dumps({"hunks": orjson.loads(row.data).get("hunks", [])})


def check_lines(row: Row) -> None:
    """Raise ValueError, LookupError or TypeError where a change within a file has neither form."""
    hunks_of(row if _notes_of(row) is None else row._replace(data=_hunks_alone(row)))


def _with_notes(text: bytes, row: Row, notes: Sequence[tuple[int, bytes]], *, is_back: bool = False) -> bytes:
    """Return a text after a row of the earlier form, or before it."""
    if (row.kind == NOTE_REMOVED) is is_back:
        for at, note in notes:
            text = text[:at] + note + text[at:]
        return text
    for at, note in reversed(notes):
        text = text[:at] + text[at + len(note) :]
    return text


def _united(connection: sqlite3.Connection, row: Row, before: bytes | None) -> Row:
    """Return a row in the form of this version.

    Args:
        before: the text right before it; None: not known, and then its lines have no place.
    """
    notes = _notes_of(row)
    if notes is None:
        return row
    if not notes:
        return _rewrite(connection, row, _hunks_alone(row))
    text = before if row.kind == NOTE_REMOVED or before is None else _with_notes(before, row, notes)
    removed: list[Hunk] = []
    for at, note in notes:
        if text is None:
            removed.append(Hunk(0, lines_of(note), []))
        else:
            begin = text.rfind(b"\n", 0, at) + 1
            lines, left = lines_of(text[begin : at + len(note)]), lines_of(text[begin:at])
            removed.append(Hunk(text.count(b"\n", 0, begin), lines, left))
    hunks = removed if row.kind == NOTE_REMOVED else reversed_hunks(removed)
    return _rewrite(connection, row, orjson.dumps({"hunks": packed_hunks(hunks)}))
