"""What may be worth tidying up, found without a model: duplicates, contradictions, what is never used. Pure.

A candidate is only a question; gates decide what may be done. A text is compared with those that share most of its
words, so that time and memory grow with the number of entries and not with its square. Numbers, dates, names, paths
and negations are compared only where the words agree.
"""

from __future__ import annotations

import heapq
import re
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate, chain
from typing import Final

from honeybadger_host.curation.meaning import flips
from honeybadger_host.curation.specifics import lost
from honeybadger_host.search.nearly import in_common, words_of

UNUSED_AFTER: Final = timedelta(days=90)
MAX_PAIRS: Final = 500
"""Near duplicates first, then contradictions."""
LIKENESS: Final = 0.6
"""Share of words that near duplicates have in common, of all they have."""
_COMPARED: Final = 16
"""Texts that one is compared with, at most: those that share most of its words."""
_POSTINGS: Final = 32
"""Newest texts kept for each word; texts made from one template share all of their words."""
_TOLD: Final = 12
_DIGITS: Final = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Item:
    """An entry or a note.

    Args:
        text: of a note, without the line that says who wrote it.
        made: when it was saved last; None: nobody knows.
    """

    id: str
    text: str
    made: datetime | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts about the same, and what they contradict each other in; empty: they say the same."""

    ids: tuple[str, str]
    differs: str


def identical(items: Sequence[Item]) -> list[tuple[str, ...]]:
    """Return the ids of texts that are the same byte for byte, each group oldest first as given."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for item in items:
        groups[item.text].append(item.id)
    return [tuple(ids) for ids in groups.values() if len(ids) > 1]


def alike(items: Sequence[Item]) -> list[Pair]:
    """Return near duplicates, never of texts that differ in a specific or a negation, then suspected contradictions.

    The most alike come first; of texts that are identical the first one is compared.
    """
    first = list({item.text: item for item in reversed(items)}.values())[::-1]
    digits = [hash(tuple(sorted(_DIGITS.findall(item.text)))) for item in first]
    best = heapq.nlargest(  # in what they differ is looked at only for these: that takes 100 times as long
        4 * MAX_PAIRS,
        _likely(first),
        key=lambda pair: (digits[pair[0]] == digits[pair[1]], pair[2], -pair[0], -pair[1]),
    )
    told = [(first[older], first[newer]) for newer, older, _ in best]
    pairs = [
        Pair((one.id, other.id), differs)
        for one, other in told
        if (differs := _differs(one.text, other.text)) is not None
    ]
    return sorted(pairs, key=lambda pair: pair.differs != "")[:MAX_PAIRS]


def unused(items: Sequence[Item], recalled: Mapping[str, datetime], known_since: datetime, now: datetime) -> list[str]:
    """Return the ids that no context had in 90 days, in order; none while that is not known for so long.

    Args:
        recalled: id -> when it was recalled last.
        known_since: since when recalls are noted.
    """
    since = now - UNUSED_AFTER
    if known_since > since:
        return []
    return [
        item.id for item in items if item.made is not None and max(item.made, recalled.get(item.id, item.made)) < since
    ]


def over_share(tokens: Sequence[tuple[str, int]], share: int) -> list[str]:
    """Return the oldest notes that no context has room for, of (id, tokens), oldest first; notes get `share`."""
    totals = accumulate(each for _, each in reversed(tokens))
    return [note for (note, _), total in zip(reversed(tokens), totals, strict=True) if total > share][::-1]


def _likely(items: Sequence[Item]) -> Iterator[tuple[int, int, float]]:
    """Yield places of two texts, the later one first, and their likeness, where it is high enough."""
    postings: defaultdict[str, deque[int]] = defaultdict(lambda: deque(maxlen=_POSTINGS))
    texts: list[frozenset[str]] = []
    for place, item in enumerate(items):
        words = frozenset(map(sys.intern, words_of(item.text)))
        if len(words) > 1:
            near = Counter(chain.from_iterable(postings[word] for word in words))
            for other, _ in near.most_common(_COMPARED):
                if (found := in_common(words, texts[other])) >= LIKENESS:
                    yield place, other, found
            for word in words:
                postings[word].append(place)
        texts.append(words)


def what_differs(older: str, newer: str) -> str:
    """Return in words what each of two like texts says that the other does not; empty: they have the same words."""
    there, here = (dict.fromkeys((*words_of(text), *_DIGITS.findall(text))) for text in (older, newer))
    parts = {"there": [one for one in there if one not in here], "here": [one for one in here if one not in there]}
    told = {where: ", ".join(words[:_TOLD]) + ", …" * (len(words) > _TOLD) for where, words in parts.items() if words}
    return "; ".join(f"{where}: {words}" for where, words in told.items())


def _differs(older: str, newer: str) -> str | None:
    """Return what two texts contradict each other in; empty: they say the same; None: one only says more."""
    only_older, only_newer = lost([older], newer), lost([newer], older)
    if only_older and only_newer:
        return f"{', '.join(only_older[:5])} and {', '.join(only_newer[:5])}"
    if flipped := flips([older], newer):
        return flipped[0]
    return None if only_older or only_newer else ""
