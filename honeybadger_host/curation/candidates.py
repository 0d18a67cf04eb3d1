"""What may be worth tidying up, found without a model: duplicates, texts about the same, what is never used. Pure.

A candidate is only a question. A text is compared with those that share most of its rare words, so that time and memory
grow with the number of entries and not with its square.
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
LIKENESS: Final = 0.6
"""Share of words that near duplicates have in common, of all they have."""
_CONTAINED: Final = 0.4
"""Share of the weight of a text's words that another one has; a rare word weighs more. Of 20 rewordings 18 have it."""
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
    """Two texts that may be about the same.

    Args:
        differs: in which words; empty: they have the same.
        share: of the weight of the one's words that the other has, the larger of the two.
    """

    ids: tuple[str, str]
    differs: str
    share: float


def identical(items: Sequence[Item]) -> list[tuple[str, ...]]:
    """Return the ids of texts that are the same byte for byte, each group oldest first as given."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for item in items:
        groups[item.text].append(item.id)
    return [tuple(ids) for ids in groups.values() if len(ids) > 1]


def alike(items: Sequence[Item]) -> list[Pair]:
    """Return pairs of which one contains most of the other, the most alike first; of identical texts the first."""
    first = list({item.text: item for item in reversed(items)}.values())[::-1]
    digits = [tuple(sorted(_DIGITS.findall(item.text))) for item in first]  # a template has all of its words in common

    def likeness(pair: tuple[int, int, float]) -> tuple[bool, float, int, int]:
        return digits[pair[0]] == digits[pair[1]], pair[2], -pair[0], -pair[1]

    best = heapq.nlargest(MAX_PAIRS, _likely(first), key=likeness)
    return [
        Pair((first[older].id, first[newer].id), what_differs(first[older].text, first[newer].text), share)
        for newer, older, share in best
    ]


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


def _likely(items: Sequence[Item]) -> Iterator[tuple[int, int, float]]:
    """Yield places of two texts, the later one first, and the larger share that one has of the other's words."""
    texts = [frozenset(map(sys.intern, words_of(item.text))) for item in items]
    counts = Counter(word for words in texts for word in words)
    weights = {word: math.log((2 + len(texts)) / (1 + count)) for word, count in counts.items()}
    postings: defaultdict[str, deque[int]] = defaultdict(lambda: deque(maxlen=_POSTINGS))
    for place, words in enumerate(texts):
        if len(words) < 2:
            continue
        shared: defaultdict[int, float] = defaultdict(float)
        for word in words:
            for other in postings[word]:
                shared[other] += weights[word]
            postings[word].append(place)
        own = sum(weights[word] for word in words)
        for other in heapq.nlargest(_COMPARED, shared, key=lambda other: shared[other]):
            least = min(own, sum(weights[word] for word in texts[other]))
            if least > 0 and shared[other] / least >= _CONTAINED:
                yield place, other, shared[other] / least


def what_differs(older: str, newer: str) -> str:
    """Return in words what each of two like texts says that the other does not; empty: they have the same words."""
    there, here = (dict.fromkeys((*words_of(text), *_DIGITS.findall(text))) for text in (older, newer))
    parts = {"there": [one for one in there if one not in here], "here": [one for one in here if one not in there]}
    told = {where: ", ".join(words[:_TOLD]) + ", …" * (len(words) > _TOLD) for where, words in parts.items() if words}
    return "; ".join(f"{where}: {words}" for where, words in told.items())
