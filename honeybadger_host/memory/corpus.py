"""One group's documents in memory, ready to be ranked: postings, and what stands around every turn.

Nothing here reads a file: `index.db` is the derived truth, a corpus is loaded from it at the first search and told of
every later document. Adding costs microseconds and is seen by the next search; there is no merge and no rebuild.
Not thread-safe: its owner lets one thread in at a time.

Sources: docs/decisions/014-recall.md.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Kind: TypeAlias = Literal["entry", "note", "history", "turn"]
KINDS: Final[tuple[Kind, ...]] = ("entry", "note", "history", "turn")
TURN: Final = KINDS.index("turn")
Ints: TypeAlias = npt.NDArray[np.int32]
Floats: TypeAlias = npt.NDArray[np.float32]

AROUND_WORDS: Final = 50
"""Words on each side of a turn that count as the text around it; a fixed number of turns hurt where turns are long."""
AROUND_TURNS: Final = 4
"""At most this many turns on each side, whatever their length."""
TF_BITS: Final = 6
TF_MASK: Final = (1 << TF_BITS) - 1
"""A posting is `row << TF_BITS | frequency`; a frequency of 63 stands for more."""


@dataclass(frozen=True, slots=True)
class Document:
    """Something that can be recalled.

    Args:
        number: its row in the index, unique in the group; turns of one session stand in the order of their numbers.
        key: what the group calls it: an entry's id, a turn's number, a note's hash.
        session: of a turn; else empty.
        author: who wrote it, as shown; empty when unknown.
        role: of a turn (`user`, `assistant`, ...); else empty.
        at: seconds of the epoch, UTC; NaN when unknown.
        category: of an entry; else empty.
        terms: what `document_terms` or `entry_terms` returned.
        length: words, see `analyzer.length_in_words`.
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


class Corpus:
    """The documents of one group.

    A *row* is a document's place in every column; rows are never reused. Columns are arrays that grow in place; a
    search looks at them through numpy without copying, so nobody keeps such a view while documents are added.
    """

    def __init__(self, around_words: int = AROUND_WORDS, around_turns: int = AROUND_TURNS) -> None:
        self._around_words = around_words
        self.around_turns = around_turns
        self.sessions, self.authors, self.roles, self.categories = Names(), Names(), Names(), Names()
        self.row_of: dict[int, int] = {}
        self.keys: list[str] = []
        self.numbers = array("q")
        self.at = array("d")
        self.kinds = array("b")
        self.session_of = array("i")
        self.author_of = array("i")
        self.turns_by_author = array("i")
        self.role_of = array("i")
        self.category_of = array("i")
        self.lengths = array("f")
        self.around_lengths = array("f")  # of a turn with what stands around it; of anything else its own
        self.session_lengths = array("f")
        self.is_alive = array("b")
        self.before = array("i")  # AROUND_TURNS rows for every row, nearest first, -1 where there is none
        self.after = array("i")
        self.tagged: dict[str, array[int]] = {}
        self.vocabulary: dict[str, int] = {}
        self.postings: list[array[int]] = []  # by term: row and frequency in one number, rows rising
        self.frequency = array("i")  # by term: living documents that have it
        self._forward = array("I")  # by row: term and frequency in one number
        self._forward_start = array("Q", [0])
        self._session_rows: list[list[int]] = []
        self._words_by_kind = [0.0] * len(KINDS)
        self._count_by_kind = [0] * len(KINDS)
        self._around_by_kind = [0.0] * len(KINDS)

    def __len__(self) -> int:
        """Return how many documents live."""
        return len(self.row_of)

    @property
    def size(self) -> int:
        """How many rows there are, dead ones included."""
        return len(self.keys)

    @property
    def average_lengths(self) -> Floats:
        """Words of a document, by kind; at least 1."""
        return self._averages(self._words_by_kind)

    @property
    def average_around(self) -> Floats:
        """Words of a document with what stands around it, by kind; at least 1."""
        return self._averages(self._around_by_kind)

    def _averages(self, words: Sequence[float]) -> Floats:
        return np.array(
            [max(1.0, total / max(1, count)) for total, count in zip(words, self._count_by_kind, strict=True)],
            np.float32,
        )

    @property
    def memory_bytes(self) -> int:
        """Estimate of what the corpus holds, in bytes."""
        columns = (self.numbers, self.at, self.kinds, self.session_of, self.author_of, self.role_of, self.category_of,
                   self.lengths, self.around_lengths, self.session_lengths, self.is_alive, self.before, self.after,
                   self.frequency, self._forward, self._forward_start)  # fmt: skip
        return (
            sum(column.itemsize * len(column) for column in columns)
            + sum(4 * len(rows) + 96 for rows in self.postings)
            + 160 * len(self.vocabulary)
            + 160 * self.size
        )

    def add(self, documents: Iterable[Document]) -> None:
        """Add documents; one whose number is there already takes its place."""
        touched: dict[int, int] = {}  # session -> first place in it that changed
        for document in documents:
            if document.number in self.row_of:
                self.remove([document.number])
            row = self._append(document)
            if document.kind == "turn":
                session = self.session_of[row]
                rows = self._session_rows[session]
                place = len(rows)
                while place and self.numbers[rows[place - 1]] > document.number:
                    place -= 1
                rows.insert(place, row)
                touched[session] = min(touched.get(session, place), place)
        for session, place in touched.items():
            self._link(session, place)

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove documents; numbers that are not there are ignored."""
        touched: dict[int, int] = {}
        for number in numbers:
            row = self.row_of.pop(number, None)
            if row is None:
                continue
            self.is_alive[row] = 0
            kind = self.kinds[row]
            self._count_by_kind[kind] -= 1
            self._words_by_kind[kind] -= self.lengths[row]
            self._around_by_kind[kind] -= self.around_lengths[row]
            self.around_lengths[row] = 0.0
            for packed in self._forward[self._forward_start[row] : self._forward_start[row + 1]]:
                self.frequency[packed >> TF_BITS] -= 1
            session = self.session_of[row]
            if session >= 0:
                self.turns_by_author[self.author_of[row]] -= 1
                rows = self._session_rows[session]
                place = rows.index(row)
                del rows[place]
                self.session_lengths[session] -= self.lengths[row]
                touched[session] = min(touched.get(session, place), place)
        for session, place in touched.items():
            self._link(session, place)

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
        self.around_lengths.append(length)
        self.is_alive.append(1)
        if document.kind == "turn":
            session = self.sessions.number(document.session)
            if session == len(self._session_rows):
                self._session_rows.append([])
                self.session_lengths.append(0.0)
            self.session_lengths[session] += length
            self.turns_by_author[author] += 1
            self.session_of.append(session)
        else:
            self.session_of.append(-1)
        empty = [-1] * self.around_turns
        self.before.extend(empty)
        self.after.extend(empty)
        self._count_by_kind[kind] += 1
        self._words_by_kind[kind] += length
        self._around_by_kind[kind] += length
        for tag in document.tags:
            self.tagged.setdefault(tag, array("i")).append(row)
        for term, count in Counter(document.terms).items():
            number = self.vocabulary.get(term)
            if number is None:
                number = self.vocabulary[term] = len(self.postings)
                self.postings.append(array("I"))
                self.frequency.append(0)
            count = min(count, TF_MASK)
            self.postings[number].append(row << TF_BITS | count)
            self.frequency[number] += 1
            self._forward.append(number << TF_BITS | count)
        self._forward_start.append(len(self._forward))
        return row

    def _link(self, session: int, place: int) -> None:
        """Bring the surroundings of a session's turns up to date, where the turns from `place` on have changed."""
        rows = self._session_rows[session]
        width = self.around_turns
        for position in range(max(0, place - width), len(rows)):
            row = rows[position]
            self.before[row * width : (row + 1) * width] = self._neighbours(
                rows[max(0, position - width) : position][::-1]
            )
            self.after[row * width : (row + 1) * width] = self._neighbours(rows[position + 1 : position + 1 + width])
            length = self.lengths[row]
            for near in (self.before, self.after):
                for other in near[row * width : (row + 1) * width]:
                    if other < 0:
                        break
                    length += self.lengths[other]
            self._around_by_kind[TURN] += length - self.around_lengths[row]
            self.around_lengths[row] = length

    def _neighbours(self, rows: Sequence[int]) -> array[int]:
        """Return the nearest rows up to `around_words`, the nearest always, filled up with -1."""
        near = array("i", [-1]) * self.around_turns
        words = 0.0
        for place, row in enumerate(rows):
            if place and words >= self._around_words:
                break
            near[place] = row
            words += self.lengths[row]
        return near
