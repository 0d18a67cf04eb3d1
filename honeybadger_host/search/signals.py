"""The signals of the ranking other than text: author, date and kind of statement.

A turn scores by its author when the question names one or says "my". Sources: docs/decisions/017-recall.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from honeybadger_host.search.blocks import TF_BITS
from honeybadger_host.search.corpus import TURN, Corpus, Mask, Rows, view
from honeybadger_host.search.language.analyzer import QUESTION_MARK, Query
from honeybadger_host.search.language.dates import dates_said

Signal: TypeAlias = Literal["terms", "around", "session", "author", "date", "statement", "vector"]
# The weight of each signal: the first three in BM25 points, the rest as a share of the best text score. Fitted on
# LoCoMo, tested on held-out conversations (docs/decisions/017-recall.md).
WEIGHTS: Final[Mapping[Signal, float]] = {
    "terms": 1.0,
    "around": 1.2,
    "session": 1.2,
    "author": 0.36,
    "date": 0.7,
    "statement": 0.13,
}
Shares: TypeAlias = npt.NDArray[np.float64]


class Signals:
    """The signals other than text that a question asks for.

    Args:
        named: numbers of the authors that it names.
    """

    def __init__(self, corpus: Corpus, query: Query, now: datetime, named: Collection[int]) -> None:
        self._corpus = corpus
        self._authors = named
        self._role = corpus.labels.numbers.get("user") if query.is_first_person else None
        self._dates = dates_said(query.text, now)
        self.asks_date = bool(self._dates)
        self.active: list[Signal] = ["statement"]
        if self._authors or self._role is not None:
            self.active.append("author")
        if self.asks_date:
            self.active.append("date")
        self._asks: Mask = np.zeros(corpus.size, np.bool_)
        self._asks[corpus.postings(QUESTION_MARK) >> np.uint32(TF_BITS)] = True

    def parts(self, rows: Rows, *, has_words: bool) -> dict[Signal, Shares]:
        """Return the value of every signal for each row, 0 to 1.

        Args:
            has_words: else author and date are all there is, and the other signals only rank what has one of these.
        """
        corpus = self._corpus
        parts: dict[Signal, Shares] = {}
        if "author" in self.active:
            meant = np.isin(view(corpus.author_of, np.int32)[rows], [*self._authors])
            if self._role is not None:
                meant |= view(corpus.role_of, np.int32)[rows] == self._role
            parts["author"] = (meant & (view(corpus.kinds, np.int8)[rows] == TURN)).astype(np.float64)
        if self.asks_date:
            parts["date"] = self.dates(rows)
        counts: Mask = np.ones(len(rows), np.bool_)
        if not has_words:
            counts = np.logical_or.reduce([np.zeros(len(rows), np.bool_), *(scores > 0 for scores in parts.values())])
        parts["statement"] = (~self._asks[rows] & counts).astype(np.float64)
        return parts

    def dates(self, rows: Rows) -> Shares:
        """Return 1 for documents from a date of the question, 0 for others."""
        at = view(self._corpus.at, np.float64)[rows]
        scores = np.zeros(len(rows))
        known = at[np.isfinite(at)]
        if not self._dates or not len(known):
            return scores
        first, last = (datetime.fromtimestamp(float(moment), UTC).year for moment in (known.min(), known.max()))
        for said in self._dates:
            for span in said.spans(first, last):
                scores[(at >= span.start) & (at < span.end)] = 1.0
        return scores
