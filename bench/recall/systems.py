"""The systems that are measured on the same questions: ours, and what else one could take."""

from __future__ import annotations

import importlib
import re
import sqlite3
import weakref
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from bench.recall.cases import Conversation, Question, documents_of
from honeybadger_host.search.asked import WEIGHTS, look_up, signals_of
from honeybadger_host.search.corpus import Corpus, rows_around
from honeybadger_host.search.embeddings import Embedder, Vectors
from honeybadger_host.search.index_vectors import embedded_text
from honeybadger_host.search.language.analyzer import analyse_query
from honeybadger_host.search.ranking import search

Ranker = Callable[[Question, int], Sequence[int]]  # (question, limit) -> places of turns, best first


class System(Protocol):
    """Makes a ranker for a conversation."""

    def __call__(self, conversation: Conversation, /) -> Ranker: ...


def honeybadger(conversation: Conversation) -> Ranker:
    """Ours, as the host ranks."""
    corpus = Corpus()
    corpus.add(documents_of(conversation.turns))

    def rank(question: Question, limit: int) -> Sequence[int]:
        now = conversation.now(question)
        return [hit.number for hit in search(corpus, question.text, now=now, limit=limit)]

    return rank


def with_vectors(embedder: Embedder) -> System:
    """Return ours with vectors beside the words, as the host fuses them."""

    def system(conversation: Conversation) -> Ranker:
        corpus = Corpus()
        corpus.vectors = Vectors(embedder.dimensions, embedder.unrelated)
        corpus.add(documents_of(conversation.turns))
        texts = [embedded_text("turn", turn.author, turn.text) for turn in conversation.turns]
        for row, vector in enumerate(embedder.embed(texts)):
            corpus.vectors.put(row, vector)

        def rank(question: Question, limit: int) -> Sequence[int]:
            now, vector = conversation.now(question), embedder.embed([question.text], is_query=True)[0]
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


def fts5_with_signals(conversation: Conversation) -> Ranker:
    """FTS5 for the words alone: its 300 best by own words and by words around, ranked with our analyser and signals."""
    corpus = Corpus()
    corpus.add(documents_of(conversation.turns))
    talk, session_of = corpus.around(), corpus.session_of
    texts = [" ".join(document.terms).replace("'", "") for document in documents_of(conversation.turns)]
    sessions: dict[int, list[str]] = {}
    around = {}
    near = np.stack(rows_around(talk.before, talk.after, talk.turns), axis=1)
    for row, rows in zip(talk.turns.tolist(), near.tolist(), strict=True):
        around[row] = " ".join(texts[each] for each in rows if each >= 0)
        sessions.setdefault(session_of[row], []).append(texts[row])
    database = sqlite3.connect(":memory:")
    tables = {
        "terms": dict(enumerate(texts)),
        "around": around,
        "session": {session: " ".join(said) for session, said in sessions.items()},
    }
    for name, table in tables.items():
        database.execute(f"""CREATE VIRTUAL TABLE {name} USING fts5(text, tokenize="ascii tokenchars '#+-._/:,'")""")
        database.executemany(f"INSERT INTO {name} (rowid, text) VALUES (?, ?)", table.items())

    def best(table: str, words: str) -> dict[int, float]:
        query = f"SELECT rowid, -rank FROM {table} WHERE {table} MATCH ? ORDER BY rank LIMIT 300"
        return dict(database.execute(query, (words,))) if words else {}

    def rank(question: Question, limit: int) -> Sequence[int]:
        query = analyse_query(question.text)
        asked = look_up(corpus, query)
        forms = [form.replace("'", "") for each in asked.terms if len(each.rows) for form in each.term.forms]
        words = " OR ".join(f'"{form}"' for form in forms)
        found = {table: best(table, words) for table in tables}
        rows = sorted({*found["terms"], *found["around"]})
        if not rows:
            return []
        text = np.zeros(len(rows))
        for table in ("terms", "around"):
            text += WEIGHTS[table] * np.array([found[table].get(row, 0.0) for row in rows])
        text += WEIGHTS["session"] * np.array([found["session"].get(session_of[row], 0.0) for row in rows])
        share = np.where(text > 0, text.max(), 0)
        signals = signals_of(corpus, query, conversation.now(question), asked.named)
        scores = text + sum(WEIGHTS[signal] * share * has[rows] for signal, has in signals.items())
        return [rows[place] for place in np.argsort(-scores, kind="stable")[:limit].tolist()]

    weakref.finalize(rank, database.close)
    return rank


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


# Name -> system, and the package it needs.
SYSTEMS: dict[str, tuple[System, str]] = {
    "rank-bm25": (rank_bm25, "rank_bm25"),
    "bm25s": (bm25s, "bm25s"),
    "tantivy, stemmed": (tantivy, "tantivy"),
    "FTS5": (fts5, ""),
    "FTS5 porter": (fts5_porter, ""),
    "FTS5 with signals": (fts5_with_signals, ""),
    "honeybadger": (honeybadger, ""),
}

_WORD = re.compile(r"\w+")


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _lines(conversation: Conversation) -> list[str]:
    return [f"{turn.author}: {turn.text}" for turn in conversation.turns]
