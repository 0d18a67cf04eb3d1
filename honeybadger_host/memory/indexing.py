"""What reading some files changes in the index: documents that come, documents that go, how far each file was read.

Nothing is written here: a slice of files is read and analysed first, then written in one go.
"""

from __future__ import annotations

import hashlib
import os
from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import orjson
import structlog

from honeybadger_host.files import Signature
from honeybadger_host.memory.analyzer import document_terms, entry_terms, length_in_words
from honeybadger_host.memory.documents import KINDS, Document
from honeybadger_host.memory.sources import (
    Piece,
    Source,
    Unsearchable,
    hash_of,
    last_note,
    pieces_of,
    read_source,
    turns_of,
)

if TYPE_CHECKING:
    from honeybadger_host.memory.corpus import Columns

log = structlog.get_logger()

COLUMNS: Final = (
    "number, source, kind, key, author, role, at, category, tags, length, terms, known_by, digest, "
    "name, title, bytes, text"
)
LOADED: Final = "number, kind, key, source, author, role, at, category, tags, length, terms"
"""Columns of which a corpus is made, see `columns_of`."""
LoadedRow: TypeAlias = tuple[int, int, str, int, str, str, float | None, str, str, int, bytes]
_LARGEST_ENTRY_BYTES: Final = 1 << 20
_TURNS_READ: Final = 1 << 18
"""Bytes of a log read at once, about a thousand turns: 50 ms."""
_LONGEST_LINE: Final = 8 << 20
_LARGE_NOTES: Final = 1 << 15
"""Bytes of a MEMORY.md from which on it pays to remember how it was read."""


class Known(NamedTuple):
    """A file as it was indexed.

    Args:
        mark: bytes of a log that were read.
    """

    number: int
    inode: int
    mark: int


@dataclass(frozen=True, slots=True)
class Grown:
    """A MEMORY.md as it was indexed last: as long as its beginning stays, only what comes behind it is read.

    A note appended to 1 MiB of them took 90 ms before its group could be searched, and takes 2 ms so.

    Args:
        size, digest: of the bytes before its last note.
        seen: hash of a note -> how often it stands in these.
        last: (key, digest) -> number of the document of the last note.
    """

    size: int
    digest: bytes
    seen: Counter[str]
    last: Mapping[tuple[str, bytes], int]


class Added(NamedTuple):
    """A document that is new.

    Args:
        source_number: of its file.
    """

    number: int
    source_number: int
    source: Source
    piece: Piece
    terms: Sequence[str]
    length: int
    digest: bytes

    def row(self, terms: bytes) -> tuple[object, ...]:
        """Return the values of `COLUMNS`."""
        piece = self.piece
        return (
            self.number,
            self.source_number,
            KINDS.index(self.source.kind),
            piece.key,
            piece.author,
            piece.role,
            piece.at,
            piece.category,
            orjson.dumps(piece.tags).decode() if piece.tags else "",
            self.length,
            terms,
            known_by(piece.known_by) if piece.known_by else None,
            self.digest,
            piece.name,
            piece.title,
            len(piece.text.encode("utf-8", "surrogatepass")) if self.source.kind == "entry" else 0,
            piece.text,
        )

    def document(self) -> Document:
        """Return it as the ranking takes it."""
        piece = self.piece
        return Document(
            number=self.number,
            kind=self.source.kind,
            key=piece.key,
            terms=self.terms,
            length=self.length,
            session=self.source.session,
            author=piece.author,
            role=piece.role,
            at=float("nan") if piece.at is None else piece.at,
            category=piece.category,
            tags=piece.tags,
        )


@dataclass(slots=True)
class Changes:
    """What reading a slice of files changes.

    Args:
        removed: numbers of documents that go.
        entries: how many entries there are more.
        sources: rows of files that were read.
        gone: numbers of files that are not there any more.
        grown: file of notes -> what is to be known of it when it is read again.
    """

    added: list[Added] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)
    entries: int = 0
    sources: list[tuple[object, ...]] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    grown: dict[str, Grown] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads the files of one group.

    Args:
        take_source, take_document: give the next number.
        is_young: whether a file with this signature may be written again within the same time stamp.
    """

    home: Path
    max_note_bytes: int
    take_source: Callable[[], int]
    take_document: Callable[[], int]
    is_young: Callable[[Signature], bool]

    def read_whole(
        self,
        source: Source,
        known: Known | None,
        there: Callable[[], Mapping[tuple[str, bytes], int]],
        changes: Changes,
        grown: Grown | None = None,
    ) -> int:
        """Read a file that is no log of turns; return how many bytes.

        Args:
            there: gives (key, digest) -> number of what is indexed of it.
            grown: what is known of a file of notes.
        """
        problem = ""
        limit = _LARGEST_ENTRY_BYTES if source.kind == "entry" else self.max_note_bytes
        pieces: Sequence[Piece] = ()
        signature, size, data = None, 0, b""
        try:
            read = read_source(self.home, source.file, most_bytes=limit)
            if read is not None:
                data, signature = read
                size = len(data)
                if grown is not None and not _begins(data, grown):
                    grown = None
                behind, seen = (0, Counter[str]()) if grown is None else (grown.size, grown.seen)
                pieces = pieces_of(source, data[behind:], signature, seen)
        except Unsearchable as error:
            problem = str(error)
            signature = signature or signature_of(f"{self.home}/{source.file}")
        except OSError as error:
            log.error("index.failed", file=source.file, error=error.strerror, now_what="it is read again later")
            return 0  # the next comparison finds it
        number = self._note(source, known, signature, 0, problem, changes)
        left = dict(there() if grown is None or not pieces else grown.last)
        before = len(changes.added) - len(changes.removed)
        last: dict[tuple[str, bytes], int] = {}
        for piece in pieces:
            digest = _digest(piece)
            if (standing := left.pop((piece.key, digest), None)) is None:
                changes.added.append(self._added(number, source, piece, digest))
                standing = changes.added[-1].number
            last = {(piece.key, digest): standing}
        changes.removed.extend(left.values())
        if source.kind == "note" and size >= _LARGE_NOTES and (end := last_note(data)) and pieces:
            seen = Counter[str]() if grown is None else grown.seen.copy()
            seen.update(hash_of(piece.key) for piece in pieces[:-1])
            changes.grown[source.file] = Grown(end, hashlib.sha256(data[:end]).digest(), seen, last)
        if source.kind == "entry":
            changes.entries += len(changes.added) - len(changes.removed) - before
        return size

    def read_turns(
        self, source: Source, known: Known | None, there: Callable[[], list[int]], changes: Changes
    ) -> tuple[int, bool]:
        """Read what was appended to a log, or all of it when it is another file, or shorter than it was.

        Args:
            there: gives the numbers of what is indexed of it.
        Returns:
            How many bytes were read, and whether that was all.
        """
        signature = signature_of(f"{self.home}/{source.file}")
        mark = known.mark if known is not None and signature is not None and known.inode == signature.inode else 0
        if signature is not None and signature.size < mark:
            mark = 0
        problem, is_whole, size = "", True, 0
        pieces: Sequence[Piece] = ()
        try:
            for most in (_TURNS_READ, _LONGEST_LINE):
                read = read_source(self.home, source.file, start=mark, most_bytes=most, is_cut=True)
                if read is None:
                    break
                data, signature = read
                size = len(data)
                pieces, whole, skipped = turns_of(data)
                if whole or size < most:
                    break
            else:
                whole = _LONGEST_LINE  # one line of so many bytes is no turn
        except Unsearchable as error:
            read, problem = None, str(error)
        except OSError as error:
            log.error("index.failed", file=source.file, error=error.strerror, now_what="it is read again later")
            return 0, True
        if known is not None and mark == 0:
            changes.removed.extend(there())
        if read is not None and signature is not None:
            mark += whole
            is_whole = mark >= signature.size or not whole
            if skipped:
                log.warning("index.skipped", file=source.file, lines=skipped, why="they are no turns")
            if not is_whole:
                signature = signature._replace(size=mark)
        number = self._note(source, known, signature, mark, problem, changes)
        changes.added.extend(self._added(number, source, piece, b"") for piece in pieces)
        return size, is_whole

    def _added(self, number: int, source: Source, piece: Piece, digest: bytes) -> Added:
        if source.kind == "entry":
            terms = entry_terms(piece.text, piece.category, (*piece.names, *piece.tags))
        else:
            terms = document_terms("\n".join((*piece.names, piece.text)))
        return Added(self.take_document(), number, source, piece, terms, length_in_words(terms), digest)

    def _note(
        self,
        source: Source,
        known: Known | None,
        signature: Signature | None,
        mark: int,
        problem: str,
        changes: Changes,
    ) -> int:
        """Note how a file was read; return its number."""
        if signature is None:
            if known is not None:
                changes.gone.append(known.number)
            return 0
        if problem:
            log.warning("index.refused", file=source.file, why=problem)
        number = known.number if known is not None else self.take_source()
        size = -1 if self.is_young(signature) else signature.size
        changes.sources.append(
            (number, source.file, signature.inode, size, signature.mtime_ns, signature.ctime_ns, mark, problem)
        )
        return number


def columns_of(rows: Sequence[LoadedRow], sessions: Mapping[int, str]) -> Columns:
    """Return rows of `LOADED` as a corpus takes them.

    Args:
        sessions: session of every log, by the number of its file.
    """
    import numpy as np

    from honeybadger_host.memory.corpus import Columns

    numbers, kinds, keys, files, authors, roles, times, categories, tags, lengths, terms = zip(*rows, strict=True)
    return Columns(
        numbers=numbers,
        kinds=kinds,
        keys=keys,
        terms=np.frombuffer(b"".join(terms), np.uint32),
        counts=[len(each) // array("I").itemsize for each in terms],
        lengths=lengths,
        sessions=[sessions.get(file, "") for file in files],
        authors=authors,
        roles=roles,
        at=[float("nan") if at is None else at for at in times],
        categories=categories,
        tags=[tuple(orjson.loads(each)) if each else () for each in tags],
    )


def known_by(normalised: str) -> int:
    """Return what an entry is looked up by that says just this; others may have the same, once in 10^19."""
    return int.from_bytes(hashlib.sha256(normalised.encode("utf-8", "surrogatepass")).digest()[:8], signed=True)


def signature_of(path: str) -> Signature | None:
    """Return a file's signature, None when there is none."""
    try:
        return Signature.of(os.stat(path, follow_symlinks=False))
    except OSError:
        return None


def _begins(data: bytes, grown: Grown) -> bool:
    return len(data) > grown.size and hashlib.sha256(data[: grown.size]).digest() == grown.digest


def _digest(piece: Piece) -> bytes:
    what = (
        piece.key,
        piece.text,
        str(piece.at),
        piece.author,
        piece.role,
        piece.category,
        *piece.tags,
        "",
        *piece.names,
    )
    return hashlib.sha256("\0".join(what).encode("utf-8", "surrogatepass")).digest()[:16]
