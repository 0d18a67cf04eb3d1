"""The terms of a question in a corpus: which rows have each, how often, how rare it is, and which authors it names."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Final, NamedTuple

import numpy as np

from honeybadger_host.search.blocks import TF_BITS, TF_MASK, Packed
from honeybadger_host.search.corpus import TURN, Corpus, Floats, Mask, Rows, view
from honeybadger_host.search.language.analyzer import (
    SAYING_TERMS,
    Query,
    QueryTerm,
    common_terms,
    document_terms,
    is_cjk,
    names_in,
)
from honeybadger_host.search.language.spelling import guesses
from honeybadger_host.text.turn import VIA

# Minimum rarity of a word that may be the group's subject, even if all documents have it; 1: only one has it.
MIN_SUBJECT_RARITY: Final = 0.5
# At most this many unknown words of a question are checked for typos, 0.3 ms each: a pasted page has thousands.
_MAX_GUESSED: Final = 64
# A smaller group says little about how rare a word is: rarity is computed as if it had this many documents.
_MIN_DOCUMENTS: Final = 40


class AskedTerm(NamedTuple):
    """A term of the question in the corpus: where, how often, how rare.

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
        missing: the weight of the terms that the corpus does not have.
        named: numbers of the authors that it names.
        many: how many documents rarity is computed for.
    """

    terms: Sequence[AskedTerm]
    missing: float
    named: Collection[int]
    many: int


def look_up(corpus: Corpus, query: Query) -> Asked:
    """Return the terms of a question that a corpus has.

    A speaker's name is not looked up in turns: it says whose turns are meant, and the turns that contain it are
    mostly the other side's. A question of names alone ("what did Ben say?") finds these speakers' turns and the
    turns that name them.
    """
    many = max(len(corpus), _MIN_DOCUMENTS)
    alive, kinds = view(corpus.is_alive, np.bool_), view(corpus.kinds, np.int8)
    authors = view(corpus.author_of, np.int32)
    named: list[int] = []
    names: set[str] = set()
    for number in corpus.sums().speakers:
        name = corpus.labels.names[number]
        if _is_named(name, query):
            named.append(number)
            names.update(_label_terms(name))
    asked, missing = [], 0.0
    postings = cache(corpus.postings)
    common = common_terms(query.language)
    heard = _without_saying(_with_guesses(corpus, postings, query, common), names)
    is_name = [not names.isdisjoint(term.forms) for term in heard]
    for term, names_somebody in zip(heard, is_name, strict=True):
        rows, counts, frequency = _found([postings(form) for form in term.forms], alive if corpus.has_dead else None)
        if names_somebody and all(is_name):
            rows = np.union1d(rows, np.flatnonzero(np.isin(authors, named) & alive & (kinds == TURN)))
            counts, frequency = np.ones(len(rows), np.float32), len(rows)
        elif names_somebody:
            keep = kinds[rows] != TURN
            rows, counts = rows[keep], counts[keep]
        if frequency:
            idf = term.weight * idf_of(len(corpus), frequency)
            asked.append(AskedTerm(term, rows, counts, idf, _rarity(term, common, many, frequency)))
        elif not term.is_optional:
            missing += _rarity(term, common, many, 0)
    return Asked(asked, missing, named, many)


def _without_saying(heard: list[QueryTerm], names: set[str]) -> list[QueryTerm]:
    """Return the names alone if all other terms are verbs for saying, else all terms.

    Args:
        names: terms of the names of the speakers that the question names.
    """
    called = [term for term in heard if not names.isdisjoint(term.forms)]
    others = [term for term in heard if names.isdisjoint(term.forms)]
    says_more = any(SAYING_TERMS.isdisjoint(term.forms) for term in others)
    return heard if says_more or not called else called


def idf_of(documents: int, frequency: int) -> float:
    return math.log(1 + (documents - frequency + 0.5) / (frequency + 0.5))


def _rarity(term: QueryTerm, common: frozenset[str], many: int, frequency: int) -> float:
    """Return how rare a term is, for the floor; for a term that may be a subject, at least half of the maximum.

    A common word that the group does not have says little about the question.

    Args:
        common: see `common_terms`.
        many: how many documents rarity is computed for.
        frequency: how many documents have the term.
    """
    most = idf_of(many, 1)
    if common.isdisjoint(term.forms):
        return term.weight * max(idf_of(many, frequency), MIN_SUBJECT_RARITY * most)
    return term.weight * (idf_of(many, frequency) if frequency else MIN_SUBJECT_RARITY / 2 * most)


def _found(postings: Sequence[Packed], alive: Mask | None) -> tuple[Rows, Floats, int]:
    """Return the live rows that have a term, how often, and how many documents have its most frequent form.

    Args:
        postings: of each form of the term.
        alive: by row; None when all are.
    """
    if alive is not None:
        postings = [packed[alive[packed >> np.uint32(TF_BITS)]] for packed in postings]
    rows, counts = _merged(postings)
    return rows, counts, max(map(len, postings))


def _with_guesses(
    corpus: Corpus, postings: Callable[[str], Packed], query: Query, common: frozenset[str]
) -> list[QueryTerm]:
    """Return the question's terms, with guesses in place of words that the group does not know.

    Args:
        common: see `common_terms`; they are spelt correctly.
    """
    heard: dict[str, QueryTerm] = {}
    left = _MAX_GUESSED
    for term in query.terms:
        may_be_typo = not term.is_optional and common.isdisjoint(term.forms)
        is_guessed = left > 0 and may_be_typo and not any(len(postings(form)) for form in term.forms)
        left -= is_guessed
        for each in (guesses(term, corpus.known) if is_guessed else ()) or [term]:
            if each.forms[0] not in heard or not each.is_optional:
                heard[each.forms[0]] = each
    return list(heard.values())


def _merged(postings: Sequence[Packed]) -> tuple[Rows, Floats]:
    """Return the rows in any of the postings, ascending, and how often."""
    if len(postings) == 1:
        packed = postings[0]
        return (packed >> np.uint32(TF_BITS)).astype(np.intp), (packed & np.uint32(TF_MASK)).astype(np.float32)
    packed = np.concatenate(postings)
    rows, places = np.unique(packed >> np.uint32(TF_BITS), return_inverse=True)
    return rows.astype(np.intp), np.bincount(places, packed & np.uint32(TF_MASK)).astype(np.float32)


def _label_terms(name: str) -> list[str]:
    return [term for word in names_in(name.rpartition(VIA)[0] or name) for term in document_terms(word)]


def _is_named(name: str, query: Query) -> bool:
    """Return whether the question has a word of a name; Chinese has no space after it."""
    for part in names_in(name.rpartition(VIA)[0] or name):
        if is_cjk(part):
            if len(part) > 1 and any(part in run for run in query.words):
                return True
        elif len(part) > 1 and (part in query.words or f"{part}s" in query.words):  # `Miriams`
            return True
    return False
