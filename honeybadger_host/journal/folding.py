"""The journal of an earlier version, in which people's edits stood apart and the past of a file was followed back.

Each edit becomes a change with its number. Where the past of a file does not begin with the first change of it, the
oldest text that is known is kept. Done once, by the first host of this version.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import orjson

from honeybadger_host.journal.atomic_files import ABSENT, WHOLE_KINDS, fingerprint
from honeybadger_host.journal.changes import REMOVED
from honeybadger_host.journal.edits import (
    FORGOTTEN_DIGEST,
    Edit,
    digest_of,
    edit_of,
    fingerprint_of,
    insert_texts,
    is_edit,
)
from honeybadger_host.journal.line_hunks import Hunk, apply_hunks, hunks_between, lines_of
from honeybadger_host.journal.revised import LINE_KINDS, is_append, is_first, new_text, old_text, undo_hunks
from honeybadger_host.journal.schema import FORGOTTEN_BASE, IS_EDIT, Row


class _Old(NamedTuple):
    """A file as an earlier version knew it.

    Args:
        seen: how it was found last, with all changes up to `seen_seq`; None: that was not kept.
        texts: number of a change -> the text that it replaced.
    """

    file: str
    rows: list[Row]
    seen_seq: int
    seen: bytes | None
    texts: Mapping[int, bytes]


def fold_edits(connection: sqlite3.Connection) -> None:
    """Make one table of changes, and let the past of each file begin where it is known. The transaction is open."""
    for seq, at, group, author, event, file, before, after, packed, unread in connection.execute("SELECT * FROM edits"):
        hunks = None if packed is None else [*_unpacked(connection, orjson.loads(packed))]
        row = Edit(event, before, after, hunks, unread).row(seq, at, group, author, file)
        connection.execute("INSERT INTO changes VALUES (?,?,?,?,?,?,?,?,?)", row)
    connection.execute("DELETE FROM digests WHERE id % 4 = 1")
    connection.execute("DROP TABLE edits")
    connection.execute("DROP TABLE lines")
    query = f"SELECT file FROM seen UNION SELECT file FROM texts UNION SELECT file FROM changes WHERE {IS_EDIT}"  # noqa: S608  a constant
    files = [file for (file,) in connection.execute(query)]
    begin_pasts(connection, files)


def _unpacked(connection: sqlite3.Connection, packed: Iterable[Sequence[Any]]) -> Iterator[Hunk]:
    for at, *sides in packed:
        yield Hunk(at, *([_line(connection, hash_) for hash_ in side] for side in sides))


def _line(connection: sqlite3.Connection, hash_: str) -> bytes:
    (text,) = connection.execute("SELECT text FROM lines WHERE hash = ?", (bytes.fromhex(hash_),)).fetchone()
    return bytes(text)


def begin_pasts(connection: sqlite3.Connection, files: Iterable[str]) -> None:
    """Keep the texts with which the pasts of some files begin, and put overtaken edits where they belong."""
    names = orjson.dumps([*files]).decode()
    known: dict[str, dict[int, bytes]] = {}
    for file, seq, text in connection.execute("SELECT file, seq, text FROM texts"):
        known.setdefault(file, {})[seq] = zlib.decompress(text)
    connection.execute("DELETE FROM texts WHERE file IN (SELECT value FROM json_each(?))", (names,))
    query = "SELECT file, seq, text FROM seen WHERE file IN (SELECT value FROM json_each(?))"
    seen = {file: (seq, text and zlib.decompress(text)) for file, seq, text in connection.execute(query, (names,))}
    query = "SELECT * FROM changes WHERE file IN (SELECT value FROM json_each(?)) ORDER BY file, seq"
    rows = map(Row._make, connection.execute(query, (names,)).fetchall())
    for file, of_file in groupby(rows, lambda row: row.file):
        old = _Old(file, _in_order(connection, [*of_file]), *seen.pop(file, (0, None)), known.get(file, {}))
        _begin_past(connection, old)
    unchanged = [(file, seq + 1, text) for file, (seq, text) in seen.items() if text is not None]
    insert_texts(connection, unchanged)


def _in_order(connection: sqlite3.Connection, rows: Sequence[Row]) -> list[Row]:
    """Return rows with edits that the host replaced before it looked at them before what replaced them."""
    ordered: list[Row] = []
    early: set[int] = set()
    held: int | None = None
    for number, row in enumerate(rows):
        if row.seq in early:
            continue
        if row.kind in WHOLE_KINDS and held not in (None, row.offset):
            later = next((other for other in rows[number + 1 :] if is_edit(other)), None)
            if later is not None and later.offset == held and _made(edit_of(later)) == row.offset:
                early.add(later.seq)
                ordered.append(_rewrite(connection, later, edit_of(later)._replace(overtaken_by=row.seq)))
        ordered.append(row)
        held = _left(row)
    return ordered


def _left(row: Row) -> int | None:
    """Return the fingerprint of the file after a change; None: the row alone does not tell."""
    if is_edit(row):
        return fingerprint_of(edit_of(row).after)
    if row.kind not in WHOLE_KINDS:
        return None
    return fingerprint(None if row.kind.endswith(REMOVED) else row.data)


def _made(edit: Edit) -> int | None:
    """Return the fingerprint of the text after an edit; None: the edit is not kept."""
    return None if edit.hunks is None else fingerprint_of(edit.after)


def _rewrite(connection: sqlite3.Connection, row: Row, edit: Edit) -> Row:
    made = edit.row(row.seq, row.at, row.group, row.sender, row.file)
    connection.execute("UPDATE changes SET data = ? WHERE seq = ?", (made.data, row.seq))
    return made


def _begin_past(connection: sqlite3.Connection, old: _Old) -> None:
    """Follow the past of a file, and keep a text where no change tells of it."""
    known_from, oldest = _oldest_known(old)
    now: bytearray | None = bytearray() if is_first(old.rows[0]) else None
    appended: list[Row] = []
    for number, row in enumerate(old.rows):
        if number == known_from and (now is None or bytes(now) != oldest):
            insert_texts(connection, [(old.file, row.seq, oldest)])
            now = bytearray(oldest)
        if is_append(row):
            appended.append(row)
            now = None if now is None and row.offset else (now or bytearray()) + row.data
            continue
        if is_edit(row) and now is not None:
            row = _upon(connection, row, bytes(now), appended)
        now = _after(now, row)
        appended = []
    if known_from == len(old.rows) and (now is None or bytes(now) != oldest):
        insert_texts(connection, [(old.file, max(old.seen_seq, old.rows[-1].seq) + 1, oldest)])


def _upon(connection: sqlite3.Connection, row: Row, text: bytes, appended: Sequence[Row]) -> Row:
    """Return an edit as one of the text right before it: what came while it was looked at stays."""
    edit, kept = edit_of(row), text
    if edit.hunks is None or edit.before in (None, FORGOTTEN_DIGEST, digest_of(text)):
        return row
    for late in reversed(appended):
        if not kept.endswith(late.data):
            return row
        kept = kept.removesuffix(late.data)
        if digest_of(kept) == edit.before:
            made = b"".join(apply_hunks(lines_of(kept), edit.hunks)) + text[len(kept) :]
            return _rewrite(connection, row, edit._replace(hunks=hunks_between(lines_of(text), lines_of(made))))
    return row


def _after(text: bytearray | None, row: Row) -> bytearray | None:
    """Return a text after a change that is no append; None: it is not known."""
    if row.kind in WHOLE_KINDS:
        return bytearray() if row.kind.endswith(REMOVED) else bytearray(row.data)
    try:
        if not is_edit(row):
            return None if text is None else bytearray(new_text(bytes(text), row))
        edit = edit_of(row)
        if edit.hunks is None or (text is None and edit.before is not None):
            return None
        return bytearray(b"".join(apply_hunks(lines_of(bytes(text or b"")), edit.hunks)))
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
    end = len(text)
    for number in range(last - 1, -1, -1):
        row = rows[number]
        if last == len(rows) and old.seen is not None and not is_edit(row) and row.seq > old.seen_seq:
            continue
        if is_append(row):
            is_more = number == 0 and is_first(row) and end > len(row.data)
            if is_more or not text.endswith(row.data, 0, end):
                return number + 1, text[:end]
            end -= len(row.data)  # without a copy for each of 10,000 notes
            continue
        earlier = _before(text[:end], row, old.texts)
        if earlier is None:
            return number + 1, text[:end]
        text, end = earlier, len(earlier)
    return 0, text[:end]


def _before(text: bytes, row: Row, texts: Mapping[int, bytes]) -> bytes | None:
    """Return what a text was made of; None: that is not known."""
    if row.kind in WHOLE_KINDS:
        return b"" if row.offset == ABSENT else texts.get(row.seq)
    is_emptied = row.offset == FORGOTTEN_BASE
    try:
        if is_edit(row):
            return _before_edit(text, edit_of(row))
        if is_emptied and row.kind not in LINE_KINDS:
            return None  # where the notes stood is not known any more
        found = old_text(text, row)
        is_it = new_text(found, row) == text
    except ValueError:
        return None
    return found if is_it and (is_emptied or row.offset == fingerprint(found)) else None


def _before_edit(text: bytes, edit: Edit) -> bytes | None:
    if edit.hunks is None:
        return None
    found = undo_hunks(text, edit.hunks)
    sides = ((edit.before, found), (edit.after, text))
    return found if all(digest in (None, FORGOTTEN_DIGEST, digest_of(side)) for digest, side in sides) else None
