"""Embeds indexed texts a few at a time, and stores the vectors with their documents."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from honeybadger_host.errors import WorldFailed
from honeybadger_host.log import log
from honeybadger_host.search.documents import KINDS
from honeybadger_host.search.index_db import FOUND, IndexFile

if TYPE_CHECKING:
    from honeybadger_host.search.corpus import Corpus
    from honeybadger_host.search.embeddings import Embedder, Floats

_AT_ONCE: Final = 4  # texts for which the engine, which takes one caller, is held: a question waits 0.1 s at most


class IndexVectors:
    """Vectors of one embedder. Thread-safe."""

    def __init__(self, db: IndexFile, embedder: Embedder) -> None:
        self._db = db
        self._embedder = embedder
        self._has_failed = False
        self._noting = threading.Lock()
        self._without: dict[int, None] = {}  # numbers of documents without a vector

    def find(self) -> None:
        """Note which documents have no vector of this embedder; delete vectors of other models."""
        model = self._embedder.name

        def find() -> list[Any]:
            with self._db.transaction() as db:
                db.execute("DELETE FROM vectors WHERE doc IN (SELECT doc FROM vectors WHERE model <> ?)", (model,))
                query = "SELECT number FROM docs WHERE number NOT IN (SELECT doc FROM vectors) AND {} ORDER BY number"
                return db.execute(query.format(FOUND)).fetchall()

        self._without = {row[0]: None for row in self._db.guarded(find)}

    def forget(self) -> None:
        self._without = {}

    def note(self, added: Iterable[int], removed: Iterable[int]) -> None:
        with self._noting:
            for number in removed:
                self._without.pop(number, None)
            self._without.update(dict.fromkeys(added))

    @property
    def waiting(self) -> int:
        return len(self._without)

    def embed(self) -> Mapping[str, Sequence[tuple[int, bytes]]] | None:
        """Embed a few texts that have no vector yet; return group -> number and vector of each.

        None: stop for now. Raises WorldFailed.
        """
        if not self._without:
            return None
        kept: Mapping[str, Sequence[tuple[int, bytes]]] = {}
        with self._noting:  # new ones are searched most
            numbers = list(itertools.islice(reversed(self._without), _AT_ONCE))
        query = "SELECT number, kind, author, names, text FROM docs WHERE number IN"
        rows = [*self._db.rows_in(query, numbers)]
        if rows:
            texts = [
                embedded_text(KINDS[kind], author, text, names.splitlines()) for _, kind, author, names, text in rows
            ]
            try:
                vectors = self._embedder.embed(texts)
            except WorldFailed as error:
                self._note(error)
                return None
            self._note(None)
            texts_of = {row[0]: row[4] for row in rows}
            kept = self._kept(texts_of, [vector.astype("<f2").tobytes() for vector in vectors])
        for number in numbers:
            self._without.pop(number, None)
        return kept

    def vector_of(self, question: str) -> Floats | None:
        """Return a question's vector, or None if the embedder fails."""
        try:
            vector: Floats = self._embedder.embed([question], is_query=True)[0]
        except WorldFailed as error:
            self._note(error)
            return None
        self._note(None)
        return vector

    def load(self, groups: Iterable[int], corpus: Corpus) -> None:
        """Load the stored vectors of these groups' documents into a corpus. Raises WorldFailed.

        Args:
            groups: their numbers.
        """
        from honeybadger_host.search.embeddings import Vectors  # with numpy

        corpus.vectors = Vectors(self._embedder.dimensions, self._embedder.unrelated)
        corpus.vectors.resize(corpus.size)
        query = "SELECT doc, data FROM vectors WHERE doc > ? AND doc <= ? AND model = ? ORDER BY doc LIMIT 1000"
        for group in groups:
            least, most = self._db.span(group)
            while rows := self._db.rows(query, (least, most, self._embedder.name)):
                put_vectors(corpus, rows)
                least = rows[-1][0]

    def _kept(self, texts: Mapping[int, str], vectors: Sequence[bytes]) -> Mapping[str, Sequence[tuple[int, bytes]]]:
        """Store the vectors of documents that still have their texts; return these by group.

        Args:
            texts: number -> text of a document. When the index was rebuilt meanwhile, the number is another one's.
        """
        query = "INSERT OR REPLACE INTO vectors SELECT number, ?, ? FROM docs WHERE number = ? AND text = ?"
        kept: dict[str, list[tuple[int, bytes]]] = {}

        def write() -> None:
            kept.clear()
            with self._db.transaction() as db:
                for (number, text), data in zip(texts.items(), vectors, strict=True):
                    if db.execute(query, (self._embedder.name, data, number, text)).rowcount:
                        kept.setdefault(self._db.group_of(number), []).append((number, data))

        self._db.guarded(write)
        return kept

    def _note(self, error: WorldFailed | None) -> None:
        """Log once that the embedder fails."""
        if error is not None and not self._has_failed:
            log.error("vectors.failed", error=str(error), now_what="words alone are searched; see recall.vectors")
        self._has_failed = error is not None


def embedded_text(kind: str, author: str, text: str, names: Sequence[str] = ()) -> str:
    """Return the text to embed: a turn with its author, as a question names people; an entry with its names."""
    if kind == "turn":
        return f"{author}: {text}" if author else text
    return f"{', '.join(names)}: {text}" if names else text


def put_vectors(corpus: Corpus, embedded: Iterable[tuple[int, bytes]]) -> None:
    """Set the vectors of those documents that are in the corpus."""
    if corpus.vectors is None:
        return
    import numpy as np

    for number, data in embedded:
        row = corpus.row_of(number)
        if row is not None:
            corpus.vectors.put(row, np.frombuffer(data, "<f2").astype(np.float32))
