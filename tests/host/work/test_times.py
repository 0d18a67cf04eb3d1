"""When schedules run next, against a second implementation that walks over every minute."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise, takewhile
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.work.times import (
    MAX_MADE_UP,
    Cron,
    Due,
    Interval,
    Missed,
    Once,
    Schedule,
    due,
    next_run,
    read_cron,
    read_zone,
    runs,
)

MINUTE = timedelta(minutes=1)
NAMES = {name: number for number, name in enumerate(("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"))}
RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
# Zone -> the days in whose night its clock jumps.
EDGES = {
    "Europe/Berlin": ("2026-03-29", "2026-10-25"),
    "America/New_York": ("2026-03-08", "2026-11-01"),
    "Australia/Lord_Howe": ("2026-04-05", "2026-10-04"),  # by half an hour
    "America/Santiago": ("2026-04-05", "2026-09-06"),  # at midnight
    "Africa/Casablanca": ("2026-02-15", "2026-03-22"),  # back for Ramadan, and forward again
}
LINES = (
    *("* * * * *", "*/7 * * * *", "0 * * * *", "*/20 2 * * *", "*/15 0,1,23 * * *", "10 */2 * * *", "* 1-3 * * SUN"),
    *("30 2 * * *", "0,30 1-3 * * *", "15 0 * * MON-FRI", "45 1 * * *", "59 23 * * *", "0-59 2 * * *"),
    "5,50 0-23 * * *",
)


def numbers(field: str, low: int, high: int) -> set[int]:
    """Return what a field of a cron line names: numbers, ranges, lists and steps."""
    found: set[int] = set()
    for part in field.split(","):
        reach, _, step = part.partition("/")
        first, _, last = reach.partition("-")
        ends = (
            (low, high)
            if reach == "*"
            else (int(NAMES.get(first, first)), int(NAMES.get(last or first, last or first)))
        )
        found |= set(range(ends[0], ends[1] + 1, int(step or 1)))
    return found


def clock(zone: ZoneInfo, first: datetime, last: datetime) -> list[tuple[datetime, datetime]]:
    """Return each minute of a stretch of time, and what a clock shows then."""
    return [(at, at.astimezone(zone).replace(tzinfo=None)) for at in every_minute(first, last)]


def brute_force(line: str, shown: Sequence[tuple[datetime, datetime]]) -> list[datetime]:
    """Return the runs of a line of 5 fields, by looking at what a clock shows at every minute."""
    minutes, hours, days, months, weekdays = (
        numbers(*of) for of in zip(line.split(), *zip(*RANGES, strict=True), strict=True)
    )

    def fits(wall: datetime) -> bool:
        return (
            wall.minute in minutes
            and wall.hour in hours
            and wall.day in days
            and wall.month in months
            and (wall.weekday() + 1) % 7 in weekdays
        )

    fields = line.split()
    if fields[0].startswith("*") or fields[1].startswith("*"):
        return [at for at, wall in shown if fits(wall)]
    runs: set[datetime] = set()
    latest = shown[0][1] - MINUTE
    for at, wall in shown:  # the clock at its furthest: what it passes for the first time is due, jumped over or not
        while latest < wall:
            latest += MINUTE
            if fits(latest):
                runs.add(at)
    return sorted(runs)


def every_minute(first: datetime, last: datetime, step: timedelta = MINUTE) -> Iterator[datetime]:
    while first <= last:
        yield first
        first += step


def runs_of(schedule: Schedule, after: datetime, last: datetime) -> list[datetime]:
    return list(takewhile(lambda at: at <= last, runs(schedule, after)))


def noon(day: str) -> datetime:
    return datetime.fromisoformat(f"{day}T12:00:00Z")


@pytest.mark.parametrize(("zone", "day"), [(zone, day) for zone, days in EDGES.items() for day in days])
def test_runs_at_a_clock_jump_match_a_minute_walk(zone: str, day: str) -> None:
    read = read_zone(zone)
    first, last = noon(day) - timedelta(days=2), noon(day) + timedelta(days=1)
    assert first.astimezone(read).utcoffset() != last.astimezone(read).utcoffset(), "the clock does not jump here"
    shown = clock(read, first, last)
    for line in LINES:
        expected = brute_force(line, shown)
        cron = Cron(line, read)
        assert runs_of(cron, first - MINUTE, last) == expected, line
        for after in every_minute(first, noon(day), step=73 * MINUTE):
            after += timedelta(seconds=after.minute, microseconds=after.hour)
            place = bisect_right(expected, after)
            coming = expected[place] if place < len(expected) else next_run(cron, last)
            assert next_run(cron, after) == coming, (line, after)


def test_29_february_comes_every_four_years_except_2100() -> None:
    cron = Cron("0 12 29 2 *", read_zone("America/New_York"))
    days = [
        at.date().isoformat()
        for at in runs_of(cron, datetime(2093, 1, 1, tzinfo=UTC), datetime(2109, 1, 1, tzinfo=UTC))
    ]
    assert days == ["2096-02-29", "2104-02-29", "2108-02-29"]


def test_intervals_keep_their_anchor_over_jumps() -> None:
    anchor = datetime(2026, 3, 28, 7, 0, 30, tzinfo=read_zone("Europe/Berlin"))
    interval = Interval(timedelta(hours=7), anchor)
    at = anchor.astimezone(UTC)
    assert next_run(interval, at - timedelta(days=900)) == at + timedelta(hours=7)
    for number in range(1, 50):
        at = anchor.astimezone(UTC) + number * timedelta(hours=7)
        assert next_run(interval, at - timedelta(microseconds=1)) == at
        assert (
            next_run(interval, at) == next_run(interval, at + timedelta(hours=6, minutes=59)) == at + timedelta(hours=7)
        )


@pytest.mark.parametrize(
    "line",
    ["", "* * *", "* * * *", "60 * * * *", "a b c d e", "*/0 * * * *", "1#2/3 * * * 1#2/3", "0 0 * * 1#2/3", "@daily"],
)
def test_an_unreadable_line_is_refused_with_an_example(line: str) -> None:
    with pytest.raises(ValueError, match=r"cannot be read.*such as `0 9"):
        read_cron(line, read_zone("UTC"), datetime(2026, 1, 1, tzinfo=UTC))


def test_seconds_are_read_and_bounded() -> None:
    now, zone = datetime(2026, 1, 1, tzinfo=UTC), read_zone("UTC")
    assert next_run(read_cron("15 30 9 * * mon-fri", zone, now), now) == datetime(2026, 1, 1, 9, 30, 15, tzinfo=UTC)
    with pytest.raises(ValueError, match="more than once a minute"):
        read_cron("*/2 * * * * *", zone, now)
    every = read_cron("*/2 * * * * *", zone, now, least_seconds=1)
    found = runs_of(every, now, now + MINUTE)
    assert {later - at for at, later in pairwise(found)} == {timedelta(seconds=2)}


@pytest.mark.parametrize(
    "name", ["", "Europe", "Mars/Olympus", "../../etc/passwd", "/etc/localtime", "\0", "UTC+1", "x" * 300]
)
def test_an_unknown_zone_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not known here: use an IANA name"):
        read_zone(name)


@given(st.text(alphabet="0123456789*/-,#LWMONFRI @?.", max_size=30))
def test_no_line_breaks_what_reads_it(line: str) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    try:
        cron = read_cron(line, ZoneInfo("Europe/Berlin"), now)
    except ValueError:
        return
    found = next_run(cron, now)
    assert found is not None
    assert found > now


HOURLY = Cron("0 * * * *", read_zone("UTC"))
NOON = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize("missed", ["skip", "latest", "all"])
def test_nothing_is_due_before_its_time_nor_again(missed: Missed) -> None:
    assert due(HOURLY, NOON, NOON + HOUR - SECOND, missed) is None
    assert due(HOURLY, NOON, NOON, missed) is None
    assert due(HOURLY, NOON, NOON - 400 * HOUR, missed) is None  # the clock was set back


@pytest.mark.parametrize("missed", ["skip", "latest", "all"])
def test_a_run_whose_time_has_come_is_due(missed: Missed) -> None:
    assert due(HOURLY, NOON, NOON + HOUR + SECOND, missed) == Due(NOON + HOUR, None, NOON + HOUR)
    once = Once(NOON)
    assert due(once, NOON - HOUR, NOON, missed) == Due(NOON, None, NOON)
    assert due(once, NOON, NOON + HOUR, missed) is None


def test_none_is_made_up_for_that_began_too_late() -> None:
    after = NOON + 5 * HOUR + timedelta(minutes=30)
    nothing = Due(None, (NOON + HOUR, NOON + 5 * HOUR), NOON + 5 * HOUR)
    assert due(HOURLY, NOON, after, "skip") == nothing
    assert due(HOURLY, NOON, after, "latest", 1799) == nothing
    assert due(HOURLY, NOON, after, "latest", 1800) == due(HOURLY, NOON, after, "latest")
    assert due(HOURLY, NOON, after, "skip", 1800) == due(HOURLY, NOON, after, "latest")


def test_all_missed_runs_are_made_up_to_a_bound() -> None:
    now, since = NOON + 5 * HOUR, NOON
    made_up = []
    while (found := due(HOURLY, since, now, "all")) is not None:
        assert found.run is not None
        assert found.missed is None
        made_up.append(found.run)
        since = found.until
    assert made_up == [NOON + number * HOUR for number in range(1, 6)]
    found = due(HOURLY, NOON, NOON + 100 * HOUR, "all")
    oldest = NOON + (101 - MAX_MADE_UP) * HOUR
    assert found == Due(oldest, (NOON + HOUR, oldest - HOUR), oldest)


def test_a_clock_a_year_ahead_makes_one_run_due() -> None:
    minutely = Cron("* * * * *", read_zone("Europe/Berlin"))
    ahead = NOON + timedelta(days=365)
    found = due(minutely, NOON, ahead, "latest")
    assert found == Due(ahead, (NOON + 60 * SECOND, ahead - 60 * SECOND), ahead)
    assert due(minutely, found.until, NOON + HOUR, "latest") is None
