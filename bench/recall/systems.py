"""The systems that are measured on the same questions: ours, and what else one could take."""

from __future__ import annotations

import importlib
import re
import sqlite3
import weakref
from collections.abc import Callable, Sequence
from typing import Protocol

from bench.recall.cases import Conversation, Question, documents_of
from bench.recall.loading import load_documents
from honeybadger_host.search.corpus import Corpus
from honeybadger_host.search.embeddings import Embedder
from honeybadger_host.search.index_vectors import embedded_text
from honeybadger_host.search.ranking import search
from honeybadger_host.search.vectors import Vectors

Ranker = Callable[[Question, int], Sequence[int]]
"""(question, limit) -> places of turns, best first."""


class System(Protocol):
    """Makes a ranker for a conversation."""

    def __call__(self, conversation: Conversation, /) -> Ranker: ...


def honeybadger(conversation: Conversation) -> Ranker:
    """Ours, as the host ranks."""
    corpus = load_documents(Corpus(), documents_of(conversation.turns))

    def rank(question: Question, limit: int) -> Sequence[int]:
        now = conversation.now(question)
        return [hit.number for hit in search(corpus, question.text, now=now, limit=limit)]

    return rank


def with_vectors(embedder: Embedder) -> System:
    """Return ours with vectors beside the words, as the host fuses them."""

    def system(conversation: Conversation) -> Ranker:
        corpus = Corpus()
        corpus.vectors = Vectors(embedder.dimensions, embedder.unrelated)
        load_documents(corpus, documents_of(conversation.turns))
        texts = [embedded_text("turn", turn.author, turn.text) for turn in conversation.turns]
        for row, vector in enumerate(embedder.embed_documents(texts)):
            corpus.vectors.put(row, vector)

        def rank(question: Question, limit: int) -> Sequence[int]:
            now, vector = conversation.now(question), embedder.embed_query(question.text)
            hits = search(corpus, question.text, now=now, limit=limit, vector=vector)
            return [hit.number for hit in hits]

        return rank

    return system


def fts5(conversation: Conversation, tokenizer: str = "unicode61") -> Ranker:
    """SQLite's FTS5, all words of the question joined by OR."""
    database = sqlite3.connect(":memory:")
    database.execute(f"CREATE VIRTUAL TABLE turns USING fts5(text, tokenize='{tokenizer}')")
    database.executemany("INSERT INTO turns (rowid, text) VALUES (?, ?)", enumerate(_lines(conversation)))

    def rank(question: Question, limit: int) -> Sequence[int]:
        words = " OR ".join(f'"{word}"' for word in _WORD.findall(question.text))
        if not words:
            return []
        found = database.execute("SELECT rowid FROM turns WHERE turns MATCH ? ORDER BY rank LIMIT ?", (words, limit))
        return [row[0] for row in found]

    weakref.finalize(rank, database.close)
    return rank


def fts5_porter(conversation: Conversation) -> Ranker:
    """FTS5 with its English stemmer."""
    return fts5(conversation, "porter unicode61")


def rank_bm25(conversation: Conversation) -> Ranker:
    """The package rank-bm25, words in lower case."""
    okapi = importlib.import_module("rank_bm25").BM25Okapi([_words(line) for line in _lines(conversation)])

    def rank(question: Question, limit: int) -> Sequence[int]:
        scores = okapi.get_scores(_words(question.text))
        order = sorted(range(len(scores)), key=lambda place: (-scores[place], place))
        return [place for place in order[:limit] if scores[place] > 0]

    return rank


def bm25s(conversation: Conversation) -> Ranker:
    """The package bm25s, words in lower case."""
    index = importlib.import_module("bm25s").BM25()
    index.index([_words(line) for line in _lines(conversation)], show_progress=False)

    def rank(question: Question, limit: int) -> Sequence[int]:
        limit = min(limit, len(conversation.turns))
        places, scores = index.retrieve([_words(question.text)], k=limit, show_progress=False)
        return [int(place) for place, score in zip(places[0], scores[0], strict=True) if score > 0]

    return rank


def tantivy(conversation: Conversation) -> Ranker:
    """The package tantivy with its English stemmer, all words joined by OR."""
    library = importlib.import_module("tantivy")
    builder = library.SchemaBuilder()
    builder.add_text_field("text", tokenizer_name="en_stem")
    builder.add_integer_field("place", stored=True)
    index = library.Index(builder.build())
    writer = index.writer(15_000_000, 1)
    for place, line in enumerate(_lines(conversation)):
        writer.add_document(library.Document(text=line, place=place))
    writer.commit()
    index.reload()
    searcher = index.searcher()

    def rank(question: Question, limit: int) -> Sequence[int]:
        words = " ".join(_WORD.findall(question.text))
        hits = searcher.search(index.parse_query(words, ["text"]), limit).hits
        return [searcher.doc(address)["place"][0] for _, address in hits]

    return rank


SYSTEMS: dict[str, tuple[System, str]] = {
    "rank-bm25": (rank_bm25, "rank_bm25"),
    "bm25s": (bm25s, "bm25s"),
    "tantivy, stemmed": (tantivy, "tantivy"),
    "FTS5": (fts5, ""),
    "FTS5 porter": (fts5_porter, ""),
    "honeybadger": (honeybadger, ""),
}
"""Name -> system, and the package it needs."""

_WORD = re.compile(r"\w+")


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _lines(conversation: Conversation) -> list[str]:
    return [f"{turn.author}: {turn.text}" for turn in conversation.turns]
