"""What a question brings back: every document of a group ranked in one list, and what each hit earned from what.

Sources: RB2, RB3, AM2, docs/decisions/017-recall.md.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import numpy as np
import numpy.typing as npt

from honeybadger_host.memory.labels import folded, is_below
from honeybadger_host.search.corpus import Corpus, Floats, view
from honeybadger_host.search.documents import KINDS, Kind
from honeybadger_host.search.language.analyzer import Query, analyse_query
from honeybadger_host.search.language.spelling import within
from honeybadger_host.search.scoring import Hit, Parameters, Scoring


@dataclass(frozen=True, slots=True)
class Filters:
    """What may be found at all; applied before ranking.

    Args:
        kinds: empty means all.
        category: see `labels.is_below`; empty means all.
        tags: a document has all of them, whatever their case.
        sessions: empty means all; others than turns have none.
        since, until: seconds of the epoch, both inclusive; a document without a time passes neither.
    Source: AM2.
    """

    kinds: Collection[Kind] = ()
    category: str = ""
    tags: Collection[str] = ()
    sessions: Collection[str] = ()
    since: float | None = None
    until: float | None = None


_MOST_PARTS: Final = 8
"""Words of a question that may be parts of longer ones: all words of the group are looked at for each."""
_ALL_OF_IT: Final = 0.8
"""From this share of a message on it asks for nothing else, however common its words are in the group."""


_RAREST: Final = 0.5
"""Rarity of the rarest word that a hit shares with a message, at least, see `Hit`."""
_COVERAGE: Final = 0.2
"""Share of the message's words, weighed by rarity, that it says, at least; or"""
_SHARED: Final = 1.3
"""rarities of all words it shares, added up: of a long message about two rare words are enough."""


def objection(hit: Hit) -> str | None:
    """Return why a hit has too little in common with a message to be shown unasked; None when it has enough.

    One of its words must be rare in the group, or they are nearly all of the message; and together they must be a fair
    part of it.
    """
    if not hit.terms:
        return "shares no word with the message"
    if hit.rarity < _RAREST and hit.coverage < _ALL_OF_IT:
        return f"shares only common words ({', '.join(hit.terms)})"
    if hit.coverage < _COVERAGE and hit.shared < _SHARED:
        return f"shares too little with the message ({', '.join(hit.terms)}: {hit.coverage:.0%} of it)"
    return None


def search(
    corpus: Corpus,
    question: str | Query,
    *,
    now: datetime,
    limit: int,
    asker: Collection[str] = (),
    filters: Filters | None = None,
    parameters: Parameters | None = None,
    vector: Floats | None = None,
    needs_word: bool = False,
) -> list[Hit]:
    """Return the best documents for a question, best first; equal scores newest first, then the higher number.

    The order is that of scoring every document. The rarity of a word is that in the whole group, whatever the
    filters; a document's length is compared with others of its kind. A question without any word known to the group
    brings what its dates say, and what stands out by its vector. Where there is nothing at all, a few words are taken
    as parts of longer ones (`choco`).

    Args:
        now: aware; what "last Friday" is counted from.
        asker: names under which the asking user writes; without them "my" means every turn of role `user`.
        vector: of the question; None ranks by words alone.
        needs_word: nothing is found, or ranked higher, by its vector or its date without sharing a whole word with the
            question.
    """
    if limit < 1 or not len(corpus):
        return []
    query = question if isinstance(question, Query) else analyse_query(question)
    spreads = None if vector is None or corpus.vectors is None else corpus.vectors.standing_out(vector)
    allowed = _allowed(corpus, filters or Filters())

    def found(query: Query) -> list[Hit]:
        scoring = Scoring(corpus, query, now, asker, parameters or Parameters(), spreads, needs_word=needs_word)
        return scoring.hits(scoring.best(limit, allowed))

    hits = found(query)
    if hits or needs_word or not 0 < len(query.terms) <= _MOST_PARTS:
        return hits
    return found(replace(query, terms=tuple(within(term, corpus.vocabulary) for term in query.terms)))


def _allowed(corpus: Corpus, filters: Filters) -> npt.NDArray[np.bool_] | None:
    """Return which rows may be found; None for all."""
    masks: list[npt.NDArray[np.bool_]] = []
    if filters.kinds and not set(filters.kinds).issuperset(KINDS):
        kinds = view(corpus.kinds, np.int8)
        masks.append(np.logical_or.reduce([kinds == KINDS.index(kind) for kind in filters.kinds]))
    if filters.category:
        names = corpus.categories.names
        wanted = [number for number, name in enumerate(names) if is_below(name, filters.category)]
        masks.append(np.isin(view(corpus.category_of, np.int32), wanted))
    if filters.sessions:
        known = [corpus.sessions.numbers[name] for name in filters.sessions if name in corpus.sessions.numbers]
        masks.append(np.isin(view(corpus.session_of, np.int32), known))
    for tag in map(folded, filters.tags):
        tagged = np.zeros(corpus.size, np.bool_)
        if tag in corpus.tagged:
            tagged[view(corpus.tagged[tag], np.int32)] = True
        masks.append(tagged)
    at = view(corpus.at, np.float64)
    if filters.since is not None:
        masks.append(at >= filters.since)
    if filters.until is not None:
        masks.append(at <= filters.until)
    return np.logical_and.reduce(masks) if masks else None


def newest(corpus: Corpus, *, limit: int, filters: Filters | None = None) -> list[int]:
    """Return the numbers of the newest documents, newest first; those without a time come last."""
    allowed = _allowed(corpus, filters or Filters())
    alive = view(corpus.is_alive, np.bool_)
    rows = np.flatnonzero(alive if allowed is None else alive & allowed)
    at = np.nan_to_num(view(corpus.at, np.float64)[rows], nan=-np.inf)
    numbers = view(corpus.numbers, np.int64)[rows]
    return [int(number) for number in numbers[np.lexsort((-numbers, -at))[:limit]]]
