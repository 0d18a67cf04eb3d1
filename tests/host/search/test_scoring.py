"""The fast ranking is the plain one: every score is checked against a reference that looks at every document."""

import math
from collections.abc import Collection, Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.recall.loading import load_documents
from honeybadger_host.search.asked import WEIGHTS
from honeybadger_host.search.corpus import AROUND_TURNS, SITTING_SECONDS, Corpus
from honeybadger_host.search.documents import KINDS, Document, Kind, Piece
from honeybadger_host.search.index_db import IndexFile
from honeybadger_host.search.language.analyzer import QUESTION_MARK, Query, analyse_query, common_terms, document_terms
from honeybadger_host.search.language.spelling import guess
from honeybadger_host.search.ranking import K1, B, Filters, search

NOW = datetime(2026, 6, 1, tzinfo=UTC)
WORDS = ("tea", "ship", "stone", "river", "harbour", "green", "yesterday", "40", "ada", "bob", "night?")
QUESTIONS = (
    *("tea", "the green ship", "What did Ada say about the river?", "What did Bob say?"),
    *("When was the stone green, Bob?", "How many ships are in the harbour?", "harbuor ships", "my tea", "Ada"),
    *("When was the quux, Bob?", "nothing known"),
)


def around(turns: Sequence[Document], place: int) -> list[Document]:
    """Return a turn and what stands around it in its session, by walking away from it."""
    near = [turns[place]]
    for step in (-1, 1):
        other = place + step
        while 0 <= other < len(turns) and abs(other - place) <= AROUND_TURNS:
            if abs((turns[other].piece.at or math.nan) - (turns[other - step].piece.at or math.nan)) > SITTING_SECONDS:
                break
            near.append(turns[other])
            other += step
    return near


def bm25(tf: float, length: float, average: float) -> float:
    return tf * (K1 + 1) / (tf + K1 * (1 - B + B * length / average)) if tf else 0.0


def idf(total: int, having: int) -> float:
    return math.log(1 + (total - having + 0.5) / (having + 0.5))


def plain(documents: Sequence[Document], query: Query, kinds: Collection[Kind]) -> dict[int, float]:
    """Return the score of every document of these kinds above zero, one by one; dates are left to another test."""
    count = len(documents)
    sessions: dict[int, list[Document]] = {}
    for each in sorted(documents, key=lambda document: document.number):
        if each.kind == "turn":
            sessions.setdefault(each.source, []).append(each)
    near = {turn.number: around(turns, place) for turns in sessions.values() for place, turn in enumerate(turns)}
    around_average = sum(sum(len(turn.terms) for turn in turns) for turns in near.values()) / max(1, len(near))
    session_average = sum(len(turn.terms) for turns in sessions.values() for turn in turns) / max(1, len(sessions))
    averages = {
        kind: sum(len(each.terms) for each in documents if each.kind == kind)
        / max(1, sum(each.kind == kind for each in documents))
        for kind in ("turn", "entry")
    }
    vocabulary = {term for each in documents for term in each.terms}
    speakers = {each.piece.author for each in documents if each.kind == "turn"}
    named = {author for author in speakers if author in query.words}
    terms = [
        term if (vocabulary | common_terms(query.language)) & set(term.forms) else guess(term, vocabulary.intersection)
        for term in query.terms
    ]
    are_all_names = bool(named) and all(named & set(term.forms) for term in terms)
    text = {each.number: 0.0 for each in documents}
    for term in terms:
        forms = set(term.forms) if are_all_names else set(term.forms) & vocabulary
        if not forms:
            continue
        is_name = bool(named & forms) and not are_all_names

        def tf(document: Document, forms: set[str] = forms, is_name: bool = is_name) -> int:
            if document.kind == "turn" and is_name:
                return 0
            if are_all_names:
                speaks = document.kind == "turn" and document.piece.author in named
                return int(speaks or bool(forms.intersection(document.terms)))
            return sum(min(63, list(document.terms).count(form)) for form in forms)

        having = max(sum(form in each.terms for each in documents) for form in forms)
        rare = idf(count, sum(map(tf, documents)) if are_all_names else having)
        having = sum(any(tf(turn) for turn in turns) for turns in sessions.values())
        for each in documents:
            own = rare * bm25(tf(each), len(each.terms), averages[each.kind])
            if each.kind == "turn":
                neighbours = near[each.number]
                length = sum(len(turn.terms) for turn in neighbours)
                said = sum(tf(turn) for turn in neighbours)
                stretch = rare * bm25(said, length, around_average)
                turns = sessions[each.source]
                words = sum(len(turn.terms) for turn in turns)
                session = idf(len(sessions), having) * bm25(sum(map(tf, turns)), words, session_average)
            else:
                stretch = session = own
            text[each.number] += WEIGHTS["terms"] * own + WEIGHTS["around"] * stretch + WEIGHTS["session"] * session
    wanted = [each for each in documents if each.kind in kinds]
    best = max((text[each.number] for each in wanted), default=0.0)
    scores = {}
    for each in wanted:
        bonus = 0.0
        is_turn = each.kind == "turn"
        is_meant = each.piece.author in named or (query.is_first_person and each.piece.role == "user")
        if is_turn and is_meant:
            bonus += WEIGHTS["author"]
        if best or (is_turn and is_meant):  # without a known word, only whose turns are meant is told apart
            bonus += WEIGHTS["statement"] * (QUESTION_MARK not in each.terms)
        share = best * (text[each.number] > 0) if best else 1.0
        if score := text[each.number] + share * bonus:
            scores[each.number] = score
    return scores


@st.composite
def groups(draw: st.DrawFn) -> list[Document]:
    documents = []
    for number in range(1, draw(st.integers(2, 31))):
        terms = document_terms(" ".join(draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=25))))
        kind = draw(st.sampled_from(["turn", "turn", "turn", "entry"]))
        piece, session = Piece("", "", float(1 + number // 3) * 4000 if number % 2 else None), 0
        if kind == "turn":
            piece = piece._replace(
                author=draw(st.sampled_from(["ada", "bob"])), role=draw(st.sampled_from(["user", "assistant"]))
            )
            session = draw(st.sampled_from([1, 2]))
        documents.append(Document(number, "turn" if kind == "turn" else "entry", terms, piece, session))
    return documents


@given(
    groups(),
    st.sampled_from(QUESTIONS),
    st.integers(1, 12),
    st.integers(0, 30),
    st.booleans(),
    st.sampled_from([KINDS, KINDS, ("entry",), ("turn",)]),
)
def test_the_best_are_those_of_scoring_every_document(
    documents: list[Document], question: str, limit: int, late: int, is_loaded: bool, kinds: tuple[Kind, ...]
) -> None:
    corpus, filters = Corpus(), Filters(kinds=kinds)
    db = IndexFile(None, lambda: None)
    if is_loaded:
        corpus = load_documents(db, documents[:late])
    else:
        corpus.add(documents[:late])
    search(corpus, question, now=NOW, limit=1, filters=filters)  # what comes later is not in the layout
    corpus.add(documents[late:])
    scores = plain(documents, analyse_query(question), kinds)
    hits = search(corpus, question, now=NOW, limit=limit, filters=filters)
    db.close()
    assert len(hits) == min(limit, len(scores))
    assert [hit.score for hit in hits] == pytest.approx(sorted(scores.values(), reverse=True)[:limit], rel=1e-4)
    for hit in hits:
        assert hit.score == pytest.approx(scores[hit.number], rel=1e-4)
