"""One group's documents in memory, ready to be ranked: postings, and what stands around every turn.

Nothing here reads a file: `index.db` is the derived truth, a corpus is loaded from it at the first search and told of
every later document. Adding costs microseconds and is seen by the next search. Not thread-safe: its owner lets one
thread in at a time.

Sources: docs/decisions/017-recall.md.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from honeybadger_host.memory.analyzer import QUESTION_MARK, TIME_TERMS, is_number
from honeybadger_host.memory.vectors import Vectors

Kind: TypeAlias = Literal["entry", "note", "history", "turn"]
KINDS: Final[tuple[Kind, ...]] = ("entry", "note", "history", "turn")
TURN: Final = KINDS.index("turn")
Ints: TypeAlias = npt.NDArray[np.int32]
Floats: TypeAlias = npt.NDArray[np.float32]

AROUND_WORDS: Final = 50
"""Words on each side of a turn that count as the text around it; a fixed number of turns hurts where turns are long."""
AROUND_TURNS: Final = 4
"""At most this many turns on each side; the nearest one always counts, however long it is."""
TF_BITS: Final = 6
TF_MASK: Final = (1 << TF_BITS) - 1
"""A posting is `row << TF_BITS | frequency`; a frequency of 63 stands for more."""
SAYS_TIME: Final = 1
SAYS_NUMBER: Final = 2
ASKS: Final = 4
_TAIL_PAIRS: Final = (
    16_384  # later neighbours; a new layout of 100,000 turns takes 20 ms, so about 3 us for each of them
)
_BULK: Final = 1_000
_Scalar = TypeVar("_Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Document:
    """Something that can be recalled.

    Args:
        number: its row in the index, unique in the group; turns of one session stand in the order of their numbers.
        key: what the group calls it: an entry's id, a turn's number, a note's hash.
        terms: what `document_terms` or `entry_terms` returned.
        length: words, see `analyzer.length_in_words`.
        session: of a turn; else empty.
        author: who wrote it, as shown; empty when unknown.
        role: of a turn (`user`, `assistant`, ...); else empty.
        at: seconds of the epoch, UTC; NaN when unknown.
        category: of an entry; else empty.
    """

    number: int
    kind: Kind
    key: str
    terms: Sequence[str]
    length: int
    session: str = ""
    author: str = ""
    role: str = ""
    at: float = math.nan
    category: str = ""
    tags: tuple[str, ...] = field(default=())


class Names:
    """Strings as small numbers, in the order in which they were first seen."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.names: list[str] = []

    def number(self, name: str) -> int:
        """Return the number of a name, a new one for a name not seen before."""
        found = self.numbers.get(name)
        if found is None:
            found = self.numbers[name] = len(self.names)
            self.names.append(name)
        return found


@dataclass(frozen=True, slots=True)
class Layout:
    """Turns in the order in which they were said: sessions one after another, then those that came since.

    A *place* is a turn's position in that order. What is said around an old turn is a stretch of places, so the
    frequency of a word around every turn is a difference of two running sums; the few pairs of neighbours that came
    since are added to it one by one.

    Args:
        rows: row of every place.
        first, behind: of old turns: the stretch around each, itself included; `behind` is not part of it.
    """

    rows: Ints
    first: Ints
    behind: Ints


class Corpus:
    """The documents of one group.

    A *row* is a document's place in every column; rows are never reused. Columns are arrays that grow in place; a
    search looks at them through numpy without copying, so nobody keeps such a view while documents are added.
    """

    def __init__(self) -> None:
        self.sessions, self.authors, self.roles, self.categories = Names(), Names(), Names(), Names()
        self.row_of: dict[int, int] = {}
        self.keys: list[str] = []
        self.numbers = array("q")
        self.at = array("d")
        self.kinds = array("b")
        self.session_of = array("i")
        self.author_of = array("i")
        self.role_of = array("i")
        self.category_of = array("i")
        self.lengths = array("f")
        self.says = array("b")  # SAYS_TIME, SAYS_NUMBER, ASKS
        self.is_alive = array("b")
        self.place_of = array("i")  # of a turn, see `Layout`; -1 for others and for what was removed
        self.session_lengths = array("f")
        self.turns_by_author = array("i")
        self.tagged: dict[str, array[int]] = {}
        self.vocabulary: dict[str, int] = {}
        self.postings: list[array[int]] = []  # by term, rows rising
        self.frequency = array("i")  # by term: living documents that have it
        self.sources, self.targets = array("i"), array("i")  # places of neighbours that came since the layout
        self.around_lengths = array("f")  # by place: words of a turn with what stands around it
        self.around_total = 0.0
        self.vectors: Vectors | None = None
        """By row, when texts are embedded."""
        self._says_by_term = array("b")
        self._forward = array("I")  # by row: term and frequency in one number
        self._forward_start = array("Q", [0])
        self._session_rows: list[array[int]] = []
        self._layout: Layout | None = None
        self._later_rows = array("i")
        self._words_by_kind = [0.0] * len(KINDS)
        self._count_by_kind = [0] * len(KINDS)

    def __len__(self) -> int:
        """Return how many documents live."""
        return len(self.row_of)

    @property
    def size(self) -> int:
        """How many rows there are, dead ones included."""
        return len(self.keys)

    @property
    def turns(self) -> int:
        """How many turns live."""
        return self._count_by_kind[TURN]

    @property
    def average_lengths(self) -> Floats:
        """Words of a document, by kind; at least 1."""
        pairs = zip(self._words_by_kind, self._count_by_kind, strict=True)
        return np.array([max(1.0, words / max(1, count)) for words, count in pairs], np.float32)

    @property
    def memory_bytes(self) -> int:
        """Estimate of what the corpus holds, in bytes."""
        columns: tuple[array[Any], ...] = (
            *(self.numbers, self.at, self.kinds, self.session_of, self.author_of, self.role_of, self.category_of),
            *(self.lengths, self.says, self.is_alive, self.place_of, self.around_lengths, self.sources, self.targets),
            *(self._forward, self._forward_start),
        )
        return (
            sum(column.itemsize * len(column) for column in columns)
            + sum(4 * len(rows) + 96 for rows in self.postings)
            + 170 * len(self.vocabulary)  # a string, its number, its slot
            + 200 * self.size  # key, number and slot; its place in a layout
            + (self.vectors.memory_bytes if self.vectors is not None else 0)
        )

    def add(self, documents: Iterable[Document]) -> None:
        """Add documents; one whose number is there already takes its place."""
        documents = list(documents)
        is_bulk = len(documents) > _BULK
        if is_bulk:
            self._layout = None
            documents = list({document.number: document for document in documents}.values())
            self.remove([document.number for document in documents])
            self._index_many(documents)
        for document in documents:
            if document.number in self.row_of:
                self.remove([document.number])
            row = self._append(document)
            if not is_bulk:
                self._index(document.terms, row)
            if document.kind == "turn":
                self._append_turn(document, row)
            else:
                self.session_of.append(-1)
                self.place_of.append(-1)
        if self.vectors is not None:
            self.vectors.resize(self.size)

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove documents; numbers that are not there are ignored."""
        for number in numbers:
            row = self.row_of.pop(number, None)
            if row is None:
                continue
            if self.vectors is not None:
                self.vectors.drop(row)
            self.is_alive[row] = 0
            self._count_by_kind[self.kinds[row]] -= 1
            self._words_by_kind[self.kinds[row]] -= self.lengths[row]
            for packed in self._forward[self._forward_start[row] : self._forward_start[row + 1]]:
                self.frequency[packed >> TF_BITS] -= 1
            session = self.session_of[row]
            if session >= 0:
                self._session_rows[session].remove(row)
                self.session_lengths[session] -= self.lengths[row]
                self.turns_by_author[self.author_of[row]] -= 1
                self.place_of[row] = -1
                self._layout = None

    def layout(self) -> Layout:
        """Return the order of the turns, brought up to date."""
        layout = self._layout
        if layout is None or len(self.sources) > _TAIL_PAIRS:
            layout = self._layout = self._laid_out()
        if self._later_rows:
            rows = np.concatenate((layout.rows, view(self._later_rows, np.int32)))
            return Layout(rows, layout.first, layout.behind)
        return layout

    def _append(self, document: Document) -> int:
        row = self.size
        kind = KINDS.index(document.kind)
        length = float(max(1, document.length))
        self.row_of[document.number] = row
        self.keys.append(document.key)
        self.numbers.append(document.number)
        self.at.append(document.at)
        self.kinds.append(kind)
        author = self.authors.number(document.author)
        if author == len(self.turns_by_author):
            self.turns_by_author.append(0)
        self.author_of.append(author)
        self.role_of.append(self.roles.number(document.role))
        self.category_of.append(self.categories.number(document.category))
        self.lengths.append(length)
        self.is_alive.append(1)
        self._count_by_kind[kind] += 1
        self._words_by_kind[kind] += length
        for tag in document.tags:
            self.tagged.setdefault(tag, array("i")).append(row)
        return row

    def _index(self, terms: Sequence[str], row: int) -> None:
        """Enter the terms of the row that comes next into the postings."""
        says, packed_row = 0, row << TF_BITS
        vocabulary, postings, frequency = self.vocabulary, self.postings, self.frequency
        for term, count in Counter(terms).items():
            number = vocabulary.get(term)
            if number is None:
                number = self._new_term(term)
            count = min(count, TF_MASK)
            postings[number].append(packed_row | count)
            frequency[number] += 1
            self._forward.append(number << TF_BITS | count)
            says |= self._says_by_term[number]
        self.says.append(says)
        self._forward_start.append(len(self._forward))

    def _index_many(self, documents: Sequence[Document]) -> None:
        """Enter the terms of many rows that come next, as `_index` does one by one: 10 times as fast."""
        all_terms = list(chain.from_iterable(document.terms for document in documents))
        for term in dict.fromkeys(all_terms):
            if term not in self.vocabulary:
                self._new_term(term)
        said = np.fromiter(map(self.vocabulary.__getitem__, all_terms), np.int64, len(all_terms))
        many = len(documents)
        rows = np.repeat(np.arange(many), [len(document.terms) for document in documents])
        pairs, counts = np.unique(said * many + rows, return_counts=True)  # by term, then by row
        numbers, rows = pairs // many, pairs % many
        counts = np.minimum(counts, TF_MASK)
        packed = ((rows + self.size) << TF_BITS | counts).astype(np.uint32)
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        ends = np.append(starts, len(packed))[1:]
        for number, start, end in zip(numbers[starts].tolist(), starts.tolist(), ends.tolist(), strict=True):
            self.postings[number].frombytes(packed[start:end].tobytes())
            self.frequency[number] += end - start
        by_row = np.argsort(rows, kind="stable")
        behind = np.cumsum(np.bincount(rows, minlength=many)) + len(self._forward)
        self._forward.frombytes((numbers[by_row] << TF_BITS | counts[by_row]).astype(np.uint32).tobytes())
        self._forward_start.frombytes(behind.astype(np.uint64).tobytes())
        says = np.zeros(many, np.int64)
        np.bitwise_or.at(says, rows, np.array(self._says_by_term, np.int64)[numbers])
        self.says.frombytes(says.astype(np.int8).tobytes())

    def _new_term(self, term: str) -> int:
        number = self.vocabulary[term] = len(self.postings)
        self.postings.append(array("I"))
        self.frequency.append(0)
        says = SAYS_TIME * (term in TIME_TERMS) | SAYS_NUMBER * is_number(term) | ASKS * (term == QUESTION_MARK)
        self._says_by_term.append(says)
        return number

    def _append_turn(self, document: Document, row: int) -> None:
        session = self.sessions.number(document.session)
        if session == len(self._session_rows):
            self._session_rows.append(array("i"))
            self.session_lengths.append(0.0)
        rows = self._session_rows[session]
        length = self.lengths[row]
        self.session_of.append(session)
        self.session_lengths[session] += length
        self.turns_by_author[self.author_of[row]] += 1
        if rows and self.numbers[rows[-1]] > document.number:  # an earlier turn that came late
            rows.insert(bisect_left(rows, document.number, key=self.numbers.__getitem__), row)
            self._layout = None
        else:
            rows.append(row)
        if self._layout is None:
            self.place_of.append(-1)
            return
        place = len(self.around_lengths)
        self.place_of.append(place)
        self._later_rows.append(row)
        self.around_lengths.append(length)
        self.around_total += length
        between = 0.0
        for other in rows[-2 : -2 - AROUND_TURNS : -1]:
            if between >= AROUND_WORDS:
                break
            there, words = self.place_of[other], self.lengths[other]
            self.sources.extend((place, there))
            self.targets.extend((there, place))
            self.around_lengths[place] += words
            self.around_lengths[there] += length
            self.around_total += length + words
            between += words

    def _laid_out(self) -> Layout:
        """Put all living turns in order and measure what stands around each."""
        counts = [len(rows) for rows in self._session_rows]
        rows: Ints = np.concatenate([np.zeros(0, np.int32), *(view(each, np.int32) for each in self._session_rows)])
        end: npt.NDArray[np.int64] = np.repeat(np.cumsum(np.array(counts, np.int64)), counts)
        start = end - np.repeat(np.array(counts, np.int64), counts)
        words = view(self.lengths, np.float32)[rows].astype(np.float64)
        before = np.concatenate(([0.0], np.cumsum(words)))  # words before every place
        places = np.arange(len(rows))
        first, behind = places.copy(), places + 1
        for step in range(1, AROUND_TURNS + 1):
            back, ahead = places - step, places + step
            between_back = before[places] - before[np.maximum(back + 1, 0)]
            between_ahead = before[np.minimum(ahead, len(rows))] - before[places + 1]
            first[(back >= start) & (between_back < AROUND_WORDS)] -= 1
            behind[(ahead < end) & (between_ahead < AROUND_WORDS)] += 1
        around = before[behind] - before[first]
        place_of = np.full(self.size, -1, np.int32)
        place_of[rows] = places
        self.place_of = array("i", place_of.tobytes())
        self.around_lengths = array("f", around.astype(np.float32).tobytes())
        self.around_total = float(around.sum())
        self.sources, self.targets, self._later_rows = array("i"), array("i"), array("i")
        return Layout(rows.copy(), first.astype(np.int32), behind.astype(np.int32))


def view(column: array[Any], dtype: type[_Scalar]) -> npt.NDArray[_Scalar]:
    """Return a column as numpy sees it, not copied."""
    return np.frombuffer(column, dtype=dtype) if len(column) else np.zeros(0, dtype)
