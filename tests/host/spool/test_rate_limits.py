"""Shares without a host: tokens come back, a day ends, idle senders are forgotten."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.spool.rate_limits import Buckets, DayCount, Limiter, Shares

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
ALICE, BOB = ("main", "alice"), ("main", "bob")


def limiter(requests_per_second: float = 0, group_requests_per_second: float = 0, burst_seconds: float = 10) -> Limiter:
    return Limiter(Shares(requests_per_second, group_requests_per_second, burst_seconds), {}, NOON)


def test_a_burst_is_served_then_one_for_each_token_that_comes_back() -> None:
    limits = limiter(requests_per_second=2, burst_seconds=5)
    assert [limits.admit(*ALICE, now=100.0) for _ in range(10)] == [None] * 10
    over = limits.admit(*ALICE, now=100.0)
    assert over is not None
    name, refusal = over
    assert (name, refusal.code, refusal.retry_after_seconds) == ("rate", "rate_limited", 0.5)
    assert "limits.requests_per_second" in refusal.message
    assert limits.admit(*ALICE, now=100.49) is not None
    assert limits.admit(*ALICE, now=100.5) is None
    assert limits.admit(*ALICE, now=100.5) is not None


def test_a_refused_request_takes_no_token_of_anybody() -> None:
    limits = limiter(requests_per_second=1, group_requests_per_second=1, burst_seconds=2)
    assert [limits.admit(*ALICE, now=0.0) for _ in range(2)] == [None, None]
    for _ in range(50):
        assert limits.admit(*ALICE, now=0.9) is not None
    assert limits.admit(*BOB, now=1.0) is None  # the group has one again, and alice had not taken it


def test_a_group_has_a_share_over_all_its_senders_and_others_have_their_own() -> None:
    limits = limiter(group_requests_per_second=1, burst_seconds=3)
    for sender in ("alice", "bob", "carol"):
        assert limits.admit("main", sender, now=0.0) is None
    over = limits.admit("main", "dave", now=0.0)
    assert over is not None
    assert over[0] == "group_rate"
    assert "limits.group_requests_per_second" in over[1].message
    assert limits.admit("other", "dave", now=0.0) is None


@given(
    per_second=st.floats(0.1, 100),
    burst=st.floats(0, 50),
    pauses=st.lists(st.floats(0, 3), min_size=1, max_size=80),
)
def test_no_span_of_time_gives_more_than_its_burst_and_its_rate(
    per_second: float, burst: float, pauses: list[float]
) -> None:
    buckets: Buckets[str] = Buckets(per_second, burst)
    now, served = 0.0, []
    for pause in pauses:
        now += pause
        wait = buckets.seconds_until("x", now)
        if wait == 0:
            buckets.take("x", now)
            served.append(now)
        else:
            assert buckets.seconds_until("x", now + wait + 1e-6) == 0  # what is said is when it is so
    for first, since in enumerate(served):
        for last, until in enumerate(served[first:], first):
            assert last - first + 1 <= max(1.0, burst) + (until - since) * per_second + 1e-6


def test_senders_whose_bucket_is_full_again_are_forgotten() -> None:
    buckets: Buckets[int] = Buckets(1, 2)
    for sender in range(50_000):
        buckets.take(sender, now=sender / 100)
    assert len(buckets) < 2100  # those of the last two seconds, and 1024 more before it is looked at


def test_a_clock_that_stands_still_or_goes_back_gives_no_tokens() -> None:
    buckets: Buckets[str] = Buckets(1, 1)
    buckets.take("x", 100.0)
    assert buckets.seconds_until("x", 50.0) == 1.0


def test_notes_of_a_day_are_counted_by_sender_until_midnight_utc() -> None:
    count: DayCount[tuple[str, str]] = DayCount(3, {ALICE: 2}, NOON)
    assert count.seconds_until(ALICE, NOON) == 0
    count.add(ALICE, NOON, 1)
    assert count.seconds_until(ALICE, NOON) == 12 * 3600
    assert count.seconds_until(BOB, NOON) == 0
    midnight = NOON + timedelta(hours=12)
    assert count.seconds_until(ALICE, midnight - timedelta(seconds=1)) == 1
    assert count.seconds_until(ALICE, midnight) == 0
    assert count.used(ALICE, midnight) == 0


def test_what_could_not_be_saved_is_given_back() -> None:
    count: DayCount[tuple[str, str]] = DayCount(1, {}, NOON)
    count.add(ALICE, NOON, 1)
    count.add(ALICE, NOON, -1)
    assert count.seconds_until(ALICE, NOON) == 0
    count.add(ALICE, NOON + timedelta(days=1), -1)  # yesterday's does not make today's share larger
    assert count.used(ALICE, NOON + timedelta(days=1)) == 0


def test_a_clock_that_goes_back_over_midnight_gives_nobody_a_second_day() -> None:
    count: DayCount[tuple[str, str]] = DayCount(1, {}, NOON)
    count.add(ALICE, NOON, 1)
    assert count.seconds_until(ALICE, NOON - timedelta(days=1)) > 0


@pytest.mark.parametrize("burst_seconds", [0, 10])
def test_zero_is_no_limit_and_nothing_is_kept(burst_seconds: float) -> None:
    limits = limiter(burst_seconds=burst_seconds)
    assert {limits.admit("main", f"s{number}", now=0.0) for number in range(3000)} == {None}
    assert {limits.admit_notes(*ALICE, 1, NOON) for _ in range(3000)} == {None}
    assert len(limits._senders) == len(limits._groups) == len(limits.notes.counts) == 0


def test_being_over_is_news_once_a_minute_and_those_who_were_are_named_newest_first() -> None:
    limits = limiter()
    assert limits.note_hit(*ALICE, "rate", 0.0)
    assert not limits.note_hit(*ALICE, "rate", 59.0)
    assert limits.note_hit(*ALICE, "notes", 59.0)
    assert limits.note_hit(*ALICE, "rate", 60.0)
    assert limits.lately(61.0) == [(*ALICE, "rate"), (*ALICE, "notes")]
    assert limits.lately(700.0) == []
    assert limits.hits == {"rate": 3, "notes": 1}


def test_the_number_of_those_who_are_named_is_bounded() -> None:
    limits = limiter()
    for number in range(5000):
        limits.note_hit("main", f"s{number}", "rate", 0.0)
    assert len(limits.lately(0.0)) == 1000
    assert limits.hits["rate"] == 5000
