"""What a turn says: the sentences around a quote, the days it speaks of, how much of a text stands in it, and whether
somebody said in it that something is no longer so: only that lets one text take the place of another. Pure.

`Newest wins` weakens what was stated once and for all: somebody who eats a prawn cracker has not stopped being
allergic. What counts is a sentence that says of the same thing, and of the same person, that it has changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from functools import cache
from typing import Final

from honeybadger_host.curation.meaning import PEOPLE, content_words
from honeybadger_host.curation.ordinary import word_forms, word_groups, word_patterns, word_set
from honeybadger_host.curation.quantities import UNITS
from honeybadger_host.curation.quantities import WORDS as QUANTITY_WORDS
from honeybadger_host.curation.specifics import said, specifics, visible
from honeybadger_host.domain import Turn

_SENTENCE: Final = re.compile(r"[^.!?。！？\n]*(?:[.!?。！？](?!\s|$)[^.!?。！？\n]*)*[.!?。！？]*")
_DAYS_OFF: Final = {word: int(days) for word, days in word_forms("days_off").items()}
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SAYS_LITTLE: Final = word_set("says_little")
_SAYS_MUCH: Final = word_set("says_much")
_LETTERS: Final = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_CHANGED: Final = re.compile(rf"\b(?:{word_patterns('changed')})", re.IGNORECASE)
_OPEN: Final = re.compile(rf"\b(?:{word_patterns('not_a_change')})\b|\?", re.IGNORECASE)
_UNSURE: Final = re.compile(rf"\b(?:{word_patterns('unsure')})\b|[?？]", re.IGNORECASE)
_FIRST_PERSON: Final = word_set("first_person")
_SOMEBODY: Final = word_set("somebody")
_USER: Final = word_set("user")
_SAME_THING: Final = tuple(map(frozenset, word_groups("same_thing")))
_CLAUSE: Final = re.compile(r"[.!?;:,\n]+\s*|\b(?:and|und)\b\s*")
_SPOKEN: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


@cache
def _telling_words() -> frozenset[str]:
    """Return words by which a fact says whose it is: `the user's`."""
    told = ("the user and the users", "the person and people", "he said, told, asked and mentioned it", "instead")
    return frozenset("s").union(*map(content_words, told))


def sentences_with(quote: str, text: str) -> list[str]:
    """Return the sentences of a text that a quote stands in, each time it does: `allergic` may follow a `not`."""
    places = [match.start() for match in re.finditer(re.escape(quote), text)]
    found = []
    for place in places:
        touched = [
            match[0]
            for match in _SENTENCE.finditer(text)
            if match[0] and match.start() < place + len(quote) and place < match.end()
        ]
        found.append(" ".join(sentence.strip() for sentence in touched))
    return found


def as_told(turn: Turn) -> str:
    """Return a turn with who speaks, when, and the dates of the days it speaks of: `tomorrow`, `on 7 May`."""
    at = turn.at
    return "\n".join((f"{turn.shown_name}: {turn.content}", f"{at:%Y-%m-%d %H:%M}", *sorted(_dates(turn.content, at))))


def _dates(text: str, at: datetime) -> Iterator[str]:
    for word in set(_LETTERS.findall(text.casefold())) & _DAYS_OFF.keys():
        yield f"{at + timedelta(days=_DAYS_OFF[word]):%Y-%m-%d}"
    for form in said(text).certain:
        if form in _WEEKDAYS:
            ahead = (_WEEKDAYS.index(form) - at.weekday()) % 7
            yield from (f"{at + timedelta(days=ahead + week):%Y-%m-%d}" for week in (-7, 0, 7))
        elif re.fullmatch(r"--\d\d(-\d\d)?", form):
            yield from (f"{year}{form[1:]}" for year in (at.year - 1, at.year, at.year + 1))


def unsaid(text: str, sources: Iterable[str]) -> list[str]:
    """Return the content words of a text that stand in none of its sources, as stems, in order: `allergic to dogs`.

    One word makes another fact of a sentence, so a share of them is not enough.
    """
    known = _telling_words().union(*map(content_words, sources))
    return sorted(content_words(text) - known)


def words_lost(source: str, result: str) -> list[str]:
    """Return the words of a text that another one says in no form; numbers, dates and what says little aside."""
    told, known = said(result), content_words(result)
    missing: dict[str, None] = {}
    for word in _LETTERS.findall(visible(source).casefold()):
        bare = word.removesuffix("'s")
        if bare in _SAYS_LITTLE or bare in QUANTITY_WORDS or bare in UNITS:
            continue
        if bare in _SAYS_MUCH and bare not in told.words:
            missing[bare] = None
        about = content_words(bare)
        if about and not about <= known and not told.has_word(bare) and not specifics(bare):
            missing[bare] = None
    return list(missing)


# ------------------------------------------------------------------------------------------------------------- changes


def is_unsure(text: str) -> bool:
    """Return whether a text asks, supposes or imagines something rather than saying it."""
    return _UNSURE.search(text) is not None


def why_not_stale(old: str, sentence: str, sender: str) -> str | None:
    """Return why a sentence of a person does not say that something is no longer so; None: it does.

    Args:
        old: what would be replaced.
        sender: who that person is.
    """
    if not _CHANGED.search(sentence):
        return "nobody said that it has changed: `annotate` keeps both"
    if _OPEN.search(sentence):
        return "what is quoted is a plan, a wish, a question or an exception, not a change: `annotate` keeps both"
    if not is_about(old, sentence):
        return "the change that is quoted is about something else"
    return None if _is_of(old, sentence, sender) else "the change that is quoted is about somebody else"


def is_about(old: str, sentence: str) -> bool:
    """Return whether a sentence is about the thing that a text is about."""
    words = {frozenset(_SPOKEN.findall(text.casefold())) for text in (old, sentence)}
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
    for clause in _CLAUSE.split(text):
        first = _SPOKEN.search(clause)
        if first is not None and (name := first[0].casefold().removesuffix("'s")) in said(text).certain:
            found.add(name)
    return found
