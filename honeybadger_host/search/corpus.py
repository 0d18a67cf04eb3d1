"""One group's documents in memory, ready to be ranked: postings, and the text around every turn.

A corpus is loaded from `index.db` once and updated with every later document. Loaded postings are sorted by term, see
`postings`; later ones are in a small array for each term. Adding takes microseconds and is seen by the next search. Not
thread-safe: its owner lets one thread in at a time.

Sources: docs/decisions/017-recall.md.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from honeybadger_host.search.documents import KINDS, Document
from honeybadger_host.search.language.analyzer import QUESTION_MARK, time_terms
from honeybadger_host.search.layout import (
    AROUND_TURNS,
    AROUND_WORDS,
    SITTING_SECONDS,
    Ints,
    Layout,
    is_long,
    stretches,
)
from honeybadger_host.search.postings import (
    TF_BITS,
    TF_MASK,
    WORD_BYTES,
    Counted,
    Filed,
    Held,
    Numbers,
    Packed,
    counted,
    loaded,
)
from honeybadger_host.search.vectors import Vectors
from honeybadger_host.text.labels import folded

ENTRY: Final = KINDS.index("entry")
TURN: Final = KINDS.index("turn")
Floats: TypeAlias = npt.NDArray[np.float32]

SAYS_TIME: Final = 1
ASKS: Final = 2
_TAIL_PAIRS: Final = (
    16_384  # later neighbours; a new layout of 100,000 turns takes 20 ms, so about 3 us for each of them
)
_NO_ROWS: Final = array("I")
_TERM_BYTES: Final = WORD_BYTES + 100  # memory of a later term: the word, and an array
_ROW_BYTES: Final = 150  # memory of a later row, without its columns and postings
_Scalar = TypeVar("_Scalar", bound=np.generic)


class Names:
    """Numbers strings in order of first appearance."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.names: list[str] = []

    def number(self, name: str) -> int:
        """Return the number of a name; a new name gets a new one."""
        found = self.numbers.get(name)
        if found is None:
            found = self.numbers[name] = len(self.names)
            self.names.append(name)
        return found


@dataclass(frozen=True, slots=True)
class Columns:
    """Documents by column, to be loaded; the members are those of `Document`.

    Args:
        kinds: places in `KINDS`.
        terms: of all documents, one after another, as term ids of the database.
        counts: how many terms each document has.
    """

    numbers: Sequence[int]
    kinds: Sequence[int]
    keys: Sequence[str]
    terms: npt.NDArray[np.uint32]
    counts: Sequence[int]
    lengths: Sequence[int]
    sessions: Sequence[str]
    authors: Sequence[str]
    roles: Sequence[str]
    at: Sequence[float]
    categories: Sequence[str]
    tags: Sequence[tuple[str, ...]]


class Corpus:
    """The documents of one group.

    A *row* is a document's index in every column; rows are never reused. Columns are arrays that grow in place; a
    search reads them through numpy without copying, so such a view must not be kept while documents are added.
    """

    def __init__(self) -> None:
        self.sessions, self.authors, self.roles, self.categories = Names(), Names(), Names(), Names()
        self.numbers = array("q")
        self.at = array("d")
        self.kinds = array("b")
        self.session_of = array("i")
        self.author_of = array("i")
        self.role_of = array("i")
        self.category_of = array("i")
        self.lengths = array("f")
        self.says = array("b")  # SAYS_TIME, ASKS
        self.is_alive = array("b")
        self.place_of = array("i")  # of a turn, see `Layout`; -1 for other and removed documents
        self.session_lengths = array("f")
        self.turns_by_author = array("i")
        self.tagged: dict[str, array[int]] = {}
        self.sources, self.targets = array("i"), array("i")  # places of neighbours that came since the layout
        self.around_lengths = array("f")  # by place: words of a turn and the text around it
        self.around_total = 0.0
        self.vectors: Vectors | None = None
        """Vectors by row, when texts are embedded."""
        self.has_dead = False
        self.later_bytes = 0
        """Estimated memory of documents added after loading, without columns."""
        self._keys = bytearray()
        self._key_start = array("Q", [0])
        self._loaded = 0  # rows that were loaded; their numbers ascend
        self._later_row: dict[int, int] = {}  # of the other rows, by number
        self._loaded_postings: Held | Filed | None = None  # of loaded rows
        self._later_postings: dict[str, array[int]] = {}  # of the other rows, by term
        self._session_rows: list[array[int]] = []
        self._layout: Layout | None = None
        self._later_rows = array("i")
        self._words_by_kind = [0.0] * len(KINDS)
        self._count_by_kind = [0] * len(KINDS)

    def __len__(self) -> int:
        """Return how many documents there are."""
        return sum(self._count_by_kind)

    @property
    def size(self) -> int:
        """How many rows there are, removed ones included."""
        return len(self.numbers)

    @property
    def turns(self) -> int:
        return self._count_by_kind[TURN]

    @property
    def entries(self) -> int:
        return self._count_by_kind[ENTRY]

    @property
    def average_lengths(self) -> Floats:
        """Words of a document, by kind; at least 1."""
        pairs = zip(self._words_by_kind, self._count_by_kind, strict=True)
        return np.array([max(1.0, words / max(1, count)) for words, count in pairs], np.float32)

    @property
    def memory_bytes(self) -> int:
        """Estimated memory of the corpus."""
        columns: tuple[array[Any], ...] = (
            *(self.numbers, self.at, self.kinds, self.session_of, self.author_of, self.role_of, self.category_of),
            *(self.lengths, self.says, self.is_alive, self.place_of, self.around_lengths, self.sources, self.targets),
            self._key_start,
        )
        return (
            sum(column.itemsize * len(column) for column in columns)
            + len(self._keys)
            + (self._loaded_postings.memory_bytes if self._loaded_postings is not None else 0)
            + self.later_bytes
            + 16 * self.turns  # in its session, and its place in a layout
            + (self.vectors.memory_bytes if self.vectors is not None else 0)
        )

    def row_of(self, number: int) -> int | None:
        """Return the row of a document; None when it is not there."""
        row = self._later_row.get(number)
        if row is None:
            row = bisect_left(self.numbers, number, 0, self._loaded)
            if row == self._loaded or self.numbers[row] != number:
                return None
        return row if self.is_alive[row] else None

    def key(self, row: int) -> str:
        return self._keys[self._key_start[row] : self._key_start[row + 1]].decode()

    def __contains__(self, term: object) -> bool:
        """Return whether a document has, or had, a term."""
        return term in self._later_postings or (self._loaded_postings is not None and term in self._loaded_postings)

    def postings(self, term: str) -> Packed:
        """Return the postings of a term by ascending row, those of removed rows included."""
        later = view(self._later_postings.get(term, _NO_ROWS), np.uint32)
        if self._loaded_postings is None:
            return later
        loaded = self._loaded_postings.postings(term)
        return np.concatenate((loaded, later)) if len(later) else loaded

    def add(self, documents: Iterable[Document]) -> None:
        """Add documents; one with a known number replaces the old one."""
        for document in documents:
            self.remove([document.number])
            row = self.size
            self._later_row[document.number] = row
            self._append(document)
            self._index(document.terms, row)
            if document.kind == "turn":
                self._append_turn(document, row)
            else:
                self.session_of.append(-1)
                self.place_of.append(-1)
        if self.vectors is not None:
            self.vectors.resize(self.size)

    def load(
        self,
        slices: Iterable[Columns],
        names: Callable[[Numbers], Sequence[str]],
        most_bytes: int = 0,
        new_file: Callable[[], Filed] | None = None,
    ) -> None:
        """Load the first documents. Raises WorldFailed.

        Args:
            slices: some thousand documents each; numbers ascend, also from one to the next.
            names: returns the terms of ascending term ids.
            most_bytes, new_file: see `postings.loaded`.
        """
        assert not self.size, "an empty corpus is loaded"  # noqa: S101  its owner's mistake
        self._loaded_postings = loaded(self._counted(slices), names, most_bytes, new_file)
        self._loaded = self.size
        self.place_of = array("i", bytes(4 * self.size))
        says = np.zeros(self.size, np.int8)
        for term, what in chain(((term, SAYS_TIME) for term in time_terms()), [(QUESTION_MARK, ASKS)]):
            says[self.postings(term) >> np.uint32(TF_BITS)] |= what
        self.says = array("b", says.tobytes())
        if self.vectors is not None:
            self.vectors.resize(self.size)

    def _counted(self, slices: Iterable[Columns]) -> Iterator[Counted]:
        """Append the columns of documents; yield their postings."""
        for columns in slices:
            yield counted(columns.terms, columns.counts, self.size)
            self._append_columns(columns)

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove documents; unknown numbers are ignored."""
        for number in numbers:
            row = self.row_of(number)
            if row is None:
                continue
            self._later_row.pop(number, None)
            if self.vectors is not None:
                self.vectors.drop(row)
            self.is_alive[row] = 0
            self.has_dead = True
            self._count_by_kind[self.kinds[row]] -= 1
            self._words_by_kind[self.kinds[row]] -= self.lengths[row]
            session = self.session_of[row]
            if session >= 0:
                self._session_rows[session].remove(row)
                self.session_lengths[session] -= self.lengths[row]
                self.turns_by_author[self.author_of[row]] -= 1
                self.place_of[row] = -1
                self._layout = None

    def layout(self) -> Layout:
        """Return the up-to-date layout."""
        layout = self._layout
        if layout is None or len(self.sources) > _TAIL_PAIRS:
            layout = self._layout = self._laid_out()
        return layout.with_later(view(self._later_rows, np.int32)) if self._later_rows else layout

    def _append(self, document: Document) -> None:
        kind = KINDS.index(document.kind)
        length = float(max(1, document.length))
        self._append_key(document.key)
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
        for tag in map(folded, document.tags):
            self.tagged.setdefault(tag, array("i")).append(self.size - 1)

    def _append_key(self, key: str) -> None:
        self._keys += key.encode()
        self._key_start.append(len(self._keys))

    def _append_columns(self, columns: Columns) -> None:
        """Append many documents, as `_append` and `_append_turn` do one by one."""
        first = self.size
        for key in columns.keys:
            self._append_key(key)
        self.numbers.extend(columns.numbers)
        self.at.extend(columns.at)
        self.kinds.extend(columns.kinds)
        self.author_of.extend(map(self.authors.number, columns.authors))
        self.role_of.extend(map(self.roles.number, columns.roles))
        self.category_of.extend(map(self.categories.number, columns.categories))
        self.lengths.extend(max(1.0, float(length)) for length in columns.lengths)
        self.is_alive.frombytes(b"\1" * len(columns.numbers))
        self.turns_by_author.frombytes(bytes(4 * (len(self.authors.names) - len(self.turns_by_author))))
        for row, (kind, session, tags) in enumerate(
            zip(columns.kinds, columns.sessions, columns.tags, strict=True), first
        ):
            self._count_by_kind[kind] += 1
            self._words_by_kind[kind] += self.lengths[row]
            for tag in map(folded, tags):
                self.tagged.setdefault(tag, array("i")).append(row)
            if kind == TURN:
                self._rows_of(session).append(row)
                number = self.sessions.numbers[session]
                self.session_of.append(number)
                self.session_lengths[number] += self.lengths[row]
                self.turns_by_author[self.author_of[row]] += 1
            else:
                self.session_of.append(-1)

    def _index(self, terms: Sequence[str], row: int) -> None:
        """Add the terms of the next row to the postings."""
        counts, postings, packed_row = Counter(terms), self._later_postings, row << TF_BITS
        for term, count in counts.items():
            rows = postings.get(term)
            if rows is None:
                rows = postings[term] = array("I")
                self.later_bytes += _TERM_BYTES
            rows.append(packed_row | min(count, TF_MASK))
        self.later_bytes += _ROW_BYTES + 4 * len(counts)
        self.says.append(SAYS_TIME * (not time_terms().isdisjoint(counts)) | ASKS * (QUESTION_MARK in counts))

    def _append_turn(self, document: Document, row: int) -> None:
        rows = self._rows_of(document.session)
        session = self.sessions.numbers[document.session]
        length = self.lengths[row]
        self.session_of.append(session)
        self.session_lengths[session] += length
        self.turns_by_author[self.author_of[row]] += 1
        if rows and self.numbers[rows[-1]] > document.number:  # an earlier turn that arrived late
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
        between, later = 0.0, row
        for other in rows[-2 : -2 - AROUND_TURNS : -1]:
            there, words = self.place_of[other], self.lengths[other]
            if between >= AROUND_WORDS or abs(self.at[later] - self.at[other]) > SITTING_SECONDS:
                break
            if not is_long(length):
                self._put_near(there, place, words)
            if is_long(words):
                break
            self._put_near(place, there, length)
            between, later = between + words, other

    def _put_near(self, source: int, target: int, words: float) -> None:
        """Count the words of one place as text around another."""
        self.sources.append(source)
        self.targets.append(target)
        self.around_lengths[target] += words
        self.around_total += words

    def _rows_of(self, session: str) -> array[int]:
        number = self.sessions.number(session)
        if number == len(self._session_rows):
            self._session_rows.append(array("i"))
            self.session_lengths.append(0.0)
        return self._session_rows[number]

    def _laid_out(self) -> Layout:
        """Put all turns in order and find the stretch around each."""
        rows: Ints = np.concatenate([np.zeros(0, np.int32), *(view(each, np.int32) for each in self._session_rows)])
        first, behind, around = stretches(
            view(self.session_of, np.int32)[rows],
            view(self.at, np.float64)[rows],
            view(self.lengths, np.float32)[rows].astype(np.float64),
        )
        place_of = np.full(self.size, -1, np.int32)
        place_of[rows] = np.arange(len(rows))
        self.place_of = array("i", place_of.tobytes())
        self.around_lengths = array("f", around.astype(np.float32).tobytes())
        self.around_total = float(around.sum())
        self.sources, self.targets, self._later_rows = array("i"), array("i"), array("i")
        sizes = np.array([len(each) for each in self._session_rows], np.intp)
        return Layout(rows.astype(np.intp), sizes, first, behind)


def view(column: array[Any], dtype: type[_Scalar]) -> npt.NDArray[_Scalar]:
    """Return a numpy view of a column, not copied."""
    return np.frombuffer(column, dtype=dtype) if len(column) else np.zeros(0, dtype)
