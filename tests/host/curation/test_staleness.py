"""Whose change a sentence tells of, which small words are missed, and which capitals are names."""

from __future__ import annotations

import pytest

from honeybadger_host.curation.evidence import why_not_stale, words_lost
from honeybadger_host.curation.specifics import specifics


@pytest.mark.parametrize(
    ("old", "said"),
    [
        ("User lives in Lisbon.", "She moved to Porto."),
        ("User lives in Lisbon.", "We talked, and Anna moved to Porto."),
        ("User lives in Lisbon.", "My sister moved to Porto."),
        ("User wohnt in Kiel.", "Sie wohnt jetzt in Rostock."),
        ("User wohnt in Kiel.", "Er wohnt jetzt in Rostock."),
        ("Anna lives in Graz.", "I moved to Linz."),
        ("Anna lives in Graz.", "I told her that I moved to Linz."),
        ("Anna lives in Graz.", "Ben moved to Linz."),
    ],
)
def test_what_changed_for_one_person_is_not_a_change_of_anothers(old: str, said: str) -> None:
    assert why_not_stale(old, said, "sam") == "the change that is quoted is about somebody else"


@pytest.mark.parametrize(
    ("old", "said"),
    [
        ("User lives in Lisbon.", "I moved to Porto."),
        ("Sam lives in Lisbon.", "I moved to Porto."),
        ("Anna lives in Graz.", "She moved to Linz."),
        ("Anna wohnt in Graz.", "Sie wohnt jetzt in Linz."),
        ("Anna lives in Graz.", "It is late, and Anna moved to Linz."),
    ],
)
def test_what_changed_for_the_same_person_is_a_change(old: str, said: str) -> None:
    assert why_not_stale(old, said, "sam") is None


@pytest.mark.parametrize(
    ("source", "result", "gone"),
    [
        ("Take it with food only.", "Take it with food.", ["only"]),
        ("Never call before noon.", "Call, not at noon.", ["never", "before"]),
        ("Tea without sugar.", "Tea, no sugar.", ["without"]),
        ("I really like tea, please.", "Tea.", []),
    ],
)
def test_small_words_that_change_what_is_said_are_missed_and_others_are_not(
    source: str, result: str, gone: list[str]
) -> None:
    assert words_lost(source, result) == gone


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("US rates rose.", {"us"}),
        ("IT is down. WHO said so?", {"it", "who"}),
    ],
)
def test_words_in_capitals_are_names(text: str, names: set[str]) -> None:
    assert specifics(text) == names
