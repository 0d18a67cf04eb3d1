"""Time that nobody sets: when the wall clock jumped, and how long ago something was in time that a host served.

The wall clock only stamps what people read. It may be set by a year in either direction, by hand or when the network
comes up; nothing may be forgotten or kept for ever because of that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

# Seconds of service for which a repeated request gets its first reply; after that it is a new request.
RECEIPT_SECONDS: Final = 7 * 86_400.0
_REST: Final = 50
_MAX_REST_SECONDS: Final = 10.0
_MIN_JUMP_SECONDS: Final = 60.0  # A clock that is slewed moves by 0.5 ms a second: 30 ms between two looks
# Moments in which a term is counted: something is kept at most one twentieth longer than its term.
_MOMENTS_OF_A_TERM: Final = 20


def steady_seconds() -> float:
    """Return seconds since the machine started, which nobody sets; the time it slept is counted where that is known."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def rest_after(seconds: float) -> float:
    """Return how long to wait after a look at all groups that kept the processor busy for `seconds`.

    So each kind of look takes 2 % of a core at most while nothing happens, up to ten thousand groups.
    """
    return min(_REST * seconds, _MAX_REST_SECONDS)


class WallClock:
    """Notices when the wall clock is set, by a clock that is not."""

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = steady_seconds) -> None:
        self._wall = wall
        self._steady = steady
        self._seen = (wall(), steady())
        self._begun_at = self._seen[1]
        self._jumped_at: float | None = None

    def look(self) -> float:
        """Return by how many seconds the clock was set since the last look; 0 for less than a minute."""
        before, then = self._seen
        self._seen = wall, steady = self._wall(), self._steady()
        jump = (wall - before) - (steady - then)
        if abs(jump) < _MIN_JUMP_SECONDS:
            return 0.0
        self._jumped_at = steady
        return jump

    @property
    def seen(self) -> float:
        """The wall clock at the last look. It may be set at any moment afterwards."""
        return self._seen[0]

    def was_watched_for(self, seconds: float) -> bool:
        """Return whether this process has seen for `seconds` that nobody set the clock.

        Only then is a file that is stamped more than `seconds` ago that old.
        """
        since = self._begun_at if self._jumped_at is None else self._jumped_at
        return self._steady() - since >= seconds


class Moment(NamedTuple):
    """Every change up to `seq` was there when hosts had served the home for `served` seconds."""

    served: float
    seq: int


@dataclass(slots=True)
class Ages:
    """How old changes are, in time that hosts served the home: whatever the wall clock says, and said.

    Args:
        term: seconds for which something is kept.
        served: seconds that hosts served the home so far.
        moments: oldest first.
    """

    term: float
    served: float = 0.0
    moments: list[Moment] = field(default_factory=list)

    @classmethod
    def of(cls, term: float, kept: Sequence[float]) -> Ages:
        """Return what `dump` gave; nothing is old for a journal that has none."""
        served, *rest = kept or (0.0,)
        return cls(term, served, [Moment(at, int(seq)) for at, seq in zip(rest[::2], rest[1::2], strict=True)])

    def dump(self) -> list[float]:
        return [self.served, *(number for moment in self.moments for number in moment)]

    def pass_time(self, seconds: float, newest_seq: int) -> int:
        """Take in that a host served for `seconds` more; return the change up to which all are over the term.

        Args:
            newest_seq: of the changes that are there now.
        """
        self.served += seconds
        over = 0
        while self.moments and self.served - self.moments[0].served >= self.term:
            over = self.moments.pop(0).seq
        last = self.moments[-1] if self.moments else Moment(-self.term, over)
        if newest_seq > last.seq and self.served - last.served >= self.term / _MOMENTS_OF_A_TERM:
            self.moments.append(Moment(self.served, newest_seq))
        return over
