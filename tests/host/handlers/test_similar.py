"""Similar entries when something is saved: told with what differs, never merged, and never for long."""

from __future__ import annotations

from pathlib import Path

import pytest

from honeybadger_host.handlers.entries.similar import Similar, what_differs
from tests.host.indexes import index_of


@pytest.mark.parametrize(
    ("older", "newer", "differs"),
    [
        ("Rent is 950 EUR", "Rent is 990 EUR", "there: 950; here: 990"),
        ("Ann likes tea", "ann LIKES tea.", ""),
        ("Ann likes tea", "Ann likes green tea", "here: green"),
        (
            "a " + " ".join(f"w{number}" for number in range(20)),
            "a",
            "there: w, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, and 1 more",
        ),
    ],
)
def test_what_differs_is_said_in_the_words_of_both(older: str, newer: str, differs: str) -> None:
    assert what_differs(older, newer) == differs


def test_advice_takes_a_batch_a_tenth_of_its_time(home: Path) -> None:
    folder = home / "groups/main/memory/general"
    folder.mkdir(parents=True)
    (folder / "a.json").write_text('{"content": "User prefers dark mode"}')
    index = index_of(home)
    index.read_all("main")
    now = 0.0

    def clock() -> float:  # each look takes 5 ms by it
        nonlocal now
        now += 0.005
        return now

    similar = Similar(index, clock, clock)
    looked = [similar.to("main", "User prefers light mode") is not None for _ in range(100)]
    assert looked[0]
    assert looked[10:].count(True) <= 20  # of the time that passes between two looks, a tenth
    now += 10.0
    assert similar.to("main", "User prefers light mode")
