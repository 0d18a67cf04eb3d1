"""Postings: the loaded documents of a group that have a term, with counts; in memory, or in a file if large.

Both are made once and never changed; later documents are in the corpus. A file has no name, and is gone with its owner.

Sources: docs/decisions/017-recall.md.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from honeybadger_host.errors import WorldFailed

# Postings, ascending: each is `row << TF_BITS | frequency`; a frequency of 63 means 63 or more.
Packed: TypeAlias = npt.NDArray[np.uint32]
Numbers: TypeAlias = npt.NDArray[np.int64]

TF_BITS: Final = 6
TF_MASK: Final = (1 << TF_BITS) - 1
WORD_BYTES: Final = 170  # memory of a word: a string, its number, its slot
# Postings merged at once for a file: 80 MiB, when no word occurs twice; a term is sought in every segment, 10 us.
_SEGMENT_POSTINGS: Final = 1 << 21
_TERMS_PER_STEP: Final = 512  # one in this many terms of a segment is in memory
_NONE: Final[Packed] = np.zeros(0, np.uint32)


class Words(Protocol):
    """Words by term id."""

    def names(self, ids: Numbers) -> Sequence[str]:
        """Return the words of ascending term ids."""

    def number(self, word: str) -> int | None:
        """Return the term id of a word; None when no group has the word."""


class Counted(NamedTuple):
    """The postings of a batch of documents: sorted by term, then by row.

    Args:
        terms: each once, ascending.
        frequencies: how many postings each has.
    """

    terms: Packed
    frequencies: Packed
    packed: Packed


class Sorted(NamedTuple):
    """The postings of all terms, one after another.

    Args:
        terms: ascending.
        starts: where the postings of each term begin, and the end of the last.
    """

    terms: Numbers
    starts: Packed
    packed: Packed


class Held:
    """Postings in memory."""

    def __init__(self, postings: Sorted, names: Callable[[Numbers], Sequence[str]]) -> None:
        self._numbers = {word: number for number, word in enumerate(names(postings.terms))}
        self._starts, self._packed = postings.starts, postings.packed

    @property
    def memory_bytes(self) -> int:
        return int(self._packed.nbytes + self._starts.nbytes) + WORD_BYTES * len(self._numbers)

    def __contains__(self, word: object) -> bool:
        return word in self._numbers

    def postings(self, word: str) -> Packed:
        number = self._numbers.get(word)
        return _NONE if number is None else self._packed[self._starts[number] : self._starts[number + 1]]


class _Segment(NamedTuple):
    """The position of some documents' postings in a file: the members of `Sorted` one after another.

    Args:
        at: of the first term.
        size: how many terms.
        steps: every `_TERMS_PER_STEP`th term.
    """

    at: int
    size: int
    steps: Packed


class Filed:
    """Postings in a file, in segments of ascending rows.

    Args:
        folder: of the file; None for the system's folder of temporary files.
    """

    def __init__(self, words: Words, folder: Path | None) -> None:
        self._words = words
        self._segments: list[_Segment] = []
        self._end = 0
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                self._file = os.dup(file.fileno())
        except OSError as error:
            raise _failed(error) from error
        weakref.finalize(self, os.close, self._file)

    @property
    def memory_bytes(self) -> int:
        return sum(int(segment.steps.nbytes) for segment in self._segments)

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and (number := self._words.number(word)) is not None and self._has(number)

    def append(self, postings: Sorted) -> None:
        """Write the postings of the next documents. Raises WorldFailed."""
        terms = postings.terms.astype(np.uint32)
        self._segments.append(_Segment(self._end, len(terms), terms[::_TERMS_PER_STEP].copy()))
        for each in (terms, postings.starts, postings.packed):
            data = memoryview(each.tobytes())
            while data:
                try:
                    written = os.pwrite(self._file, data, self._end)
                except OSError as error:
                    raise _failed(error) from error
                self._end += written
                data = data[written:]

    def postings(self, word: str) -> Packed:
        """Return the postings of a word. Raises WorldFailed."""
        number = self._words.number(word)
        return _NONE if number is None else np.concatenate([_NONE, *self._of(number)])

    def _has(self, number: int) -> bool:
        return next(self._of(number), None) is not None

    def _of(self, number: int) -> Iterator[Packed]:
        """Yield the postings of a term id in each segment that has it."""
        for segment in self._segments:
            first = (int(np.searchsorted(segment.steps, number, "right")) - 1) * _TERMS_PER_STEP
            if first < 0:
                continue
            terms = self._read(segment.at + 4 * first, min(_TERMS_PER_STEP, segment.size - first))
            place = int(np.searchsorted(terms, number))
            if place < len(terms) and terms[place] == number:
                starts = segment.at + 4 * segment.size
                begin, end = self._read(starts + 4 * (first + place), 2).tolist()
                yield self._read(starts + 4 * (segment.size + 1 + begin), end - begin)

    def _read(self, at: int, count: int) -> Packed:
        try:
            return np.frombuffer(os.pread(self._file, 4 * count, at), np.uint32, count)
        except (OSError, ValueError) as error:
            raise _failed(error) from error


def counted(terms: Packed, counts: Sequence[int], first_row: int) -> Counted:
    """Return the postings of a batch of documents whose rows begin at `first_row`.

    Args:
        terms: of all documents, one after another.
        counts: how many terms each document has.
    """
    many = len(counts)
    rows = np.repeat(np.arange(many), counts)
    pairs, frequencies = np.unique(terms.astype(np.int64) * many + rows, return_counts=True)
    terms_of, rows = pairs // max(1, many), pairs % max(1, many)
    begins = np.flatnonzero(np.diff(terms_of, prepend=-1))
    return Counted(
        terms_of[begins].astype(np.uint32),
        np.diff(begins, append=len(terms_of)).astype(np.uint32),
        ((rows + first_row) << TF_BITS | np.minimum(frequencies, TF_MASK)).astype(np.uint32),
    )


def loaded(
    batches: Iterator[Counted],
    names: Callable[[Numbers], Sequence[str]],
    most_bytes: int,
    new_file: Callable[[], Filed] | None,
) -> Held | Filed:
    """Return all postings: in memory when they and their words fit into `most_bytes`, else in a file.

    Args:
        batches: rows ascend, also from one to the next.
        new_file: None keeps them in memory, whatever their size.
    """
    waiting: deque[Counted] = deque()
    met = np.zeros(0, np.bool_)  # by term id
    size = 0
    for each in batches:
        waiting.append(each)
        size += len(each.packed)
        if len(each.terms) and each.terms[-1] >= len(met):
            met = np.concatenate((met, np.zeros(max(len(met), int(each.terms[-1])) + 1, np.bool_)))
        met[each.terms] = True
        if new_file is not None and 4 * size + WORD_BYTES * np.count_nonzero(met) > most_bytes:
            filed = new_file()
            break
    else:
        return Held(_merged(waiting), names)
    some: list[Counted] = []
    for each in chain((waiting.popleft() for _ in range(len(waiting))), batches):
        some.append(each)
        if sum(len(each.packed) for each in some) >= _SEGMENT_POSTINGS:
            filed.append(_merged(some))
            some = []
    filed.append(_merged(some))
    return filed


def _merged(batches: Sequence[Counted]) -> Sorted:
    met = np.zeros(max((int(each.terms[-1]) + 1 for each in batches if len(each.terms)), default=0), np.bool_)
    for each in batches:
        met[each.terms] = True
    terms = np.flatnonzero(met)
    frequencies = np.zeros(len(terms), np.uint32)
    for each in batches:
        frequencies[np.searchsorted(terms, each.terms)] += each.frequencies
    starts = np.zeros(len(terms) + 1, np.uint32)
    np.cumsum(frequencies, out=starts[1:])
    del frequencies
    packed = np.empty(starts[-1], np.uint32)
    cursor = starts[:-1].copy()
    for each in batches:
        numbers = np.searchsorted(terms, each.terms)
        begin = np.cumsum(each.frequencies, dtype=np.int64) - each.frequencies
        packed[np.repeat(cursor[numbers] - begin, each.frequencies) + np.arange(len(each.packed))] = each.packed
        cursor[numbers] += each.frequencies
    return Sorted(terms, starts, packed)


def _failed(error: OSError | ValueError) -> WorldFailed:
    why = (isinstance(error, OSError) and error.strerror) or str(error)
    return WorldFailed(f"the postings of a large group cannot be kept in a file of data/ ({why})")
