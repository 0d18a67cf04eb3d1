"""Vectors beside words: how far a document stands out, what it earns by that, and what it never earns."""

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.search.corpus import Corpus
from honeybadger_host.search.documents import Document, Piece
from honeybadger_host.search.embeddings import UNRELATED_COUNT, Vectors, standing_out
from honeybadger_host.search.language.analyzer import document_terms
from honeybadger_host.search.ranking import EVERY, Filters, Hit, search
from tests.host.hashing import HashEmbedder

NOW = datetime(2026, 6, 17, 12, tzinfo=UTC)
UNRELATED = (0.05, 0.1)


def entry(number: int, text: str, category: str = "") -> Document:
    return Document(number, "entry", document_terms(text), Piece("", text, category=category))


def corpus_of(*texts: str, without: tuple[int, ...] = ()) -> Corpus:
    """Return a corpus of entries numbered from 0, with vectors but for those named."""
    embedder = HashEmbedder()
    corpus = Corpus()
    corpus.vectors = Vectors(embedder.dimensions, embedder.unrelated)
    corpus.add([entry(number, text) for number, text in enumerate(texts)])
    for row, vector in enumerate(embedder.embed(texts)):
        if row not in without:
            corpus.vectors.put(row, vector)
    return corpus


def ask(corpus: Corpus, question: str, filters: Filters = EVERY) -> dict[int, Hit]:
    """Return what is found, the best first."""
    vector = HashEmbedder().embed([question], is_query=True)[0]
    hits = search(corpus, question, now=NOW, limit=9, filters=filters, vector=vector)
    return {hit.number: hit for hit in hits}


OTHERS = ("green tea is on the shelf", "the window faces north", "rain is expected on Monday", "lunch was at noon")


@given(
    st.lists(st.tuples(st.floats(-1, 1, width=32), st.booleans()), max_size=60),
    st.floats(-0.5, 0.5),
    st.floats(0.01, 0.5),
)
def test_standing_out_is_a_standard_score(rows: list[tuple[float, bool]], mean: float, spread: float) -> None:
    cosines = np.array([cosine * known for cosine, known in rows], np.float32)
    has = cosines != 0
    # as many more with just that mean and that spread: half below, half above
    half = UNRELATED_COUNT // 2
    sample = np.array([*cosines[has].tolist(), *[mean - spread] * half, *[mean + spread] * half])
    expected = [
        max(0.0, (cosine - sample.mean()) / sample.std()) if known else 0.0
        for cosine, known in zip(cosines.tolist(), has.tolist(), strict=True)
    ]
    assert standing_out(cosines, (mean, spread)).tolist() == pytest.approx(expected, abs=1e-3)


@given(st.lists(st.tuples(st.sampled_from(["add", "drop", "put"]), st.integers(0, 400)), max_size=60))
def test_a_changed_matrix_equals_a_new_one(steps: list[tuple[str, int]]) -> None:
    grown = Vectors(4, UNRELATED)
    size, kept = 0, {}
    for step, number in steps:
        if step == "add":
            size += number
            grown.resize(size)
        elif number < size and step == "put":
            vector = np.random.default_rng(number).standard_normal(4).astype(np.float32)
            kept[number] = vector
            grown.put(number, vector)
        elif step == "drop":
            kept.pop(number, None)
            grown.drop(number)
    plain = Vectors(4, UNRELATED)
    plain.resize(size)
    for number, vector in kept.items():
        plain.put(number, vector)
    question = np.ones(4, np.float32)
    assert grown.standing_out(question).tolist() == pytest.approx(plain.standing_out(question).tolist(), abs=1e-5)


def test_meaning_outranks_one_shared_word() -> None:
    corpus = corpus_of("Ann bought flowers", "Ann bought an automobile", *OTHERS)
    hits = ask(corpus, "Which car was bought?")
    assert list(hits)[:2] == [1, 0]
    assert hits[1].parts["vector"] > hits[0].parts.get("vector", 0)
    assert hits[1].score == pytest.approx(sum(hits[1].parts.values()))
    without = search(corpus, "Which car was bought?", now=NOW, limit=9)
    assert [hit.number for hit in without] == [0, 1]  # the shorter one
    assert all("vector" not in hit.parts for hit in without)


@given(st.lists(st.sampled_from(["car", "tea", "automobile", "window", "rain"]), min_size=1, max_size=4))
def test_the_best_few_are_the_first_of_all(words: list[str]) -> None:
    texts = [f"{a} {b}" for a in ("car", "tea", "automobile", "rain") for b in ("window", "north", "noon", "tea")]
    corpus = corpus_of(*texts)
    question = " ".join(words)
    vector = HashEmbedder().embed([question], is_query=True)[0]
    every = search(corpus, question, now=NOW, limit=99, vector=vector)
    few = search(corpus, question, now=NOW, limit=3, vector=vector)
    assert [hit.number for hit in few] == [hit.number for hit in every][:3]
    assert [hit.score for hit in every] == sorted((hit.score for hit in every), reverse=True)
