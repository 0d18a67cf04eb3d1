"""Entries similar to a new one: reported to its sender, never merged automatically."""

import re
import time
from collections.abc import Callable, Sequence
from typing import Any

from honeybadger_agent.wording import listed
from honeybadger_host.errors import WorldFailed
from honeybadger_host.log import log
from honeybadger_host.search.index import INDEX_FILE, Index
from honeybadger_host.search.language.similarity import in_common, words_of

LIKENESS = 0.6  # share of all their words that near duplicates have in common
_DIGITS = re.compile(r"\d+")
_MAX_SIMILAR = 3  # similar entries that the answer to a save names
_SHARE_OF_TIME = 0.1  # share of time that the pipeline's reading thread may spend on this advice
_SAVED_SECONDS = 0.05  # processor time that a pause saves up: enough for a few dozen saves at once


class Similar:
    """Looks for entries that say nearly the same. Only the pipeline's reading thread uses it."""

    def __init__(
        self,
        index: Index,
        clock: Callable[[], float] = time.monotonic,
        worked: Callable[[], float] = time.thread_time,
    ) -> None:
        self._index = index
        self._clock = clock
        self._worked = worked
        self._left = _SAVED_SECONDS
        self._looked_at = clock()

    def to(self, group: str, content: str) -> Sequence[dict[str, Any]] | None:
        """Return entries that say nearly the same, most alike first, or None if there was no time to look."""
        now = self._clock()
        self._left = min(_SAVED_SECONDS, self._left + (now - self._looked_at) * _SHARE_OF_TIME)
        self._looked_at = now
        if self._left <= 0:
            return None
        begun = self._worked()
        try:
            return self._found(group, content) if self._index.read_few(group) else None
        except WorldFailed as error:
            log.error("index.failed", file=INDEX_FILE, error=str(error), now_what="a save does not say what is similar")
            return None
        finally:
            self._left -= self._worked() - begun

    def _found(self, group: str, content: str) -> list[dict[str, Any]]:
        words = frozenset(words_of(content))
        near = [
            (in_common(words, frozenset(words_of(one.text))), one) for one in self._index.lookups.nearly(group, content)
        ]
        near = sorted((pair for pair in near if pair[0] >= LIKENESS), key=lambda pair: (-pair[0], pair[1].key))
        return [
            {"id": one.key, "score": round(alike, 2), "what_differs": what_differs(one.text, content)}
            for alike, one in near[:_MAX_SIMILAR]
        ]


def what_differs(older: str, newer: str) -> str:
    """Return the words that only one of two similar texts has, for a reader; empty when they have the same words."""
    there, here = (dict.fromkeys((*words_of(text), *_DIGITS.findall(text))) for text in (older, newer))
    only_there, only_here = [one for one in there if one not in here], [one for one in here if one not in there]
    told: list[str] = []
    for where, words in (("there", only_there), ("here", only_here)):
        if words:
            told.append(f"{where}: {listed(words)}")
    return "; ".join(told)
