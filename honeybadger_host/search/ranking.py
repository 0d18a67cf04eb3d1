"""Ranks the documents of a group for a question, in one list, with the parts of each score.

A document scores by its own words (BM25). A turn also scores by its conversation: the text around it, its session, its
author and dates in the question. Signals other than text count as a share of the best text score, where the text
matches too: an author alone never outranks an answer, and a date alone outranks only documents that share common words
with the question.

Sources: RB2, RB3, AM2, docs/decisions/017-recall.md.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from honeybadger_host.search.asked import (
    MIN_SUBJECT_RARITY,
    WEIGHTS,
    AskedTerm,
    Shares,
    Signal,
    idf_of,
    look_up,
    signals_of,
)
from honeybadger_host.search.blocks import TF_BITS
from honeybadger_host.search.corpus import TURN, Corpus, Floats, Mask, Rows, rows_around, view
from honeybadger_host.search.documents import KINDS, TWO_RARE_WORDS, Kind
from honeybadger_host.search.language.analyzer import analyse_query, tag_mark
from honeybadger_host.text.labels import is_below

K1 = 0.9
B = 0.4  # of BM25, for a document, the text around a turn and its session
_TEXT: tuple[Signal, ...] = ("terms", "around", "session")
# Points for each spread by which a document's vector stands out, as a share of a word that no other has. Vectors
# match every question a little and do not know names: with a larger weight they outweigh the words
# (docs/decisions/020-vectors.md).
_VECTOR_WEIGHT = 0.5
MIN_SPREADS = 3.0  # minimum for a document found by its vector alone


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


EVERY = Filters()
# A hit with at least this coverage of the message is relevant even if its words are common in the group.
_NEARLY_ALL = 0.8
_MIN_COVERAGE = 0.2  # minimum `Hit.coverage`, unless the hit shares two rare words


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


class Ranking:
    """Ranks a corpus for one question, any number of times. The corpus must not change meanwhile.

    Args:
        now: aware; "last Friday" is counted from it.
        vector: of the question; None ranks by words alone.
    """

    def __init__(self, corpus: Corpus, question: str, now: datetime, vector: Floats | None = None) -> None:
        query = analyse_query(question)
        self._corpus = corpus
        self._asked = look_up(corpus, query)
        self._signals = signals_of(corpus, query, now, self._asked.named)
        # by how many spreads each row's vector stands out
        self._spreads = None if vector is None or corpus.vectors is None else corpus.vectors.standing_out(vector)
        self._kinds, self._lengths = view(corpus.kinds, np.int8), view(corpus.lengths, np.float32)
        self._averages = corpus.sums().average_lengths
        self._own: Floats = np.zeros(corpus.size, np.float32)  # by row
        for asked in self._asked.terms:
            self._own[asked.rows] += self._points(asked, asked.rows, asked.counts)

    def best(self, limit: int, filters: Filters = EVERY) -> list[Hit]:
        """Return the best documents, best first; equal scores newest first, then the higher number.

        The order is as if every document were scored. Filters do not change rarity, which is that in the whole group; a
        document's length is compared with others of its kind. A question without a word known to the group finds
        documents by its dates and by their vectors; "my" means every turn of role `user`.
        """
        if limit < 1 or not len(self._corpus):
            return []
        mask = _mask(self._corpus, filters)
        finds_turns = (mask & (self._kinds == TURN)).any()
        scores = self._scores_with_talk if finds_turns else dict.fromkeys(_TEXT, self._own)
        text: Floats = np.sum([scores[signal] * np.float32(WEIGHTS[signal]) for signal in _TEXT], axis=0)
        text *= mask
        scale = float(text.max(initial=0.0))
        vector: Floats = np.zeros(len(text), np.float32)
        if self._spreads is not None:
            vector = self._vector_points(self._spreads, text, needs_word=filters.needs_word) * mask
            text += vector
        rarity = 0.0
        dated: Mask = np.zeros(len(text), np.bool_)
        if "date" in self._signals and not filters.needs_word:
            dated = self._signals["date"]
            rarity = idf_of(self._asked.many, int(np.count_nonzero(dated)))
        found = text > self._least(text, limit, scale)
        if not scale and "author" in self._signals:
            found |= self._signals["author"]
        rows: Rows = np.flatnonzero((found | dated) & mask)
        rest = sum(self._rest(rows, text[rows], scale, rarity).values(), np.zeros(len(rows)))
        chosen = self._ordered(rows, text[rows] + rest, limit)
        parts = {signal: WEIGHTS[signal] * points[chosen].astype(np.float64) for signal, points in scores.items()}
        parts["vector"] = vector[chosen].astype(np.float64)
        return self._hits(chosen, parts | self._rest(chosen, text[chosen], scale, rarity))

    def _hits(self, rows: Rows, points: Mapping[Signal, Shares]) -> list[Hit]:
        """Return rows as hits.

        Args:
            points: signal -> its points for each of the rows.
        """
        corpus, most = self._corpus, idf_of(self._asked.many, 1)
        words: list[dict[str, float]] = [{} for _ in rows]
        covered, rarest = np.zeros(len(rows)), np.zeros(len(rows))
        for asked in self._asked.terms:
            of_term = self._points(asked, rows, _counts_at(asked, rows)) * np.float32(WEIGHTS["terms"])
            for place in np.flatnonzero(of_term).tolist():
                words[place][asked.term.word] = words[place].get(asked.term.word, 0.0) + float(of_term[place])
            has = of_term > 0
            covered += asked.rarity * has
            rarest = np.maximum(rarest, asked.rarity * has)
        labels = list(corpus.labels)
        asked_for = sum(asked.rarity for asked in self._asked.terms)
        coverage = covered / asked_for if asked_for > 0 else covered
        hits: list[Hit] = []
        for place, row in enumerate(rows.tolist()):
            parts = {signal: float(scores[place]) for signal, scores in points.items() if scores[place]}
            hits.append(
                Hit(
                    number=corpus.numbers[row],
                    kind=KINDS[corpus.kinds[row]],
                    author=labels[corpus.author_of[row]],
                    score=sum(parts.values()),
                    parts=parts,
                    terms=words[place],
                    coverage=float(coverage[place]),
                    rarity=float(rarest[place]) / most,
                    shared=float(covered[place]) / most,
                )
            )
        return hits

    # -- text ---------------------------------------------------------------------------------------------------

    def _points(self, asked: AskedTerm, rows: Rows, counts: Floats) -> Floats:
        """Return the BM25 points of a term for documents that have it `counts` times."""
        average = self._averages[self._kinds[rows]]
        norm = np.float32(K1 * (1 - B)) + np.float32(K1 * B) * self._lengths[rows] / average
        return np.asarray(counts / (counts + norm) * np.float32(asked.idf * (K1 + 1)), np.float32)

    @cached_property
    def _scores_with_talk(self) -> Mapping[Signal, Floats]:
        """The text scores of every row: its own, that of the text around it, and that of its session.

        A document that is not a turn has its own for all three, so that an entry and a turn that say the same score
        alike.
        """
        talk, session_lengths = self._corpus.around(), self._corpus.sums().session_lengths
        around: Floats = np.zeros(len(talk.words), np.float32)  # by row
        session: Floats = np.zeros(len(session_lengths), np.float32)  # by session
        near = np.zeros_like(around)
        living = int(np.count_nonzero(session_lengths))
        session_norm = _norm(session_lengths, float(session_lengths.sum()) / max(1, living))
        session_of = view(self._corpus.session_of, np.int32)
        for asked in self._asked.terms:
            is_turn = session_of[asked.rows] >= 0
            turns, counts = asked.rows[is_turn], asked.counts[is_turn]
            found = rows_around(talk.before, talk.after, turns)
            where: Rows = np.concatenate(found)
            np.add.at(near, where, np.tile(counts, len(found)))
            said = near[where]
            near[where] = 0
            around[where] += said / (said + _norm(talk.words[where], talk.average)) * np.float32(asked.idf * (K1 + 1))
            in_session = np.bincount(session_of[turns], counts, len(session_lengths)).astype(np.float32)
            idf = idf_of(living, int(np.count_nonzero(in_session)))
            session += in_session / (in_session + session_norm) * np.float32(idf * (K1 + 1))
        by_row: dict[Signal, Floats] = {"terms": self._own, "around": self._own.copy(), "session": self._own.copy()}
        by_row["around"][talk.turns] = around[talk.turns]
        by_row["session"][talk.turns] = session[session_of[talk.turns]]
        return by_row

    def _vector_points(self, spreads: Floats, text: Floats, *, needs_word: bool) -> Floats:
        """Return the points of every row for its vector. A row without words of the question must stand out.

        They count as text, so the signals of author and date apply to the same meaning as to the same words.
        """
        counts = self._own > 0 if needs_word else (text > 0) | (spreads >= MIN_SPREADS)
        return spreads * np.float32(_VECTOR_WEIGHT * idf_of(self._asked.many, 1)) * counts

    # -- the rest -----------------------------------------------------------------------------------------------

    def _least(self, text: Floats, limit: int, scale: float) -> float:
        """Return a lower bound for the text scores of the best: other signals cannot lift less text among them."""
        text = text[text > 0]
        if len(text) <= limit:
            return 0.0
        more = sum(WEIGHTS[signal] for signal in self._signals)
        return max(0.0, 0.999 * (_reached(text, limit) - scale * more))  # 0.999: rounding

    def _rest(self, rows: Rows, text: Floats, scale: float, date_rarity: float) -> dict[Signal, Shares]:
        """Return the points of every signal other than text; a date alone earns as much as a word of its rarity.

        Each is worth the best text score where the text matches at all; without a known word, 1.

        Args:
            scale: the best text score.
        """
        share: Shares = np.where(text > 0, scale, 0.0) if scale else np.ones(len(rows))
        shares: dict[Signal, Shares] = {"date": np.maximum(share, date_rarity)}
        return {
            signal: WEIGHTS[signal] * has[rows] * shares.get(signal, share) for signal, has in self._signals.items()
        }

    def _ordered(self, rows: Rows, scores: npt.NDArray[np.floating], limit: int) -> Rows:
        """Return at most `limit` of the rows with scores above zero, best first."""
        least = _reached(scores, limit) if len(rows) > limit else 0.0
        keep = (scores >= least) & (scores > 0)
        rows, scores = rows[keep], scores[keep]
        order = np.lexsort((-view(self._corpus.numbers, np.int64)[rows], -_times(self._corpus, rows), -scores))
        return rows[order[:limit]]


def _counts_at(asked: AskedTerm, rows: Rows) -> Floats:
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


def _times(corpus: Corpus, rows: Rows) -> npt.NDArray[np.float64]:
    """Return the times of rows; those without a time come before all others."""
    return np.nan_to_num(view(corpus.at, np.float64)[rows], nan=-np.inf)


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


def newest(corpus: Corpus, *, limit: int, filters: Filters = EVERY) -> list[int]:
    """Return the numbers of the newest documents, newest first; those without a time come last."""
    rows = np.flatnonzero(_mask(corpus, filters))
    numbers = view(corpus.numbers, np.int64)[rows]
    return [int(number) for number in numbers[np.lexsort((-numbers, -_times(corpus, rows)))[:limit]]]


def _mask(corpus: Corpus, filters: Filters) -> Mask:
    """Return which rows may be found."""
    masks: list[Mask] = [view(corpus.is_alive, np.bool_)]
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
    mask: Mask = np.logical_and.reduce(masks)
    return mask
