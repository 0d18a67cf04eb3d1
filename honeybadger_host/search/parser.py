"""What one file says, read and analysed: the part of indexing that needs no index, so that another process may do it.

`indexing` decides what of it is new; `reading_process` has it done elsewhere when thousands of files wait.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from honeybadger_host.search.documents import KINDS, Document, Kind
from honeybadger_host.search.language.analyzer import document_terms, entry_terms, length_in_words
from honeybadger_host.search.sources import Piece, Source, Unsearchable, pieces_of, read_source, source_of, turns_of
from honeybadger_host.storage.file_cache import is_young, signature_of
from honeybadger_host.storage.files import Signature

SAID: Final = "kind, key, author, role, at, category, tags, length, known_by, digest, name, title, names, bytes, text"
"""Columns of the table of documents that `Said` has, in its order."""
_LARGEST_ENTRY_BYTES: Final = 1 << 20
_TURNS_READ: Final = 1 << 18
"""Bytes of a log read at once, about a thousand turns: 50 ms."""
_LONGEST_LINE: Final = 8 << 20


Terms: TypeAlias = "Sequence[str] | bytes"


class Said(NamedTuple):
    """A document as its file says it, ready for its row.

    Args:
        kind: place in `KINDS`.
        tags: JSON, or empty.
        length: words, see `analyzer.length_in_words`.
        known_by: of an entry, see `known_by`.
        digest: of all that the file says of it; of a turn empty, it never changes.
        names: words it is found by beside its text, one on each line: title, name, aliases.
        size: bytes of an entry's text.
    """

    kind: int
    key: str
    author: str
    role: str
    at: float | None
    category: str
    tags: str
    length: int
    known_by: int | None
    digest: bytes
    name: str
    title: str
    names: str
    size: int
    text: str

    def document(self, number: int, session: str, terms: Sequence[str]) -> Document:
        """Return it as the ranking takes it."""
        return Document(
            number=number,
            kind=KINDS[self.kind],
            key=self.key,
            terms=terms,
            length=self.length,
            session=session,
            author=self.author,
            role=self.role,
            at=float("nan") if self.at is None else self.at,
            category=self.category,
            tags=tuple(orjson.loads(self.tags)) if self.tags else (),
        )


class Task(NamedTuple):
    """A file to be read.

    Args:
        inode, mark: of a log, the file that was read before and how many of its bytes; 0 when it was not.
    """

    source: Source
    inode: int = 0
    mark: int = 0


PlainTask: TypeAlias = tuple[str, int, int]
PlainReading: TypeAlias = tuple[object, ...]


class Reading(NamedTuple):
    """What reading a file gave.

    Args:
        signature: None when there is no such file.
        size: bytes that were read.
        found: its documents, each with its terms: words, or numbers in a `Glossary` when another process read it.
        is_young: it may be written again within the same time stamp.
        problem: why it cannot be searched, for people; or empty.
        error: why it could not be read just now; or empty.
        mark: of a log, how many bytes are read by now.
        is_anew: of a log, it was read from its beginning.
        is_whole: of a log, nothing is left to read.
        skipped: of a log, lines that are no turns.
    """

    signature: Signature | None
    size: int = 0
    found: Sequence[tuple[Said, Terms]] = ()
    is_young: bool = False
    problem: str = ""
    error: str = ""
    mark: int = 0
    is_anew: bool = False
    is_whole: bool = True
    skipped: int = 0


def plain_task(task: Task) -> PlainTask:
    """Return a task in plain values, for another process."""
    return task.source.file, task.inode, task.mark


def task_from(plain: PlainTask) -> Task:
    """Return what `plain_task` was given. Raises ValueError when that file is not searched."""
    file, inode, mark = plain
    source = source_of(file)
    if source is None:
        raise ValueError(f"{file} is not searched")
    return Task(source, inode, mark)


def plain_reading(reading: Reading, number: Callable[[Sequence[str]], bytes]) -> PlainReading:
    """Return a reading in plain values, for another process.

    Args:
        number: gives the numbers of terms.
    """
    signature = None if reading.signature is None else tuple(reading.signature)
    found = [(tuple(said), number(terms)) for said, terms in reading.found if not isinstance(terms, bytes)]
    return (signature, reading.size, found, *reading[3:])


def reading_from(plain: Any) -> Reading:
    """Return what `plain_reading` was given. Raises TypeError, ValueError when it is something else."""
    signature, size, found, *more = plain
    return Reading(
        None if signature is None else Signature(*signature),
        size,
        [(Said._make(said), terms) for said, terms in found],
        *more,
    )


def read(home: str, task: Task, wall_ns: Callable[[], int] = time.time_ns) -> Reading:
    """Read and analyse an entry, or what was appended to a log of turns."""
    return (_read_log if task.source.kind == "turn" else _read_entry)(home, task, wall_ns)


def _read_entry(home: str, task: Task, wall_ns: Callable[[], int]) -> Reading:
    problem, data = "", b""
    signature: Signature | None = None
    pieces: Sequence[Piece] = ()
    try:
        there = read_source(home, task.source.file, most_bytes=_LARGEST_ENTRY_BYTES)
        if there is not None:
            data, signature = there
            pieces = pieces_of(task.source, data, signature)
    except Unsearchable as error:
        problem = str(error)
        signature = signature or signature_of(f"{home}/{task.source.file}")
    except OSError as error:
        return Reading(None, error=error.strerror or str(error))
    found = [analysed("entry", piece, digest_of(piece)) for piece in pieces]
    return Reading(signature, len(data), found, is_young(signature, wall_ns()), problem)


def _read_log(home: str, task: Task, wall_ns: Callable[[], int]) -> Reading:
    """Read what was appended, or all of it when it is another file, or shorter than it was."""
    signature = signature_of(f"{home}/{task.source.file}")
    mark = task.mark if signature is not None and task.inode == signature.inode else 0
    if signature is not None and signature.size < mark:
        mark = 0
    is_anew = mark == 0
    problem, is_whole, size, skipped = "", True, 0, 0
    pieces: Sequence[Piece] = ()
    try:
        for most in (_TURNS_READ, _LONGEST_LINE):
            there = read_source(home, task.source.file, start=mark, most_bytes=most, is_cut=True)
            if there is None:
                break
            data, signature = there
            size = len(data)
            pieces, whole, skipped = turns_of(data)
            if whole or size < most:
                break
        else:
            whole = _LONGEST_LINE  # one line of so many bytes is no turn
    except Unsearchable as error:
        there, problem = None, str(error)
    except OSError as error:
        return Reading(None, error=error.strerror or str(error))
    young = is_young(signature, wall_ns())
    if there is not None and signature is not None:
        mark += whole
        is_whole = mark >= signature.size or not whole
        if not is_whole:
            signature = signature._replace(size=mark)
    found = [analysed("turn", piece, b"") for piece in pieces]
    return Reading(signature, size, found, young, problem, "", mark, is_anew, is_whole, skipped)


def analysed(kind: Kind, piece: Piece, digest: bytes) -> tuple[Said, list[str]]:
    """Return a piece of a file as a document, and its terms."""
    if kind == "entry":
        terms = entry_terms(piece.text, piece.category, (*piece.names, *piece.tags))
    else:
        terms = document_terms("\n".join((*piece.names, piece.text)))
    said = Said(
        KINDS.index(kind),
        piece.key,
        piece.author,
        piece.role,
        piece.at,
        piece.category,
        orjson.dumps(piece.tags).decode() if piece.tags else "",
        length_in_words(terms),
        known_by(piece.known_by) if piece.known_by else None,
        digest,
        piece.name,
        piece.title,
        "\n".join(" ".join(name.split()) for name in piece.names),
        len(piece.text.encode("utf-8", "surrogatepass")) if kind == "entry" else 0,
        piece.text,
    )
    return said, terms


def known_by(normalised: str) -> int:
    """Return what an entry is looked up by that says just this; others may have the same, once in 10^19."""
    return int.from_bytes(hashlib.sha256(normalised.encode("utf-8", "surrogatepass")).digest()[:8], signed=True)


def digest_of(piece: Piece) -> bytes:
    """Return what stands for all that a file says of a piece."""
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
