"""Embeds indexed texts a few at a time, and stores the vectors with their documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from honeybadger_host.errors import WorldFailed
from honeybadger_host.log import log
from honeybadger_host.search.documents import KINDS
from honeybadger_host.search.index_db import FOUND, IndexFile

if TYPE_CHECKING:
    from honeybadger_host.search.corpus import Corpus
    from honeybadger_host.search.embeddings import Embedder, Floats

_AT_ONCE = 4  # texts for which the engine, which takes one caller, is held: a question waits 0.1 s at most
# The documents without a vector, the newest last: a table of the connection, while texts are embedded.
_UNEMBEDDED = (
    "DROP TABLE IF EXISTS temp.unembedded",
    "CREATE TEMP TABLE unembedded (place INTEGER PRIMARY KEY, doc INTEGER NOT NULL UNIQUE)",
    f"""CREATE TEMP TRIGGER IF NOT EXISTS docs_new AFTER INSERT ON docs WHEN new.{FOUND} BEGIN
        INSERT INTO unembedded (doc) VALUES (new.number);
    END""",  # noqa: S608  constant
    """CREATE TEMP TRIGGER IF NOT EXISTS docs_old AFTER DELETE ON docs BEGIN
        DELETE FROM unembedded WHERE doc = old.number;
    END""",
    f"""INSERT INTO unembedded (doc)
        SELECT number FROM docs WHERE number NOT IN (SELECT doc FROM vectors) AND {FOUND} ORDER BY number
    """,  # noqa: S608  constant
)


class IndexVectors:
    """Vectors of one embedder. Thread-safe."""

    def __init__(self, db: IndexFile, embedder: Embedder) -> None:
        self._db = db
        self._embedder = embedder
        self._has_failed = False
        self.waiting = 0  # documents without a vector, when it was last looked

    def find(self) -> None:
        """Look which documents have no vector of this embedder; delete vectors of other models. Raises WorldFailed."""

        def find() -> None:
            with self._db.transaction() as db:
                # found in the index of models: the table itself has all vectors
                db.execute(
                    "DELETE FROM vectors WHERE doc IN (SELECT doc FROM vectors WHERE model <> ?)",
                    (self._embedder.name,),
                )
                for statement in _UNEMBEDDED:
                    db.execute(statement)

        self._db.guarded(find)

    def embed(self) -> Sequence[tuple[int, bytes]] | None:
        """Embed a few texts that have no vector yet; return number and vector of each.

        None: stop for now. Raises WorldFailed.
        """
        self.waiting = self._db.rows("SELECT count(*) FROM unembedded")[0][0]
        rows = self._db.rows(
            "SELECT number, kind, author, names, text FROM unembedded JOIN docs ON number = doc "
            "ORDER BY place DESC LIMIT ?",  # new ones are searched most
            (_AT_ONCE,),
        )
        if not rows:
            return None
        texts = [embedded_text(KINDS[kind], author, text, names.splitlines()) for _, kind, author, names, text in rows]
        vectors = self._tried(texts)
        if vectors is None:
            return None
        return self._kept({row[0]: row[4] for row in rows}, [vector.astype("<f2").tobytes() for vector in vectors])

    def vector_of(self, question: str) -> Floats | None:
        """Return a question's vector, or None if the embedder fails."""
        vectors = self._tried([question], is_query=True)
        return None if vectors is None else vectors[0]

    def _tried(self, texts: Sequence[str], *, is_query: bool = False) -> Floats | None:
        """Return the vectors of texts, or None if the embedder fails, which is logged once."""
        try:
            vectors = self._embedder.embed(texts, is_query=is_query)
        except WorldFailed as error:
            if not self._has_failed:
                log.error("vectors.failed", error=str(error), now_what="words alone are searched; see recall.vectors")
            self._has_failed = True
            return None
        self._has_failed = False
        return vectors

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

    def _kept(self, texts: Mapping[int, str], vectors: Sequence[bytes]) -> list[tuple[int, bytes]]:
        """Store the vectors of documents that still have their texts; return number and vector of these.

        Args:
            texts: number -> text of a document. When the index was rebuilt meanwhile, the number is another one's.
        """
        query = "INSERT OR REPLACE INTO vectors SELECT number, ?, ? FROM docs WHERE number = ? AND text = ?"

        def write() -> list[tuple[int, bytes]]:
            kept: list[tuple[int, bytes]] = []
            with self._db.transaction() as db:
                for (number, text), data in zip(texts.items(), vectors, strict=True):
                    if db.execute(query, (self._embedder.name, data, number, text)).rowcount:
                        db.execute("DELETE FROM unembedded WHERE doc = ?", (number,))
                        kept.append((number, data))
            return kept

        return self._db.guarded(write)


def embedded_text(kind: str, author: str, text: str, names: Sequence[str] = ()) -> str:
    """Return the text to embed: a turn with its author, as a question names people; an entry with its names."""
    about = author if kind == "turn" else ", ".join(names)
    return f"{about}: {text}" if about else text


def put_vectors(corpus: Corpus, embedded: Iterable[tuple[int, bytes]]) -> None:
    """Set the vectors of those documents that are in the corpus."""
    if corpus.vectors is None:
        return
    import numpy as np

    for number, data in embedded:
        row = corpus.row_of(number)
        if row is not None:
            corpus.vectors.put(row, np.frombuffer(data, "<f2").astype(np.float32))
