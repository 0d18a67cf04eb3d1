"""Who may still ask: a share of requests a second, notes of a day, and what is said to those over it.

Pure: the clock is an argument, nothing is read or written. One thread at a time (docs/decisions/018-limits.md).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, Generic, Literal, TypeAlias, TypeVar

from honeybadger_agent.wire import Refusal

LimitName: TypeAlias = Literal["rate", "group_rate", "notes", "pending"]
REMEMBERED: Final = ("note", "entry")
"""Kinds of changes that count as notes of a day: what every later prompt may read."""

_FEWEST_KEPT: Final = 1024
_MOST_NAMED: Final = 1000
_SAID_AGAIN_SECONDS: Final = 60.0
_RECENT_SECONDS: Final = 600.0
_PENDING_PER_SECOND: Final = 1000
"""What a host surely serves: how long a full box is told to wait."""

KeyT = TypeVar("KeyT", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Shares:
    """See `settings.Limits`. 0 means no limit; each is for one sender of one group, unless it says group."""

    requests_per_second: float = 0
    group_requests_per_second: float = 0
    burst_seconds: float = 10
    notes_per_day: int = 0
    pending_files: int = 0
    pending_bytes: int = 0
    kept_replies: int = 0
    kept_reply_bytes: int = 0


class Buckets(Generic[KeyT]):
    """Token buckets, one for each key. Those that are full again are forgotten, so idle senders cost nothing.

    Args:
        per_second: tokens that come back in a second; 0: no limit.
        most: tokens of a full bucket, at least one.
    """

    def __init__(self, per_second: float, most: float) -> None:
        self._per_second = per_second
        self._most = max(1.0, most)
        self._levels: dict[KeyT, tuple[float, float]] = {}
        self._clean_at = _FEWEST_KEPT

    def __len__(self) -> int:
        return len(self._levels)

    def seconds_until(self, key: KeyT, now: float) -> float:
        """Return how long it takes until this key has a token; 0: it has one."""
        if not self._per_second:
            return 0.0
        level = self._level(key, now)
        return 0.0 if level >= 1 else (1 - level) / self._per_second

    def take(self, key: KeyT, now: float) -> None:
        """Take a token, which must be there."""
        if not self._per_second:
            return
        if key not in self._levels and len(self._levels) >= self._clean_at:
            self._levels = {k: v for k, v in self._levels.items() if self._level(k, now) < self._most}
            self._clean_at = max(_FEWEST_KEPT, 2 * len(self._levels))
        self._levels[key] = (self._level(key, now) - 1, now)

    def _level(self, key: KeyT, now: float) -> float:
        level, at = self._levels.get(key, (self._most, now))
        return min(self._most, level + max(0.0, now - at) * self._per_second)


class DayCount(Generic[KeyT]):
    """How many of a UTC day, by key. A new day begins with nothing.

    Args:
        most: of a day; 0: no limit, and nothing is counted.
        counts: of the day of `since`, as the journal has them.
    """

    def __init__(self, most: int, counts: Mapping[KeyT, int] | None = None, since: datetime | None = None) -> None:
        self._most = most
        self._day: date | None = None if since is None else since.astimezone(UTC).date()
        self.counts: Counter[KeyT] = Counter(counts or {})

    def seconds_until(self, key: KeyT, now: datetime, count: int = 1) -> float:
        """Return how long it takes until `count` more may come; 0: they may come now."""
        if not self._most:
            return 0.0
        self._turn(now)
        return 0.0 if self.counts[key] + count <= self._most else (day_after(now) - now).total_seconds()

    def used(self, key: KeyT, now: datetime) -> int:
        """Return how many there were this day."""
        self._turn(now)
        return self.counts[key]

    def add(self, key: KeyT, now: datetime, count: int) -> None:
        """Count what was done; a negative count: it was not done after all."""
        if not self._most:
            return
        self._turn(now)
        self.counts[key] = max(0, self.counts[key] + count)

    def _turn(self, now: datetime) -> None:
        today = now.astimezone(UTC).date()
        if self._day is None or today > self._day:  # a clock that goes back gives nobody a second day
            self._day = today
            self.counts.clear()


class Limiter:
    """Says who is over a share, remembers who was lately, and counts how often.

    Attributes:
        hits: limit -> requests refused since the start.
    """

    def __init__(self, shares: Shares, notes: Mapping[tuple[str, str], int], since: datetime) -> None:
        """Args:
        notes: (group, sender) -> notes of the day of `since`.
        """
        self.shares = shares
        self.hits: Counter[LimitName] = Counter()
        self._senders: Buckets[tuple[str, str]] = Buckets(
            shares.requests_per_second, shares.requests_per_second * shares.burst_seconds
        )
        self._groups: Buckets[str] = Buckets(
            shares.group_requests_per_second, shares.group_requests_per_second * shares.burst_seconds
        )
        self._has_rate = bool(shares.requests_per_second or shares.group_requests_per_second)
        self.notes: DayCount[tuple[str, str]] = DayCount(shares.notes_per_day, notes, since)
        self._recent: dict[tuple[str, str, LimitName], tuple[float, float]] = {}
        """Who was refused for what -> (the last time, the last time it was news), monotonic seconds."""

    def admit(self, group: str, sender: str, now: float) -> tuple[LimitName, Refusal] | None:
        """Take a token of the sender and of the group; when one is missing take none and return why."""
        if not self._has_rate:
            return None
        if seconds := self._senders.seconds_until((group, sender), now):
            return "rate", _refusal(
                f"{sender} sends more than {self.shares.requests_per_second:g} requests a second "
                f"(limits.requests_per_second)",
                seconds,
            )
        if seconds := self._groups.seconds_until(group, now):
            return "group_rate", _refusal(
                f"group {group} sends more than {self.shares.group_requests_per_second:g} requests a second "
                f"(limits.group_requests_per_second)",
                seconds,
            )
        self._senders.take((group, sender), now)
        self._groups.take(group, now)
        return None

    def admit_notes(self, group: str, sender: str, count: int, now: datetime) -> tuple[LimitName, Refusal] | None:
        """Count notes of this day, or count none and return why."""
        if seconds := self.notes.seconds_until((group, sender), now, count):
            return "notes", _refusal(
                f"{sender} has saved {self.notes.counts[group, sender]} notes and entries in {group} today, the limit "
                f"is {self.shares.notes_per_day} (limits.notes_per_day, counted from 00:00 UTC)",
                seconds,
            )
        self.notes.add((group, sender), now, count)
        return None

    def over_pending(self, pending: int) -> tuple[LimitName, Refusal]:
        """Return what is said of a request that waits behind too many others of its sender."""
        return "pending", _refusal(
            f"more than {self.shares.pending_files} requests or {self.shares.pending_bytes} bytes of this sender wait "
            f"(limits.pending_files, limits.pending_bytes)",
            max(1.0, pending / _PENDING_PER_SECOND),
        )

    def note_hit(self, group: str, sender: str, limit: LimitName, now: float) -> bool:
        """Count a refusal; return whether it is news: the first of this sender and limit in a minute."""
        self.hits[limit] += 1
        key = (group, sender, limit)
        _, said = self._recent.pop(key, (0.0, -math.inf))
        is_news = now - said >= _SAID_AGAIN_SECONDS
        self._recent[key] = (now, now if is_news else said)  # the newest is the last
        if len(self._recent) > _MOST_NAMED:
            del self._recent[next(iter(self._recent))]
        return is_news

    def lately(self, now: float) -> list[tuple[str, str, LimitName]]:
        """Return who was refused within ten minutes and for what, newest first."""
        return [key for key, (at, _) in reversed(self._recent.items()) if now - at <= _RECENT_SECONDS]


def day_before(now: datetime) -> datetime:
    """Return when the UTC day of `now` began."""
    return datetime.combine(now.astimezone(UTC).date(), time(), UTC)


def day_after(now: datetime) -> datetime:
    """Return when the next UTC day begins."""
    return day_before(now) + timedelta(days=1)


def _refusal(why: str, seconds: float) -> Refusal:
    seconds = max(0.001, math.ceil(seconds * 1000) / 1000)
    shown = f"{seconds:g} s" if seconds < 120 else f"{math.ceil(seconds / 60)} minutes"
    return Refusal(
        "rate_limited",
        f"{why}; nothing was changed: wait {shown}, then send it again",
        retry_after_seconds=seconds,
    )
