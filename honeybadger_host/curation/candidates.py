"""Finds candidates for tidying up without a model: duplicates, similar texts, and texts that are never used. Pure.

A candidate is only a question. A text is compared with the texts that share most of its rare words, so that time and
memory grow with the number of entries and not with its square.
"""

from __future__ import annotations

import heapq
import math
import re
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from honeybadger_host.search.nearly import words_of

UNUSED_AFTER: Final = timedelta(days=90)
MAX_PAIRS: Final = 500
LIKENESS: Final = 0.6  # share of all their words that near duplicates have in common
# Share of the weight of one text's words that the other has; rare words weigh more. 18 of 20 rewordings reach it.
_CONTAINED: Final = 0.4
_MAX_COMPARED: Final = 16  # texts that a text is compared with: those that share most of its words
_MAX_POSTINGS: Final = 32  # newest texts kept for each word; texts made from one template share all their words
_TOLD: Final = 12
_DIGITS: Final = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Item:
    """An entry or a note.

    Args:
        text: its content; a note's without the signature.
        made: time of the last save; None when it is not known.
    """

    id: str
    text: str
    made: datetime | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts that may be about the same subject.

    Args:
        differs: the words that only one of them has; empty when they have the same words.
        share: share of the weight of one's words that the other has, the larger of the two.
    """

    ids: tuple[str, str]
    differs: str
    share: float


def identical(items: Sequence[Item]) -> list[tuple[str, ...]]:
    """Return the ids of identical texts, a tuple for each text, in the order given."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for item in items:
        groups[item.text].append(item.id)
    return [tuple(ids) for ids in groups.values() if len(ids) > 1]


def alike(items: Sequence[Item]) -> list[Pair]:
    """Return pairs of which one has most words of the other, the most alike first; identical texts count once."""
    first = list({item.text: item for item in reversed(items)}.values())[::-1]
    digits = [tuple(sorted(_DIGITS.findall(item.text))) for item in first]  # texts of one template differ in these

    def likeness(pair: tuple[int, int, float]) -> tuple[bool, float, int, int]:
        return digits[pair[0]] == digits[pair[1]], pair[2], -pair[0], -pair[1]

    best = heapq.nlargest(MAX_PAIRS, _likely(first), key=likeness)
    return [
        Pair((first[older].id, first[newer].id), what_differs(first[older].text, first[newer].text), share)
        for newer, older, share in best
    ]


def unused(items: Sequence[Item], recalled: Mapping[str, datetime], known_since: datetime, now: datetime) -> list[str]:
    """Return the ids that no context had in 90 days, in order; none while recalls are noted for less than that.

    Args:
        recalled: id -> time of its last recall.
        known_since: time since which recalls are noted.
    """
    since = now - UNUSED_AFTER
    if known_since > since:
        return []

    def is_unused(item: Item) -> bool:
        return item.made is not None and max(item.made, recalled.get(item.id, item.made)) < since

    return [item.id for item in items if is_unused(item)]


def _likely(items: Sequence[Item]) -> Iterator[tuple[int, int, float]]:
    """Yield the indexes of two texts, the later first, and the larger share that one has of the other's words."""
    texts = [frozenset(map(sys.intern, words_of(item.text))) for item in items]
    counts = Counter(word for words in texts for word in words)
    weights = {word: math.log((2 + len(texts)) / (1 + count)) for word, count in counts.items()}
    postings: defaultdict[str, deque[int]] = defaultdict(lambda: deque(maxlen=_MAX_POSTINGS))
    for place, words in enumerate(texts):
        if len(words) < 2:
            continue
        shared: defaultdict[int, float] = defaultdict(float)
        for word in words:
            for other in postings[word]:
                shared[other] += weights[word]
            postings[word].append(place)
        own = sum(weights[word] for word in words)
        for other in heapq.nlargest(_MAX_COMPARED, shared, key=lambda other: shared[other]):
            theirs = sum(weights[word] for word in texts[other])
            lighter = min(own, theirs)
            if lighter > 0 and shared[other] / lighter >= _CONTAINED:
                yield place, other, shared[other] / lighter


def what_differs(older: str, newer: str) -> str:
    """Return the words that only one of two similar texts has, for a reader; empty when they have the same words."""
    there, here = (dict.fromkeys((*words_of(text), *_DIGITS.findall(text))) for text in (older, newer))
    parts = {"there": [one for one in there if one not in here], "here": [one for one in here if one not in there]}
    told = {where: ", ".join(words[:_TOLD]) + ", …" * (len(words) > _TOLD) for where, words in parts.items() if words}
    return "; ".join(f"{where}: {words}" for where, words in told.items())
