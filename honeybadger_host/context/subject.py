"""Decides how many turns and notes may be recalled for a message; none for a message without a subject."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from honeybadger_host.search.documents import TWO_RARE_WORDS
from honeybadger_host.search.language.analyzer import (
    QUESTION_MARK,
    STOP,
    Query,
    analyse_query,
    common_terms,
    document_terms,
    names_in,
    read_words,
)

if TYPE_CHECKING:
    from honeybadger_host.search.ranking import Hit

Reach: TypeAlias = Literal["nothing", "few", "all"]
# The share of a message's words that one hit must have for all that fits to be recalled: a pasted page shares two
# rare words with anything. 0.2 would cost 0.5 points of the project's own sets.
_MIN_COVERAGE = 0.1
GROUNDS = frozenset(("date", "vector"))  # signals that find documents without a word of the question

_COURTESIES = frozenset(chain.from_iterable(read_words(__package__, "courtesies.txt").values()))


class _Message(NamedTuple):
    """A message, analysed.

    Args:
        contents: its words besides function words and courtesies.
        subjects: those of them that may be its subject: no numbers, and words in no list of common words.
    """

    query: Query
    contents: frozenset[str]
    subjects: frozenset[str]
    is_question: bool


@lru_cache(maxsize=4)  # a context asks twice
def _analysed(message: str) -> _Message:
    query = analyse_query(message)
    says_nothing, common = (STOP["english"], STOP[query.language], _COURTESIES), common_terms(query.language)
    contents, subjects = set(), set()
    for term in query.terms:
        if not any(term.word in words for words in says_nothing):
            contents.add(term.word)
            if common.isdisjoint(term.forms) and not term.word.isdecimal():
                subjects.add(term.word)
    # the terms of an ASCII text without "?" need not be made
    is_question = ("?" in message or not message.isascii()) and QUESTION_MARK in document_terms(message)
    return _Message(query, frozenset(contents), frozenset(subjects), is_question)


def may_have_subject(message: str) -> bool:
    """Return whether a message may have a subject to search for: thanks and "ok do it" have none, "item 55" has."""
    asked = _analysed(message)
    is_numbered = len(asked.contents) > 1 and any(map(str.isdecimal, asked.contents))
    return bool(asked.subjects) or asked.is_question or is_numbered


def reach_of(message: str, hits: Sequence[Hit], speakers: Iterable[str]) -> Reach:
    """Return how much may be recalled for a message that may have a subject.

    "all" when it names a speaker, or when one hit has two of its rare words and a fair part of it. "few" when a hit has
    one word that may be a subject; when a good hit has two of its other words ("tell me about item 55"); or when it is
    a question and a good hit has one of them, or a hit fits its date or its meaning.

    Args:
        hits: turns and notes that a search for the message found.
        speakers: names of the speakers of the best hits.
    """
    asked = _analysed(message)
    if any(len(part) > 1 and part in asked.query.words for name in speakers for part in names_in(name)):
        return "all"
    if any(not asked.subjects.isdisjoint(hit.terms) for hit in hits):
        is_about_one = any(hit.shared >= TWO_RARE_WORDS and hit.coverage >= _MIN_COVERAGE for hit in hits)
        return "all" if is_about_one else "few"
    return "few" if any(_answers(hit, asked) for hit in hits) else "nothing"


def _answers(hit: Hit, asked: _Message) -> bool:
    """Return whether a hit fits a message of common words."""
    if asked.is_question and not GROUNDS.isdisjoint(hit.parts):
        return True
    has_enough = asked.is_question or hit.shared >= TWO_RARE_WORDS
    if not has_enough or asked.contents.isdisjoint(hit.terms):
        return False
    from honeybadger_host.search.ranking import objection  # imports numpy

    return objection(hit) is None
