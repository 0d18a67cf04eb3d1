"""How much of what was said and noted a message calls for: a message without a subject, nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

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
_TWO_RARE_WORDS: Final = (
    1.3  # least `Hit.shared`; of 100 messages that need nothing 2 reach it, of 1,395 questions 57 %
)
_GROUNDS: Final = frozenset(("date", "vector"))  # signals by which a question finds what shares no word with it

_COURTESIES: Final = frozenset(chain.from_iterable(read_words(__package__, "courtesies.txt").values()))


def may_have_subject(message: str) -> bool:
    """Return whether a search can find a subject of a message: thanks and "ok do it" have none."""
    return bool(_subjects(analyse_query(message))) or _is_question(message)


def reach_of(message: str, hits: Sequence[Hit], speakers: Iterable[str]) -> Reach:
    """Return how much may be recalled for a message that may have a subject.

    All, when it names a speaker, or when two rare words of it stand together somewhere. Few, when it has one word that
    may be a subject; or is a question of the asker, by a date or by its meaning.

    Args:
        hits: of the message, among what was said and noted.
        speakers: names of those who said the best of it.
    """
    query = analyse_query(message)
    if any(len(part) > 1 and part in query.words for name in speakers for part in names_in(name)):
        return "all"
    found = {word for hit in hits for word in hit.terms}
    if not found.isdisjoint(_subjects(query)):
        return "all" if any(hit.shared >= _TWO_RARE_WORDS for hit in hits) else "few"
    return "few" if _is_question(message) and any(_answers(hit, query) for hit in hits) else "nothing"


def _is_question(message: str) -> bool:
    return QUESTION_MARK in document_terms(message)


def _subjects(query: Query) -> set[str]:
    """Return the words that may say what a message is about: those in no list of common words."""
    says_nothing = STOP["english"] | STOP[query.language]
    return {
        term.word
        for term in query.terms
        if not (term.word in says_nothing or term.word in _COURTESIES or term.word.isdecimal())
        and common_terms().isdisjoint(term.forms)
    }


def _answers(hit: Hit, query: Query) -> bool:
    from honeybadger_host.search.ranking import objection  # with numpy

    return not _GROUNDS.isdisjoint(hit.parts) or (query.is_first_person and objection(hit) is None)
