"""Changes of lines, and what the host knows of the files (docs/decisions/026-removing-notes.md, 027-edits.md).

A person's edit, and a change of the host within a file, is a row of `changes` that says which lines took the place of
which. `seen` says how a file was when the host looked at it last, with all changes up to a seq.
"""

import base64
import hashlib
import sqlite3
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from honeybadger_host.files.safe_files import Signature
from honeybadger_host.journal.changes import (
    ABSENT,
    EDIT_UNDONE,
    NOTE_EDITED,
    NOTE_REMOVED,
    NOTE_RESTORED,
    REMOVED,
    WHOLE_KINDS,
)
from honeybadger_host.journal.line_hunks import Hunk, reversed_hunks, text_with
from honeybadger_host.journal.schema import EDIT_KINDS, IS_EDIT, IS_UNREAD, Row, insert_changes, read_meta, read_rows

# In `meta`: all changes of the host up to this seq were looked for in people's files; missing before the first look at
# a home is finished.
LOOKED_AT = "looked_at"
# In `meta`: the files of all kinds of documents that were there are known since; else the value is another one.
ADOPTED = "adopted"
ADOPTED_KINDS = 5
# Kinds of changes of the host within a file; `Row.offset` is the fingerprint of what was there.
REVISED_KINDS = frozenset((EDIT_UNDONE, NOTE_EDITED, NOTE_REMOVED, NOTE_RESTORED))
LINE_KINDS = REVISED_KINDS | {*EDIT_KINDS}  # kinds of rows that name replaced lines
KEPT_SAVED_MS = 3_600_000  # age of the oldest text that a save may have been made from, in milliseconds
FILES_AT_ONCE = 256
FORGOTTEN_DIGEST = b""  # replaces the digest of a file that held text forgotten since


class Edit(NamedTuple):
    """The change that a person made to a file, as the row of the edit says it.

    Args:
        event: first seq of the edits noticed together, as after a `git checkout`.
        before, after: `digest_of` the file; None: there was none.
        hunks: None when the text was not kept, as of a large file.
        unread: how many notes it took out that its author may not have read.
        overtaken_by: the change that was decided upon this edit, and has a smaller number; 0: none.
    """

    event: int = 0
    before: bytes | None = None
    after: bytes | None = None
    hunks: Sequence[Hunk] | None = None
    unread: int = 0
    overtaken_by: int = 0

    @property
    def added(self) -> int | None:
        """Lines that came; None when that is not known."""
        return None if self.hunks is None else sum(len(hunk.added) for hunk in self.hunks)

    @property
    def removed(self) -> int | None:
        """Lines that went; None when that is not known."""
        return None if self.hunks is None else sum(len(hunk.removed) for hunk in self.hunks)

    @property
    def kind(self) -> str:
        """Return its kind in `log`."""
        return "edit_new" if self.before is None else "edit_removed" if self.after is None else "edit"

    def row(self, seq: int, at: int, group: str, author: str, file: str) -> Row:
        """Return the change that the journal keeps of it."""
        before, after = (None if digest is None else digest.hex() for digest in (self.before, self.after))
        hunks = None if self.hunks is None else packed_hunks(self.hunks)
        told = self._replace(hunks=None)._asdict() | {"before": before, "after": after, "hunks": hunks}
        return Row(seq, at, group, author, "", self.kind, file, fingerprint_of(self.before), orjson.dumps(told))


def digest_of(data: bytes) -> bytes:
    """Return 16 bytes that tell what a file, a line or a text holds; of a file, their beginning is its fingerprint."""
    return hashlib.sha256(data).digest()[:16]


def fingerprint_of(digest: bytes | None) -> int:
    """Return the `changes.fingerprint` of what has this digest."""
    return -1 if digest is None else int.from_bytes(digest[:8]) >> 1


def is_edit(row: Row) -> bool:
    """Return whether a change is a person's edit."""
    return row.kind in EDIT_KINDS


def place_of(row: Row) -> tuple[int, int]:
    """Return the place of a change among those of its file: an edit comes before the change that overtook it."""
    overtaken_by = edit_of(row).overtaken_by if is_edit(row) else 0
    return (overtaken_by, 0) if overtaken_by else (row.seq, 1)


def is_append(row: Row) -> bool:
    """Return whether a change added something at the end of its file."""
    return not (row.kind in WHOLE_KINDS or row.kind in LINE_KINDS)


def is_first(row: Row) -> bool:
    """Return whether there was no such file before a change, or an empty one."""
    return row.kind not in REVISED_KINDS and row.offset == (0 if is_append(row) else ABSENT)


def text_after(text: bytes, row: Row) -> bytes:
    """Return a text after a change. Raises ValueError if the change is not about this text, or its own is not kept."""
    if row.kind in WHOLE_KINDS:
        return b"" if row.kind.endswith(REMOVED) else row.data
    return text + row.data if is_append(row) else text_with(text, hunks_of(row))


def text_before(text: bytes, row: Row) -> bytes:
    """Return a text before a change. Raises ValueError: as `text_after`, or the file was written as a whole."""
    if row.kind in WHOLE_KINDS:
        raise ValueError("the file was written as a whole")
    if not is_append(row):
        return text_with(text, reversed_hunks(hunks_of(row)))
    if not text.endswith(row.data):
        raise ValueError("what was added is not at the end")
    return text[: -len(row.data)]


def hunks_of(row: Row) -> Sequence[Hunk]:
    """Return the hunks of a change of lines. Raises ValueError if the text of an edit was not kept."""
    hunks = edit_of(row).hunks
    if hunks is None:
        raise ValueError("the text of an edit was not kept")
    return hunks


def edit_of(row: Row) -> Edit:
    """Return the edit that a row records."""
    value = orjson.loads(row.data)
    for side in ("before", "after"):
        value[side] = bytes.fromhex(value[side]) if value.get(side) is not None else None
    if value["hunks"] is not None:
        value["hunks"] = [Hunk(at, *([*map(unpacked_line, side)] for side in sides)) for at, *sides in value["hunks"]]
    return Edit(**value)


def packed_hunks(hunks: Sequence[Hunk]) -> list[list[object]]:
    """Return hunks as JSON has them."""
    return [[hunk.at, *([*map(packed_line, side)] for side in hunk[1:])] for hunk in hunks]


def packed_line(line: bytes) -> str | dict[str, str]:
    """Return a line as JSON has it: as text where it is UTF-8."""
    try:
        return line.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(line).decode()}


def unpacked_line(value: str | Mapping[str, str]) -> bytes:
    return value.encode() if isinstance(value, str) else base64.b64decode(value["base64"])


@dataclass(frozen=True, slots=True)
class Seen:
    """A file as it was looked at last.

    Args:
        seq: with all changes of the host up to this one.
        size, digest: of its bytes.
        packed: its bytes, zlib; None when they were not kept.
    """

    file: str
    seq: int
    signature: Signature
    size: int
    digest: bytes
    packed: bytes | None

    @property
    def text(self) -> bytes | None:
        """Its bytes; None when they were not kept."""
        return None if self.packed is None else zlib.decompress(self.packed)


class SavedText(NamedTuple):
    """A text as a person saved it, where something else was made of it.

    Args:
        at: milliseconds since the epoch.
    """

    file: str
    digest: bytes
    at: int
    text: bytes


class Looked(NamedTuple):
    """The findings of a look at some files, kept in one transaction.

    Args:
        gone: files that are not there any more.
        up_to: see `LOOKED_AT`; None: as it was.
        begun: file, number and text of those whose past begins with that text, before the change of that number.
    """

    edits: Sequence[Row] = ()
    seen: Sequence[Seen] = ()
    gone: Sequence[str] = ()
    up_to: int | None = None
    saved: Sequence[SavedText] = ()
    begun: Sequence[tuple[str, int, bytes]] = ()


def edited_lines(edit: Edit) -> str:
    """Return how much an edit changed, for people."""
    if edit.hunks is None:
        return "its text is not kept"
    parts = [f"+{edit.added}"] if edit.added or not edit.removed else []
    parts += [f"-{edit.removed}"] if edit.removed else []
    return f"{' '.join(parts)} {'line' if (edit.added or 0) + (edit.removed or 0) == 1 else 'lines'}"


def unread_of(row: Row) -> str:
    """Return in words how many notes an edit removed that its author may not have read."""
    return f"{edit_of(row).unread} notes that {row.sender} may not have read"


# -------------------------------------------------------------------------------------------------------------- writing


def write_looked(connection: sqlite3.Connection, looked: Looked) -> None:
    """Keep what a look came to. The transaction is the caller's."""
    insert_changes(connection, looked.edits, ())
    insert_texts(connection, looked.begun)
    connection.executemany(
        "INSERT OR REPLACE INTO seen VALUES (?,?,?,?,?,?,?,?,?)",
        [(one.file, one.seq, *one.signature, one.size, one.digest, one.packed) for one in looked.seen],
    )
    connection.executemany("DELETE FROM seen WHERE file = ?", [(file,) for file in looked.gone])
    for one in looked.saved:
        connection.execute("DELETE FROM saved WHERE at < ?", (one.at - KEPT_SAVED_MS,))
        connection.execute(
            "INSERT OR REPLACE INTO saved VALUES (?,?,?,?)", (one.file, one.digest, one.at, zlib.compress(one.text, 1))
        )
    if looked.up_to is not None:
        connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (LOOKED_AT, looked.up_to))


def insert_texts(connection: sqlite3.Connection, texts: Iterable[tuple[str, int, bytes]]) -> None:
    """Keep what files held right before a change: file, number of the change, text."""
    rows = [(file, seq, zlib.compress(text, 1)) for file, seq, text in texts]
    connection.executemany("INSERT OR REPLACE INTO texts VALUES (?,?,?)", rows)


# -------------------------------------------------------------------------------------------------------------- reading


class EditReader:
    """Reads the records of people's files from a journal that a host may have open. Raises JournalError.

    Args:
        rows: runs a query on a connection that is open; None: each query opens one.
    """

    def __init__(self, path: Path, rows: Callable[[str, tuple[object, ...]], Iterable[tuple[Any, ...]]] | None = None):
        self._path = path
        self.rows = rows or partial(read_rows, path)

    def looked_at(self) -> int | None:
        """Return up to which change the files were looked at; None: never to the end."""
        value = read_meta(self._path, LOOKED_AT)
        return None if value is None else int(value)

    def seen(self, files: Collection[str]) -> dict[str, Seen]:
        """Return those of some files that were looked at."""
        query = "SELECT * FROM seen WHERE file IN (SELECT value FROM json_each(?))"
        return {
            row[0]: Seen(row[0], row[1], Signature(*row[2:6]), *row[6:]) for row in self.rows(query, (_listed(files),))
        }

    def stamps(self, files: Sequence[str]) -> dict[str, Signature]:
        """Return those of some files that were looked at, with their signatures then."""
        query = "SELECT file, inode, size, mtime_ns, ctime_ns FROM seen WHERE file IN (SELECT value FROM json_each(?))"
        return {file: Signature(*stamp) for file, *stamp in self.rows(query, (_listed(files),))}

    def names_below(self, folder: str) -> Iterator[str]:
        """Yield the files that were looked at below a folder, whose name ends with a slash; "": all files."""
        query = "SELECT file FROM seen WHERE file > ? AND file < ? ORDER BY file LIMIT 1000"
        last, end = folder, f"{folder}{chr(0x10FFFF)}"
        while names := [file for (file,) in self.rows(query, (last, end))]:
            yield from names
            last = names[-1]

    def changes(self, first: int, last: int, files: Collection[str]) -> Iterator[Row]:
        """Yield the changes of some files between two seqs, edits included, oldest first."""
        query = (
            "SELECT * FROM changes WHERE seq BETWEEN ? AND ? AND file IN (SELECT value FROM json_each(?)) ORDER BY seq"
        )
        return map(Row._make, self.rows(query, (first, last, _listed(files))))

    def unmarked(self) -> Iterator[Row]:
        """Yield the host's changes of files behind what `seen` says of them and `LOOKED_AT`, oldest first."""
        query = (
            "SELECT changes.* FROM changes LEFT JOIN seen USING (file) WHERE changes.seq > ? "  # noqa: S608  a constant
            f"AND changes.seq > coalesce(seen.seq, 0) AND NOT {IS_EDIT} ORDER BY changes.seq"
        )
        looked_at = self.looked_at()
        return iter(()) if looked_at is None else map(Row._make, self.rows(query, (looked_at,)))

    def written_at(self, seen: Seen) -> bytes | None:
        """Return the data of the change that a mark is of, if that is what the file held."""
        query = "SELECT data FROM changes WHERE seq = ? AND file = ?"
        found = next(iter(self.rows(query, (seen.seq, seen.file))), None)
        return None if found is None or digest_of(found[0]) != seen.digest else found[0]

    def texts(self, files: Collection[str]) -> Iterator[tuple[str, int, bytes]]:
        """Yield file, number and text of those whose past begins with a text, before the change of that number."""
        query = "SELECT file, seq, text FROM texts WHERE file IN (SELECT value FROM json_each(?)) ORDER BY seq"
        return ((file, seq, zlib.decompress(text)) for file, seq, text in self.rows(query, (_listed(files),)))

    def saved(self, file: str, since: int) -> list[SavedText]:
        """Return the texts that people saved since a time (milliseconds since the epoch), the newest first."""
        rows = self.rows("SELECT * FROM saved WHERE file = ? AND at >= ? ORDER BY at DESC", (file, since))
        return [SavedText(name, digest, at, zlib.decompress(packed)) for name, digest, at, packed in rows]

    def has_version(self, file: str, digest: bytes) -> bool:
        """Return whether a file had a text with this digest. Reads all changes."""
        wanted = fingerprint_of(digest)
        if any(wanted in (row.offset, fingerprint_of(edit_of(row).after)) for row in self.edits_of([file])):
            return True
        query = "SELECT offset, data FROM changes WHERE file = ? AND offset IN (?, 0)"
        return any(offset or digest_of(data) == digest for offset, data in self.rows(query, (file, wanted)))

    def unread(self, since: int) -> list[Row]:
        """Return the edits since a time that took notes which their author may not have read, newest first."""
        query = f"SELECT * FROM changes WHERE {IS_UNREAD} AND at >= ? ORDER BY at DESC, seq DESC"  # noqa: S608  a constant
        return [Row._make(row) for row in self.rows(query, (since,))]

    def edits_of(self, files: Collection[str], after: int = 0) -> list[Row]:
        """Return the edits of some files behind one change, oldest first."""
        query = (
            f"SELECT * FROM changes WHERE {IS_EDIT} AND file IN (SELECT value FROM json_each(?)) AND seq > ? "  # noqa: S608  a constant
            "ORDER BY seq"
        )
        return [Row._make(row) for row in self.rows(query, (_listed(files), after))]


def _listed(names: Collection[str]) -> str:
    """Return names as `json_each` reads them."""
    return orjson.dumps(list(names)).decode()
