"""Finds candidates for tidying up without a model: similar texts. Pure.

A candidate is only a question to a model or a person. A text is compared with the texts that share most of its rare
words, so that time and memory grow with the number of entries and not with its square.
"""

import heapq
import math
import re
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from honeybadger_host.search.language.similarity import words_of

MAX_PAIRS = 500  # more than a question has room for
# Share of the weight of one text's words that the other has; rare words weigh more. 18 of 20 rewordings reach it.
_CONTAINED = 0.4
# Newest texts kept for each word: 100,000 entries of one template, which share all their words, take 2.8 s
# (`python -m bench curation`).
_MAX_POSTINGS = 32
_DIGITS = re.compile(r"\d+")


class Pair(NamedTuple):
    """Two texts that may be about the same subject.

    Args:
        share: share of the weight of one text's words that the other text has; the larger of the two shares.
    """

    ids: tuple[str, str]
    share: float


def alike(texts: Mapping[str, str]) -> list[Pair]:
    """Return pairs of similar texts, most similar first; identical texts count once. `texts`: id -> text."""
    first: dict[str, str] = {}
    for name, text in texts.items():
        first.setdefault(text, name)
    ids, different = [*first.values()], [*first]
    digits = [tuple(sorted(_DIGITS.findall(text))) for text in different]  # texts of one template differ in these

    def likeness(pair: tuple[int, int, float]) -> tuple[bool, float, int, int]:
        return digits[pair[0]] == digits[pair[1]], pair[2], -pair[0], -pair[1]

    best = heapq.nlargest(MAX_PAIRS, _likely(different), key=likeness)
    return [Pair((ids[older], ids[newer]), share) for newer, older, share in best]


def _likely(different: Sequence[str]) -> Iterator[tuple[int, int, float]]:
    """Yield (index of the later text, index of the earlier text, share); see `Pair`."""
    texts = [frozenset(map(sys.intern, words_of(text))) for text in different]
    counts = Counter(word for words in texts for word in words)
    weights = {word: math.log((2 + len(texts)) / (1 + count)) for word, count in counts.items()}
    totals = [sum(weights[word] for word in words) for words in texts]
    postings: defaultdict[str, deque[int]] = defaultdict(lambda: deque(maxlen=_MAX_POSTINGS))
    for place, words in enumerate(texts):
        if len(words) < 2:
            continue
        shared: defaultdict[int, float] = defaultdict(float)
        for word in words:
            for other in postings[word]:
                shared[other] += weights[word]
            postings[word].append(place)
        for other, weight in shared.items():
            smaller = min(totals[place], totals[other])
            if weight >= _CONTAINED * smaller > 0:
                yield place, other, weight / smaller
