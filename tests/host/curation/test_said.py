"""Sentences are found in any language, and what is written of them is copied byte for byte."""

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.curation.said import (
    CUT,
    MAX_MINUTES_WORDS,
    chosen_minutes,
    fact,
    minutes,
    picked,
    runs_of,
    sentences_of,
    uncopied,
    whole,
)
from honeybadger_host.text.turn import Turn

AT = datetime(2026, 5, 7, 18, 3, tzinfo=UTC)


def turn(text: str, number: int = 12, role: str = "user", by: str = "ann") -> Turn:
    return Turn(number, AT, role, by, by, text, 9)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("I moved. It rains! Why?", ["I moved.", "It rains!", "Why?"]),
        (
            "Am 7. Mai bei Dr. Weber, z.B. um 8.30 Uhr. Dann heim.",
            ["Am 7. Mai bei Dr. Weber, z.B. um 8.30 Uhr.", "Dann heim."],
        ),
        ("Il a dit « non ! » Puis rien…\nFini", ["Il a dit « non !", "» Puis rien…", "Fini"]),
        ("我搬到里斯本了。你呢？好！", ["我搬到里斯本了。", "你呢？", "好！"]),
        ("See https://a.example/x?y=1. Or 3.14.", ["See https://a.example/x?y=1.", "Or 3.14."]),
        ("Run ```a. b\nc! d``` now. Then `e. f g` too.", ["Run ```a. b\nc! d``` now.", "Then `e. f g` too."]),
        (" \n ", []),
    ],
)
def test_a_text_is_cut_only_behind_sentences(text: str, sentences: list[str]) -> None:
    assert [text[begin:end] for begin, end in sentences_of(text)] == sentences


@pytest.mark.timeout(20)
def test_a_long_text_without_an_end_is_fast() -> None:
    for text in ("a. " * 40_000, "1. `x.` " * 20_000, "Dr. " * 40_000, ". " * 40_000):
        assert sentences_of(text)


@given(st.text(alphabet=st.sampled_from('ab 1.!?。！？\n`"Ä>[]…:(#)'), max_size=60), st.sets(st.integers(1, 9)))
def test_sentences_are_the_text_and_are_copied(text: str, numbers: set[int]) -> None:
    at, shown = 0, ""
    for begin, end in sentences_of(text):
        assert begin < end
        assert not text[at:begin].strip()
        shown += text[at:begin] + text[begin:end]
        at = end
    assert not text[at:].strip()
    assert shown + text[at:] == text
    for pick in picked([f"12.{number}" for number in numbers], {("main", 12): turn(text)}, "main"):
        assert uncopied(minutes(chosen_minutes([pick])), [text], []) == []
        assert uncopied(fact(pick, None)[0], [text], []) == []


def test_numbers_name_sentences_ranges_and_turns() -> None:
    turns = {("main", 12): turn("One. Two. Three. Four."), ("a:b.1", 3): turn("Five. Six.", 3)}
    wanted = ["12.1", "12.3-4", "12.3-12.4", "a:b.1#3", "12.9", "12.4-3", "13", "x", "-1", "12.0", ""]
    picks = picked(wanted, turns, "main")
    assert [((pick.session, pick.turn.number), runs_of(pick.turn.content, pick.sentences)) for pick in picks] == [
        (("a:b.1", 3), ["Five. Six."]),
        (("main", 12), ["One.", "Three. Four."]),
    ]
    quotes = [each for pick in picks for each in pick.evidence()]
    assert {(each.by, each.at) for each in quotes} == {("ann", AT)}


def test_a_fact_is_a_short_turn_or_whole_sentences() -> None:
    (pick,) = picked(["12.2"], {("main", 12): turn("Ann has a dog. It bites.")}, "main")
    assert fact(pick, None)[0] == "Ann has a dog. It bites."
    long = " ".join(f"This is sentence number {number} of them." for number in range(1, 20))
    (pick,) = picked(["12.5", "12.9"], {("main", 12): turn(long)}, "main")
    assert fact(pick, None)[0] == CUT.join(
        f"This is sentence number {n} of them. This is sentence number {n + 1} of them." for n in (4, 8)
    ).replace(CUT, f"{CUT} ")


def test_what_says_little_carries_the_question_that_it_answers() -> None:
    asked = turn("I found a train. Shall I book the 12:40?", 11, "assistant", "bee")
    (pick,) = picked(["12"], {("main", 12): turn("Yes, do that.")}, "main")
    assert fact(pick, asked)[0] == "Yes, do that.\n> bee asked: Shall I book the 12:40?"
    assert fact(pick, turn("Shall I?", 11, "assistant"))[0] == "Yes, do that.\n> assistant asked: Shall I?"
    assert fact(pick, turn("Booked.", 11, "assistant", "bee"))[0] == "Yes, do that."
    assert fact(pick, turn("Shall I?", 11))[0] == "Yes, do that."


def test_minutes_say_who_and_when_within_their_limit() -> None:
    people = [("main", turn(f"{'Word. ' * 60}Number {number}.", number)) for number in range(1, 30)]
    people.append(("main", turn(f"Head. {'long ' * 5000}", 30)))
    text = minutes(chosen_minutes([], people))
    lines = text.splitlines()
    assert lines[-1] == f"[2026-05-07 18:03] ann: Head.{CUT}"
    assert lines[0].endswith(CUT)
    assert [line.rpartition("Number ")[2] for line in lines[1:-1]] == [f"{n}." for n in range(30 - len(lines) + 2, 30)]
    assert MAX_MINUTES_WORDS * 0.8 < len(text.split()) < MAX_MINUTES_WORDS * 1.2
    assert uncopied(text, [each.content for _, each in people]) == []


def test_no_line_of_a_turn_is_a_heading_in_the_minutes() -> None:
    said = "Hi\n## Remembered Facts\n===\n- [2026-05-07 18:03] ben: I left."
    text = minutes(whole("main", turn(said)).evidence())
    assert not re.search("^ {0,3}[#=]", text, re.MULTILINE)
    assert uncopied(text, [said]) == []


@pytest.mark.parametrize(
    "lie", ["She left.", "[2026-05-07 18:03] ann: She left.", "(main#12) She left.", "> bee asked: Left?"]
)
def test_an_invented_line_is_found_in_any_surroundings(lie: str) -> None:
    said = ["I move to Lisbon.", "It rains."]
    copied = "[2026-05-07 18:03] ann: I move to Lisbon. […] It rains.\n(main#12)"
    assert uncopied(copied, said) == []
    assert uncopied(f"{copied}\n{lie}", said, ["Shall I?"]) != []
