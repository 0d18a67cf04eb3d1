"""Time that does not depend on the wall clock: it notices jumps of that clock, and counts ages in seconds of service.

The wall clock is used only for times that people read. It may be set by a year in either direction, by hand or by the
network, and that must not make the host remove something too early or keep it for ever.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from honeybadger_host.files.home import CLOCK_GRACE_SECONDS

ResultT = TypeVar("ResultT")

# Seconds of service in which a repeated request gets its first reply; later it is a new request.
RECEIPT_SECONDS = 7 * 86_400.0
# Seconds of rest for each second of processor time of a look at all groups: an idle host spends at most 0.2 % of a core
# on each kind of look, and 5 % where only looks find what people do. Six kinds and the rest of a host take 1.5 %.
_REST_FACTOR = 500
_REST_FACTOR_WITHOUT_EVENTS = 20
# Parts of a term after which a moment is noted: something is kept at most one twentieth longer than its term.
_PARTS_OF_TERM = 20


def steady_seconds() -> float:
    """Return seconds since the machine started, with the time it slept where the system counts it."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def measured(look: Callable[[], ResultT]) -> tuple[ResultT, float]:
    """Call a function; return its result, and the seconds of processor time that it took."""
    begun = time.thread_time()
    result = look()
    return result, time.thread_time() - begun


def rest_after(seconds: float, *, has_events: bool = True) -> float:
    """Return how long to rest after a look at all groups that took `seconds` of processor time.

    A busy machine does not lengthen the rest.

    Args:
        has_events: events report what the look finds; it only finds what they missed.
    """
    return seconds * (_REST_FACTOR if has_events else _REST_FACTOR_WITHOUT_EVENTS)


class WallClock:
    """Notices when the wall clock is set, by comparing it with a steady clock."""

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = steady_seconds) -> None:
        self._wall = wall
        self._steady = steady
        self._seen = (wall(), steady())
        self._steady_since = self._seen[1]  # the start, or the last jump

    def look(self) -> float:
        """Return by how many seconds the clock was set since the last look; 0 if it was only slewed."""
        before, then = self._seen
        self._seen = wall, steady = self._wall(), self._steady()
        jump = (wall - before) - (steady - then)
        if abs(jump) < CLOCK_GRACE_SECONDS:
            return 0.0
        self._steady_since = steady
        return jump

    @property
    def seen(self) -> float:
        """The wall clock at the last look."""
        return self._seen[0]

    def was_watched_for(self, seconds: float) -> bool:
        """Return whether nobody has set the clock in the last `seconds`, as far as this process saw.

        Only then is a file with a time stamp `seconds` ago really that old.
        """
        return self._steady() - self._steady_since >= seconds


class Moment(NamedTuple):
    """The seconds that hosts had served the home, and the number of the newest change then."""

    served: float
    seq: int


@dataclass(slots=True)
class Ages:
    """Ages of changes in seconds of service, independent of the wall clock.

    Args:
        term: seconds of service for which something is kept.
        served: seconds that hosts have served the home.
        moments: oldest first.
    """

    term: float
    served: float = 0.0
    moments: list[Moment] = field(default_factory=list)

    @classmethod
    def of(cls, term: float, kept: Sequence[float]) -> Ages:
        """Return the ages from the numbers of `dump`; without numbers no change is old yet."""
        served, *rest = kept or (0.0,)
        return cls(term, served, [Moment(at, int(seq)) for at, seq in zip(rest[::2], rest[1::2], strict=True)])

    def dump(self) -> list[float]:
        return [self.served, *(number for moment in self.moments for number in moment)]

    def pass_time(self, seconds: float, newest_seq: int) -> int:
        """Add seconds of service; return the number of the newest change that is older than the term.

        Args:
            newest_seq: number of the newest change now.
        """
        self.served += seconds
        over = 0
        while self.moments and self.served - self.moments[0].served >= self.term:
            over = self.moments.pop(0).seq
        last = self.moments[-1] if self.moments else Moment(-self.term, over)
        if newest_seq > last.seq and self.served - last.served >= self.term / _PARTS_OF_TERM:
            self.moments.append(Moment(self.served, newest_seq))
        return over
