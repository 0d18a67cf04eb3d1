"""A group's documents in memory: what is added, replaced and removed is as if it had been loaded so."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.search.corpus import Corpus
from honeybadger_host.search.documents import Document, Kind
from honeybadger_host.search.language.analyzer import document_terms, length_in_words
from honeybadger_host.search.ranking import search

NOW = datetime(2026, 6, 1, tzinfo=UTC)
WORDS = ("ada", "bob", "tea", "ship", "stone", "river", "seven", "yesterday", "what?")


def document(
    number: int, text: str, kind: Kind = "turn", *, session: str = "s", author: str = "ada", at: float = 0.0
) -> Document:
    terms = document_terms(text)
    return Document(
        number=number,
        kind=kind,
        terms=terms,
        length=length_in_words(terms),
        session=session if kind == "turn" else "",
        author=author,
        role="user" if kind == "turn" else "",
        at=at,
    )


@st.composite
def documents(draw: st.DrawFn) -> list[Document]:
    numbers = draw(st.lists(st.integers(1, 40), unique=True, max_size=25))
    return [
        document(
            number,
            " ".join(draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=30))),
            draw(st.sampled_from(["turn", "turn", "turn", "entry", "note"])),
            session=draw(st.sampled_from(["1", "2"])),
            author=draw(st.sampled_from(["ada", "bob"])),
            at=draw(st.sampled_from([0.0, 1e9, float("nan")])),
        )
        for number in numbers
    ]


def found(corpus: Corpus, question: str) -> list[tuple[int, float]]:
    return [(hit.number, round(hit.score, 6)) for hit in search(corpus, question, now=NOW, limit=50)]


def filled(documents: Sequence[Document]) -> Corpus:
    corpus = Corpus()
    corpus.add(documents)
    return corpus


@given(documents(), st.lists(documents(), max_size=3), st.lists(st.integers(1, 40), max_size=10))
def test_a_changed_corpus_finds_what_a_new_one_does(
    first: list[Document], later: list[list[Document]], gone: list[int]
) -> None:
    corpus = filled(first)
    living = {each.number: each for each in first}
    for batch in later:
        for each in batch:  # one by one
            corpus.add([each])
            living[each.number] = each
    corpus.remove(gone)
    for number in gone:
        living.pop(number, None)
    rebuilt = filled(sorted(living.values(), key=lambda each: each.number))
    assert len(corpus) == len(living)
    for question in ("ada tea", "What did Bob do with the stone?", "when seven ships", "river"):
        assert found(corpus, question) == found(rebuilt, question)
