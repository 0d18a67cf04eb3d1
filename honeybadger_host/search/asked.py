"""The terms of a question in a corpus, and the signals other than text: author, date, kind of statement.

Sources: docs/decisions/017-recall.md.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from honeybadger_host.search.blocks import TF_BITS, TF_MASK, Packed
from honeybadger_host.search.corpus import TURN, Corpus, Floats, Mask, Rows, view
from honeybadger_host.search.language.analyzer import (
    QUESTION_MARK,
    Query,
    QueryTerm,
    common_terms,
    document_terms,
    is_cjk,
    names_in,
)
from honeybadger_host.search.language.dates import dates_said
from honeybadger_host.search.language.spelling import guess
from honeybadger_host.text.turn import VIA

Signal: TypeAlias = Literal["terms", "around", "session", "author", "date", "statement", "vector"]
# The weight of each signal: the first three in BM25 points, the rest as a share of the best text score. Fitted on
# LoCoMo, tested on held-out conversations (docs/decisions/017-recall.md).
WEIGHTS: Mapping[Signal, float] = {
    "terms": 1.0,
    "around": 1.2,
    "session": 1.2,
    "author": 0.36,
    "date": 0.7,
    "statement": 0.13,
}
Shares: TypeAlias = npt.NDArray[np.float64]

# Minimum rarity of a word that may be the group's subject, even if all documents have it; 1: only one has it.
MIN_SUBJECT_RARITY = 0.5
# This many words of a question are checked for typos, 0.3 ms each: a pasted page has thousands.
_MAX_GUESSED = 64
# A guess may be wrong, so it has this share of its rarity: with 1, "make it shorter" recalled all that fits; with 0.6 a
# context lost one of the 62 entries that PrecisionMemBench wants.
_GUESS = 0.7
# A smaller group says little about how rare a word is: rarity is computed as if it had this many documents.
_MIN_DOCUMENTS = 40


class AskedTerm(NamedTuple):
    """A term of the question in the corpus: where, how often, how rare; one that it does not have is nowhere.

    Args:
        rarity: `idf`, for at least `_MIN_DOCUMENTS` documents.
    """

    term: QueryTerm
    rows: Rows
    counts: Floats
    idf: float
    rarity: float


class Asked(NamedTuple):
    """A question in the corpus.

    Args:
        named: numbers of the authors that it names.
        many: how many documents rarity is computed for.
    """

    terms: Sequence[AskedTerm]
    named: Collection[int]
    many: int


def look_up(corpus: Corpus, query: Query) -> Asked:
    """Return the terms of a question, each with the documents that have it.

    A speaker's name is not looked up in turns: it says whose turns are meant, and the turns that contain it are
    mostly the other side's. A question of names alone ("what did Ben say?") finds these speakers' turns and the
    turns that name them.
    """
    many = max(len(corpus), _MIN_DOCUMENTS)
    alive, kinds = view(corpus.is_alive, np.bool_), view(corpus.kinds, np.int8)
    authors = view(corpus.author_of, np.int32)
    named: list[int] = []
    names: set[str] = set()
    labels = list(corpus.labels)
    for number in corpus.sums().speakers:
        parts = names_in(labels[number].rpartition(VIA)[0] or labels[number])
        if any(len(part) > 1 and _has(query.words, part) for part in parts):
            named.append(number)
            names.update(term for part in parts for term in document_terms(part))
    asked: list[AskedTerm] = []
    postings = cache(corpus.postings)
    common = common_terms(query.language)
    heard = _with_guesses(corpus, postings, query, common)
    is_name = [not names.isdisjoint(term.forms) for term in heard]
    for term, names_somebody in zip(heard, is_name, strict=True):
        rows, counts, frequency = _found([postings(form) for form in term.forms], alive if corpus.has_dead else None)
        if names_somebody and all(is_name):
            rows = np.union1d(rows, np.flatnonzero(np.isin(authors, named) & alive & (kinds == TURN)))
            counts, frequency = np.ones(len(rows), np.float32), len(rows)
        elif names_somebody:
            keep = kinds[rows] != TURN
            rows, counts = rows[keep], counts[keep]
        rarity = idf_of(many, frequency)
        if common.isdisjoint(term.forms):
            rarity = max(rarity, MIN_SUBJECT_RARITY * idf_of(many, 1))  # it may be the subject of the whole group
        elif not frequency:
            rarity = MIN_SUBJECT_RARITY / 2 * idf_of(many, 1)  # it says little about the question
        if term.is_guess:
            rarity *= _GUESS
        asked.append(AskedTerm(term, rows, counts, idf_of(len(corpus), frequency), rarity))
    return Asked(asked, named, many)


def idf_of(documents: int, frequency: int) -> float:
    return math.log(1 + (documents - frequency + 0.5) / (frequency + 0.5))


def _found(postings: Sequence[Packed], alive: Mask | None) -> tuple[Rows, Floats, int]:
    """Return the live rows that have a term, ascending, how often, and how many have its most frequent form.

    Args:
        postings: of each form of the term.
        alive: by row; None when all are.
    """
    if alive is not None:
        postings = [packed[alive[packed >> np.uint32(TF_BITS)]] for packed in postings]
    packed, frequency = np.concatenate(postings), max(map(len, postings))
    rows, counts = packed >> np.uint32(TF_BITS), (packed & np.uint32(TF_MASK)).astype(np.float32)
    if len(postings) > 1:
        rows, places = np.unique(rows, return_inverse=True)
        counts = np.bincount(places, counts).astype(np.float32)
    return rows.astype(np.intp), counts, frequency


def _with_guesses(
    corpus: Corpus, postings: Callable[[str], Packed], query: Query, common: frozenset[str]
) -> list[QueryTerm]:
    """Return the question's terms, with guesses in place of words that the group does not know.

    Args:
        common: see `common_terms`; they are spelt correctly.
    """
    heard: dict[str, QueryTerm] = {}
    for place, term in enumerate(query.terms):
        if (
            place < _MAX_GUESSED
            and common.isdisjoint(term.forms)
            and not any(len(postings(form)) for form in term.forms)
        ):
            term = guess(term, corpus.known)
        heard.setdefault(term.forms[0], term)
    return list(heard.values())


def _has(words: Collection[str], part: str) -> bool:
    """Return whether a question has a word of a name (`Miriam`, `Miriams`); Chinese has no space after it."""
    if is_cjk(part):
        return any(part in run for run in words)
    return part in words or f"{part}s" in words


def signals_of(corpus: Corpus, query: Query, now: datetime, named: Collection[int]) -> dict[Signal, Mask]:
    """Return the signals other than text that a question asks for, each with the rows that have it.

    A turn scores by its author when the question names one or says "my".

    Args:
        named: numbers of the authors that it names.
    """
    signals: dict[Signal, Mask] = {}
    role = corpus.labels.get("user", -1) if query.is_first_person else -1
    if named or role >= 0:
        signals["author"] = (view(corpus.kinds, np.int8) == TURN) & (
            np.isin(view(corpus.author_of, np.int32), [*named]) | (view(corpus.role_of, np.int32) == role)
        )
    at = view(corpus.at, np.float64)
    if dates := dates_said(query.text, now, corpus.sums().years):
        signals["date"] = np.logical_or.reduce([(at >= start) & (at < end) for start, end in dates])
    signals["statement"] = np.ones(corpus.size, np.bool_)
    signals["statement"][corpus.postings(QUESTION_MARK) >> np.uint32(TF_BITS)] = False
    return signals
