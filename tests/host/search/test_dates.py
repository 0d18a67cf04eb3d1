"""The dates a question says."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.search.language.dates import dates_said

NOW = datetime(2026, 6, 17, 12, tzinfo=UTC)  # a Wednesday


def said(question: str) -> list[tuple[str, str]]:
    """Return (first day, last day) of every stretch in 2025 and 2026."""
    found = []
    for span in dates_said(question, NOW, (2025, 2026)):
        first, end = (datetime.fromtimestamp(moment, UTC).date() for moment in span)
        found.append((first.isoformat(), (end - timedelta(days=1)).isoformat()))
    return found


@pytest.mark.parametrize(
    ("question", "stretch"),
    [
        ("Where was I on May 7th, 2026?", [("2026-05-07", "2026-05-07")]),
        ("in May", [("2025-05-01", "2025-05-31"), ("2026-05-01", "2026-05-31")]),
        ("in March 2026", [("2026-03-01", "2026-03-31")]),
        ("in 2025", [("2025-01-01", "2025-12-31")]),
        ("last Friday", [("2026-06-12", "2026-06-12")]),
        ("on Wednesday", [("2026-06-10", "2026-06-10")]),
        ("last week", [("2026-06-08", "2026-06-14")]),
        ("last month", [("2026-05-01", "2026-05-31")]),
        ("last year", [("2025-01-01", "2025-12-31")]),
        ("yesterday", [("2026-06-16", "2026-06-16")]),
        ("last night", [("2026-06-16", "2026-06-16")]),
        ("30 February 2026", []),
        ("may I march to Mars?", []),
        ("nothing", []),
    ],
)
def test_a_date_is_understood(question: str, stretch: list[tuple[str, str]]) -> None:
    assert said(question) == stretch


@given(st.text(max_size=80))
def test_any_text_is_read(text: str) -> None:
    assert all(start < end for start, end in dates_said(text, NOW, (2025, 2026)))


@given(st.dates(date(2025, 1, 1), date(2026, 12, 31)))
def test_a_day_is_found_however_it_is_written(day: date) -> None:
    expected = [(day.isoformat(), day.isoformat())]
    for form in ("%d %B %Y", "%B %d, %Y", "%Y-%m-%d"):
        assert said(f"on {day:{form}}") == expected
