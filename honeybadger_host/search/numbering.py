"""Terms as numbers, between a process that reads files and the one that keeps the index.

The same word stands in thousands of documents. Written once, when it is new, it costs neither of them a second look: a
number of the one is a number of the other by its place in a list.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

_MOST_WORDS: Final = 100_000
"""About 15 MiB on each side; then the numbers begin again."""


class Numbering:
    """The side that gives numbers to words, from 0 on."""

    def __init__(self, most_words: int = _MOST_WORDS) -> None:
        self._most_words = most_words
        self._numbers: dict[str, int] = {}
        self._new: list[str] = []

    def numbers(self, terms: Sequence[str]) -> bytes:
        """Return the numbers of terms in order, 32 bits each; new words get new ones."""
        try:
            return array("I", map(self._numbers.__getitem__, terms)).tobytes()
        except KeyError:
            for term in terms:
                if term not in self._numbers:
                    self._numbers[term] = len(self._numbers)
                    self._new.append(term)
            return array("I", map(self._numbers.__getitem__, terms)).tobytes()

    def news(self) -> tuple[int, list[str]]:
        """Return the words that are new since the last time, and the number of the first of them."""
        new, self._new = self._new, []
        return len(self._numbers) - len(new), new

    def shorten(self) -> None:
        """Begin again with 0 when there are too many words. What was numbered before must have been told."""
        if len(self._numbers) > self._most_words:
            self._numbers.clear()


class Glossary:
    """The side that is told the words.

    Args:
        numbers: of the words, in order, in the table of terms of `epoch`; may be fewer than there are words.
    """

    __slots__ = ("epoch", "numbers", "words")

    def __init__(self) -> None:
        self.words: list[str] = []
        self.numbers: list[int] = []
        self.epoch = -1

    def terms(self, numbers: bytes) -> list[str]:
        """Return the terms that have these numbers."""
        return list(map(self.words.__getitem__, memoryview(numbers).cast("I")))
