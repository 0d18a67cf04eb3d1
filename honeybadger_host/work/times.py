"""The runs of a schedule: once, at an interval, or by a cron line in a time zone (HB7); the due and the missed ones.

The clock of a zone jumps. A line with a fixed time of day runs once on such a day: a time that comes twice counts the
first time, and a time that does not exist is replaced by the first moment after the gap. A line whose minutes or hours
begin with `*` follows the wall clock: it runs through the repeated hour, too, as cron on Debian does.

`cronsim` reads the lines and finds the next match on a clock that never jumps. The jumps are handled here: `cronsim`
answers a moment before the one it was asked about in the second half of a repeated hour, and leaves out half an hour
where a clock is set back by 30 minutes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Literal, TypeAlias
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from honeybadger_host.configuration import host_zone
from honeybadger_host.errors import SettingsError
from honeybadger_host.settings import Dream

_MINUTE = timedelta(minutes=1)
_MAX_SET_BACK = timedelta(hours=3)  # no zone sets its clock back by more at once


@dataclass(frozen=True, slots=True)
class Once:
    """One run.

    Args:
        at: an aware time.
    """

    at: datetime


@dataclass(frozen=True, slots=True)
class Interval:
    """A run at fixed intervals, counted from an anchor, so that a late run does not move the later ones.

    Args:
        every: positive.
        anchor: an aware time; the first run is one interval later.
    """

    every: timedelta
    anchor: datetime


@dataclass(frozen=True, slots=True)
class Cron:
    """Runs by a cron line; see `read_cron`."""

    expression: str
    zone: ZoneInfo


Schedule: TypeAlias = Once | Interval | Cron


def read_zone(name: str) -> ZoneInfo:
    """Return an IANA time zone. Raises ValueError if it is not known here."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise ValueError(
            f"time zone {name!r} is not known here: use an IANA name such as Europe/Berlin (if all names are unknown: "
            f"pip install tzdata)"
        ) from None


def read_cron(expression: str, zone: ZoneInfo, now: datetime, least_seconds: float = 60) -> Cron:
    """Return the schedule of a cron line of 5 fields, or of 6 with the seconds first.

    Args:
        least_seconds: seconds between two runs at least.
    Raises:
        ValueError: it cannot be read, never fires, or fires too often.
    """
    line = " ".join(expression.split())
    try:
        parsed = CronSim(line, datetime(2000, 1, 1))  # noqa: DTZ001  any clock that never jumps
    except (CronSimError, ValueError, TypeError, AssertionError) as error:
        why = str(error) if isinstance(error, CronSimError) else "its fields do not fit together"
        raise ValueError(
            f"cron line {line!r} cannot be read, or names a day that does not exist ({why}): write minute, hour, day "
            f"of month, month, day of week, such as `0 9 * * MON-FRI`"
        ) from None
    cron = Cron(line, zone)
    if next_run(cron, now) is None:
        raise ValueError(f"cron line {line!r} never fires: no date of the next 50 years fits it")
    if least_seconds > 1 and len(parsed.seconds) > 1:
        raise ValueError(f"cron line {line!r} fires more than once a minute; allowed is once in {least_seconds:g} s")
    return cron


def dream_times(dream: Dream) -> Cron | None:
    """Return the times at which groups dream; None: only on request. Raises SettingsError."""
    try:
        return read_cron(dream.schedule, read_zone(host_zone()), datetime.now(UTC)) if dream.schedule else None
    except ValueError as error:
        raise SettingsError(f"setting dream.schedule: {error}") from None


def next_run(schedule: Schedule, after: datetime) -> datetime | None:
    """Return the first run after a moment, in UTC, or None if there is none (for a cron line: within 50 years).

    Args:
        after: aware.
    """
    after = after.astimezone(UTC)
    match schedule:
        case Once(at=at):
            return at.astimezone(UTC) if at > after else None
        case Interval(every=every, anchor=anchor):
            return anchor.astimezone(UTC) + (max((after - anchor) // every, 0) + 1) * every
        case Cron(expression=expression, zone=zone):
            fields = expression.split()
            if not (fields[-5].startswith("*") or fields[-4].startswith("*")):
                return _next_fixed(expression, zone, after)
            shown = [_next_shown(expression, zone, after, fold) for fold in (0, 1)]
            return min((at for at in shown if at is not None), default=None)


def runs(schedule: Schedule, after: datetime) -> Iterator[datetime]:
    while (at := next_run(schedule, after)) is not None:
        yield at
        after = at


def _next_fixed(expression: str, zone: ZoneInfo, after: datetime) -> datetime | None:
    """Return the next run of a line with fixed times of day; each runs once, also on a day on which the clock jumps."""
    for wall in CronSim(expression, _wall(after, zone)):
        at = wall.replace(tzinfo=zone).astimezone(UTC)  # the first, if the time comes twice
        while _wall(at, zone) != wall:  # the clock jumps over this time: the next minute that it shows
            wall = wall.replace(second=0) + _MINUTE
            at = wall.replace(tzinfo=zone).astimezone(UTC)
        if at > after:
            return at
    return None


def _next_shown(expression: str, zone: ZoneInfo, after: datetime, fold: Literal[0, 1]) -> datetime | None:
    """Return the next moment with a matching time; of a time that comes twice, the first (0) or the second (1)."""
    start = min(_wall(after, zone), _wall(after + _MAX_SET_BACK, zone) - _MAX_SET_BACK)
    for wall in CronSim(expression, start):
        at = wall.replace(tzinfo=zone, fold=fold).astimezone(UTC)
        if at > after and _wall(at, zone) == wall:
            return at
    return None


def _wall(at: datetime, zone: ZoneInfo) -> datetime:
    """Return the local time in a zone, without its zone."""
    return at.astimezone(zone).replace(tzinfo=None)


Missed: TypeAlias = Literal["skip", "latest", "all"]

MAX_MADE_UP = 24  # newest missed runs that `all` makes up for: a day of an hourly task
SKIP_GRACE_SECONDS = 60.0  # a run with `skip` may begin this late: a busy host has not missed it


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
    if not in_time:
        return Due(None, (first, newest[-1]), newest[-1])
    return Due(in_time[0], missed_before(schedule, since, in_time[0]), in_time[0])


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
    reach = _MINUTE
    while True:
        start = max(since, now - reach)
        found = list(takewhile(lambda at: at <= now, runs(schedule, start)))
        if len(found) >= most or start == since:
            return found[-most:]
        reach *= 2
