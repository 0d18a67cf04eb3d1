"""One group's documents in memory, ready to be ranked: columns, and where the postings of a term are.

A corpus is loaded from the blocks of `index.db` and updated with every later document, whose postings it holds. Adding
takes microseconds and is seen by the next search. Not thread-safe: its owner lets one thread in at a time.

Sources: docs/decisions/017-recall.md.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from honeybadger_host.search.blocks import TF_BITS, TF_MASK, Block, Blocks, Packed, Postings
from honeybadger_host.search.documents import KINDS, Document
from honeybadger_host.search.embeddings import Vectors
from honeybadger_host.search.language.analyzer import tag_mark

TURN = KINDS.index("turn")
Floats: TypeAlias = npt.NDArray[np.float32]
Rows: TypeAlias = npt.NDArray[np.intp]
Mask: TypeAlias = npt.NDArray[np.bool_]
Ints: TypeAlias = npt.NDArray[np.int32]

AROUND_TURNS = 2  # turns on each side of a turn that count as the text around it
SITTING_SECONDS = 3600.0  # turns separated by a longer pause do not count as text around each other

_NO_ROWS = array("I")
_ROW_BYTES = 60  # memory of a row, with its place in the layout
_LATER_TERM_BYTES = 100  # memory of a term of a document that was added
_Scalar = TypeVar("_Scalar", bound=np.generic)


class Sums(NamedTuple):
    """Sums over all documents, for a search.

    Args:
        counts: documents of each kind.
        average_lengths: words of a document, by kind; at least 1.
        session_lengths: words of each session.
        speakers: numbers of the authors of turns.
        years: from that of the first document to that of the last.
    """

    counts: Sequence[int]
    average_lengths: Floats
    session_lengths: Floats
    speakers: Sequence[int]
    years: Sequence[int]


class Around(NamedTuple):
    """The turns before and after each turn in one sitting, by row; the last row of each array is that of no turn.

    Args:
        before, after: the row of the turn directly before or after; -1: none.
        words: of each turn and the turns around it.
        turns: rows of all turns, ascending.
        average: mean of `words`.
    """

    before: Ints
    after: Ints
    words: Floats
    turns: Rows
    average: float


def rows_around(before: Ints, after: Ints, rows: Rows) -> list[Rows | Ints]:
    """Return these rows of turns, and the rows of the turns around each; -1 where there is none."""
    near: list[Rows | Ints] = [rows]
    for one_further in (before, after):
        there: Rows | Ints = rows
        for _ in range(AROUND_TURNS):
            there = one_further[there]
            near.append(there)
    return near


class Corpus:
    """The documents of one group.

    A *row* is a document's index in every column; rows are never reused. Columns are arrays that grow in place; a
    search reads them through numpy without copying, so such a view must not be kept while documents are added.
    """

    def __init__(self, stored: Blocks | None = None) -> None:
        # Author, role, category or session -> its number, in order of first appearance.
        self.labels: dict[str, int] = {}
        self.numbers = array("q")
        self.at = array("d")
        self.kinds = array("b")
        self.lengths = array("f")
        self.session_of = array("i")  # this and the next three: in `labels`; -1 of documents that are not turns
        self.author_of = array("i")
        self.role_of = array("i")
        self.category_of = array("i")
        self.is_alive = array("b")
        self.vectors: Vectors | None = None  # vectors by row, when texts are embedded
        self.has_dead = False
        self._stored = stored
        self._base_of: dict[int, int] = {}  # the first row of each block, by its first document
        self._loaded_postings: list[Postings] = []
        self._loaded = 0  # rows that were loaded; their numbers ascend
        self._later_row: dict[int, int] = {}  # of the other rows, by number
        self._later_postings: dict[str, array[int]] = {}  # of the other rows, by term
        self._around: Around | None = None
        self._before: Ints | None = None  # see `Around`, as it was when it was made last
        self._moved: set[int] = set()  # sessions that changed since then
        self._sums: Sums | None = None

    def __len__(self) -> int:
        """Return how many documents there are."""
        return sum(self.sums().counts)

    @property
    def size(self) -> int:
        """How many rows there are, removed ones included."""
        return len(self.numbers)

    @property
    def later(self) -> int:
        """How many rows were added after loading."""
        return self.size - self._loaded

    @property
    def memory_bytes(self) -> int:
        """Estimated memory of the corpus."""
        loaded = sum(each.packed.nbytes + each.terms.nbytes + each.starts.nbytes for each in self._loaded_postings)
        vectors = self.vectors.memory_bytes if self.vectors is not None else 0
        return _ROW_BYTES * self.size + loaded + _LATER_TERM_BYTES * len(self._later_postings) + vectors

    def row_of(self, number: int) -> int | None:
        """Return the row of a document, or None if it is not there."""
        row = self._later_row.get(number)
        if row is None:
            row = bisect_left(self.numbers, number, 0, self._loaded)
            if row == self._loaded or self.numbers[row] != number:
                return None
        return row if self.is_alive[row] else None

    # -- changes ----------------------------------------------------------------------------------------------------

    def load(self, block: Block) -> None:
        """Load documents into a corpus to which none was added; their numbers are above those that are there."""
        first, rows, postings = self.size, block.rows, block.postings
        if postings is None:
            self._base_of[int(rows["number"][0])] = first
        else:
            self._loaded_postings.append(postings._replace(packed=postings.packed + np.uint32(first << TF_BITS)))
        labels = np.array([_number_of(label, self.labels) for label in block.labels], np.int32)
        for column, values in (
            (self.numbers, rows["number"]),
            (self.at, rows["at"]),
            (self.kinds, rows["kind"]),
            (self.lengths, rows["length"]),
            (self.session_of, np.where(rows["kind"] == TURN, labels[rows["session"]], np.int32(-1))),
            (self.author_of, labels[rows["author"]]),
            (self.role_of, labels[rows["role"]]),
            (self.category_of, labels[rows["category"]]),
        ):
            column.frombytes(values.tobytes())
        self.is_alive.frombytes(b"\1" * len(rows))
        self._loaded = self.size
        self._grown()

    def add(self, documents: Iterable[Document]) -> None:
        """Add documents; one with a known number replaces the old one."""
        for document in documents:
            self.remove([document.number])
            row = self.size
            self._later_row[document.number] = row
            piece = document.piece
            for term, count in Counter(chain(document.terms, map(tag_mark, piece.tags))).items():
                self._later_postings.setdefault(term, array("I")).append(row << TF_BITS | min(count, TF_MASK))
            session = _number_of(str(document.source), self.labels) if document.kind == "turn" else -1
            self._moved.add(session)
            self.numbers.append(document.number)
            self.at.append(math.nan if piece.at is None else piece.at)
            self.kinds.append(KINDS.index(document.kind))
            self.lengths.append(max(1, len(document.terms)))
            self.session_of.append(session)
            self.author_of.append(_number_of(piece.author, self.labels))
            self.role_of.append(_number_of(piece.role, self.labels))
            self.category_of.append(_number_of(piece.category, self.labels))
            self.is_alive.append(1)
        self._grown()

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove documents; unknown numbers are ignored."""
        for number in numbers:
            row = self.row_of(number)
            if row is None:
                continue
            if self.vectors is not None:
                self.vectors.drop(row)
            self.is_alive[row] = 0
            self.has_dead = True
            self._moved.add(self.session_of[row])
            self._grown()

    def _grown(self) -> None:
        """Note that documents came or went."""
        self._sums = self._around = None
        if self.vectors is not None:
            self.vectors.resize(self.size)

    # -- questions --------------------------------------------------------------------------------------------------

    def postings(self, term: str) -> Packed:
        """Return the postings of a term by ascending row, those of removed rows included."""
        parts = [view(self._later_postings.get(term, _NO_ROWS), np.uint32)]
        for number in self._stored.numbers([term]).values() if self._stored is not None else ():
            parts += self._loaded_parts(number)
        packed = np.concatenate(parts)
        packed.sort(kind="stable")  # a few ascending runs: takes as long as copying them
        return packed

    def _loaded_parts(self, number: int) -> list[Packed]:
        """Return the postings of a term id in loaded documents."""
        assert self._stored is not None  # noqa: S101  it gave the number
        stored = [
            np.frombuffer(data, np.uint32) + np.uint32(self._base_of[first] << TF_BITS)
            for first, data in self._stored.postings(number, self._base_of)
        ]
        return [*stored, *(postings.of(number) for postings in self._loaded_postings)]

    def known(self, words: Collection[str]) -> set[str]:
        """Return those of the words that a document has, or had."""
        later = {word for word in words if word in self._later_postings}
        stored = {} if self._stored is None else self._stored.numbers(words)
        return later | {word for word, number in stored.items() if any(map(len, self._loaded_parts(number)))}

    def sums(self) -> Sums:
        """Return the up-to-date sums."""
        if self._sums is None:
            alive, sessions = view(self.is_alive, np.bool_), view(self.session_of, np.int32)
            kinds, lengths = view(self.kinds, np.int8), view(self.lengths, np.float32) * alive
            counts = np.bincount(kinds, alive, len(KINDS)).astype(np.int64)
            averages = np.bincount(kinds, lengths, len(KINDS)) / np.maximum(1, counts)
            turns = np.flatnonzero((sessions >= 0) & alive)
            words = np.bincount(sessions[turns], lengths[turns], len(self.labels)).astype(np.float32)
            speakers = np.flatnonzero(np.bincount(view(self.author_of, np.int32)[turns]))
            at_least_one: Floats = np.maximum(1, averages).astype(np.float32)
            at = view(self.at, np.float64)
            known = at[np.isfinite(at)]
            ends = (known.min(), known.max()) if len(known) else (0.0, 0.0)
            first, last = (datetime.fromtimestamp(float(end), UTC).year for end in ends)
            self._sums = Sums(counts.tolist(), at_least_one, words, speakers.tolist(), range(first, last + 1))
        return self._sums

    def around(self) -> Around:
        """Return the up-to-date turns around each turn; those of sessions that changed are looked up again."""
        if self._around is None:
            session_of, at = view(self.session_of, np.int32), view(self.at, np.float64)
            turns = np.flatnonzero((session_of >= 0) & view(self.is_alive, np.bool_))
            changed = turns
            before = np.full(self.size + 1, -1, np.int32)
            if self._before is not None:
                before[: len(self._before) - 1] = self._before[:-1]
                changed = turns[np.isin(session_of[turns], [*self._moved])]
            changed = changed[np.lexsort((view(self.numbers, np.int64)[changed], session_of[changed]))]
            is_apart = (np.diff(session_of[changed]) != 0) | (np.abs(np.diff(at[changed])) > SITTING_SECONDS)
            before[changed] = -1
            before[changed[1:]] = np.where(is_apart, -1, changed[:-1])
            self._before = before
            self._moved.clear()
            after = np.full(self.size + 1, -1, np.int32)
            after[before[turns]] = turns
            after[-1] = -1  # of no turn
            lengths = np.append(view(self.lengths, np.float32), np.float32(0))
            words = np.zeros_like(lengths)
            words[turns] = sum(lengths[rows] for rows in rows_around(before, after, turns))
            self._around = Around(before, after, words, turns, float(words[turns].sum()) / max(1, len(turns)))
        return self._around


def _number_of(name: str, known: dict[str, int]) -> int:
    """Return the number of a name; a new name gets the next one."""
    return known.setdefault(name, len(known))


def view(column: array[Any], dtype: type[_Scalar]) -> npt.NDArray[_Scalar]:
    """Return a numpy view of a column, not copied."""
    return np.frombuffer(column, dtype=dtype) if len(column) else np.zeros(0, dtype)
