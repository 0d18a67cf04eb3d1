"""The journal of an earlier version, in which people's edits stood apart and notes had rows of a form of their own.

Each edit becomes a change with its number, and each change within a file says which lines took the place of which.
If the past of a file does not begin with its first change, the oldest known text is kept. The first host of this
version does it once.
"""

import sqlite3
import zlib
from collections.abc import Iterable, Sequence
from itertools import groupby

import orjson

from honeybadger_host.journal.changes import ABSENT, NOTE_REMOVED, WHOLE_KINDS, fingerprint
from honeybadger_host.journal.edits import (
    FORGOTTEN_DIGEST,
    LINE_KINDS,
    REVISED_KINDS,
    Edit,
    fingerprint_of,
    insert_texts,
    is_append,
    is_edit,
    is_first,
    packed_hunks,
    text_after,
    text_before,
)
from honeybadger_host.journal.line_hunks import Hunk, hunks_between, lines_of, reversed_hunks
from honeybadger_host.journal.schema import FORGOTTEN_BASE, Row

_FORGOTTEN = (FORGOTTEN_BASE, fingerprint_of(FORGOTTEN_DIGEST))  # fingerprints of what is not known any more


def fold_edits(connection: sqlite3.Connection) -> None:
    """Make one table of changes, and let the past of each file begin where it is known. The transaction is open."""
    lines: dict[str, bytes] = dict(connection.execute("SELECT lower(hex(hash)), text FROM lines"))
    line_of = lines.__getitem__
    for seq, at, group, author, event, file, before, after, packed in connection.execute("SELECT * FROM edits"):
        told = None if packed is None else orjson.loads(packed)
        hunks = told and [Hunk(at, [*map(line_of, removed)], [*map(line_of, added)]) for at, removed, added in told]
        row = Edit(event, before, after, hunks).row(seq, at, group, author, file)
        connection.execute("INSERT INTO changes VALUES (?,?,?,?,?,?,?,?,?)", row)
    connection.execute("DROP TABLE edits")
    connection.execute("DROP TABLE lines")
    kinds = orjson.dumps([*LINE_KINDS]).decode()
    query = "SELECT file FROM seen UNION SELECT file FROM changes WHERE kind IN (SELECT value FROM json_each(?))"
    begin_pasts(connection, [file for (file,) in connection.execute(query, (kinds,))])


def begin_pasts(connection: sqlite3.Connection, files: Iterable[str]) -> None:
    """Keep the texts with which the pasts of some files begin, and give their rows the form of this version."""
    names = orjson.dumps([*files]).decode()
    query = "SELECT file, seq, text FROM seen WHERE file IN (SELECT value FROM json_each(?))"
    seen = {file: (seq, text and zlib.decompress(text)) for file, seq, text in connection.execute(query, (names,))}
    query = "SELECT * FROM changes WHERE file IN (SELECT value FROM json_each(?)) ORDER BY file, seq"
    rows = map(Row._make, connection.execute(query, (names,)).fetchall())
    for file, of_file in groupby(rows, lambda row: row.file):
        _begin_past(connection, [*of_file], *seen.pop(file, (0, None)))
    # of those that are left no change is known
    insert_texts(connection, [(file, seq + 1, text) for file, (seq, text) in seen.items() if text is not None])


def _begin_past(connection: sqlite3.Connection, rows: Sequence[Row], seen_seq: int, text: bytes | None) -> None:
    """Follow the past of a file back from its newest known text, and keep the oldest where no change tells of it.

    Args:
        text: how the file was found last, with all changes up to `seen_seq`; None: that was not kept.
    """
    if text is None and rows[-1].kind == "edit_removed":
        text, seen_seq = b"", rows[-1].seq
    for old in reversed(rows):
        after = None if old.seq > seen_seq and not is_edit(old) else text
        row = in_new_form(old, after)
        if row is not old:
            connection.execute("UPDATE changes SET data = ? WHERE seq = ?", (row.data, row.seq))
        if after is None:
            continue
        text = _before(after, row)
        is_told = row.kind in WHOLE_KINDS and text_after(after, row) == after
        if text is None and not is_told:
            insert_texts(connection, [(row.file, row.seq + 1, after)])
    if text is not None and (text or not is_first(rows[0])):
        insert_texts(connection, [(rows[0].file, rows[0].seq, text)])


def _before(text: bytes, row: Row) -> bytes | None:
    """Return the text before a change, or None if it is unknown."""
    try:
        found = text_before(text, row)
    except ValueError:
        return b"" if row.kind in WHOLE_KINDS and row.offset == ABSENT else None
    if is_append(row):
        return None if found and is_first(row) else found
    is_nothing = not found and row.offset == ABSENT
    return found if is_nothing or row.offset in (*_FORGOTTEN, fingerprint(found)) else None


def in_new_form(row: Row, after: bytes | None = None) -> Row:
    """Return a row in the form of this version, which has lines where the older one had notes.

    Args:
        after: the file's text after the change; None: it is unknown, and then the lines of notes have no place.
    Raises ValueError, LookupError or TypeError where it has neither form.
    """
    value = orjson.loads(row.data) if row.kind in REVISED_KINDS else {}
    if "size" not in value:
        return row
    notes: dict[int, tuple[int, bytes]] = {}  # end -> begin and text of neighbouring notes
    for told in value["notes"]:
        at, text = notes.pop(told["at"], (told["at"], b""))
        text += told["text"].encode()
        notes[at + len(text)] = at, text
    whole = after  # the text that has the notes
    if whole is not None and row.kind == NOTE_REMOVED:
        for at, note in notes.values():
            whole = whole[:at] + note + whole[at:]
    removed: list[Hunk] = []
    for at, note in notes.values():
        removed += [Hunk(0, lines_of(note), [])] if whole is None else _lines_at(whole, at, note)
    hunks = removed if row.kind == NOTE_REMOVED else reversed_hunks(removed)
    return row._replace(data=orjson.dumps({"hunks": packed_hunks(hunks) if notes else value.get("hunks", [])}))


def _lines_at(whole: bytes, at: int, note: bytes) -> list[Hunk]:
    """Return the hunks that remove a note from a text, in whole lines."""
    begin, end = whole.rfind(b"\n", 0, at) + 1, at + len(note)
    if begin < at:  # it began within a line, whose end is that of the line after the note
        end = whole.find(b"\n", end) + 1 or len(whole)
    left = lines_of(whole[begin:at] + whole[at + len(note) : end])
    first = whole.count(b"\n", 0, begin)
    return [hunk._replace(at=first + hunk.at) for hunk in hunks_between(lines_of(whole[begin:end]), left)]
