"""Decides how many turns and notes may be recalled for a message; none for a message without a subject."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from honeybadger_host.search.documents import TWO_RARE_WORDS
from honeybadger_host.search.language.analyzer import (
    QUESTION_MARK,
    Query,
    analyse_query,
    common_terms,
    document_terms,
    names_in,
)
from honeybadger_host.search.language.lexicon import STOP, read_words

if TYPE_CHECKING:
    from honeybadger_host.search.scoring import Hit

Reach: TypeAlias = Literal["nothing", "few", "all"]
# The share of a message's words that one hit must have for all that fits to be recalled: a pasted page shares two
# rare words with anything. 0.2 would cost 0.5 points of the project's own sets.
_MIN_COVERAGE: Final = 0.1
_GROUNDS: Final = frozenset(("date", "vector"))  # signals that find documents without a word of the question

_COURTESIES: Final = frozenset(chain.from_iterable(read_words(__package__, "courtesies.txt").values()))


def may_have_subject(message: str) -> bool:
    """Return whether a message may have a subject to search for: thanks and "ok do it" have none."""
    return bool(_contents(analyse_query(message))) or _is_question(message)


def reach_of(message: str, hits: Sequence[Hit], speakers: Iterable[str]) -> Reach:
    """Return how much may be recalled for a message that may have a subject.

    "all" when it names a speaker, or when one hit has two of its rare words and a fair part of it. "few" when a hit has
    one word that may be a subject; when a good hit has two of its other words ("tell me about item 55"); or when it is
    a question and a good hit has one of them, or a hit fits its date or its meaning.

    Args:
        hits: turns and notes that a search for the message found.
        speakers: names of the speakers of the best hits.
    """
    query = analyse_query(message)
    if any(len(part) > 1 and part in query.words for name in speakers for part in names_in(name)):
        return "all"
    found = {word for hit in hits for word in hit.terms}
    if not found.isdisjoint(_subjects(query)):
        is_about_one = any(hit.shared >= TWO_RARE_WORDS and hit.coverage >= _MIN_COVERAGE for hit in hits)
        return "all" if is_about_one else "few"
    is_question, contents = _is_question(message), _contents(query)
    return "few" if any(_answers(hit, contents, is_question=is_question) for hit in hits) else "nothing"


def _is_question(message: str) -> bool:
    return QUESTION_MARK in document_terms(message)


def _contents(query: Query) -> set[str]:
    """Return the words that a message is made of besides function words and courtesies."""
    says_nothing = STOP["english"] | STOP[query.language] | _COURTESIES
    return {term.word for term in query.terms if term.word not in says_nothing}


def _subjects(query: Query) -> set[str]:
    """Return the words of a message that may be its subject: no numbers, and words in no list of common words."""
    common, contents = common_terms(query.language), _contents(query)
    rare = {term.word for term in query.terms if common.isdisjoint(term.forms)}
    return {word for word in rare & contents if not word.isdecimal()}


def _answers(hit: Hit, contents: set[str], *, is_question: bool) -> bool:
    """Return whether a hit fits a message of common words.

    Args:
        contents: the words of the message, see `_contents`.
    """
    from honeybadger_host.search.ranking import objection  # imports numpy

    if is_question and not _GROUNDS.isdisjoint(hit.parts):
        return True
    has_enough = is_question or hit.shared >= TWO_RARE_WORDS
    return has_enough and not contents.isdisjoint(hit.terms) and objection(hit) is None
