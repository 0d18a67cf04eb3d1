"""Ranks the documents of a group for a question, in one list, with the parts of each score.

A document scores by its own words (BM25). A turn also scores by its conversation: the text around it, its session, its
author and dates in the question. Signals other than text count as a share of the best text score, where the text
matches too: an author alone never outranks an answer, and a date alone outranks only documents that share common words
with the question.

Sources: RB2, RB3, AM2, docs/decisions/017-recall.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from honeybadger_host.search.asked import (
    MIN_SUBJECT_RARITY,
    WEIGHTS,
    Asked,
    AskedTerm,
    Signal,
    Signals,
    idf_of,
    look_up,
)
from honeybadger_host.search.blocks import TF_BITS
from honeybadger_host.search.corpus import NO_TURNS, TURN, Corpus, Floats, Mask, Rows, view
from honeybadger_host.search.documents import KINDS, TWO_RARE_WORDS, Kind
from honeybadger_host.search.language.analyzer import analyse_query, tag_mark
from honeybadger_host.text.labels import is_below

K1: Final = 0.9
B: Final = 0.4  # of BM25, for a document, the text around a turn and its session
_TEXT: Final[tuple[Signal, ...]] = ("terms", "around", "session")
# Points for each spread by which a document's vector stands out, as a share of a word that no other has. Vectors
# match every question a little and do not know names: with a larger weight they outweigh the words
# (docs/decisions/020-vectors.md).
_VECTOR_WEIGHT: Final = 0.5
MIN_SPREADS: Final = 3.0  # minimum for a document found by its vector alone


class Hit(NamedTuple):
    """A document that was found.

    Args:
        score: the sum of `parts`.
        parts: signal -> its BM25 points, without zeros.
        terms: word of the question -> its points within `parts["terms"]`.
        coverage: share of the question's words, weighted by rarity, that the document itself has; 0 to 1.
        rarity: of the rarest word shared with the question: 1 when no other document has it, near 0 when every second
            one has.
        shared: the sum of the rarities of all shared words.
    """

    number: int
    kind: Kind
    author: str
    score: float
    parts: Mapping[Signal, float]
    terms: Mapping[str, float]
    coverage: float
    rarity: float
    shared: float


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
_MIN_COVERAGE: Final = 0.2  # minimum `Hit.coverage`, unless the hit shares two rare words


def objection(hit: Hit) -> str | None:
    """Return why a hit has too little in common with a message to be shown unasked, or None if it has enough.

    One shared word must be rare in the group, or the shared words must be nearly the whole message; and together they
    must be a fair part of it.
    """
    if not hit.terms:
        return "shares no word with the message"
    if hit.rarity < MIN_SUBJECT_RARITY and hit.coverage < _NEARLY_ALL:
        return f"shares only common words ({', '.join(hit.terms)})"
    if hit.coverage < _MIN_COVERAGE and hit.shared < TWO_RARE_WORDS:
        return f"shares too little with the message ({', '.join(hit.terms)}: {hit.coverage:.0%} of it)"
    return None


class Scoring:
    """The scores of a corpus for one question.

    Args:
        vectors: by how many spreads each row's vector stands out, see `embeddings.standing_out`; None without vectors.
        allowed: rows that may be found; None for all. When no turn may be, nothing is computed for turns.
        needs_word: a document that shares no word with the question earns nothing by its vector or its date.
    """

    def __init__(
        self,
        corpus: Corpus,
        asked: Asked,
        signals: Signals,
        vectors: Floats | None,
        allowed: Mask | None,
        *,
        needs_word: bool,
    ) -> None:
        self._corpus = corpus
        self._allowed = allowed
        self._kinds = view(corpus.kinds, np.int8)
        self._finds_turns = allowed is None or bool((allowed & (self._kinds == TURN)).any())
        self._laid = corpus.laid() if self._finds_turns else NO_TURNS
        self._lengths = view(corpus.lengths, np.float32)
        self._sums = corpus.sums()
        self._asked = asked
        self._many = asked.many
        self._signals = signals
        self._own: Floats = np.zeros(corpus.size, np.float32)  # by row
        self._around: Floats = np.zeros(len(self._laid.layout.rows), np.float32)  # by place
        self._near: Floats = np.zeros(len(self._laid.layout.rows), np.float32)  # by place, zero between two uses
        self._session: Floats = np.zeros(len(self._sums.session_lengths), np.float32)  # by session
        self._score_text()
        self._spreads, self._needs_word = vectors, needs_word
        self._vector: Floats | None = None  # points by row
        self._scale = 0.0
        self._dated: Mask = np.zeros(corpus.size, np.bool_)  # by row
        self._date_rarity = 0.0

    def best(self, limit: int) -> list[int]:
        """Return the rows with the highest scores above zero, in the order of `ranking.search`."""
        text = self._text()
        if self._signals.asks_date and not self._needs_word:
            self._dated = self._signals.dates(np.arange(len(text))) > 0
            self._date_rarity = idf_of(self._many, int(np.count_nonzero(self._dated)))
        self._scale = float(text.max(initial=0.0))
        if self._spreads is not None:
            self._vector = self._vector_points(self._spreads, text)
            text = text + self._vector * self._mask()
        if not self._scale:
            scores = text + self._rest(np.arange(len(text)), text) * self._mask()
            rows: Rows = np.flatnonzero(scores > 0)
            return self._ordered(rows, scores[rows], limit)
        rows = np.flatnonzero((text > self._least(text, limit)) | (self._dated & self._mask()))
        return self._ordered(rows, text[rows] + self._rest(rows, text[rows]), limit)

    def hits(self, rows: Sequence[int]) -> list[Hit]:
        """Return rows as hits; after `best`."""
        corpus, most = self._corpus, idf_of(self._many, 1)
        chosen = np.array(rows, np.intp)
        parts: list[dict[Signal, float]] = [{} for _ in rows]
        for signal, scores in self._parts(chosen).items():
            for place in np.flatnonzero(scores).tolist():
                parts[place][signal] = float(scores[place])
        words: list[dict[str, float]] = [{} for _ in rows]
        covered, rarest = np.zeros(len(rows)), np.zeros(len(rows))
        for asked in self._asked.terms:
            counts = self._counts_at(asked, chosen)
            points = self._points(asked, chosen, counts) * np.float32(WEIGHTS["terms"])
            for place in np.flatnonzero(points).tolist():
                words[place][asked.term.word] = words[place].get(asked.term.word, 0.0) + float(points[place])
            has = points > 0
            covered += asked.rarity * has
            rarest = np.maximum(rarest, asked.rarity * has)
        labels = list(corpus.labels)
        asked_for = self._asked.missing + sum(asked.rarity for asked in self._asked.terms)
        coverage = covered / asked_for if asked_for > 0 else covered
        return [
            Hit(
                number=corpus.numbers[row],
                kind=KINDS[corpus.kinds[row]],
                author=labels[corpus.author_of[row]],
                score=sum(parts[place].values()),
                parts=parts[place],
                terms=words[place],
                coverage=float(coverage[place]),
                rarity=float(rarest[place]) / most,
                shared=float(covered[place]) / most,
            )
            for place, row in enumerate(rows)
        ]

    def _parts(self, rows: Rows) -> dict[Signal, npt.NDArray[np.float64]]:
        """Return the points of every signal for these rows."""
        text: dict[Signal, npt.NDArray[np.float64]] = {
            signal: WEIGHTS[signal] * scores for signal, scores in self._text_parts(rows).items()
        }
        near = np.zeros(len(rows)) if self._vector is None else self._vector[rows].astype(np.float64)
        return {**text, "vector": near, **self._rest_points(rows, sum(text.values(), near))}

    # -- text ---------------------------------------------------------------------------------------------------

    def _score_text(self) -> None:
        """Fill the three text scores.

        A document that is not a turn has its own text for all three, so that an entry and a turn that say the same
        score alike.
        """
        if not self._finds_turns:
            for asked in self._asked.terms:
                keep = self._kinds[asked.rows] != TURN
                rows = asked.rows[keep]
                self._own[rows] += self._points(asked, rows, asked.counts[keep])
            return
        session_lengths = self._sums.session_lengths
        living = int(np.count_nonzero(session_lengths))
        session_norm = _norm(session_lengths, float(session_lengths.sum()) / max(1, living))
        session_of = view(self._corpus.session_of, np.int32)
        for asked in self._asked.terms:
            self._own[asked.rows] += self._points(asked, asked.rows, asked.counts)
            places: Rows = self._laid.places[asked.rows].astype(np.intp)
            is_turn = places >= 0
            if not is_turn.any():
                continue
            turns, counts = asked.rows, asked.counts
            if not is_turn.all():
                turns, counts, places = turns[is_turn], counts[is_turn], places[is_turn]
            where, said = self._said_around(places, counts)
            norm = _norm(self._laid.layout.words[where], self._laid.average)
            norm += said
            said /= norm
            said *= np.float32(asked.idf * (K1 + 1))
            self._around[where] += said
            in_session = np.bincount(session_of[turns], counts, living and len(session_lengths)).astype(np.float32)
            idf = idf_of(living, int(np.count_nonzero(in_session)))
            self._session += in_session / (in_session + session_norm) * np.float32(idf * (K1 + 1))

    def _said_around(self, places: Rows, counts: Floats) -> tuple[Rows, Floats]:
        """Return places, some more than once, and how often a term occurs in and around the turn there.

        Other places have none.
        """
        first, behind = self._laid.layout.first[places], self._laid.layout.behind[places]
        widths = behind - first
        begins = np.cumsum(widths) - widths
        where: Rows = np.repeat(first - begins, widths) + np.arange(int(widths.sum()))
        np.add.at(self._near, where, np.repeat(counts, widths))
        said = self._near[where]
        self._near[where] = 0
        return where, said

    def _points(self, asked: AskedTerm, rows: Rows, counts: Floats) -> Floats:
        """Return the BM25 points of a term for documents that have it `counts` times."""
        average = self._sums.average_lengths[self._kinds[rows]]
        norm = np.float32(K1 * (1 - B)) + np.float32(K1 * B) * self._lengths[rows] / average
        points: Floats = np.asarray(counts / (counts + norm) * np.float32(asked.idf * (K1 + 1)), np.float32)
        return points

    def _mask(self) -> Mask:
        alive = view(self._corpus.is_alive, np.bool_)
        return alive if self._allowed is None else alive & self._allowed

    def _text(self) -> Floats:
        """Return the weighted text score of every row, 0 for rows that are not allowed."""
        text: Floats = self._own * np.float32(sum(WEIGHTS[signal] for signal in _TEXT))
        rows = self._laid.rows
        turns = self._own[rows] * np.float32(WEIGHTS["terms"])
        turns += self._around[self._laid.places[rows]] * np.float32(WEIGHTS["around"])
        turns += self._session[view(self._corpus.session_of, np.int32)[rows]] * np.float32(WEIGHTS["session"])
        text[rows] = turns
        if self._allowed is not None or self._corpus.has_dead:
            text *= self._mask()
        return text

    def _text_parts(self, rows: Rows) -> dict[Signal, npt.NDArray[np.float64]]:
        own = self._own[rows].astype(np.float64)
        is_turn = self._kinds[rows] == TURN
        around, session = own.copy(), own.copy()
        around[is_turn] = self._around[self._laid.places[rows[is_turn]]]
        session[is_turn] = self._session[view(self._corpus.session_of, np.int32)[rows[is_turn]]]
        return {"terms": own, "around": around, "session": session}

    def _vector_points(self, spreads: Floats, text: Floats) -> Floats:
        """Return the points of every row for its vector. A row without words of the question must stand out.

        They count as text, so the signals of author and date apply to the same meaning as to the same words.
        """
        counts = self._own > 0 if self._needs_word else (text > 0) | (spreads >= MIN_SPREADS)
        points: Floats = spreads * np.float32(_VECTOR_WEIGHT * idf_of(self._many, 1)) * counts
        return points

    # -- the rest -----------------------------------------------------------------------------------------------

    def _least(self, text: Floats, limit: int) -> float:
        """Return a lower bound for the text scores of the best: other signals cannot lift less text among them."""
        text = text[text > 0]
        if len(text) <= limit:
            return 0.0
        more = sum(WEIGHTS[signal] for signal in self._signals.active)
        return max(0.0, 0.999 * (_reached(text, limit) - self._scale * more))  # 0.999: rounding

    def _share(self, text: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        """Return the worth of a signal other than text: the best text score where the text matches at all."""
        if not self._scale:
            return np.ones(len(text))
        return np.where(text > 0, self._scale, 0.0)

    def _rest(self, rows: Rows, text: Floats) -> npt.NDArray[np.float64]:
        return sum(self._rest_points(rows, text).values(), np.zeros(len(rows)))

    def _rest_points(self, rows: Rows, text: npt.NDArray[np.floating]) -> dict[Signal, npt.NDArray[np.float64]]:
        """Return the points of every signal other than text; a date alone earns as much as a word of its rarity."""
        share = self._share(text)
        shares = {"date": np.maximum(share, self._date_rarity)}
        parts = self._signals.parts(rows, has_words=bool(self._scale)).items()
        return {signal: WEIGHTS[signal] * scores * shares.get(signal, share) for signal, scores in parts}

    # -- the best, and why --------------------------------------------------------------------------------------

    def _ordered(self, rows: Rows, scores: npt.NDArray[np.floating], limit: int) -> list[int]:
        if len(rows) > limit:
            least = _reached(scores, limit)
            rows, scores = rows[scores >= least], scores[scores >= least]
        at = np.nan_to_num(view(self._corpus.at, np.float64)[rows], nan=-np.inf)
        order = np.lexsort((-view(self._corpus.numbers, np.int64)[rows], -at, -scores))
        return [int(row) for row in rows[order[:limit]]]

    def _counts_at(self, asked: AskedTerm, rows: Rows) -> Floats:
        """Return how often a term occurs in each of the rows."""
        if not len(asked.rows):
            return np.zeros(len(rows), np.float32)
        near = np.minimum(np.searchsorted(asked.rows, rows), len(asked.rows) - 1)
        return np.where(asked.rows[near] == rows, asked.counts[near], np.float32(0))


def _reached(scores: npt.NDArray[np.floating], limit: int) -> float:
    """Return the score that `limit` of more scores reach."""
    # `limit` stretches have a score of at least `bound`; np.partition takes 3 ms for 10,000 equal scores, this 0.1
    bound = scores[: len(scores) // limit * limit].reshape(limit, -1).max(axis=1).min()
    return float(np.sort(scores[scores >= bound])[-limit])


def _norm(lengths: Floats, average: float) -> Floats:
    norm: Floats = np.float32(K1 * B / max(1.0, average)) * lengths
    norm += np.float32(K1 * (1 - B))
    return norm


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
        wanted = [number for name, number in corpus.labels.items() if is_below(name, filters.category)]
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
