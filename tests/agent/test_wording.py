"""Counts and durations as people read them."""

from __future__ import annotations

import pytest

from honeybadger_agent.wording import count_of, in_words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 seconds"),
        (0.42, "0.4 seconds"),
        (1, "1 second"),
        (59.4, "59 seconds"),
        (60, "1 minute"),
        (3599, "59 minutes 59 seconds"),
        (3605, "1 hour"),
        (90_061, "1 day 1 hour"),
        (31_536_000, "365 days"),
    ],
)
def test_a_duration_is_said_in_its_two_largest_units(seconds: float, words: str) -> None:
    assert in_words(seconds) == words


def test_one_is_singular_and_none_is_plural() -> None:
    assert [count_of(number, "box", "boxes") for number in (0, 1, 2)] == ["0 boxes", "1 box", "2 boxes"]
    assert count_of(2, "turn runs", "turns run") == "2 turns run"
