"""The score of every document of a corpus for one question, with its parts.

A document scores by its own words (BM25). A turn also scores by its conversation: the text around it, its session, its
author, dates in the question, and whether it says a time when the question asks for one. Signals other than text count
as a share of the best text score, and in full only where the text matches too: an author alone never outranks an
answer, and a date alone outranks only documents that share common words with the question.

Sources: docs/decisions/017-recall.md.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from honeybadger_host.search.corpus import (
    ASKS,
    ENTRY,
    NO_TURNS,
    SAYS_TIME,
    TURN,
    Corpus,
    Floats,
    Layout,
    view,
)
from honeybadger_host.search.documents import KINDS, Kind
from honeybadger_host.search.language.analyzer import (
    CATEGORY_STOP_TERMS,
    Query,
    QueryTerm,
    category_terms,
    common_terms,
    document_terms,
    is_cjk,
    names_in,
)
from honeybadger_host.search.language.dates import dates_said
from honeybadger_host.search.language.spelling import guesses
from honeybadger_host.search.postings import TF_BITS, TF_MASK

Signal: TypeAlias = Literal["terms", "around", "session", "author", "date", "time", "statement", "vector"]
TEXT: Final[tuple[Signal, ...]] = ("terms", "around", "session")
WEIGHTS: Final[Mapping[Signal, float]] = {
    "terms": 1.0,
    "around": 1.2,
    "session": 1.2,
    "author": 0.36,
    "date": 0.7,
    "time": 0.36,
    "statement": 0.13,
}
"""The weight of each signal: the first three in BM25 points, the rest as a share of the best text score.

Fitted on LoCoMo, tested on held-out conversations (docs/decisions/017-recall.md).
"""
VECTOR_WEIGHT: Final = 0.5
"""What a document earns for each spread by which its vector stands out, as a share of a word that no other has.

Vectors match every question a little and do not know names: with a larger weight they outweigh the words
(docs/decisions/020-vectors.md).
"""
ALONE: Final = 3.0
"""A document found by its vector alone must stand out by this many spreads."""
SUBJECT: Final = 0.5
"""Least rarity of a word that may name the group's subject, however many documents have it; 1: only one has it."""
_DAY: Final = 86_400.0
_MOST_GUESSED: Final = 64
"""At most this many unknown words of a question are checked for typos, 0.3 ms each: a pasted page has thousands."""
_Rows: TypeAlias = npt.NDArray[np.intp]
_Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of ranking; the same for every kind of conversation.

    Args:
        k1, b: of BM25, for a document, the text around a turn and its session.
        weights: see `WEIGHTS`.
        gate: from this share of the best text score on, other signals count in full.
        grace_days: a turn this long after a date may still be about it.
        vector: see `VECTOR_WEIGHT`.
    """

    k1: float = 0.9
    b: float = 0.4
    weights: Mapping[Signal, float] = field(default_factory=lambda: WEIGHTS)
    gate: float = 0.3
    grace_days: float = 7.0
    vector: float = VECTOR_WEIGHT


@dataclass(frozen=True, slots=True)
class Hit:
    """A document that was found.

    Args:
        score: the sum of `parts`.
        parts: signal -> its BM25 points, without zeros.
        terms: word of the question -> its points within `parts["terms"]`.
        coverage: share of the question's words, weighted by rarity, that the document itself has; 0 to 1.
        rarity: of the rarest word shared with the question: 1 when no other document has it, near 0 when every second
            one has, less for a guess at a misspelt word. The rarity of a word that an entry has by its category alone
            is that among entries; words such as `user` or `notes` do not count there.
        shared: the sum of the rarities of all shared words.
    """

    number: int
    key: str
    kind: Kind
    score: float
    parts: Mapping[Signal, float]
    terms: Mapping[str, float]
    coverage: float
    rarity: float
    shared: float


_SPARSE: Final = 3
"""A word around more than 1 in this many turns is summed over all turns, which is then cheaper."""
_SURE: Final = 128
"""This many of the best texts are scored in full first; documents that cannot reach them are skipped."""
_FIRST_HAN: Final = "\u3400"  # kana are before it
_FEW: Final = 40
"""A smaller group says little about how rare a word is: rarity is computed as if it had this many documents."""


_MANY: Final = 5
"""A term is common when 1 in this many documents has it: other words and signals then rank the documents."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A term of the question in the corpus: where, how often, how rare.

    Args:
        rarity: `idf`, for at least `_FEW` documents.
    """

    term: QueryTerm
    rows: _Rows
    counts: Floats
    idf: float
    rarity: float


class Scoring:
    """The scores of a corpus for one question.

    Args:
        allowed: rows that may be found; None for all. When no turn may be, nothing is computed for turns.
        vectors: by how many spreads each row's vector stands out, see `vectors.standing_out`; None without vectors.
        needs_word: a document that shares no word with the question earns nothing by its vector or its date.
    """

    def __init__(
        self,
        corpus: Corpus,
        query: Query,
        now: datetime | None,
        asker: Collection[str],
        parameters: Parameters,
        vectors: Floats | None = None,
        allowed: _Mask | None = None,
        *,
        needs_word: bool = False,
    ) -> None:
        self._corpus, self._query, self._parameters = corpus, query, parameters
        self._weights = parameters.weights
        self._allowed = allowed
        self._kinds = view(corpus.kinds, np.int8)
        self._finds_turns = allowed is None or bool((allowed & (self._kinds == TURN)).any())
        self._layout = corpus.layout() if self._finds_turns else NO_TURNS
        self._place_of = view(corpus.place_of, np.int32)
        self._lengths = view(corpus.lengths, np.float32)
        self._averages = corpus.average_lengths
        self._named = [
            number
            for number, name in enumerate(corpus.authors.names)
            if corpus.turns_by_author[number] and _is_named(name, query)
        ]
        self._dates = dates_said(query.text, now)
        self._meant_authors, self._meant_roles = self._who_is_meant(asker)
        self._many = max(len(corpus), _FEW)
        self._asked, self._missing = self._look_up()
        self._own: Floats = np.zeros(corpus.size, np.float32)  # by row
        self._around: Floats = np.zeros(len(self._layout.rows), np.float32)  # by place
        self._near: Floats = np.zeros(len(self._layout.rows), np.float32)  # by place, zero between two uses
        self._session: Floats = np.zeros(len(corpus.session_lengths), np.float32)  # by session
        self._score_text()
        self._spreads, self._needs_word = vectors, needs_word
        self._vector: Floats | None = None  # points by row
        self._scale = 0.0
        self._dated: _Mask = np.zeros(corpus.size, np.bool_)  # by row
        self._date_rarity = 0.0

    def best(self, limit: int) -> list[int]:
        """Return the rows with the highest scores above zero, in the order of `ranking.search`."""
        text = self._text()
        if self._dates and not self._needs_word:
            self._dated = self._date_scores(np.arange(len(text))) > 0
            self._date_rarity = _idf(self._many, int(np.count_nonzero(self._dated)))
        self._scale = float(text.max(initial=0.0))
        if self._spreads is not None:
            self._vector = self._vector_points(self._spreads, text)
            text = text + self._vector * self._mask()
        if not self._scale:
            scores = text + self._rest(np.arange(len(text)), text) * self._mask()
            rows: _Rows = np.flatnonzero(scores > 0)
            return self._ordered(rows, scores[rows], limit)
        sure = self._top(text, max(_SURE, limit))
        reached = text[sure] + self._rest(sure, text[sure])
        last = len(sure) - limit
        least = self._least(float(np.partition(reached, last)[last])) if last >= 0 else 0.0
        rows = np.flatnonzero((text > least) | (self._dated & self._mask()))
        return self._ordered(rows, text[rows] + self._rest(rows, text[rows]), limit)

    def _top(self, text: Floats, count: int) -> _Rows:
        """Return about `count` rows with the highest text scores; fewer when few have any."""
        for share in (0.6, 0.4, 0.2, 0.1, 0.0):
            rows = np.flatnonzero(text > share * self._scale)
            if len(rows) >= count:
                break
        if len(rows) > count:
            rows = rows[np.argpartition(text[rows], len(rows) - count)[-count:]]
        return rows

    def hits(self, rows: Sequence[int]) -> list[Hit]:
        """Return rows as hits; after `best`."""
        corpus = self._corpus
        chosen = np.array(rows, np.intp)
        text = self._text_parts(chosen)
        total = sum((self._weights[signal] * scores for signal, scores in text.items()), np.zeros(len(chosen)))
        near = np.zeros(len(chosen)) if self._vector is None else self._vector[chosen].astype(np.float64)
        earned: dict[Signal, list[float]] = {
            **{signal: (self._weights[signal] * scores).tolist() for signal, scores in text.items()},
            "vector": near.tolist(),
            **{signal: points.tolist() for signal, points in self._rest_points(chosen, total + near).items()},
        }
        counts = [self._counts_at(asked, chosen) for asked in self._asked]
        points = [
            (self._points(asked, chosen, count) * np.float32(self._weights["terms"])).tolist()
            for asked, count in zip(self._asked, counts, strict=True)
        ]
        rarities = [self._rarities(asked, count, rows) for asked, count in zip(self._asked, counts, strict=True)]
        found = []
        for place, row in enumerate(rows):
            parts: dict[Signal, float] = {signal: scores[place] for signal, scores in earned.items() if scores[place]}
            terms, coverage, rarity, shared = self._explained(
                [each[place] for each in points], [each[place] for each in rarities]
            )
            found.append(
                Hit(
                    number=corpus.numbers[row],
                    key=corpus.key(row),
                    kind=KINDS[corpus.kinds[row]],
                    score=sum(parts.values()),
                    parts=parts,
                    terms=terms,
                    coverage=coverage,
                    rarity=rarity,
                    shared=shared,
                )
            )
        return found

    # -- the question -------------------------------------------------------------------------------------------

    def _who_is_meant(self, asker: Collection[str]) -> tuple[set[int], set[int]]:
        """Return the authors and roles a question is about: those it names, and the asker for "my"."""
        corpus, query = self._corpus, self._query
        authors, roles = set(self._named), set()
        if query.is_first_person:
            known = {corpus.authors.numbers[name] for name in asker if name in corpus.authors.numbers}
            if known:
                authors |= known
            elif "user" in corpus.roles.numbers:
                roles.add(corpus.roles.numbers["user"])
        return authors, roles

    def _look_up(self) -> tuple[list[_Asked], float]:
        """Return the question's terms that the corpus has, and the weight of the missing ones.

        A speaker's name is not looked up in turns: it says whose turns are meant, and the turns that contain it are
        mostly the other side's. A question of names alone finds these speakers' turns and the turns that name them.
        """
        corpus = self._corpus
        alive = view(corpus.is_alive, np.bool_)
        names = {form for number in self._named for form in _label_terms(corpus.authors.names[number])}
        authors = view(corpus.author_of, np.int32)
        asked, missing = [], 0.0
        heard = self._heard()
        is_name = [bool(names.intersection(term.forms)) for term in heard]
        for term, names_somebody in zip(heard, is_name, strict=True):
            rows, counts, frequency = self._found(term, alive)
            if names_somebody and all(is_name):
                rows = np.union1d(rows, np.flatnonzero(np.isin(authors, self._named) & alive & (self._kinds == TURN)))
                counts, frequency = np.ones(len(rows), np.float32), len(rows)
            elif names_somebody:
                keep = self._kinds[rows] != TURN
                rows, counts = rows[keep], counts[keep]
            idf = term.weight * _idf(len(corpus), frequency)
            if frequency:
                asked.append(_Asked(term, rows, counts, idf, self._rarity(term, frequency)))
            elif not term.is_optional:
                missing += self._rarity(term, 0)
        return asked, missing

    def _rarity(self, term: QueryTerm, frequency: int) -> float:
        """Return how rare a term is, for the floor; for a term that may be a subject, at least half of the maximum.

        A common word that the group does not have says little about the question.
        """
        most = _idf(self._many, 1)
        if common_terms().isdisjoint(term.forms):
            return term.weight * max(_idf(self._many, frequency), SUBJECT * most)
        return term.weight * (_idf(self._many, frequency) if frequency else SUBJECT / 2 * most)

    def _found(self, term: QueryTerm, alive: _Mask) -> tuple[_Rows, Floats, int]:
        """Return the live rows that have a term, how often, and how many documents have its usual form."""
        corpus = self._corpus
        postings = [packed for form in term.forms if len(packed := corpus.postings(form))]
        if not postings:
            return np.zeros(0, np.intp), np.zeros(0, np.float32), 0
        if corpus.has_dead:
            postings = [packed[alive[packed >> np.uint32(TF_BITS)]] for packed in postings]
        rows, counts = _merged(postings)
        return rows, counts, max(map(len, postings))

    def _heard(self) -> list[QueryTerm]:
        """Return the question's terms, with guesses in place of words that the group does not know."""
        corpus = self._corpus
        heard: dict[str, QueryTerm] = {}
        left = _MOST_GUESSED
        for term in self._query.terms:
            is_guessed = left > 0 and not term.is_optional and not any(form in corpus for form in term.forms)
            left -= is_guessed
            for each in (guesses(term, corpus) if is_guessed else ()) or [term]:
                if each.forms[0] not in heard or not each.is_optional:
                    heard[each.forms[0]] = each
        return list(heard.values())

    # -- text ---------------------------------------------------------------------------------------------------

    def _score_text(self) -> None:
        """Fill the three text scores.

        A document that is not a turn has its own text for all three, so that an entry and a turn that say the same
        score alike.
        """
        if not self._finds_turns:
            for asked in self._asked:
                keep = self._kinds[asked.rows] != TURN
                rows = asked.rows[keep]
                self._own[rows] += self._points(asked, rows, asked.counts[keep])
            return
        corpus, parameters, layout = self._corpus, self._parameters, self._layout
        k1, b = parameters.k1, parameters.b
        around_lengths = view(corpus.around_lengths, np.float32)
        around_average = corpus.around_total / max(1, corpus.turns)
        session_lengths = view(corpus.session_lengths, np.float32)
        living = int(np.count_nonzero(session_lengths))
        session_norm = _norm(session_lengths, float(session_lengths.sum()) / max(1, living), k1, b)
        session_of = view(corpus.session_of, np.int32)
        for asked in self._asked:
            self._own[asked.rows] += self._points(asked, asked.rows, asked.counts)
            places: _Rows = self._place_of[asked.rows].astype(np.intp)
            is_turn = places >= 0
            if not is_turn.any():
                continue
            turns, counts = asked.rows, asked.counts
            if not is_turn.all():
                turns, counts, places = turns[is_turn], counts[is_turn], places[is_turn]
            where, said = self._said_around(places, counts, layout)
            norm = _norm(around_lengths[where], around_average, k1, b)
            norm += said
            said /= norm
            said *= np.float32(asked.idf * (k1 + 1))
            self._around[where] += said
            in_session = np.bincount(session_of[turns], counts, living and len(session_lengths)).astype(np.float32)
            idf = asked.term.weight * _idf(living, int(np.count_nonzero(in_session)))
            self._session += in_session / (in_session + session_norm) * np.float32(idf * (k1 + 1))

    def _said_around(self, places: _Rows, counts: Floats, layout: Layout) -> tuple[_Rows | slice, Floats]:
        """Return places, some more than once, and how often a term occurs in and around the turn there.

        Other places have none. A rare word costs the stretches around it, a common one a running sum over all places.
        """
        corpus = self._corpus
        first, behind = layout.first[places], layout.behind[places]
        widths = behind - first
        more: _Rows = np.zeros(0, np.intp)
        if corpus.sources:
            self._near[places] = counts
            neighbours = self._near[view(corpus.sources, np.int32)]
            self._near[places] = 0
            has = np.flatnonzero(neighbours)
            more, neighbours = view(corpus.targets, np.int32)[has].astype(np.intp), neighbours[has]
        total = int(widths.sum())
        if total * _SPARSE > len(self._near):
            around = np.zeros(len(self._near) + 1, np.float32)
            np.add.at(around, first, counts)
            np.subtract.at(around, behind, counts)
            around = np.cumsum(around, out=around)[:-1]
            if len(more):
                np.add.at(around, more, neighbours)
            return slice(None), around
        begins = np.cumsum(widths) - widths
        where: _Rows = np.repeat(first - begins, widths) + np.arange(total)
        np.add.at(self._near, where, np.repeat(counts, widths))
        if len(more):
            np.add.at(self._near, more, neighbours)
            where = np.concatenate((where, more))
        said = self._near[where]
        self._near[where] = 0
        return where, said

    def _points(self, asked: _Asked, rows: _Rows, counts: Floats) -> Floats:
        """Return the BM25 points of a term for documents that have it `counts` times.

        For a term that very many documents have, it makes no difference how often each has it.
        """
        k1, b = self._parameters.k1, self._parameters.b
        if len(asked.rows) * _MANY >= self._many:
            return np.where(counts > 0, np.float32(asked.idf), np.float32(0))
        average = self._averages[self._kinds[rows]]
        norm = np.float32(k1 * (1 - b)) + np.float32(k1 * b) * self._lengths[rows] / average
        points: Floats = np.asarray(counts / (counts + norm) * np.float32(asked.idf * (k1 + 1)), np.float32)
        return points

    def _mask(self) -> _Mask:
        alive = view(self._corpus.is_alive, np.bool_)
        return alive if self._allowed is None else alive & self._allowed

    def _text(self) -> Floats:
        """Return the weighted text score of every row, 0 for rows that are not allowed."""
        weights, layout = self._weights, self._layout
        text: Floats = self._own * np.float32(sum(weights[signal] for signal in TEXT))
        turns = np.take(self._own, layout.rows)
        turns *= np.float32(weights["terms"])
        turns += self._around * np.float32(weights["around"])
        sessions = self._session * np.float32(weights["session"])
        later = layout.rows[layout.sizes.sum() :]
        turns[: len(turns) - len(later)] += np.repeat(sessions[: len(layout.sizes)], layout.sizes)
        turns[len(turns) - len(later) :] += sessions[view(self._corpus.session_of, np.int32)[later]]
        text[layout.rows] = turns
        if self._allowed is not None or self._corpus.has_dead:
            text *= self._mask()
        return text

    def _text_parts(self, rows: _Rows) -> dict[Signal, npt.NDArray[np.float64]]:
        own = self._own[rows].astype(np.float64)
        is_turn = self._kinds[rows] == TURN
        around, session = own.copy(), own.copy()
        around[is_turn] = self._around[self._place_of[rows[is_turn]]]
        session[is_turn] = self._session[view(self._corpus.session_of, np.int32)[rows[is_turn]]]
        return {"terms": own, "around": around, "session": session}

    def _vector_points(self, spreads: Floats, text: Floats) -> Floats:
        """Return the points of every row for its vector; without words, only rows that stand out far enough get any.

        They count as text, so the signals of author and date apply to the same meaning as to the same words.
        """
        counts = self._own > 0 if self._needs_word else (text > 0) | (spreads >= ALONE)
        points: Floats = spreads * np.float32(self._parameters.vector * _idf(self._many, 1)) * counts
        return points

    # -- the rest -----------------------------------------------------------------------------------------------

    def _least(self, reached: float) -> float:
        """Return a lower bound for the text score of rows that score `reached` or more in all."""
        peak, gate = self._scale, self._parameters.gate
        more = sum(self._weights[signal] for signal in self._active())
        least = reached - peak * more
        if least < gate * peak:
            least = reached / (1 + more / gate)
        return max(0.0, least * 0.999)  # rounding

    def _active(self) -> list[Signal]:
        """Return the signals other than text that the question asks for."""
        active: list[Signal] = ["statement"]
        if self._meant_authors or self._meant_roles:
            active.append("author")
        if self._dates:
            active.append("date")
        if self._query.asks_time:
            active.append("time")
        return active

    def _share(self, text: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        """Return the worth of a signal other than text: the best text score, less where the text matches little."""
        if not self._scale:
            return np.ones(len(text))
        return np.minimum(self._scale, np.asarray(text, np.float64) / self._parameters.gate)

    def _rest(self, rows: _Rows, text: Floats) -> npt.NDArray[np.float64]:
        return sum(self._rest_points(rows, text).values(), np.zeros(len(rows)))

    def _rest_points(self, rows: _Rows, text: npt.NDArray[np.floating]) -> dict[Signal, npt.NDArray[np.float64]]:
        """Return the points of every signal other than text; a date alone earns as much as a word of its rarity."""
        share = self._share(text)
        shares = {"date": np.maximum(share, self._date_rarity)}
        parts = self._rest_parts(rows).items()
        return {signal: self._weights[signal] * scores * shares.get(signal, share) for signal, scores in parts}

    def _rest_parts(self, rows: _Rows) -> dict[Signal, npt.NDArray[np.float64]]:
        corpus = self._corpus
        active = self._active()
        says = view(corpus.says, np.int8)[rows]
        parts: dict[Signal, npt.NDArray[np.float64]] = {}
        if "author" in active:
            meant = np.zeros(len(rows), np.bool_)
            for author in self._meant_authors:
                meant |= view(corpus.author_of, np.int32)[rows] == author
            for role in self._meant_roles:
                meant |= view(corpus.role_of, np.int32)[rows] == role
            parts["author"] = (meant & (self._kinds[rows] == TURN)).astype(np.float64)
        if "date" in active:
            parts["date"] = self._date_scores(rows)
        counts: npt.NDArray[np.bool_] = np.ones(len(rows), np.bool_)
        if not self._scale:  # no word is known: author and date are all there is; the other signals only rank these
            counts = np.logical_or.reduce([np.zeros(len(rows), np.bool_), *(scores > 0 for scores in parts.values())])
        parts["statement"] = ((says & ASKS == 0) & counts).astype(np.float64)
        if "time" in active:
            parts["time"] = ((says & SAYS_TIME != 0) & counts).astype(np.float64)
        return parts

    def _date_scores(self, rows: _Rows) -> npt.NDArray[np.float64]:
        """Return 1 for documents from a date of the question, less for those from the days after."""
        at = view(self._corpus.at, np.float64)[rows]
        scores = np.zeros(len(rows))
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

    # -- the best, and why --------------------------------------------------------------------------------------

    def _ordered(self, rows: _Rows, scores: npt.NDArray[np.floating], limit: int) -> list[int]:
        if len(rows) > limit:
            least = np.partition(scores, len(rows) - limit)[len(rows) - limit]
            rows, scores = rows[scores >= least], scores[scores >= least]
        at = np.nan_to_num(view(self._corpus.at, np.float64)[rows], nan=-np.inf)
        order = np.lexsort((-view(self._corpus.numbers, np.int64)[rows], -at, -scores))
        return [int(row) for row in rows[order[:limit]]]

    def _counts_at(self, asked: _Asked, rows: _Rows) -> Floats:
        """Return how often a term occurs in each of the rows."""
        if not len(asked.rows):
            return np.zeros(len(rows), np.float32)
        near = np.minimum(np.searchsorted(asked.rows, rows), len(asked.rows) - 1)
        return np.where(asked.rows[near] == rows, asked.counts[near], np.float32(0))

    def _rarities(self, asked: _Asked, counts: Floats, rows: Sequence[int]) -> list[float]:
        """Return the rarity of a term for each row, in the unit of `_Asked.rarity`."""
        rarities = [asked.rarity] * len(rows)
        for place, row in enumerate(rows):
            category = self._corpus.categories.names[self._corpus.category_of[row]]
            if counts[place] and category:
                by_category = sum(category_terms(category).count(form) for form in asked.term.forms)
                if counts[place] <= by_category:
                    rarities[place] = self._rarity_in_categories(asked)
        return rarities

    def _rarity_in_categories(self, asked: _Asked) -> float:
        if CATEGORY_STOP_TERMS.intersection(asked.term.forms):
            return 0.0
        entries = self._corpus.entries
        having = int(np.count_nonzero(self._kinds[asked.rows] == ENTRY))
        return asked.term.weight * _idf(self._many, 1) * _idf(entries, having) / _idf(entries, 1)

    def _explained(
        self, points: Sequence[float], rarities: Sequence[float]
    ) -> tuple[dict[str, float], float, float, float]:
        """Return the points of each word, then `Hit`'s coverage, rarity and shared."""
        terms: dict[str, float] = {}
        covered, asked_for, rarest = 0.0, self._missing, 0.0
        for asked, earned, rarity in zip(self._asked, points, rarities, strict=True):
            if earned:
                terms[asked.term.word] = terms.get(asked.term.word, 0.0) + earned
                covered += asked.rarity
                rarest = max(rarest, rarity)
            if earned or not asked.term.is_optional:
                asked_for += asked.rarity
        most = _idf(self._many, 1)
        return terms, covered / asked_for if asked_for else 0.0, rarest / most, covered / most


def _merged(postings: Sequence[npt.NDArray[np.uint32]]) -> tuple[_Rows, Floats]:
    """Return the rows in any of the postings, ascending, and how often."""
    if len(postings) == 1:
        packed = postings[0]
        return (packed >> np.uint32(TF_BITS)).astype(np.intp), (packed & np.uint32(TF_MASK)).astype(np.float32)
    packed = np.concatenate(postings)
    rows, places = np.unique(packed >> np.uint32(TF_BITS), return_inverse=True)
    return rows.astype(np.intp), np.bincount(places, packed & np.uint32(TF_MASK)).astype(np.float32)


def _norm(lengths: Floats, average: float, k1: float, b: float) -> Floats:
    norm: Floats = np.float32(k1 * b / max(1.0, average)) * lengths
    norm += np.float32(k1 * (1 - b))
    return norm


def _idf(documents: int, frequency: int) -> float:
    return math.log(1 + (documents - frequency + 0.5) / (frequency + 0.5))


def _label_terms(name: str) -> list[str]:
    return [term for word in names_in(name) for term in document_terms(word)]


def _is_named(name: str, query: Query) -> bool:
    """Return whether the question has a word of a name.

    Chinese has no space after a name, and three characters are a family name and a given name.
    """
    for part in names_in(name):
        if is_cjk(part):
            given = part[1:] if len(part) == 3 and part[0] >= _FIRST_HAN else part
            if len(part) > 1 and any(part in run or given in run for run in query.words):
                return True
        elif len(part) > 1 and (part in query.words or f"{part}s" in query.words):  # `Miriams`
            return True
    return False
