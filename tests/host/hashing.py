"""A model of two dozen lines: words are directions drawn from their hash, and a few words mean the same."""

import hashlib
import re
from collections.abc import Sequence

import numpy as np

from honeybadger_host.errors import WorldFailed
from honeybadger_host.search.embeddings import Embedder, Floats

SAME = {"automobile": "car", "physician": "doctor", "purchased": "bought"}


class HashEmbedder(Embedder):
    """Deterministic on every machine, and loaded at once.

    Args:
        embedded: texts of documents it was given, in that order.
        fails: whether it raises WorldFailed instead.
    """

    dimensions = 128
    unrelated = (0.0, 0.09)

    def __init__(self, name: str = "hash") -> None:
        super().__init__()
        self.name = name
        self.embedded: list[str] = []
        self.fails = False

    def embed(self, texts: Sequence[str], *, is_query: bool = False) -> Floats:
        if self.fails:
            raise WorldFailed("the model hash cannot be run")
        self.embedded += () if is_query else texts
        return np.stack([self._vector(text) for text in texts])

    def _vector(self, text: str) -> Floats:
        vector = np.zeros(self.dimensions, np.float32)
        for word in re.findall(r"\w+", text.lower()):
            seed = hashlib.sha256(f"{self.name} {SAME.get(word, word)}".encode()).digest()[:8]
            vector += np.random.default_rng(int.from_bytes(seed)).standard_normal(self.dimensions).astype(np.float32)
        return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-9), np.float32)
