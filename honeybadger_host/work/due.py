"""The due run and the missed runs of a schedule; the time is an argument."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Final, Literal, TypeAlias

from honeybadger_host.work.times import Schedule, next_run, runs

Missed: TypeAlias = Literal["skip", "latest", "all"]

MAX_MADE_UP: Final = 24  # newest missed runs that `all` makes up for: a day of an hourly task
SKIP_GRACE_SECONDS: Final = 60.0  # a run with `skip` may begin this late: a busy host has not missed it


@dataclass(frozen=True, slots=True)
class Due:
    """The decision about runs whose moment has passed; at least one.

    Args:
        run: the run to begin; None: none.
        missed: the first and the last of the earlier runs that are not made up for; None: there are none.
        until: all runs up to this time are dealt with then.
    """

    run: datetime | None
    missed: tuple[datetime, datetime] | None
    until: datetime


def due(
    schedule: Schedule, since: datetime, now: datetime, missed: Missed, grace_seconds: float | None = None
) -> Due | None:
    """Return the decision that is due now, or None if nothing is due.

    Args:
        since: runs up to it are dealt with; if it is after `now`, nothing is due.
        grace_seconds: how late a run may begin; None: a minute with `skip`, else without limit.
    """
    first = next_run(schedule, since)
    if first is None or first > now:
        return None
    if grace_seconds is None and missed == "skip":
        grace_seconds = SKIP_GRACE_SECONDS
    newest = _newest(schedule, since, now, MAX_MADE_UP if missed == "all" else 1)
    in_time = [at for at in newest if grace_seconds is None or (now - at).total_seconds() <= grace_seconds]
    run = in_time[0] if in_time else None
    if run is None:
        return Due(None, (first, newest[-1]), newest[-1])
    return Due(run, missed_before(schedule, since, run), run)


def missed_before(schedule: Schedule, since: datetime, run: datetime) -> tuple[datetime, datetime] | None:
    """Return the first and the last run between two moments, or None if there is none.

    Args:
        since: runs up to it are dealt with.
        run: the run that is made instead.
    """
    first = next_run(schedule, since)
    if first is None or first >= run:
        return None
    return first, _newest(schedule, since, run - timedelta(microseconds=1), 1)[-1]


def _newest(schedule: Schedule, since: datetime, now: datetime, most: int) -> list[datetime]:
    """Return the newest `most` runs up to now, oldest first."""
    reach = timedelta(minutes=1)
    while True:
        start = max(since, now - reach)
        found = list(takewhile(lambda at: at <= now, runs(schedule, start)))
        if len(found) >= most or start == since:
            return found[-most:]
        reach *= 2
