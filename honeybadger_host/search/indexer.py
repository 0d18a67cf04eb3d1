"""Indexes files: reads what changed, and writes the difference to their indexed state in one transaction.

A batch of files is read and analysed first, then written.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from honeybadger_host.documents.in_use import Extent
from honeybadger_host.errors import WorldFailed
from honeybadger_host.files.file_cache import is_young, signature_of
from honeybadger_host.files.safe_files import Signature
from honeybadger_host.log import log
from honeybadger_host.memory.entries.entry import MAX_ENTRY_FILE_BYTES
from honeybadger_host.memory.turn_log import Mark, stored_turns
from honeybadger_host.search.documents import COLUMNS, Document, Piece
from honeybadger_host.search.index_db import IN_ONE_QUERY, IndexFile
from honeybadger_host.search.language.analyzer import tag_mark
from honeybadger_host.search.language.similarity import sketch
from honeybadger_host.search.pieces import (
    digest_of,
    end_of_part,
    pieces_of,
    terms_of,
    turn_piece,
    turns_of,
)
from honeybadger_host.search.sources import Source, Unsearchable, read_source, source_of, sources

READ_AT_ONCE = 1 << 18  # bytes of notes, or of a log, that are read at once: 50 ms
_MAX_PIECE_LENGTH = 1 << 20  # bytes of one note; longer notes are split into pieces of this size
_MAX_BYTES = 16 << 20  # of a session document, or a line of a log


_INSERT = f"INSERT INTO docs ({COLUMNS}) VALUES ({', '.join('?' * len(COLUMNS.split(',')))})"  # noqa: S608  constant
_MAX_GROWN = 32  # large files of notes whose reading progress is remembered: about 150 bytes for each note


class Known(NamedTuple):
    """A file as it was indexed.

    Args:
        mark: bytes of a log that were read.
    """

    number: int
    inode: int
    mark: int


@dataclass(slots=True)
class Grown:
    """How far a MEMORY.md or HISTORY.md was read: a large file is read in parts, later only what was appended.

    A note appended to 1 MiB takes 2 ms until its group can be searched; reading the whole file takes 90 ms.

    Args:
        signature: of the file when its beginning was read.
        size, digest: of the finished bytes: at the end, those before the last note.
        seen: key of a note, without the number that tells equal notes apart -> how often it occurs in these.
        extent: of the document when its end was read; None: it is not known.
        last: digest -> number of the document, for the last note and the text below it.
        left: the same of indexed documents not found in the file yet; None when the file was read to its end.
    """

    signature: Signature
    size: int = 0
    digest: Any = field(default_factory=hashlib.sha256)
    seen: Counter[str] = field(default_factory=Counter)
    extent: Extent | None = None
    last: dict[bytes, int] = field(default_factory=dict)
    left: dict[bytes, int] | None = None


@dataclass(slots=True)
class Changes:
    """The changes that a batch of files makes in the index.

    Args:
        removed: numbers of documents to remove.
        sources: rows of files that were read.
        gone: numbers of files that no longer exist.
        grown: file of notes -> how far it was read.
    """

    added: list[Document] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)
    sources: list[tuple[object, ...]] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    grown: dict[str, Grown] = field(default_factory=dict)


def _to_store(signature: Signature | None, *, is_changing: bool = False) -> Signature | None:
    """Return the signature to store, or one that never matches if the file must be read again."""
    if signature is not None and (is_changing or is_young(signature, time.time_ns())):
        return signature._replace(size=-1)
    return signature


def _sketched(entries: Iterable[tuple[str, int]]) -> Iterator[tuple[int, int]]:
    """Return the rows of `sketches` for texts of entries and their numbers."""
    return ((pair, number) for text, number in entries for pair in sketch(text))


class IndexWriter:
    """Reads files and writes the index. One thread at a time for each group.

    Args:
        read_version, extent_of: see `Index`.
    """

    def __init__(
        self,
        home: Path,
        db: IndexFile,
        read_version: Callable[[str], bytes | None],
        extent_of: Callable[[str, Signature], Extent | None],
    ) -> None:
        self._home = home
        self._db = db
        self._read_version = read_version
        self._extent_of = extent_of
        self._grown: dict[str, Grown] = {}  # large file of notes -> how far it was read

    def changed(self, group: str, folders: set[str] | None) -> Iterator[list[str]]:
        """Yield a group's files that changed or are gone since they were indexed, those of a few files in each list.

        Args:
            folders: filled with the folders of entries, below the home folder; None leaves out the entries and what is
                gone, and takes a few ms.
        """
        span = self._db.span(self._db.group(group))
        counted = "SELECT count(*), coalesce(max(number), -1) FROM sources WHERE number BETWEEN ? AND ?"
        known, last = (0, -1) if folders is None else self._db.rows(counted, span)[0]  # 8 ms for 100,000
        query = "SELECT file, number, inode, size, mtime_ns, ctime_ns FROM sources WHERE file IN"
        looked_at = sources(self._home, group, folders)
        met = 0
        while some := list(itertools.islice(looked_at, IN_ONE_QUERY)):
            indexed = {row[0]: row[1:] for row in self._db.rows_in(query, [source.file for source, _ in some])}
            met += sum(1 for number, *_ in indexed.values() if number <= last)
            yield [source.file for source, signature in some if indexed.get(source.file, ())[1:] != signature]
        if folders is not None and met < known:
            there = {source.file for source, _ in sources(self._home, group, set())}
            rows = self._db.rows("SELECT file FROM sources WHERE number BETWEEN ? AND ?", span)
            gone = [file for (file,) in rows if file not in there]
            for start in range(0, len(gone), IN_ONE_QUERY):
                yield gone[start : start + IN_ONE_QUERY]

    def take(self, group: int, files: Sequence[str]) -> tuple[Changes, Sequence[str]]:
        """Index files of a group; return what changed, and which files must be read again."""
        generation = self._db.generation
        changes, left = self._read(files)
        if not self._write(group, changes, generation):
            return Changes(), files
        self._grown.update(changes.grown)
        for file in [file for file, grown in self._grown.items() if grown.left is None][:-_MAX_GROWN]:
            del self._grown[file]
        return changes, left

    def _read(self, files: Sequence[str]) -> tuple[Changes, list[str]]:
        """Read files of a group; return what they change, and which are not finished."""
        query = "SELECT file, number, inode, mark FROM sources WHERE file IN"
        known = {file: Known(*row) for file, *row in self._db.rows_in(query, files)}
        changes = Changes()
        left: list[str] = []
        size = 0
        for place, file in enumerate(files):
            if size >= READ_AT_ONCE:
                left += files[place:]
                break
            source = source_of(file)
            if source is None:
                continue
            read, is_whole = self._read_file(source, known.get(file), changes, self._grown.pop(file, None))
            size += read
            if not is_whole:
                left.append(file)
        return changes, left

    def _read_file(
        self, source: Source, known: Known | None, changes: Changes, grown: Grown | None
    ) -> tuple[int, bool]:
        """Read a file, or a part of it; return how many bytes, and whether it is finished.

        Args:
            known: the file as it was indexed.
            grown: how far a file of notes was read; consumed.
        """
        try:
            if source.kind in ("entry", "session"):
                return self._read_entry(source, known, changes), True
            if source.kind == "turn":
                return self._read_turns(source, known, changes)
            return self._read_notes(source, known, changes, grown)
        except Unsearchable as error:
            log.warning("index.refused", file=source.file, why=str(error))
            signature = signature_of(f"{self._home}/{source.file}")
            self._index_whole(source, known, (), signature, changes)
            return (0 if signature is None else signature.size), True
        except OSError as error:  # the next comparison finds it again
            log.error(
                "index.failed",
                file=source.file,
                error=error.strerror or str(error),
                now_what="it is read again later",
            )
            return 0, True

    def _documents(self, known: Known | None) -> list[tuple[str, bytes, int]]:
        """Return key, digest and number of the documents of an indexed file."""
        query = "SELECT key, digest, number FROM docs WHERE source = ? ORDER BY number"
        return [] if known is None else self._db.rows(query, (known.number,))

    def _read_notes(
        self, source: Source, known: Known | None, changes: Changes, grown: Grown | None
    ) -> tuple[int, bool]:
        """Read a part of a MEMORY.md or HISTORY.md. Raises OSError, Unsearchable."""
        if grown is not None and (known is None or not self._begins_alike(source.file, grown)):
            grown = None  # a rebuilt database does not know the file
        found = read_source(
            self._home,
            source.file,
            start=0 if grown is None else grown.size,
            most_bytes=_MAX_PIECE_LENGTH,
            is_cut=True,
        )
        if found is None:
            self._index_whole(source, known, (), None, changes)
            return 0, True
        data, signature = found
        if grown is not None and grown.left is None and not data.startswith(b"## "):
            return self._read_notes(source, known, changes, None)  # somebody wrote above the last note
        if grown is None:
            grown = Grown(signature, left={digest: number for _, digest, number in self._documents(known)})
        data = data[: end_of_part(data, source.kind, READ_AT_ONCE, is_end=grown.size + len(data) >= signature.size)]
        is_end = grown.size + len(data) >= signature.size
        try:
            pieces = pieces_of(source, data, signature, grown.seen)
        except Unsearchable:
            self._index_whole(source, known, self._last_good_pieces(source, data, signature), signature, changes)
            return len(data), True
        stored = _to_store(signature, is_changing=not is_end or signature != grown.signature)
        number = self._note(source, known, stored, 0, changes)
        left = grown.last if grown.left is None else grown.left
        end = data.rfind(b"\n## ") + 1  # where the last note begins; 0: there is none, or nothing before it
        done = len(pieces) - len(pieces_of(source, data[end:], signature))  # of the last one there may be more to come
        last: dict[bytes, int] = {}
        for place, piece in enumerate(pieces):
            digest = digest_of(piece)
            there = left.pop(digest, 0) or self._add(number, source, piece, digest, changes)
            if place >= done:
                last[digest] = there
        if not is_end:
            grown.left = left
            self._note_progress(source, grown, memoryview(data), pieces, last, changes)
            return len(data), False
        changes.removed.extend(left.values())
        grown.left = None
        if source.kind == "note" and (end or grown.size) and pieces:
            grown.extent = self._extent_of(source.file, signature)
            self._note_progress(source, grown, memoryview(data)[:end], pieces[:done], last, changes)
        return len(data), signature == grown.signature

    def _begins_alike(self, file: str, grown: Grown) -> bool:
        """Return whether a file still begins with the part that was read. Raises OSError, Unsearchable.

        During the first reading only a replaced or shorter file is noticed. If the signature changed between beginning
        and end, the file is checked once more.
        """
        signature = signature_of(f"{self._home}/{file}")
        if signature is None:
            return False
        if grown.left is not None:
            return signature.inode == grown.signature.inode and signature.size >= grown.size
        extent = self._extent_of(file, signature)
        if extent is not None and extent.goes_on(grown.extent):
            grown.signature = signature
            return True
        digest, at = hashlib.sha256(), 0
        while at < grown.size:
            found = read_source(
                self._home, file, start=at, most_bytes=min(_MAX_PIECE_LENGTH, grown.size - at), is_cut=True
            )
            if found is None or not found[0]:
                return False
            grown.signature = found[1]
            digest.update(found[0])
            at += len(found[0])
        return bool(digest.digest() == grown.digest.digest())

    @staticmethod
    def _note_progress(
        source: Source, grown: Grown, read: memoryview, done: Sequence[Piece], last: dict[bytes, int], changes: Changes
    ) -> None:
        """Note how far a file was read."""
        grown.size += len(read)
        grown.digest.update(read)
        grown.seen.update(piece.key.partition("-")[0] for piece in done)
        grown.last = last
        changes.grown[source.file] = grown

    def _read_entry(self, source: Source, known: Known | None, changes: Changes) -> int:
        """Read an entry or a session document whole; return how many bytes. Raises OSError, Unsearchable."""
        most = MAX_ENTRY_FILE_BYTES if source.kind == "entry" else _MAX_BYTES
        data, signature = read_source(self._home, source.file, most_bytes=most) or (b"", None)
        pieces = [] if signature is None else self._last_good_pieces(source, data, signature)
        self._index_whole(source, known, pieces, signature, changes)
        return len(data)

    def _index_whole(
        self,
        source: Source,
        known: Known | None,
        pieces: Sequence[Piece],
        signature: Signature | None,
        changes: Changes,
    ) -> None:
        """Replace what is indexed of a file by its pieces."""
        number = self._note(source, known, _to_store(signature), 0, changes)
        left = {(key, digest): number for key, digest, number in self._documents(known)}
        for piece in pieces:
            digest = digest_of(piece)
            if left.pop((piece.key, digest), None) is None:
                self._add(number, source, piece, digest, changes)
        changes.removed.extend(left.values())

    def _last_good_pieces(self, source: Source, data: bytes, signature: Signature) -> list[Piece]:
        """Return the pieces of a file, of its last good version if a person broke it.

        Raises Unsearchable.
        """
        try:
            return pieces_of(source, data, signature)
        except Unsearchable:
            with contextlib.suppress(WorldFailed):
                data = self._read_version(source.file) or data
            return pieces_of(source, data, signature)

    def _read_turns(self, source: Source, known: Known | None, changes: Changes) -> tuple[int, bool]:
        """Read the lines appended to a log, or all of it if the file was replaced or is shorter than before.

        Raises OSError, Unsearchable.
        """
        signature, mark = signature_of(f"{self._home}/{source.file}"), 0
        if known is not None and signature is not None:
            mark = known.mark if signature.inode == known.inode and signature.size >= known.mark else 0
        is_replaced = mark == 0
        for most in (READ_AT_ONCE, _MAX_BYTES):
            found = read_source(self._home, source.file, start=mark, most_bytes=most, is_cut=True)
            data, signature = found or (b"", None)
            pieces, whole, skipped = turns_of(data)
            if whole or len(data) < most:
                break
        else:
            whole = _MAX_BYTES  # a line of this length is not a turn
        if skipped:
            log.warning("index.skipped", file=source.file, lines=skipped, why="they are not turns")
        mark += whole
        is_whole = signature is None or mark >= signature.size or not whole
        number = self._note(source, known, _to_store(signature, is_changing=not is_whole), mark, changes)
        added: list[Piece] = []
        gone: list[Mark] = []
        for piece in pieces:
            if isinstance(piece, Piece):
                added.append(piece)
                continue
            added = [each for each in added if not piece.names(int(each.key))]
            gone.append(piece)
            if not piece.is_withdrawal:
                added += self._restored(source, piece)
        if gone or is_replaced:
            for key, _, document in self._documents(known):
                if is_replaced or any(mark.names(int(key)) for mark in gone):
                    changes.removed.append(document)
        for piece in added:
            self._add(number, source, piece, b"", changes)
        return len(data), is_whole

    def _restored(self, source: Source, mark: Mark) -> Iterator[Piece]:
        """Yield the turns of a log that were withdrawn and are restored. Raises OSError."""
        for first, last in mark.ranges:
            for logged in stored_turns(self._home / source.file, after=first - 1, before=last + 1, newest_first=False):
                yield turn_piece(logged.turn)

    def _add(self, number: int, source: Source, piece: Piece, digest: bytes, changes: Changes) -> int:
        """Add a document of the file with this number; return the document's number."""
        document = self._db.take_number("docs", self._db.group(source.group))
        changes.added.append(Document(document, source.kind, terms_of(source.kind, piece), piece, number, digest))
        return document

    def _note(
        self,
        source: Source,
        known: Known | None,
        signature: Signature | None,
        mark: int,
        changes: Changes,
    ) -> int:
        """Note how a file was read; return its number.

        Args:
            signature: see `_to_store`; None: there is no such file.
        """
        if signature is None:
            if known is not None:
                changes.gone.append(known.number)
            return 0
        number = known.number if known is not None else self._db.take_number("sources", self._db.group(source.group))
        changes.sources.append((number, source.file, *signature, mark))
        return number

    def _write(self, group: int, changes: Changes, generation: int) -> bool:
        """Write the pieces that were read; return False if the database was rebuilt since."""
        removed = list(self._db.rows_in("SELECT text, number FROM docs WHERE kind = 0 AND number IN", changes.removed))

        def write() -> bool:
            if self._db.generation != generation:
                return False
            with self._db.transaction() as db:
                packed = self._db.packed(db, [[*each.terms, *map(tag_mark, each.piece.tags)] for each in changes.added])
                db.executemany("DELETE FROM sketches WHERE pair = ? AND doc = ?", _sketched(removed))
                gone = db.executemany("DELETE FROM docs WHERE number = ?", ((number,) for number in changes.removed))
                more = len(changes.added) - gone.rowcount
                db.execute("UPDATE groups SET documents = documents + ? WHERE number = ?", (more, group))
                db.executemany("DELETE FROM sources WHERE number = ?", ((number,) for number in changes.gone))
                db.executemany(_INSERT, map(Document.row, changes.added, packed))
                entries = (
                    (each.piece.text, each.number) for each in changes.added if each.kind == "entry" and each.terms
                )
                # in order: neighbours are on one page of the table, which is written once
                db.executemany("INSERT INTO sketches VALUES (?, ?)", sorted(_sketched(entries)))
                db.executemany("INSERT OR REPLACE INTO sources VALUES (?, ?, ?, ?, ?, ?, ?)", changes.sources)
            self._db.documents[group] += more
            return True

        return self._db.guarded(write)
