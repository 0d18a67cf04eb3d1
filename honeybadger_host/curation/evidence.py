"""What a turn says: the sentences around a quote, the days it speaks of, and how much of a text stands in it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from functools import cache
from typing import Final

from honeybadger_host.curation.meaning import content_words
from honeybadger_host.curation.ordinary import word_forms, word_set
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
    return "\n".join((f"{turn.sender}: {turn.content}", f"{at:%Y-%m-%d %H:%M}", *sorted(_dates(turn.content, at))))


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
