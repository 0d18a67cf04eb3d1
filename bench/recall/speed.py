"""How fast: search among many documents, a document added and found, memory; others on the same documents beside it."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import random
import resource
import sqlite3
import statistics
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.recall.loading import load_documents
from bench.recall.synthetic import vocabulary
from honeybadger_host.search.documents import Document, Piece
from honeybadger_host.search.index_db import IndexFile
from honeybadger_host.search.language.analyzer import document_terms
from honeybadger_host.search.ranking import search

HEAD = "| system | analyse s | build s | memory MiB | search ms p50 | p99 | insert to found ms p50 | p99 |\n|---" + (
    "|---" * 7 + "|"
)
_NOW = datetime(2026, 6, 1, tzinfo=UTC)
_QUESTIONS = 300
_INSERTS = 50


@dataclass(frozen=True, slots=True)
class Texts:
    """A corpus and the questions that are asked of it."""

    entries: list[str]
    turns: list[str]
    later: list[str]
    questions: list[str]


def texts(size: int) -> Texts:
    """Return texts of 20 to 60 words, words as frequent as in language (Zipf), and questions of 8 words."""
    chance = random.Random(size)
    words = vocabulary(20_000)
    weights = list(itertools.accumulate(1 / (rank + 10) for rank in range(len(words))))

    def some(low: int, high: int) -> str:
        return " ".join(chance.choices(words, cum_weights=weights, k=chance.randint(low, high)))

    return Texts(
        entries=[some(20, 60) for _ in range(size)],
        turns=[some(20, 60) for _ in range(size)],
        later=[some(20, 60) for _ in range(_INSERTS)],
        questions=[f"What did Ada say about {some(5, 5)} in May?" for _ in range(_QUESTIONS)],
    )


def rows(size: int) -> Iterator[str]:
    """Yield a line of the table for every engine that is here."""
    given = texts(size)
    yield _row("honeybadger", given, _honeybadger)
    yield _row("FTS5 porter", given, _fts5)
    if importlib.util.find_spec("tantivy"):
        yield _row("tantivy", given, _tantivy)
    if importlib.util.find_spec("bm25s"):
        yield _row("bm25s", given, _bm25s)


Find = Callable[[str], Sequence[object]]
Add = Callable[[int, str], None]


def _row(name: str, given: Texts, make: Callable[[Texts], tuple[float, Find, Add]]) -> str:
    memory = _resident_mib()
    began = time.perf_counter()
    analysed, find, add = make(given)
    built = time.perf_counter() - began - analysed
    find(given.questions[0])
    memory = _resident_mib() - memory
    searches = [_timed(find, question) for question in given.questions]
    inserts = []
    for number, text in enumerate(given.later):
        began = time.perf_counter()
        add(2 * len(given.turns) + number, text)
        find(text.split()[0])
        inserts.append(1000 * (time.perf_counter() - began))
    figures = (f"{analysed:.1f}", f"{built:.1f}", f"{memory:.0f}", *_percentiles(searches), *_percentiles(inserts))
    return f"| {name} | {' | '.join(figures)} |"


def _timed(find: Find, question: str) -> float:
    began = time.perf_counter()
    find(question)
    return 1000 * (time.perf_counter() - began)


def _percentiles(sample: Sequence[float]) -> tuple[str, str]:
    ordered = sorted(sample)
    return f"{statistics.median(ordered):.2f}", f"{ordered[int(len(ordered) * 0.99)]:.2f}"


def _resident_mib() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def _honeybadger(given: Texts) -> tuple[float, Find, Add]:
    began = time.perf_counter()
    entries = [document_terms(text) for text in given.entries]
    turns = [document_terms(text) for text in given.turns]
    analysed = time.perf_counter() - began
    size = len(entries)
    folder = tempfile.TemporaryDirectory()
    db = IndexFile(Path(folder.name) / "index.db", lambda: None)
    corpus = load_documents(
        db,
        [
            *(Document(place, "entry", terms, Piece("", "")) for place, terms in enumerate(entries, 1)),
            *(_turn(size + place, terms) for place, terms in enumerate(turns, 1)),
        ],
    )

    def add(number: int, text: str) -> None:
        corpus.add([_turn(number, document_terms(text))])

    def find(question: str) -> Sequence[object]:
        return search(corpus, question, now=_NOW, limit=10)

    weakref.finalize(find, folder.cleanup)
    weakref.finalize(find, db.close)
    return analysed, find, add


def _turn(number: int, terms: list[str]) -> Document:
    author = ("Ada", "Bob")[number % 2]
    at = 1.7e9 + number * 600
    return Document(number, "turn", terms, Piece("", "", at, author, "user"), number // 40 + 1)


def _fts5(given: Texts) -> tuple[float, Find, Add]:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE documents USING fts5(text, tokenize='porter unicode61')")
    insert = "INSERT INTO documents (rowid, text) VALUES (?, ?)"
    database.executemany(insert, enumerate((*given.entries, *given.turns)))

    def find(question: str) -> Sequence[object]:
        words = " OR ".join(f'"{word.strip("?")}"' for word in question.split())
        query = "SELECT rowid FROM documents WHERE documents MATCH ? ORDER BY rank LIMIT 10"
        return database.execute(query, (words,)).fetchall()

    def add(number: int, text: str) -> None:
        database.execute(insert, (number, text))

    weakref.finalize(find, database.close)
    return 0.0, find, add


def _tantivy(given: Texts) -> tuple[float, Find, Add]:
    library = importlib.import_module("tantivy")
    builder = library.SchemaBuilder()
    builder.add_text_field("text", tokenizer_name="en_stem")
    index = library.Index(builder.build())
    writer = index.writer(50_000_000, 1)
    for text in (*given.entries, *given.turns):
        writer.add_document(library.Document(text=text))
    writer.commit()
    index.reload()

    def find(question: str) -> Sequence[object]:
        found: Sequence[object] = index.searcher().search(index.parse_query(question.strip("?"), ["text"]), 10).hits
        return found

    def add(number: int, text: str) -> None:
        del number
        writer.add_document(library.Document(text=text))
        writer.commit()
        index.reload()

    return 0.0, find, add


def _bm25s(given: Texts) -> tuple[float, Find, Add]:
    library = importlib.import_module("bm25s")
    began = time.perf_counter()
    terms = [document_terms(text) for text in (*given.entries, *given.turns)]
    analysed = time.perf_counter() - began
    index = library.BM25()
    index.index(terms, show_progress=False)

    def find(question: str) -> Sequence[object]:
        found: Sequence[object] = index.retrieve([document_terms(question)], k=10, show_progress=False)[0][0]
        return found

    def add(number: int, text: str) -> None:
        del number, text  # an insert is a whole build: see `build s`

    return analysed, find, add
