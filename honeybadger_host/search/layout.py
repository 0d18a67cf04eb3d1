"""The turns of a corpus in the order of the conversation, and the extent of the text around each turn."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int32]

# Words on each side of a turn that count as the text around it; a fixed number of turns is worse for long turns.
AROUND_WORDS: Final = 50
AROUND_TURNS: Final = 4  # maximum number of turns on each side; the nearest one always counts
LONG_TURN: Final = 80  # A turn of more words has no text around it, and ends the text around its neighbours
SITTING_SECONDS: Final = 3600.0  # turns separated by a longer pause do not count as text around each other


class Layout(NamedTuple):
    """Turns in the order in which they were said: sessions one after another, then turns that came since.

    A *place* is a turn's position in that order. The text around a turn is a stretch of places; the relation is
    symmetric: a turn lies in the stretch of each turn in its own stretch. Later turns have a stretch of themselves
    alone, and pairs of neighbours in `Corpus.sources`.

    Args:
        rows: row of every place; of a type that numpy takes as it is, which saves 3 ms of a million turns.
        sizes: turns of each session, in this order; later ones come behind them all.
        first, behind: the stretch around each place, itself included; `behind` is not part of it.
    """

    rows: npt.NDArray[np.intp]
    sizes: npt.NDArray[np.intp]
    first: Ints
    behind: Ints

    def with_later(self, rows: Ints) -> Layout:
        """Return it with turns that came since."""
        alone = np.arange(len(self.rows), len(self.rows) + len(rows), dtype=np.int32)
        return self._replace(
            rows=np.concatenate((self.rows, rows)),
            first=np.concatenate((self.first, alone)),
            behind=np.concatenate((self.behind, alone + np.int32(1))),
        )


NO_TURNS: Final = Layout(np.zeros(0, np.intp), np.zeros(0, np.intp), np.zeros(0, np.int32), np.zeros(0, np.int32))


def is_long(words: float) -> bool:
    """Return whether a turn is too long to have text around it."""
    return words > LONG_TURN


def stretches(
    sessions: Ints, at: npt.NDArray[np.float64], words: npt.NDArray[np.float64]
) -> tuple[Ints, Ints, npt.NDArray[np.float64]]:
    """Return first and behind of the stretch around each place, see `Layout`, and how many words it has.

    Args:
        sessions, at, words: of the turn of each place: the number of its session, its time, its length.
    """
    many = len(words)
    pauses = np.abs(np.diff(at)) > SITTING_SECONDS
    begins = np.concatenate(([True], pauses | (np.diff(sessions) != 0)))[:many]  # of a sitting
    first_of, sitting = np.flatnonzero(begins), np.cumsum(begins) - 1
    start, end = first_of[sitting], np.append(first_of[1:], many)[sitting]
    before = np.concatenate(([0.0], np.cumsum(words)))  # words before every place
    short, places = words <= LONG_TURN, np.arange(many)
    first, behind = places.copy(), places + 1
    for step in range(1, AROUND_TURNS + 1):
        back, ahead = places - step, places + step
        between_back = before[places] - before[np.maximum(back + 1, 0)]
        between_ahead = before[np.minimum(ahead, many)] - before[places + 1]
        is_back = (back >= start) & (between_back < AROUND_WORDS) & (first == back + 1)
        is_ahead = (ahead < end) & (between_ahead < AROUND_WORDS) & (behind == ahead)
        first[is_back & short[np.maximum(back, 0)]] -= 1
        behind[is_ahead & short[np.minimum(ahead, many - 1)]] += 1
    around = np.cumsum(np.bincount(first, words, many + 1) - np.bincount(behind, words, many + 1))[:-1]
    return first.astype(np.int32), behind.astype(np.int32), around
