"""PrecisionMemBench: short beliefs with other names, and what each question should bring (github.com/tenurehq, MIT)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.recall.cases import Conversation, Question, Turn
from bench.recall.measures import mean, measure
from bench.recall.systems import System
from honeybadger_host.search.corpus import Corpus
from honeybadger_host.search.documents import Document, Piece
from honeybadger_host.search.embeddings import Embedder, Vectors
from honeybadger_host.search.index_vectors import embedded_text
from honeybadger_host.search.language.analyzer import entry_terms
from honeybadger_host.search.ranking import Filters, objection, search

FILES = ("beliefs.seed.json", "retrieval.cases.json")
_NOW = datetime(2026, 11, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Belief:
    """An entry with its names."""

    key: str
    content: str
    names: tuple[str, ...]
    scopes: frozenset[str]
    is_current: bool
    is_pinned: bool


@dataclass(frozen=True, slots=True)
class Case:
    """A question; `wanted` may be empty: then nothing should be shown unasked."""

    text: str
    scopes: frozenset[str]
    wanted: frozenset[str]


@dataclass(frozen=True, slots=True)
class Bench:
    """Beliefs and cases."""

    beliefs: tuple[Belief, ...]
    cases: tuple[Case, ...]

    def seen_by(self, case: Case) -> list[Belief]:
        """Return what a case may find: current beliefs of its scopes."""
        return [belief for belief in self.beliefs if belief.is_current and belief.scopes & case.scopes]


def load(folder: Path) -> Bench:
    """Return the beliefs of one user and the cases that say what search should bring."""
    beliefs = tuple(
        Belief(
            key=belief["_id"],
            content=belief["content"],
            names=(belief["canonical_name"], *belief["aliases"]),
            scopes=frozenset(belief["scope"]),
            is_current=belief["epistemic_status"] != "superseded",
            is_pinned=belief["pinned"],
        )
        for belief in json.loads((folder / FILES[0]).read_bytes())
        if "other-user" not in belief["_id"]
    )
    cases = tuple(
        Case(case["query"], frozenset(case["scope"]), frozenset(wanted))
        for case in json.loads((folder / FILES[1]).read_bytes())
        if (wanted := case["expect"].get("relevantBeliefs", {}).get("shouldOnlyInclude")) is not None
    )
    return Bench(beliefs, cases)


def honeybadger(beliefs: Sequence[Belief], *, with_names: bool = True) -> Callable[[str], list[str]]:
    """Return our ranking of beliefs for a question."""
    corpus = _corpus(beliefs, with_names=with_names)
    return lambda text: [beliefs[hit.number].key for hit in search(corpus, text, now=_NOW, limit=40)]


def with_vectors(
    embedder: Embedder, beliefs: Sequence[Belief], *, with_names: bool = True
) -> Callable[[str], list[str]]:
    """Return our ranking with vectors, of beliefs with their names or of their content alone."""
    corpus = Corpus()
    corpus.vectors = Vectors(embedder.dimensions, embedder.unrelated)
    corpus.add(_documents(beliefs, with_names=True))
    texts = [embedded_text("entry", "", each.content, each.names if with_names else ()) for each in beliefs]
    for place, vector in enumerate(embedder.embed(texts)):
        corpus.vectors.put(place, vector)

    def rank(text: str) -> list[str]:
        hits = search(corpus, text, now=_NOW, limit=40, vector=embedder.embed([text], is_query=True)[0])
        return [beliefs[hit.number].key for hit in hits]

    return rank


def other(system: System, beliefs: Sequence[Belief]) -> Callable[[str], list[str]]:
    """Return another system's ranking of beliefs, each as a text with its names."""
    turns = tuple(Turn("", "", f"{' '.join(belief.names)} {belief.content}".replace("_", " ")) for belief in beliefs)
    rank = system(Conversation("", turns, ()))
    return lambda text: [beliefs[place].key for place in rank(Question(text, (), ""), 40)]


def row(name: str, bench: Bench, make: Callable[[Sequence[Belief]], Callable[[str], list[str]]]) -> str:
    """Return a line of the table over the cases that want something."""
    found, three = [], []
    for case in bench.cases:
        if case.wanted:
            beliefs = bench.seen_by(case)
            numbers = {belief.key: number for number, belief in enumerate(beliefs)}
            wanted = {numbers.get(key, -1) for key in case.wanted}
            ranking = [numbers[key] for key in make(beliefs)(case.text)]
            found.append(measure(ranking, wanted))
            three.append(len(wanted.intersection(ranking[:3])) / len(wanted))
    total = mean(found)
    figures = (sum(three) / len(three), total.recall_5, total.reciprocal_rank)
    return f"| {name} | {len(found)} | {' | '.join(f'{figure:.3f}' for figure in figures)} |"


def floor_row(bench: Bench) -> str:
    """Return what the floor lets through: of what is wanted, and where nothing is; pinned beliefs are shown anyway."""
    kept = wanted = shown = silent = nothing = 0
    for case in bench.cases:
        beliefs = bench.seen_by(case)
        pinned = {belief.key for belief in beliefs if belief.is_pinned}
        hits = search(_corpus(beliefs), case.text, now=_NOW, limit=8, filters=Filters(needs_word=True))
        passing = {beliefs[hit.number].key for hit in hits if objection(hit) is None} - pinned
        if case.wanted:
            kept += len(passing & case.wanted)
            wanted += len(case.wanted)
            shown += len(passing)
        else:
            nothing += 1
            silent += not passing
    return (
        f"floor: {kept} of {wanted} wanted pass, {kept} of {shown} shown are wanted; "
        f"{silent} of {nothing} cases that want nothing show nothing"
    )


def _corpus(beliefs: Sequence[Belief], *, with_names: bool = True) -> Corpus:
    corpus = Corpus()
    corpus.add(_documents(beliefs, with_names=with_names))
    return corpus


def _documents(beliefs: Sequence[Belief], *, with_names: bool) -> list[Document]:
    return [
        Document(number, "entry", terms, Piece(belief.key, belief.content))
        for number, belief in enumerate(beliefs)
        for terms in [entry_terms(belief.content, names=belief.names if with_names else ())]
    ]
