"""The vectors of one group's documents in memory, and by how much each stands out for a question. Pure.

Every row of a corpus has a row here. A question is compared with all of them: 100,000 take 18 ms. Unlike an
approximate index of neighbours, this loses nothing and needs no building.

Sources: docs/decisions/020-vectors.md.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float32]
Mask: TypeAlias = npt.NDArray[np.bool_]

# This many unrelated texts are counted with the group's own: in a small group all may be related, or none.
UNRELATED_COUNT: Final = 50


class Vectors:
    """A matrix that grows in place.

    Args:
        dimensions: of a vector.
        unrelated: mean and spread of the cosine of unrelated texts, see `Embedder`.
    """

    def __init__(self, dimensions: int, unrelated: tuple[float, float]) -> None:
        self._unrelated = unrelated
        self._matrix: Floats = np.zeros((0, dimensions), np.float32)
        self._has: Mask = np.zeros(0, np.bool_)
        self._size = 0

    def __len__(self) -> int:
        return int(np.count_nonzero(self._has))

    @property
    def memory_bytes(self) -> int:
        return int(self._matrix.nbytes + self._has.nbytes)

    def resize(self, size: int) -> None:
        """Grow to `size` rows; it never shrinks, and new rows have no vector."""
        self._size = max(size, self._size)
        if size > len(self._has):
            more = max(size, len(self._has) * 3 // 2) - len(self._has)
            self._matrix = np.concatenate((self._matrix, np.zeros((more, self._matrix.shape[1]), np.float32)))
            self._has = np.concatenate((self._has, np.zeros(more, np.bool_)))

    def put(self, row: int, vector: npt.NDArray[np.floating]) -> None:
        """Set the vector of a row, of length 1; the row is below the size."""
        self._matrix[row] = vector
        self._has[row] = True

    def drop(self, row: int) -> None:
        if row < self._size:
            self._matrix[row] = 0
            self._has[row] = False

    def standing_out(self, question: Floats) -> Floats:
        """Return for every row by how many spreads it is nearer to the question than unrelated texts are."""
        return standing_out(self._matrix[: self._size] @ question, self._has[: self._size], self._unrelated)


def standing_out(cosines: Floats, has: Mask, unrelated: tuple[float, float]) -> Floats:
    """Return standard scores: 0 for rows below the mean or without a vector, so that a vector never costs points.

    Args:
        has: which rows have a vector.
        unrelated: mean and spread that count as those of `UNRELATED_COUNT` more rows.
    """
    mean, spread = unrelated
    known = cosines[has].astype(np.float64)
    count = len(known) + UNRELATED_COUNT
    middle = (known.sum() + UNRELATED_COUNT * mean) / count
    squares = ((known - middle) ** 2).sum() + UNRELATED_COUNT * (spread**2 + (mean - middle) ** 2)
    scores = (cosines - middle) / np.sqrt(squares / count)
    return np.asarray(np.where(has, np.maximum(scores, 0), 0), np.float32)
