"""The run that is due and those that were missed, after any time without a look."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from honeybadger_host.work.times import MAX_MADE_UP, Cron, Due, Missed, Once, due, read_zone

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


def test_the_latest_missed_run_is_made_up_for() -> None:
    after = NOON + 5 * HOUR + timedelta(minutes=30)
    assert due(HOURLY, NOON, after, "latest") == Due(NOON + 5 * HOUR, (NOON + HOUR, NOON + 4 * HOUR), NOON + 5 * HOUR)


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
