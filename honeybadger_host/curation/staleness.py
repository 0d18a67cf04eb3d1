"""Whether a person said that something is no longer so: only that lets one text take the place of another. Pure.

`Newest wins` weakens what was stated once and for all: somebody who eats a prawn cracker has not stopped being
allergic. What counts is a sentence that says of the same thing, and of the same person, that it has changed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from honeybadger_host.curation.meaning import PEOPLE, content_words
from honeybadger_host.curation.ordinary import word_groups, word_patterns, word_set
from honeybadger_host.curation.specifics import said

_CHANGED: Final = re.compile(rf"\b(?:{word_patterns('changed')})", re.IGNORECASE)
_OPEN: Final = re.compile(rf"\b(?:{word_patterns('not_a_change')})\b|\?", re.IGNORECASE)
_UNSURE: Final = re.compile(rf"\b(?:{word_patterns('unsure')})\b|[?？]", re.IGNORECASE)
_FIRST_PERSON: Final = word_set("first_person")
_SOMEBODY: Final = word_set("somebody")
_USER: Final = word_set("user")
_SAME_THING: Final = tuple(map(frozenset, word_groups("same_thing")))
_CLAUSES: Final = re.compile(r"[.!?;:,\n]+\s*|\b(?:and|und)\b\s*")
_WORDS: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


def is_unsure(text: str) -> bool:
    """Return whether a text asks, supposes or imagines something rather than saying it."""
    return _UNSURE.search(text) is not None


def why_not_stale(old: str, sentences: Sequence[str], sender: str) -> str | None:
    """Return why sentences of a person do not say that something is no longer so; None: one does.

    Args:
        old: what would be replaced.
        sentences: what that person said.
        sender: who that is.
    """
    changes = [sentence for sentence in sentences if _CHANGED.search(sentence)]
    if not changes:
        return "nobody said that it has changed: `annotate` keeps both"
    certain = [sentence for sentence in changes if not _OPEN.search(sentence)]
    if not certain:
        return "what is quoted is a plan, a wish, a question or an exception, not a change: `annotate` keeps both"
    about = [sentence for sentence in certain if is_about(old, sentence)]
    if not about:
        return "the change that is quoted is about something else"
    if not any(_is_of(old, sentence, sender) for sentence in about):
        return "the change that is quoted is about somebody else"
    return None


def is_about(old: str, sentence: str) -> bool:
    """Return whether a sentence is about the thing that a text is about."""
    words = {frozenset(_WORDS.findall(text.casefold())) for text in (old, sentence)}
    if any(all(group & each for each in words) for group in _SAME_THING):
        return True
    return bool((content_words(old) & content_words(sentence)) - _USER)


def _is_of(old: str, sentence: str, sender: str) -> bool:
    """Return whether a sentence is about the person, or the subject, that a text is about."""
    mine = _USER | {sender.casefold()}
    of_old, of_new = _subjects(old) - mine, _subjects(sentence) - mine
    there, here = (set(re.split(r"[\W_]+", text.casefold())) for text in (old, sentence))
    if any(
        re.search(rf"\b{owner}(?:['’]s\s|(?<=s)\s(?-i:[A-ZÄÖÜ]))", sentence, re.IGNORECASE) for owner in of_new - there
    ):
        return False  # `Anna's dog is called Rex now` is not about the dog
    if of_new & there or of_old & here:
        return True
    if of_old:
        return bool(here & _SOMEBODY) and not of_new and not here & _FIRST_PERSON
    return not of_new and not here & _SOMEBODY


def _subjects(text: str) -> set[str]:
    """Return people in a text, and names that one of its sentences begins with."""
    found = set(re.split(r"[\W_]+", text.casefold())) & PEOPLE
    for clause in _CLAUSES.split(text):
        first = _WORDS.search(clause)
        if first is not None and (name := first[0].casefold().removesuffix("'s")) in said(text).certain:
            found.add(name)
    return found
