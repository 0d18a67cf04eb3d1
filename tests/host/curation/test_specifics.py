"""Specifics: how many are found, how few are made up, and that no exchange of one for another goes unseen."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.curation.specifics import invented, lost, said, specifics
from tests.host.curation.labelled import (
    CHANGED,
    FAITHFUL,
    LABELLED,
    SECOND,
    SECOND_FAITHFUL,
    UNSEEN,
    UNSEEN_FAITHFUL,
)


def measured(rows: Sequence[tuple[str, str]]) -> tuple[float, float]:
    """Return precision and recall."""
    found = wanted = both = 0
    for text, labels in rows:
        want, got = set(labels.split("|")) - {""}, specifics(text)
        found, wanted, both = found + len(got), wanted + len(want), both + len(want & got)
    return both / found, both / wanted


def refused(pairs: Sequence[tuple[str, str]]) -> list[str]:
    return [result for source, result in pairs if lost([source], result) or invented(result, [source])]


def test_on_the_texts_the_rules_were_tuned_on_almost_none_is_missed_or_made_up() -> None:
    precision, recall = measured([*LABELLED, *SECOND])
    assert recall >= 0.995, f"recall {recall:.3f}"
    assert precision >= 0.98, f"precision {precision:.3f}"


def test_on_texts_the_rules_never_saw_almost_none_is_missed_and_few_are_made_up() -> None:
    precision, recall = measured(UNSEEN)
    assert recall >= 0.97, f"recall {recall:.3f}"
    assert precision >= 0.85, f"precision {precision:.3f}"


def test_rewordings_that_keep_what_was_said_pass() -> None:
    assert refused([*FAITHFUL, *SECOND_FAITHFUL]) == []
    assert len(refused(UNSEEN_FAITHFUL)) <= 3  # of 16: an unknown word that begins a sentence counts as a name


@pytest.mark.parametrize(("source", "result"), CHANGED)
def test_what_is_lost_invented_or_exchanged_is_seen(source: str, result: str) -> None:
    assert lost([source], result) or invented(result, [source])


@pytest.mark.parametrize(
    "same",
    [
        ("7 May", "May 7", "May 7th", "the 7th of May", "7. Mai", "am 07.05.", "7 mai"),
        ("7 May 2026", "May 7, 2026", "2026-05-07", "07.05.2026", "7. Mai 2026", "2026年5月7日", "7 de mayo de 2026"),
        ("May 2026", "2026-05", "Mai 2026"),
        ("8 pm", "20:00", "20 Uhr", "8:00 p.m.", "20h00"),
        ("$1,450", "1450 dollars", "USD 1450", "1,450 USD", "1 450 $"),
        ("1.450,50 €", "€1,450.50", "1450.50 euros"),
        ("8 kg", "8kg", "eight kilograms", "8 Kilogramm"),
        ("twelve", "12", "zwölf", "a dozen", "１２", "١٢"),
        ("twice", "two times", "2x", "zweimal"),
        ("50%", "50 %", "50 percent", "50 Prozent"),
        ("25", "twenty-five", "fünfundzwanzig", "二十五个"),
    ],
)
def test_one_thing_has_one_form_however_it_is_written(same: Sequence[str]) -> None:
    assert {specifics(text) for text in same} == {specifics(same[0])}
    assert len(specifics(same[0])) == 1


def test_what_is_hidden_between_letters_is_not_there() -> None:
    assert specifics("All\u200bergic to Bi\u2060scuit, 8\u200b0 kg") == specifics("Allergic to Biscuit, 80 kg")


def test_a_less_exact_thing_does_not_stand_for_a_more_exact_one() -> None:
    assert lost(["Ends 7 May 2026."], "Ends 7 May.") == ["7 May 2026"]
    assert invented("Ends 7 May 2026.", ["Ends 7 May."]) == ["7 May 2026"]
    assert not lost(["Ends 7 May."], "Ends 7 May 2026.")
    assert not lost(["Costs 8."], "Costs 8 €.")
    assert lost(["Costs 8 €."], "Costs 8.") == ["8 €"]


def test_what_is_lost_is_shown_as_it_was_written() -> None:
    assert lost(["Call Dr. Weber at 8 pm.", 'Say "please".'], "Call.") == ["8 pm", "Weber", '"please"']


@given(st.text(max_size=80))
def test_nothing_is_lost_from_a_text_or_invented_in_it_when_it_stays_the_same(text: str) -> None:
    assert lost([text], text) == []
    assert invented(text, [text]) == []


@given(st.lists(st.sampled_from([*"aZ19.,-/:@\"' €\n\u200b你", "Maria ", "8 kg ", "May ", "http://"]), max_size=40))
def test_specifics_of_a_text_are_those_of_what_is_seen_of_it(parts: list[str]) -> None:
    text = "".join(parts)
    assert specifics(text) == specifics(text.replace("\u200b", ""))


@pytest.mark.parametrize(
    "part", ["1", "a-", "1.", "/", "a.", '"', "1 000 ", "A ", "@", "x_", "a@", "in ", "你", "May "]
)
def test_a_long_text_takes_time_by_its_length_whatever_it_is_made_of(part: str) -> None:
    def seconds(characters: int) -> float:
        text = part * (characters // len(part))
        begin = time.process_time()
        said.__wrapped__(text)
        return time.process_time() - begin

    seconds(500)
    took = seconds(2000)
    assert took < 0.05 + 40 * seconds(500)  # were it quadratic and slow at that, this would be minutes
    assert took < 4
