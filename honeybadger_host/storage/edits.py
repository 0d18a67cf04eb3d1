"""People's edits of their files, kept in the journal with the host's changes (docs/decisions/027-edits.md).

An edit costs its difference: hunks of lines by their hash, and each line once. `seen` says how a file was when the host
looked at it last, with all its own changes up to a seq.
"""

from __future__ import annotations

import hashlib
import sqlite3
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from honeybadger_host.errors import JournalError
from honeybadger_host.storage.files import Signature
from honeybadger_host.storage.journal_connection import read_meta, read_rows
from honeybadger_host.storage.journal_reader import LogFilter, read_change, read_log
from honeybadger_host.storage.journal_schema import Row
from honeybadger_host.storage.line_hunks import Hunk

# In `meta`: all changes of the host up to this seq were looked for in people's files; missing before the first look at
# a home is finished.
LOOKED_AT: Final = "looked_at"
# In `meta`: the files of all kinds of documents that were there are known since; else the value is another one.
ADOPTED: Final = "adopted"
ADOPTED_KINDS: Final = 3
KEPT_SAVED_MS: Final = 3_600_000  # age limit of texts that were saved, in milliseconds
EDIT_KINDS: Final = ("edit", "edit_new", "edit_removed")  # what `log` calls edits
FORGOTTEN_DIGEST: Final = b""  # in place of the digest of a file that held what was forgotten since
_KIND: Final = "CASE WHEN before IS NULL THEN 'edit_new' WHEN after IS NULL THEN 'edit_removed' ELSE 'edit' END"
_AT_ONCE: Final = 500
_HUNKS: Final = 8  # the column


class Edit(NamedTuple):
    """A change that a person made to a file.

    Args:
        at: milliseconds since the epoch, when the host noticed it.
        event: the first seq of what was noticed together, as after a `git checkout`.
        before, after: `digest_of` the file; None: there was none.
        hunks: None when the text was not kept, as of a large file.
        unread: how many notes it took out that its author may not have read.
    """

    seq: int
    at: int
    group: str
    author: str
    event: int
    file: str
    before: bytes | None
    after: bytes | None
    hunks: Sequence[Hunk] | None
    unread: int = 0

    @property
    def sender(self) -> str:
        """Return the author to show, as for a change of the host."""
        return self.author

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
    """

    edits: Sequence[Edit]
    seen: Sequence[Seen]
    gone: Sequence[str]
    up_to: int | None
    saved: Sequence[SavedText] = ()


def digest_of(data: bytes) -> bytes:
    """Return 16 bytes that tell what a file, a line or a text holds; of a file, their beginning is its fingerprint."""
    return hashlib.sha256(data).digest()[:16]


def fingerprint_of(digest: bytes | None) -> int:
    """Return the `atomic_files.fingerprint` of what has this digest."""
    return -1 if digest is None else int.from_bytes(digest[:8]) >> 1


def edited_lines(edit: Edit) -> str:
    """Return how much an edit changed, for people."""
    if edit.hunks is None:
        return "its text is not kept"
    parts = [f"+{edit.added}"] if edit.added or not edit.removed else []
    parts += [f"-{edit.removed}"] if edit.removed else []
    return f"{' '.join(parts)} {'line' if (edit.added or 0) + (edit.removed or 0) == 1 else 'lines'}"


def unread_of(edit: Edit) -> str:
    """Return what notes an edit took out that its author may not have read, for people."""
    return f"{edit.unread} notes that {edit.author} may not have read"


# -------------------------------------------------------------------------------------------------------------- writing


def write_looked(connection: sqlite3.Connection, looked: Looked) -> None:
    """Keep what a look came to. The transaction is the caller's."""
    lines: dict[bytes, bytes] = {}
    rows: list[tuple[object, ...]] = []
    for edit in looked.edits:
        packed = None if edit.hunks is None else orjson.dumps([_packed(hunk, lines) for hunk in edit.hunks])
        rows.append((*edit[:_HUNKS], packed, edit.unread))
    connection.executemany("INSERT INTO edits VALUES (?,?,?,?,?,?,?,?,?,?)", rows)
    connection.executemany("INSERT OR IGNORE INTO lines VALUES (?,?)", lines.items())
    connection.executemany(
        "INSERT OR REPLACE INTO seen VALUES (?,?,?,?,?,?,?,?,?)",
        [(one.file, one.seq, *one.signature, one.size, one.digest, one.packed) for one in looked.seen],
    )
    connection.executemany("DELETE FROM seen WHERE file = ?", [(file,) for file in looked.gone])
    for one in looked.saved:
        connection.execute("DELETE FROM saved WHERE at < ?", (one.at - KEPT_SAVED_MS,))
        row = one.file, one.digest, one.at, zlib.compress(one.text, 1)
        connection.execute("INSERT OR REPLACE INTO saved VALUES (?,?,?,?)", row)
    if looked.up_to is not None:
        connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (LOOKED_AT, looked.up_to))


def _packed(hunk: Hunk, lines: dict[bytes, bytes]) -> list[object]:
    def hashes(some: Sequence[bytes]) -> list[str]:
        found = [digest_of(line) for line in some]
        lines.update(zip(found, some, strict=True))
        return [each.hex() for each in found]

    return [hunk.at, hashes(hunk.removed), hashes(hunk.added)]


# -------------------------------------------------------------------------------------------------------------- reading


class EditReader:
    """Reads what is kept of people's files from a journal that a host may have open. Raises JournalError.

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
        rows = self.rows(query, (_listed(files),))
        return {row[0]: Seen(row[0], row[1], Signature(*row[2:6]), *row[6:]) for row in rows}

    def stamps(self, files: Sequence[str]) -> dict[str, Signature]:
        """Return those of some files that were looked at, with their signatures then."""
        query = "SELECT file, inode, size, mtime_ns, ctime_ns FROM seen WHERE file IN (SELECT value FROM json_each(?))"
        return {file: Signature(*stamp) for file, *stamp in self.rows(query, (_listed(files),))}

    def names(self, after: str, most: int) -> list[str]:
        """Return a few files that were looked at, in the order of names, behind one."""
        query = "SELECT file FROM seen WHERE file > ? ORDER BY file LIMIT ?"
        return [file for (file,) in self.rows(query, (after, most))]

    def names_below(self, folder: str) -> list[str]:
        """Return the files that were looked at below a folder, whose name ends with a slash."""
        query = "SELECT file FROM seen WHERE file > ? AND file < ?"
        return [file for (file,) in self.rows(query, (folder, f"{folder[:-1]}0"))]  # the character behind the slash

    def changes(self, first: int, last: int, files: Collection[str]) -> Iterator[Row]:
        """Yield the host's changes of some files between two seqs, oldest first."""
        query = (
            "SELECT * FROM changes WHERE seq BETWEEN ? AND ? AND file IN (SELECT value FROM json_each(?)) ORDER BY seq"
        )
        return map(Row._make, self.rows(query, (first, last, _listed(files))))

    def unmarked(self) -> Iterator[Row]:
        """Yield the changes of files behind what `seen` says of them and `LOOKED_AT`, oldest first."""
        query = (
            "SELECT changes.* FROM changes LEFT JOIN seen USING (file) WHERE changes.seq > ? "
            "AND changes.seq > coalesce(seen.seq, 0) ORDER BY changes.seq"
        )
        looked_at = self.looked_at()
        return iter(()) if looked_at is None else map(Row._make, self.rows(query, (looked_at,)))

    def written_at(self, seen: Seen) -> bytes | None:
        """Return the data of the change that a mark is of, if that is what the file held."""
        query = "SELECT data FROM changes WHERE seq = ? AND file = ?"
        found = next(iter(self.rows(query, (seen.seq, seen.file))), None)
        return None if found is None or digest_of(found[0]) != seen.digest else found[0]

    def written_as(self, wanted: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return the bytes that the host gave files once, of those that had the wanted digest. Reads all changes."""
        query = "SELECT file, data FROM changes WHERE file IN (SELECT value FROM json_each(?)) ORDER BY seq DESC"
        found: dict[str, bytes] = {}
        for file, data in self.rows(query, (_listed(wanted),)) if wanted else ():
            if file not in found and digest_of(data) == wanted[file]:
                found[file] = data
                if len(found) == len(wanted):
                    break
        return found

    def texts(self, files: Collection[str]) -> dict[tuple[str, int], bytes]:
        """Return (file, seq) -> what a document held right before a change that wrote it as a whole."""
        query = "SELECT file, seq, text FROM texts WHERE file IN (SELECT value FROM json_each(?))"
        try:
            return {(file, seq): zlib.decompress(text) for file, seq, text in self.rows(query, (_listed(files),))}
        except JournalError as error:
            if "no such table" in str(error):  # of an older host, and no new one has opened it yet
                return {}
            raise

    def saved(self, file: str, since: int) -> list[SavedText]:
        """Return the texts that people saved since a time (milliseconds since the epoch), the newest first."""
        rows = self.rows("SELECT * FROM saved WHERE file = ? AND at >= ? ORDER BY at DESC", (file, since))
        return [SavedText(name, digest, at, zlib.decompress(packed)) for name, digest, at, packed in rows]

    def has_version(self, file: str, fingerprint: int) -> bool:
        """Return whether a file had a text with this fingerprint. Reads all changes."""
        for before, after in self.rows("SELECT before, after FROM edits WHERE file = ?", (file,)):
            if fingerprint in (fingerprint_of(before), fingerprint_of(after)):
                return True
        query = "SELECT offset, data FROM changes WHERE file = ? AND offset IN (?, 0)"
        rows = self.rows(query, (file, fingerprint))
        return any(offset or fingerprint_of(digest_of(data)) == fingerprint for offset, data in rows)

    def edits(self, wanted: LogFilter, limit: int) -> list[Edit]:
        """Return the newest edits that are wanted, newest first."""
        where, values = wanted.where("author", _KIND)
        return self._edits(f"{where} ORDER BY seq DESC LIMIT ?", (*values, limit))

    def unread(self, since: int) -> list[Edit]:
        """Return the edits since a time that took notes which their author may not have read, newest first."""
        return self._edits("unread > 0 AND at >= ? ORDER BY seq DESC", (since,))

    def newest_of(self, files: Collection[str]) -> dict[str, tuple[str, int]]:
        """Return file -> author and time of its newest edit, of those of some files that people edited."""
        query = (
            "SELECT file, author, at, max(seq) FROM edits "
            "WHERE after IS NOT NULL AND file IN (SELECT value FROM json_each(?)) GROUP BY file"
        )
        rows = self.rows(query, (_listed(files),))
        return {file: (author, at) for file, author, at, _ in rows}

    def edit(self, seq: int) -> Edit | None:
        return next(iter(self._edits("seq = ?", (seq,))), None)

    def edits_of(self, files: Collection[str], after: int, up_to: int) -> list[Edit]:
        """Return the edits of some files behind one change, up to another, oldest first."""
        names = _listed(files)
        where = "file IN (SELECT value FROM json_each(?)) AND seq > ? AND seq <= ? ORDER BY seq"
        return self._edits(where, (names, after, up_to))

    def edits_behind(self, group: str, after: int, up_to: int, most: int) -> list[Edit]:
        """Return the first edits of a group behind one change, up to another, oldest first."""
        return self._edits("grp = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?", (group, after, up_to, most))

    def _edits(self, where: str, values: tuple[object, ...]) -> list[Edit]:
        query = f"SELECT * FROM edits WHERE {where}"  # noqa: S608  a constant
        try:
            rows = list(self.rows(query, values))
        except JournalError as error:
            if "no such" in str(error):  # table or column: of an older host, and no new one has opened it yet
                return []
            raise
        packed = [None if row[_HUNKS] is None else orjson.loads(row[_HUNKS]) for row in rows]
        lines = self._lines({each for some in packed for _, *both in some or () for side in both for each in side})
        return [
            Edit._make((*row[:_HUNKS], _unpacked(some, lines), *(row[_HUNKS + 1 :] or (0,))))
            for row, some in zip(rows, packed, strict=True)
        ]

    def _lines(self, hashes: Collection[str]) -> Mapping[str, bytes]:
        found: dict[str, bytes] = {}
        names = [bytes.fromhex(each) for each in hashes]
        for start in range(0, len(names), _AT_ONCE):
            some = names[start : start + _AT_ONCE]
            query = f"SELECT hash, text FROM lines WHERE hash IN ({','.join('?' * len(some))})"  # noqa: S608  question marks
            found |= {hash_.hex(): text for hash_, text in self.rows(query, tuple(some))}
        return found


def _listed(names: Collection[str]) -> str:
    """Return names as `json_each` reads them."""
    return orjson.dumps(list(names)).decode()


def _unpacked(packed: Sequence[Sequence[Any]] | None, lines: Mapping[str, bytes]) -> list[Hunk] | None:
    if packed is None:
        return None
    return [Hunk(at, [lines[each] for each in gone], [lines[each] for each in new]) for at, gone, new in packed]


def read_event(journal: Path, seq: int) -> Row | Edit | None:
    """Return the change or the edit of this number; None: there is none. Raises JournalError."""
    return read_change(journal, seq) or EditReader(journal).edit(seq)


def read_events(journal: Path, wanted: LogFilter, limit: int) -> list[Row | Edit]:
    """Return the newest changes and edits that are wanted, newest first. Raises JournalError."""
    events: list[Row | Edit] = [*read_log(journal, wanted, limit), *EditReader(journal).edits(wanted, limit)]
    return sorted(events, key=lambda event: event.seq, reverse=True)[:limit]
