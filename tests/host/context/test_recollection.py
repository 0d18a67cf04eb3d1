"""Recalled memory in a context: whole entries, kept as long as their turn is shown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.context.recollections import Recollection, State, fit
from honeybadger_host.text.neutralise import estimate_tokens


def one(entry: str, content: str, state: State = "new", category: str = "general") -> Recollection:
    return Recollection(entry, "entry", content, state, 1, category=category)


def test_the_lines_are_those_of_the_seed() -> None:
    recollections = [
        one("abc123def456", "User is in Chicago (America/Chicago, UTC-6)", category="user-preferences/timezone"),
        one("xyz789abc012", "Don't use search_files", category=""),
    ]
    assert fit(recollections, None).text == (
        "Recalled from long-term memory (relevant to this message):\n"
        "- [abc123def456] (user-preferences/timezone): User is in Chicago (America/Chicago, UTC-6)\n"
        "- [xyz789abc012] (general): Don't use search_files\n"
    )


@given(contents=st.lists(st.text(max_size=200), max_size=12), room=st.integers(0, 300))
def test_recollections_that_fit_are_whole(contents: list[str], room: int) -> None:
    states: list[State] = ["new", "in_view"]
    recollections = [one(f"e{number}", content, states[number % 2]) for number, content in enumerate(contents)]
    fitted = fit(recollections, room)
    assert estimate_tokens(fitted.text) <= room
    for recollection in recollections:
        assert (recollection.line in fitted.text) == (recollection not in fitted.left_out)
