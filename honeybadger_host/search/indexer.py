"""Reads files for the index: documents to add, documents to remove, and how far each file was read.

Nothing is written here: a batch of files is read and analysed first, then written in one transaction.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import structlog

from honeybadger_host.files.file_cache import is_young, signature_of
from honeybadger_host.files.safe_files import Signature
from honeybadger_host.memory.entries.entry import MAX_ENTRY_FILE_BYTES
from honeybadger_host.memory.turn_log import Mark, stored_turns
from honeybadger_host.search.index_db import IndexFile
from honeybadger_host.search.language.analyzer import length_in_words
from honeybadger_host.search.pieces import (
    Added,
    Piece,
    digest_of,
    end_of_part,
    last_note,
    pieces_of,
    terms_of,
    turn_piece,
    turns_of,
)
from honeybadger_host.search.sources import Source, Unsearchable, read_source

log = structlog.get_logger()

_LARGE_NOTES: Final = 1 << 15  # from this many bytes of a MEMORY.md on, it pays to remember how far it was read
READ_AT_ONCE: Final = 1 << 18  # bytes of notes, or of a log, that are read at once: 50 ms
_MAX_PIECE_LENGTH: Final = 1 << 20  # bytes of one note; longer notes are split into pieces of this size
_MAX_DOCUMENT_BYTES: Final = 16 << 20
_MAX_LINE_LENGTH: Final = 8 << 20


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
        last: digest -> number of the document, for the last note and the text below it.
        left: the same of indexed documents not found in the file yet; None when the file was read to its end.
    """

    signature: Signature
    size: int = 0
    digest: Any = field(default_factory=hashlib.sha256)
    seen: Counter[str] = field(default_factory=Counter)
    last: dict[bytes, int] = field(default_factory=dict)
    left: dict[bytes, int] | None = None


@dataclass(slots=True)
class Changes:
    """The changes that a batch of files makes in the index.

    Args:
        removed: numbers of documents to remove.
        entries: change of the number of entries.
        sources: rows of files that were read.
        gone: numbers of files that no longer exist.
        grown: file of notes -> how far it was read.
    """

    added: list[Added] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)
    entries: int = 0
    sources: list[tuple[object, ...]] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    grown: dict[str, Grown] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """The indexed parts of a file.

    Args:
        pieces: (key, digest) -> number of its documents, for an entry or a session document.
    """

    db: IndexFile
    known: Known | None
    pieces: Mapping[tuple[str, bytes], int]

    def numbers(self) -> list[int]:
        """Return the numbers of its documents."""
        query = "SELECT number FROM docs WHERE source = ?"
        return [] if self.known is None else [number for (number,) in self.db.rows(query, (self.known.number,))]

    def turns_in(self, marks: Sequence[Mark]) -> Iterator[int]:
        """Yield the numbers of its turns that are marked."""
        if self.known is not None:
            for number, key in self.db.rows("SELECT number, key FROM docs WHERE source = ?", (self.known.number,)):
                if any(mark.names(int(key)) for mark in marks):
                    yield number

    def notes(self) -> dict[bytes, int]:
        """Return digest -> number of its documents, for a file of notes."""
        query = "SELECT digest, number FROM docs WHERE source = ? ORDER BY number"
        return {} if self.known is None else dict(self.db.rows(query, (self.known.number,)))


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads the files of one group.

    Args:
        take_source, take_document: give the next number.
    """

    home: Path
    take_source: Callable[[], int]
    take_document: Callable[[], int]

    def read(self, source: Source, indexed: IndexedFile, changes: Changes, grown: Grown | None) -> tuple[int, bool]:
        """Read a file, or a part of it; return how many bytes, and whether it is finished.

        Args:
            grown: how far a file of notes was read; consumed.
        """
        try:
            if source.kind in ("entry", "session"):
                return self._read_entry(source, indexed, changes), True
            if source.kind == "turn":
                return self._read_turns(source, indexed, changes)
            return self._read_notes(source, indexed, changes, grown)
        except Unsearchable as error:
            signature = signature_of(f"{self.home}/{source.file}")
            self._note(source, indexed.known, _to_store(signature), 0, str(error), changes)
            gone = indexed.numbers()
            changes.removed.extend(gone)
            changes.entries -= len(gone) * (source.kind == "entry")
            return (0 if signature is None else signature.size), True
        except OSError as error:  # the next comparison finds it again
            why = error.strerror or str(error)
            log.error("index.failed", file=source.file, error=why, now_what="it is read again later")
            return 0, True

    def _read_notes(
        self, source: Source, indexed: IndexedFile, changes: Changes, grown: Grown | None
    ) -> tuple[int, bool]:
        """Read a part of a MEMORY.md or HISTORY.md. Raises OSError, Unsearchable."""
        if grown is not None and not _begins_alike(self.home, source.file, grown):
            grown = None
        start = 0 if grown is None else grown.size
        found = read_source(self.home, source.file, start=start, most_bytes=_MAX_PIECE_LENGTH, is_cut=True)
        if found is None:
            self._note(source, indexed.known, None, 0, "", changes)
            changes.removed.extend(indexed.numbers())
            return 0, True
        data, signature = found
        if grown is None:
            grown = Grown(signature, left=indexed.notes())
        data = data[: end_of_part(data, source.kind, READ_AT_ONCE, is_end=grown.size + len(data) >= signature.size)]
        is_end = grown.size + len(data) >= signature.size
        pieces = pieces_of(source, data, signature, grown.seen)
        is_changing = not is_end or signature != grown.signature
        number = self._note(source, indexed.known, _to_store(signature, is_changing=is_changing), 0, "", changes)
        left = grown.last if grown.left is None else grown.left
        end = last_note(data)
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
        if source.kind == "note" and grown.size + len(data) >= _LARGE_NOTES and (end or grown.size) and pieces:
            self._note_progress(source, grown, memoryview(data)[:end], pieces[:done], last, changes)
        return len(data), signature == grown.signature

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

    def _read_entry(self, source: Source, indexed: IndexedFile, changes: Changes) -> int:
        """Read an entry or a session document whole; return how many bytes. Raises OSError, Unsearchable."""
        is_entry = source.kind == "entry"
        most = MAX_ENTRY_FILE_BYTES if is_entry else _MAX_DOCUMENT_BYTES
        data, signature = read_source(self.home, source.file, most_bytes=most) or (b"", None)
        pieces = [] if signature is None else pieces_of(source, data, signature)
        number = self._note(source, indexed.known, _to_store(signature), 0, "", changes)
        left = dict(indexed.pieces)
        for piece in pieces:
            digest = digest_of(piece)
            if left.pop((piece.key, digest), None) is None:
                self._add(number, source, piece, digest, changes)
                changes.entries += is_entry
        changes.removed.extend(left.values())
        changes.entries -= len(left) * is_entry
        return len(data)

    def _read_turns(self, source: Source, indexed: IndexedFile, changes: Changes) -> tuple[int, bool]:
        """Read the lines appended to a log, or all of it if the file was replaced or is shorter than before.

        Raises OSError, Unsearchable.
        """
        known, signature, mark = indexed.known, signature_of(f"{self.home}/{source.file}"), 0
        if known is not None and signature is not None:
            mark = known.mark if signature.inode == known.inode and signature.size >= known.mark else 0
        is_replaced = known is not None and mark == 0
        is_whole, size, skipped = True, 0, 0
        pieces: Sequence[Piece | Mark] = ()
        for most in (READ_AT_ONCE, _MAX_LINE_LENGTH):
            found = read_source(self.home, source.file, start=mark, most_bytes=most, is_cut=True)
            if found is None:
                signature = None
                break
            data, signature = found
            size = len(data)
            pieces, whole, skipped = turns_of(data)
            if whole or size < most:
                break
        else:
            whole = _MAX_LINE_LENGTH  # a line of this length is not a turn
        noted = _to_store(signature)
        if signature is not None and noted is not None:
            mark += whole
            is_whole = mark >= signature.size or not whole
            if not is_whole and noted.size >= 0:
                noted = noted._replace(size=mark)
        if is_replaced:
            changes.removed.extend(indexed.numbers())
        if skipped:
            log.warning("index.skipped", file=source.file, lines=skipped, why="they are not turns")
        number = self._note(source, known, noted, mark, "", changes)
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
        if gone and not is_replaced:
            changes.removed.extend(indexed.turns_in(gone))
        for piece in added:
            self._add(number, source, piece, b"", changes)
        return size, is_whole

    def _restored(self, source: Source, mark: Mark) -> Iterator[Piece]:
        """Yield the turns of a log that were withdrawn and are restored. Raises OSError."""
        for first, last in mark.ranges:
            found = stored_turns(self.home / source.file, after=first - 1, before=last + 1, newest_first=False)
            yield from (turn_piece(logged.turn) for logged in found)

    def _add(self, number: int, source: Source, piece: Piece, digest: bytes, changes: Changes) -> int:
        """Add a document of the file with this number; return the document's number."""
        document, terms = self.take_document(), terms_of(source.kind, piece)
        added = Added(document, number, source.kind, piece, digest, terms, length_in_words(terms))
        changes.added.append(added)
        return document

    def _note(
        self,
        source: Source,
        known: Known | None,
        signature: Signature | None,
        mark: int,
        problem: str,
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
        if problem:
            log.warning("index.refused", file=source.file, why=problem)
        number = known.number if known is not None else self.take_source()
        changes.sources.append((number, source.file, *signature, mark, problem))
        return number


def _to_store(signature: Signature | None, *, is_changing: bool = False) -> Signature | None:
    """Return the signature to store, or one that never matches if the file must be read again."""
    if signature is not None and (is_changing or is_young(signature, time.time_ns())):
        return signature._replace(size=-1)
    return signature


def _begins_alike(home: Path, file: str, grown: Grown) -> bool:
    """Return whether a file still begins with the part that was read. Raises OSError, Unsearchable.

    During the first reading only a replaced or shorter file is noticed. If the signature changed between beginning and
    end, the file is checked once more.
    """
    if grown.left is not None:
        signature = signature_of(f"{home}/{file}")
        return signature is not None and signature.inode == grown.signature.inode and signature.size >= grown.size
    digest, at = hashlib.sha256(), 0
    while at < grown.size:
        found = read_source(home, file, start=at, most_bytes=min(_MAX_PIECE_LENGTH, grown.size - at), is_cut=True)
        if found is None or not found[0]:
            return False
        grown.signature = found[1]
        digest.update(found[0])
        at += len(found[0])
    return bool(digest.digest() == grown.digest.digest())
