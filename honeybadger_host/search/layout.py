"""The turns of a corpus in the order of the conversation, and the extent of the text around each turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int32]

# Words on each side of a turn that count as the text around it; a fixed number of turns is worse for long turns.
AROUND_WORDS: Final = 50
AROUND_TURNS: Final = 4  # maximum number of turns on each side; the nearest one always counts
SITTING_SECONDS: Final = 3600.0  # turns separated by a longer pause do not count as text around each other


@dataclass(frozen=True, slots=True)
class Layout:
    """Turns in the order in which they were said, one session after another.

    A *place* is a turn's position in that order. The text around a turn is a stretch of places; the relation is
    symmetric: a turn lies in the stretch of each turn in its own stretch.

    Args:
        rows: row of every place.
        first, behind: the stretch around each place, itself included; `behind` is not part of it.
        words: of each stretch.
    """

    rows: npt.NDArray[np.intp]
    first: Ints
    behind: Ints
    words: npt.NDArray[np.float32]

    def and_then(self, other: Layout) -> Layout:
        """Return it with the places of another behind its own."""
        many = np.int32(len(self.rows))
        return Layout(
            np.concatenate((self.rows, other.rows)),
            np.concatenate((self.first, other.first + many)),
            np.concatenate((self.behind, other.behind + many)),
            np.concatenate((self.words, other.words)),
        )

    def places(self, size: int) -> Ints:
        """Return the place of each of `size` rows, the last if it has two; -1 for those that are not turns."""
        places = np.full(size, -1, np.int32)
        places[self.rows] = np.arange(len(self.rows), dtype=np.int32)
        return places


NO_LAYOUT: Final = Layout(np.zeros(0, np.intp), np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.float32))


def laid_out(
    rows: npt.NDArray[np.intp], sessions: Ints, at: npt.NDArray[np.float64], words: npt.NDArray[np.float64]
) -> Layout:
    """Return the layout of turns that are in order.

    Args:
        rows, sessions, at, words: of each turn: its row, the number of its session, its time, its length.
    """
    many = len(words)
    pauses = np.abs(np.diff(at)) > SITTING_SECONDS
    begins = np.concatenate(([True], pauses | (np.diff(sessions) != 0)))[:many]  # of a sitting
    first_of, sitting = np.flatnonzero(begins), np.cumsum(begins) - 1
    start, end = first_of[sitting], np.append(first_of[1:], many)[sitting]
    before = np.concatenate(([0.0], np.cumsum(words)))  # words before every place
    places = np.arange(many)
    first, behind = places.copy(), places + 1
    for step in range(1, AROUND_TURNS + 1):
        back, ahead = places - step, places + step
        between_back = before[places] - before[np.maximum(back + 1, 0)]
        between_ahead = before[np.minimum(ahead, many)] - before[places + 1]
        is_back = (back >= start) & (between_back < AROUND_WORDS) & (first == back + 1)
        is_ahead = (ahead < end) & (between_ahead < AROUND_WORDS) & (behind == ahead)
        first[is_back] -= 1
        behind[is_ahead] += 1
    around = np.cumsum(np.bincount(first, words, many + 1) - np.bincount(behind, words, many + 1))[:-1]
    return Layout(rows, first.astype(np.int32), behind.astype(np.int32), around.astype(np.float32))
