"""Limits of each sender: requests a second, requests that may wait in an inbox, and the refusals above them.

Pure: the clock is an argument, nothing is read or written. One thread at a time (docs/decisions/018-limits.md).
"""

import math
from collections import Counter
from collections.abc import Hashable
from typing import Literal, TypeAlias

from honeybadger_agent.wire import Refusal

LimitName: TypeAlias = Literal["rate", "pending"]
MAX_REQUEST_BYTES = 262_144  # size limit of one request file, in bytes
PENDING_FILES = 200_000  # requests that may wait in an inbox: no honest sender comes near, a runaway loop does
KEPT_REPLIES = 100_000
KEPT_REPLY_BYTES = 1 << 28  # uncollected replies of an inbox, and their bytes; above either the oldest are removed
BURST_SECONDS = 10.0  # seconds of the share that may be used at once after a pause
RETRY_SECONDS = 1.0  # pause before a request that was refused, or could not be read or answered, is tried again


class Buckets:
    """Token buckets, one for each sender.

    Args:
        per_second: tokens that come back in a second; 0: no limit.
        most: tokens of a full bucket, at least one.
    """

    def __init__(self, per_second: float, most: float) -> None:
        self._per_second = per_second
        self._most = max(1.0, most)
        self._levels: dict[Hashable, tuple[float, float]] = {}

    def take(self, key: Hashable, now: float) -> float:
        """Take a token and return 0, or return the seconds until there is one."""
        if not self._per_second:
            return 0.0
        left, at = self._levels.get(key, (self._most, now))
        level = min(self._most, left + max(0.0, now - at) * self._per_second)
        if level < 1:
            return (1 - level) / self._per_second
        self._levels[key] = (level - 1, now)
        return 0.0


class Limiter:
    """Decides which requests are over a limit, and counts them.

    Attributes:
        hits: limit -> requests refused since the start.
        reached_at: "group/sender: limit" -> when a request was last refused for it, monotonic seconds.
    """

    def __init__(self, per_second: float) -> None:
        self.hits: Counter[LimitName] = Counter()
        self.reached_at: dict[str, float] = {}
        self._per_second = per_second
        self._buckets = Buckets(per_second, per_second * BURST_SECONDS)

    def admit(
        self, group: str, sender: str, now: float, *, is_pending: bool = False
    ) -> tuple[LimitName, Refusal] | None:
        """Take a token of the sender and return None, or count and return the limit it is over, and the refusal.

        Args:
            is_pending: the request waits behind too many others of its sender.
        """
        limit: LimitName = "pending" if is_pending else "rate"
        if is_pending:
            seconds, why = RETRY_SECONDS, f"more than {PENDING_FILES} requests of this sender wait"
        elif seconds := self._buckets.take((group, sender), now):
            why = f"{sender} sends more than {self._per_second:g} requests a second (limits.requests_per_second)"
        else:
            return None
        self.hits[limit] += 1
        self.reached_at[f"{group}/{sender}: {limit}"] = now
        seconds = max(0.001, math.ceil(seconds * 1000) / 1000)
        why = f"{why}; nothing was changed: wait {seconds:g} s, then send it again"
        return limit, Refusal("rate_limited", why, retry_after_seconds=seconds)
