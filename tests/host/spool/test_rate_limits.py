"""Shares without a host: tokens come back, idle senders are forgotten."""

from __future__ import annotations

import copy

from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.spool.rate_limits import Buckets, Limiter

ALICE = ("main", "alice")


def test_a_burst_is_served_then_one_per_token() -> None:
    limits = Limiter(2)
    assert [limits.admit(*ALICE, now=100.0) for _ in range(20)] == [None] * 20  # ten seconds of it
    over = limits.admit(*ALICE, now=100.0)
    assert over is not None
    name, refusal = over
    assert (name, refusal.code, refusal.retry_after_seconds) == ("rate", "rate_limited", 0.5)
    assert "limits.requests_per_second" in refusal.message
    for now in (100.1, 100.2, 100.49):  # a refused request takes no token
        assert limits.admit(*ALICE, now=now) is not None
    assert limits.admit(*ALICE, now=100.5) is None
    assert limits.admit(*ALICE, now=100.5) is not None
    assert limits.admit("main", "bob", now=100.5) is None


@given(
    per_second=st.floats(0.1, 100),
    burst=st.floats(0, 50),
    pauses=st.lists(st.floats(0, 3), min_size=1, max_size=80),
)
def test_no_span_exceeds_its_burst_and_rate(per_second: float, burst: float, pauses: list[float]) -> None:
    buckets = Buckets(per_second, burst)
    now, served = 0.0, []
    for pause in pauses:
        now += pause
        if (wait := buckets.take(ALICE, now)) == 0:
            served.append(now)
        else:
            assert copy.deepcopy(buckets).take(ALICE, now + wait + 1e-6) == 0  # what is said is when it is so
    for first, since in enumerate(served):
        for last, until in enumerate(served[first:], first):
            assert last - first + 1 <= max(1.0, burst) + (until - since) * per_second + 1e-6


def test_senders_whose_bucket_is_full_again_are_forgotten() -> None:
    buckets = Buckets(1, 2)
    for sender in range(50_000):
        buckets.take(("main", f"{sender}"), now=sender / 100)
    assert len(buckets) < 2100  # those of the last two seconds, and 1024 more before it is looked at


def test_a_stopped_or_returning_clock_gives_no_tokens() -> None:
    buckets = Buckets(1, 1)
    assert buckets.take(ALICE, 100.0) == 0
    assert buckets.take(ALICE, 50.0) == 1.0


def test_zero_is_no_limit() -> None:
    limits = Limiter(0)
    assert {limits.admit("main", f"s{number}", now=0.0) for number in range(3000)} == {None}
