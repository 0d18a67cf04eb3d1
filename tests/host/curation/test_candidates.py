"""Candidates: duplicates are found, what only looks like one is not, and many entries take neither time nor memory."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.curation import group_of
from honeybadger_host.curation import candidates
from honeybadger_host.curation.candidates import Item, alike, identical, over_share, unused

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def items(*texts: str) -> list[Item]:
    return [Item(f"e{n}", text) for n, text in enumerate(texts)]


def test_identical_texts_are_found_byte_for_byte() -> None:
    found = identical(
        items("User prefers tea.", "Other", "User prefers tea.", "user prefers tea.", "User prefers tea.")
    )
    assert found == [("e0", "e2", "e4")]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("User prefers dark mode in the editor.", "The user prefers dark mode in the editor!"),
        ("Deploys happen every Tuesday at 09:00.", "Deploys happen at 9:00 every Tuesday."),
        ("Der Hund von Anna heißt Bello.", "Der Hund heißt Bello, der von Anna."),
        ("家賃は二万円です。駅の近く。", "家賃は2万円です。駅の近くです。"),
    ],
)
def test_near_duplicates_say_the_same_in_other_words(one: str, other: str) -> None:
    (pair,) = alike(items(one, "Something else about boats.", other))
    assert (pair.ids, pair.differs) == (("e0", "e2"), "")


@pytest.mark.parametrize(
    ("one", "other", "differs"),
    [
        ("The rent of the flat is $1,450.", "The rent of the flat is $1,540.", "$1,450 and $1,540"),
        ("User is allergic to peanuts.", "User is not allergic to peanuts.", "denied"),
        ("The standup is at 9:00.", "The standup is at 9:30.", "9:00 and 9:30"),
        ("The lease ends on 7 May 2026.", "The lease ends on 7 June 2026.", "7 May 2026 and 7 June 2026"),
        ("Logs are kept in /var/log/app.", "Logs are kept in /srv/log/app.", "/var/log/app and /srv/log/app"),
        ("The landlord of the flat is Mr Glanz.", "The landlord of the flat is Mr Osei.", "Glanz and Osei"),
        ("Der Hund darf aufs Sofa.", "Der Hund darf nicht aufs Sofa.", "denied"),
        ("User moved from Lisbon to Porto.", "User moved from Porto to Lisbon.", "stands behind"),
    ],
)
def test_texts_that_differ_in_a_specific_or_a_negation_are_suspected_and_never_duplicates(
    one: str, other: str, differs: str
) -> None:
    (pair,) = alike(items(one, other))
    assert pair.ids == ("e0", "e1")
    assert differs in pair.differs


def test_a_text_that_only_says_more_is_neither() -> None:
    found = alike(items("User lives in a flat near the station.", "User lives in a flat near the station in Graz."))
    assert found == []


def test_a_real_duplicate_is_found_among_many_texts_of_one_template() -> None:
    many = [f"Setting {n} of the oven is for thing {n * 7}." for n in range(3000)]
    found = alike(items(*many, "User likes warm bread in the morning.", "In the morning the user likes warm bread."))
    assert ("e3000", "e3001") in [pair.ids for pair in found if not pair.differs]
    assert len(found) <= 500


def test_what_was_never_recalled_in_90_days_is_told_once_that_is_known_for_so_long() -> None:
    old = NOON - timedelta(days=200)
    every = [Item("old1", "a", old), Item("used", "b", old), Item("new1", "c", NOON), Item("when", "d", None)]
    recalled = {"used": NOON - timedelta(days=3)}
    assert unused(every, recalled, NOON - timedelta(days=91), NOON) == ["old1"]
    assert unused(every, recalled, NOON - timedelta(days=89), NOON) == []
    assert unused(every, {"used": NOON - timedelta(days=91)}, old, NOON) == ["old1", "used"]


def test_the_oldest_notes_over_the_share_are_told() -> None:
    notes = [("n1", 40), ("n2", 40), ("n3", 40), ("n4", 10)]
    assert over_share(notes, 90) == ["n1"]
    assert over_share(notes, 49) == ["n1", "n2", "n3"]
    assert over_share(notes, 130) == over_share([], 0) == []


def test_of_a_thousand_entries_each_is_compared_with_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long that takes is a figure of `python -m bench`."""
    compared: Counter[str] = Counter()

    def counting(name: str, was: Callable[..., Any]) -> Callable[..., Any]:
        def count(*texts: Any) -> Any:
            compared[name] += 1
            return was(*texts)

        return count

    for name in ("in_common", "_differs"):
        monkeypatch.setattr(candidates, name, counting(name, getattr(candidates, name)))
    found = alike(group_of(1000))
    assert sum(not pair.differs for pair in found) > 50
    assert 1000 < compared["in_common"] <= 16 * 1000
    assert 0 < compared["_differs"] <= 4 * candidates.MAX_PAIRS


def test_memory_grows_by_the_entry_and_stays_small() -> None:
    every = group_of(1_000)
    tracemalloc.start()
    alike(every)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5 * 1024 * 1024


@given(st.lists(st.text(max_size=30), max_size=5))
def test_whatever_entries_say_no_pair_of_duplicates_differs_in_a_digit(texts: list[str]) -> None:
    every = items(*texts)
    by_id = {item.id: item.text for item in every}
    for pair in alike(every):
        one, other = (by_id[name] for name in pair.ids)
        assert pair.differs or sorted(c for c in one if c.isdecimal()) == sorted(c for c in other if c.isdecimal())
