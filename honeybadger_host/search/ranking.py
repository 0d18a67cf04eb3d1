"""Ranks the documents of a group for a question, in one list, with the parts of each score.

Sources: RB2, RB3, AM2, docs/decisions/017-recall.md.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np
import numpy.typing as npt

from honeybadger_host.search.asked_terms import look_up
from honeybadger_host.search.blocks import TF_BITS
from honeybadger_host.search.corpus import Corpus, Floats, view
from honeybadger_host.search.documents import KINDS, TWO_RARE_WORDS, Kind
from honeybadger_host.search.language.analyzer import analyse_query, tag_mark
from honeybadger_host.search.scoring import Hit, Scoring
from honeybadger_host.search.signals import Signals
from honeybadger_host.text.labels import is_below


@dataclass(frozen=True, slots=True)
class Filters:
    """A filter of documents, applied before ranking.

    Args:
        kinds: empty means all.
        category: see `labels.is_below`; empty means all.
        tags: a document must have all of them; case is ignored.
        since, until: seconds since the epoch, both inclusive; a document without a time passes neither.
        hidden: numbers of documents that are not found; with `only_hidden` they alone are.
        needs_word: vectors and dates find or raise only documents that share a whole word with the question.
    Source: AM2.
    """

    kinds: Collection[Kind] = ()
    category: str = ""
    tags: Collection[str] = ()
    since: float | None = None
    until: float | None = None
    hidden: Collection[int] = ()
    only_hidden: bool = False
    needs_word: bool = False


EVERY: Final = Filters()
# A hit with at least this coverage of the message is relevant even if its words are common in the group.
_NEARLY_ALL: Final = 0.8
_MIN_RARITY: Final = 0.5  # minimum `Hit.rarity`
_MIN_COVERAGE: Final = 0.2  # minimum `Hit.coverage`, unless the hit shares two rare words


def objection(hit: Hit) -> str | None:
    """Return why a hit has too little in common with a message to be shown unasked, or None if it has enough.

    One shared word must be rare in the group, or the shared words must be nearly the whole message; and together they
    must be a fair part of it.
    """
    if not hit.terms:
        return "shares no word with the message"
    if hit.rarity < _MIN_RARITY and hit.coverage < _NEARLY_ALL:
        return f"shares only common words ({', '.join(hit.terms)})"
    if hit.coverage < _MIN_COVERAGE and hit.shared < TWO_RARE_WORDS:
        return f"shares too little with the message ({', '.join(hit.terms)}: {hit.coverage:.0%} of it)"
    return None


class Ranking:
    """Ranks a corpus for one question, any number of times. The corpus must not change meanwhile.

    Args:
        now: aware; "last Friday" is counted from it.
        vector: of the question; None ranks by words alone.
    """

    def __init__(self, corpus: Corpus, question: str, now: datetime, vector: Floats | None = None) -> None:
        self._corpus = corpus
        query = analyse_query(question)
        self._asked = look_up(corpus, query)
        self._signals = Signals(corpus, query, now, self._asked.named)
        self._spreads = None if vector is None or corpus.vectors is None else corpus.vectors.standing_out(vector)

    def best(self, limit: int, filters: Filters = EVERY) -> list[Hit]:
        """Return the best documents, best first; equal scores newest first, then the higher number.

        The order is as if every document were scored. Filters do not change rarity, which is that in the whole group; a
        document's length is compared with others of its kind. A question without a word known to the group finds
        documents by its dates and by their vectors; "my" means every turn of role `user`.
        """
        if limit < 1 or not len(self._corpus):
            return []
        allowed = _allowed(self._corpus, filters)
        scoring = Scoring(
            self._corpus, self._asked, self._signals, self._spreads, allowed, needs_word=filters.needs_word
        )
        return scoring.hits(scoring.best(limit))


def search(
    corpus: Corpus,
    question: str,
    *,
    now: datetime,
    limit: int,
    filters: Filters = EVERY,
    vector: Floats | None = None,
) -> list[Hit]:
    """Return the best documents for a question, see `Ranking`."""
    return Ranking(corpus, question, now, vector).best(limit, filters)


def _allowed(corpus: Corpus, filters: Filters) -> npt.NDArray[np.bool_] | None:
    """Return which rows may be found; None for all."""
    masks: list[npt.NDArray[np.bool_]] = []
    if filters.kinds and not set(filters.kinds).issuperset(KINDS):
        kinds = view(corpus.kinds, np.int8)
        masks.append(np.logical_or.reduce([kinds == KINDS.index(kind) for kind in filters.kinds]))
    if filters.category:
        names = corpus.labels.names
        wanted = [number for number, name in enumerate(names) if is_below(name, filters.category)]
        masks.append(np.isin(view(corpus.category_of, np.int32), wanted))
    for tag in filters.tags:
        tagged = np.zeros(corpus.size, np.bool_)
        tagged[corpus.postings(tag_mark(tag)) >> np.uint32(TF_BITS)] = True
        masks.append(tagged)
    if filters.hidden or filters.only_hidden:
        stands = np.ones(corpus.size, np.bool_)
        stands[[row for row in map(corpus.row_of, filters.hidden) if row is not None]] = False
        masks.append(~stands if filters.only_hidden else stands)
    at = view(corpus.at, np.float64)
    if filters.since is not None:
        masks.append(at >= filters.since)
    if filters.until is not None:
        masks.append(at <= filters.until)
    return np.logical_and.reduce(masks) if masks else None


def newest(corpus: Corpus, *, limit: int, filters: Filters = EVERY) -> list[int]:
    """Return the numbers of the newest documents, newest first; those without a time come last."""
    allowed = _allowed(corpus, filters)
    alive = view(corpus.is_alive, np.bool_)
    rows = np.flatnonzero(alive if allowed is None else alive & allowed)
    at = np.nan_to_num(view(corpus.at, np.float64)[rows], nan=-np.inf)
    numbers = view(corpus.numbers, np.int64)[rows]
    return [int(number) for number in numbers[np.lexsort((-numbers, -at))[:limit]]]
