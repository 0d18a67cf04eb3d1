"""What a question brings back: every document of a group ranked in one list, and what each hit earned from what.

A document earns by its own words (BM25). A turn also earns by what a conversation gives: the text around it, its
session, its author, the dates a question says, and whether it says a time or a number when that is asked. What is not
text counts as a share of the best text score and only in full where the text speaks for it too: a date alone never
outranks an answer.

Sources: RB2, RB3, AM2, docs/decisions/014-recall.md.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from honeybadger_host.memory.analyzer import (
    QUESTION_MARK,
    Query,
    QueryTerm,
    analyse_query,
    document_terms,
    is_number,
    names_in,
)
from honeybadger_host.memory.corpus import KINDS, TF_BITS, TF_MASK, TURN, Corpus, Kind
from honeybadger_host.memory.dates import dates_said
from honeybadger_host.memory.words import CJK_TIME, TIME_WORDS

Signal: TypeAlias = Literal["terms", "around", "near", "session", "author", "date", "time", "number", "statement"]
TEXT: Final[tuple[Signal, ...]] = ("terms", "around", "near", "session")
SIGNALS: Final[tuple[Signal, ...]] = (*TEXT, "author", "date", "time", "number", "statement")
WEIGHTS: Final[Mapping[Signal, float]] = {
    "terms": 1.0,
    "around": 1.1,
    "near": 0.2,
    "session": 1.0,
    "author": 0.34,
    "date": 0.65,
    "time": 0.34,
    "number": 0.18,
    "statement": 0.12,
}
"""What each signal counts for: the first four in BM25 points, the rest as a share of the best text score.

Learnt on LoCoMo, tested over conversations that were left out (docs/decisions/014-recall.md).
"""

_Floats: TypeAlias = npt.NDArray[np.float64]
_Rows: TypeAlias = npt.NDArray[np.intp]
_Mask: TypeAlias = npt.NDArray[np.bool_]
_Scalar = TypeVar("_Scalar", bound=np.generic)
_DAY: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Parameters:
    """How a corpus is ranked; the same for every kind of conversation.

    Args:
        k1, b: BM25 of a document's own text.
        around_k1, around_b: BM25 of a turn with the text around it.
        weights: see `WEIGHTS`.
        gate: a signal that is not text counts in full from this share of the best text score on.
        grace_days: a turn this long after a date may still tell of it.
    """

    k1: float = 0.9
    b: float = 0.4
    around_k1: float = 1.2
    around_b: float = 0.75
    weights: Mapping[Signal, float] = field(default_factory=lambda: WEIGHTS)
    gate: float = 0.3
    grace_days: float = 7.0


@dataclass(frozen=True, slots=True)
class Filters:
    """What may be found at all; applied before ranking.

    Args:
        kinds: empty means all.
        category: itself and what is below it: `a` lets `a` and `a/b` through, not `ab`. Empty means all.
        tags: a document has all of them.
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


@dataclass(frozen=True, slots=True)
class Hit:
    """A document that was found.

    Args:
        score: the sum of `parts`.
        parts: signal -> what it earned, in BM25 points; only what is not zero.
        terms: word of the question -> what it earned within `parts["terms"]`.
        coverage: share of what the question asks for, by rarity, that the document itself says; 0 to 1.
        rarity: of the rarest word it shares with the question; 1 for a word nobody else has, near 0 for one in
            every second document.
    """

    number: int
    key: str
    kind: Kind
    score: float
    parts: Mapping[Signal, float]
    terms: Mapping[str, float]
    coverage: float
    rarity: float


@dataclass(frozen=True, slots=True)
class Floor:
    """What a hit must have in common with a question to be shown unasked.

    Args:
        coverage: share of the question's words, weighed by rarity.
        rarity: of the rarest shared word.
    """

    coverage: float = 0.2
    rarity: float = 0.35

    def objection(self, hit: Hit) -> str | None:
        """Return why a hit stays out, or None."""
        if not hit.terms:
            return "shares no word with the message"
        if hit.rarity < self.rarity:
            return f"shares only common words ({', '.join(hit.terms)})"
        if hit.coverage < self.coverage:
            return f"covers {hit.coverage:.0%} of the message, less than {self.coverage:.0%}"
        return None


@dataclass(frozen=True, slots=True)
class _Asked:
    """A term of the question that the corpus has: where, how often, how rare."""

    term: QueryTerm
    rows: _Rows
    counts: _Floats
    idf: float


def search(
    corpus: Corpus,
    question: str | Query,
    *,
    now: datetime,
    limit: int,
    asker: Collection[str] = (),
    filters: Filters | None = None,
    parameters: Parameters | None = None,
) -> list[Hit]:
    """Return the best documents for a question, best first; equal scores newest first, then the higher number.

    The order is exact: it is the order of scoring every document. The rarity of a word is that in the whole group,
    whatever the filters; a document's length is compared with others of its kind. A question without any word known
    to the group brings what its dates say, else nothing.

    Args:
        now: aware; what "last Friday" is counted from.
        asker: names under which the asking user writes; without them "my" means every turn of role `user`.
    """
    if limit < 1 or not len(corpus):
        return []
    query = question if isinstance(question, Query) else analyse_query(question)
    parameters = parameters or Parameters()
    scoring = Scoring(corpus, query, now, asker, parameters)
    total = scoring.total(_allowed(corpus, filters or Filters()))
    return [scoring.hit(row) for row in _best(corpus, total, limit)]


def _best(corpus: Corpus, total: _Floats, limit: int) -> list[int]:
    """Return the rows of the highest positive scores, in the order of `search`."""
    found = np.flatnonzero(total > 0)
    if len(found) > limit:
        least = np.partition(total[found], len(found) - limit)[len(found) - limit]
        found = found[total[found] >= least]
    at = np.nan_to_num(_view(corpus.at, np.float64)[found], nan=-np.inf)
    order = np.lexsort((-_view(corpus.numbers, np.int64)[found], -at, -total[found]))
    return [int(row) for row in found[order[:limit]]]


class Scoring:
    """The scores of every document of a corpus for one question, signal by signal."""

    def __init__(
        self, corpus: Corpus, query: Query, now: datetime | None, asker: Collection[str], parameters: Parameters
    ) -> None:
        self._corpus, self._query, self._parameters = corpus, query, parameters
        self._asker = asker
        self._alive = _view(corpus.is_alive, np.bool_)
        self._kinds = _view(corpus.kinds, np.int8)
        self._norm = _norm(
            _view(corpus.lengths, np.float32), corpus.average_lengths[self._kinds], parameters.k1, parameters.b
        )
        self._around_norm = _norm(
            _view(corpus.around_lengths, np.float32),
            corpus.average_around[self._kinds],
            parameters.around_k1,
            parameters.around_b,
        )
        self._named = [
            number
            for number, name in enumerate(corpus.authors.names)
            if corpus.turns_by_author[number] and _is_named(name, query.words)
        ]
        self._asked, self._missing = self._look_up()
        self._dates = dates_said(query.text, now)
        self.signals: dict[Signal, _Floats] = {}
        self._scale = 0.0
        self._gate: _Floats = np.zeros(0)

    def _look_up(self) -> tuple[list[_Asked], float]:
        """Return the question's terms that the corpus has, and the weight of those it has not.

        The name of somebody who speaks is not looked up in turns: it says whose turns are meant, and the turns that
        say it are mostly those of the other side.
        """
        corpus = self._corpus
        names = {
            form
            for number in self._named
            for word in names_in(corpus.authors.names[number])
            for form in document_terms(word)
        }
        asked, missing = [], 0.0
        for term in self._query.terms:
            known = [number for form in term.forms if (number := corpus.vocabulary.get(form)) is not None]
            frequency = max((corpus.frequency[number] for number in known), default=0)
            idf = term.weight * _idf(len(corpus), frequency)
            if not frequency:
                missing += 0.0 if term.is_optional else idf
                continue
            rows, counts = _postings(corpus, known)
            alive = self._alive[rows]
            if names.intersection(term.forms):
                alive = alive & (self._kinds[rows] != TURN)
            asked.append(_Asked(term, rows[alive], counts[alive], idf))
        return asked, missing

    def total(self, allowed: _Mask | None = None) -> _Floats:
        """Return the score of every row, 0 for what is not allowed or has nothing in common with the question."""
        size = self._corpus.size
        alive = self._alive if allowed is None else self._alive & allowed
        weights = self._parameters.weights
        self._score_text()
        text = np.zeros(size)
        for signal in TEXT:
            text += weights[signal] * self.signals[signal]
        text[~alive] = 0.0
        self._scale = float(text.max(initial=0.0))
        if not self._scale:
            self.signals["date"] = self._date_scores()
            self._scale, self._gate = 1.0, np.ones(size)
            return np.where(alive, weights["date"] * self.signals["date"], 0.0)
        self._gate = np.minimum(1.0, text / (self._parameters.gate * self._scale))
        bonus = np.zeros(size)
        self._score_rest()
        for signal in SIGNALS:
            if signal not in TEXT and signal in self.signals:
                bonus += weights[signal] * self.signals[signal]
        return text + self._scale * bonus * self._gate

    def hit(self, row: int) -> Hit:
        """Return a row as a hit; after `total`."""
        corpus, weights = self._corpus, self._parameters.weights
        parts: dict[Signal, float] = {}
        for signal, scores in self.signals.items():
            earned = weights[signal] * float(scores[row])
            if signal not in TEXT:
                earned *= self._scale * float(self._gate[row])
            if earned:
                parts[signal] = earned
        terms: dict[str, float] = {}
        covered, asked, rarest = 0.0, self._missing, 0.0
        for term in self._asked:
            place = int(np.searchsorted(term.rows, row))
            has = place < len(term.rows) and term.rows[place] == row
            asked += term.idf if has or not term.term.is_optional else 0.0
            if has:
                covered += term.idf
                rarest = max(rarest, term.idf / term.term.weight)
                earned = weights["terms"] * float(
                    self._points(term, term.rows[place : place + 1], term.counts[place : place + 1])[0]
                )
                terms[term.term.word] = terms.get(term.term.word, 0.0) + earned
        return Hit(
            number=corpus.numbers[row],
            key=corpus.keys[row],
            kind=KINDS[corpus.kinds[row]],
            score=sum(parts.values()),
            parts=parts,
            terms=terms,
            coverage=covered / asked if asked else 0.0,
            rarity=rarest / _idf(len(corpus), 1) if rarest else 0.0,
        )

    def _points(self, asked: _Asked, rows: _Rows, counts: _Floats) -> _Floats:
        k1 = self._parameters.k1
        return asked.idf * (k1 + 1) * counts / (counts + self._norm[rows])

    def _score_text(self) -> None:
        corpus, parameters = self._corpus, self._parameters
        size, width = corpus.size, corpus.around_turns
        before = _view(corpus.before, np.int32).reshape(-1, width)
        after = _view(corpus.after, np.int32).reshape(-1, width)
        session_of = _view(corpus.session_of, np.int32)
        session_lengths = _view(corpus.session_lengths, np.float32)
        session_norm = _norm(session_lengths, np.float32(max(1.0, _mean(session_lengths))), 1.2, 0.75)
        living = int(np.count_nonzero(session_lengths))
        own, around = np.zeros(size), np.zeros(size)
        of_session = np.zeros(len(session_lengths) + 1)  # the last one is what has no session
        for asked in self._asked:
            rows, counts = asked.rows, asked.counts
            own[rows] += self._points(asked, rows, counts)
            near = np.concatenate((before[rows], after[rows]), axis=1)
            places: _Rows = np.concatenate((rows, near.ravel().astype(np.intp)))
            said = np.bincount(
                np.where(places >= 0, places, size), np.concatenate((counts, np.repeat(counts, 2 * width))), size + 1
            )[:size]
            touched = np.flatnonzero(said)
            count = said[touched]
            around[touched] += asked.idf * (parameters.around_k1 + 1) * count / (count + self._around_norm[touched])
            of_row = session_of[rows]
            in_session = np.bincount(np.where(of_row >= 0, of_row, len(session_lengths)), counts, len(of_session))[:-1]
            have = int(np.count_nonzero(in_session))
            if have:
                idf = asked.term.weight * _idf(living, have)
                of_session[:-1] += idf * 2.2 * in_session / (in_session + session_norm)
        neighbours = np.append(own, 0.0)
        self.signals["terms"] = own
        self.signals["around"] = around
        self.signals["near"] = neighbours[before[:, 0]] + neighbours[after[:, 0]]
        self.signals["session"] = np.where(session_of >= 0, of_session[session_of], around)

    def _score_rest(self) -> None:
        corpus, query = self._corpus, self._query
        size = corpus.size
        author_of = _view(corpus.author_of, np.int32)
        role_of = _view(corpus.role_of, np.int32)
        is_turn = self._kinds == TURN
        meant = np.isin(author_of, self._named)
        if query.is_first_person:
            known = [corpus.authors.numbers[name] for name in self._asker if name in corpus.authors.numbers]
            meant |= np.isin(author_of, known) if known else role_of == corpus.roles.numbers.get("user", -1)
        if query.is_second_person:
            meant |= role_of == corpus.roles.numbers.get("assistant", -1)
        self.signals["author"] = (meant & is_turn).astype(np.float64)
        if self._dates:
            self.signals["date"] = self._date_scores()
        if query.asks_time:
            self.signals["time"] = self._saying(
                number for term in _TIME if (number := corpus.vocabulary.get(term)) is not None
            )
        if query.asks_number:
            self.signals["number"] = self._saying(
                number for term, number in corpus.vocabulary.items() if is_number(term)
            )
        mark = corpus.vocabulary.get(QUESTION_MARK)
        self.signals["statement"] = np.ones(size) - self._saying(() if mark is None else (mark,))

    def _saying(self, terms: Iterable[int]) -> _Floats:
        """Return 1 for every row that has one of the terms."""
        said = np.zeros(self._corpus.size)
        for term in terms:
            said[_view(self._corpus.postings[term], np.uint32) >> np.uint32(TF_BITS)] = 1.0
        return said

    def _date_scores(self) -> _Floats:
        """Return 1 for what was said on a date of the question, less for what was said in the days after."""
        at = _view(self._corpus.at, np.float64)
        scores = np.zeros(self._corpus.size)
        known = at[np.isfinite(at)]
        if not self._dates or not len(known):
            return scores
        first, last = (datetime.fromtimestamp(float(moment), UTC).year for moment in (known.min(), known.max()))
        for said in self._dates:
            for span in said.spans(first, last):
                days_late = (at - span.end) / _DAY
                grace = 1 - (days_late + 1) / (self._parameters.grace_days + 1)
                inside = (at >= span.start) & (days_late < 0)
                np.maximum(scores, np.where(inside, 1.0, np.where(days_late >= 0, grace, 0.0)), out=scores)
        return np.nan_to_num(scores)


def _allowed(corpus: Corpus, filters: Filters) -> _Mask | None:
    """Return which rows may be found; None for all."""
    masks: list[_Mask] = []
    if filters.kinds:
        masks.append(np.isin(_view(corpus.kinds, np.int8), [KINDS.index(kind) for kind in filters.kinds]))
    if filters.category:
        below = filters.category + "/"
        names = corpus.categories.names
        wanted = [number for number, name in enumerate(names) if name == filters.category or name.startswith(below)]
        masks.append(np.isin(_view(corpus.category_of, np.int32), wanted))
    if filters.sessions:
        known = [corpus.sessions.numbers[name] for name in filters.sessions if name in corpus.sessions.numbers]
        masks.append(np.isin(_view(corpus.session_of, np.int32), known))
    for tag in filters.tags:
        tagged = np.zeros(corpus.size, np.bool_)
        if tag in corpus.tagged:
            tagged[_view(corpus.tagged[tag], np.int32)] = True
        masks.append(tagged)
    at = _view(corpus.at, np.float64)
    if filters.since is not None:
        masks.append(at >= filters.since)
    if filters.until is not None:
        masks.append(at <= filters.until)
    return np.logical_and.reduce(masks) if masks else None


def _postings(corpus: Corpus, terms: Sequence[int]) -> tuple[_Rows, _Floats]:
    """Return the rows that have one of the terms, rising, and how often."""
    packed = _view(corpus.postings[terms[0]], np.uint32)
    if len(terms) > 1:
        packed = np.concatenate([_view(corpus.postings[term], np.uint32) for term in terms])
        rows, places = np.unique(packed >> TF_BITS, return_inverse=True)
        return rows.astype(np.intp), np.bincount(places, packed & TF_MASK).astype(np.float64)
    return (packed >> TF_BITS).astype(np.intp), (packed & TF_MASK).astype(np.float64)


def _norm(
    lengths: npt.NDArray[np.float32], average: npt.NDArray[np.float32] | np.float32, k1: float, b: float
) -> _Floats:
    return np.asarray(k1 * (1 - b + b * lengths / average), np.float64)


def _idf(documents: int, frequency: int) -> float:
    return math.log(1 + (documents - frequency + 0.5) / (frequency + 0.5))


def _mean(values: npt.NDArray[np.float32]) -> float:
    return float(values.sum() / max(1, np.count_nonzero(values)))


def _view(column: array[Any], dtype: type[_Scalar]) -> npt.NDArray[_Scalar]:
    return np.frombuffer(column, dtype=dtype) if len(column) else np.zeros(0, dtype)


def _is_named(name: str, words: Collection[str]) -> bool:
    return any(len(part) > 1 and part in words for part in names_in(name))


_TIME: Final = tuple(sorted({term for word in TIME_WORDS for term in document_terms(word)} | set(CJK_TIME)))
