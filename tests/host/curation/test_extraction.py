"""History and summary without a model: only what was said, dated, and in bounds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.recall import synthetic
from honeybadger_host.curation.extraction import MARK, MAX_SUMMARY_WORDS, conversation_summary, facts, history_entry
from honeybadger_host.curation.gates import Known, check
from honeybadger_host.curation.proposal import Operation, Proposal
from honeybadger_host.domain import Turn

NINE = datetime(2026, 11, 21, 9, tzinfo=UTC)


def turns_of(*said: tuple[str, str]) -> list[Turn]:
    return [
        Turn(n, NINE + timedelta(minutes=n), "assistant" if who == "helper" else "user", who, who, text, 5)
        for n, (who, text) in enumerate(said, 1)
    ]


def is_person(turn: Turn) -> bool:
    return turn.role == "user"


TALK = turns_of(
    ("sam", "Hi there! How are you? We decided to move to Porto on 7 May 2026."),
    ("helper", "Great. Here is a list:\n```\nx = 42  # Berlin\n```\nThe rent there is about €900."),
    ("sam", "Please use short answers from now on. Hm. My landlord is Mr Glanz."),
    ("helper", "Sure, whatever you like best, I am happy to help with it."),
)


def test_a_history_entry_has_decisions_numbers_and_names_each_with_its_time() -> None:
    assert history_entry(TALK, "main", is_person) == "\n".join(
        (
            "[2026-11-21 09:04] (extracted) session main, turns 1-4",
            "[2026-11-21 09:01] sam: We decided to move to Porto on 7 May 2026.",
            "[2026-11-21 09:02] helper: The rent there is about €900.",
            "[2026-11-21 09:03] sam: Please use short answers from now on.",
            "[2026-11-21 09:03] sam: My landlord is Mr Glanz.",
        )
    )


def test_turns_in_which_nothing_was_said_make_an_entry_that_says_so_much() -> None:
    entry = history_entry(turns_of(("sam", "ok"), ("helper", "")), "main", is_person)
    assert entry == "[2026-11-21 09:02] (extracted) session main, turns 1-2"


def test_a_summary_keeps_the_one_before_it_and_both_fit_500_words() -> None:
    long = [
        ("sam", f"We decided that room {n} gets {n + 3} chairs, says Anna, and that is how it stays.")
        for n in range(90)
    ]
    first = conversation_summary(turns_of(*long), is_person)
    assert first.startswith(MARK)
    assert len(first.split()) <= MAX_SUMMARY_WORDS
    second = conversation_summary(turns_of(("sam", "My landlord is Mr Glanz.")), is_person, earlier=first)
    assert "Glanz" in second
    assert len(second.split()) <= MAX_SUMMARY_WORDS
    assert sum(line in second for line in first.splitlines()) > 10
    assert second.count(MARK) == 1
    assert conversation_summary(TALK, is_person, earlier=second).splitlines()[-1].endswith("Mr Glanz.")


def test_extracted_texts_of_real_conversations_pass_the_gates_for_histories() -> None:
    for talk in synthetic.written()[:3]:
        turns = turns_of(*((turn.author, turn.text) for turn in talk.turns))
        known = Known(
            texts={},
            digests={},
            turns={("main", turn.number): turn for turn in turns},
            is_person=is_person,
        )
        writes = (
            Operation(n=1, op="write_history", result=history_entry(turns, "main", is_person)),
            Operation(n=2, op="write_summary", result=conversation_summary(turns, is_person)),
        )
        made = Proposal(
            id="c1",
            group="g",
            kind="consolidation",
            made_at=NINE,
            session="main",
            first_turn=1,
            last_turn=len(turns),
            operations=writes,
        )
        for operation in check(made, known).operations:
            assert operation.gates.failed == (), (talk.name, operation.gates.failed)


said = st.lists(st.tuples(st.sampled_from(["sam", "helper"]), st.text(max_size=120)), min_size=1, max_size=8)


@given(said)
def test_every_line_is_of_a_turn_and_no_text_makes_a_line_of_its_own(said: list[tuple[str, str]]) -> None:
    turns = turns_of(*said)
    for text in (history_entry(turns, "main", is_person), conversation_summary(turns, is_person)):
        head, *lines = text.split("\n")
        assert MARK in head
        assert all(line.startswith("[2026-11-21 09:0") for line in lines)
        assert "\n\n" not in text


def test_facts_of_a_text_are_its_sentences_that_stand_by_themselves_word_for_word() -> None:
    text = (
        "The flat in Elm Road costs 950 EUR a month, to Mr. Glanz. It has three rooms. The heating is serviced every "
        "October by the firm Silva. She told Ann. However, Bob pays for the cellar. Perhaps Cora moves in on 7 May. "
        "What does Dora say? The parking space 14 belongs to the neighbours Ott."
    )
    assert facts(text) == [
        "The flat in Elm Road costs 950 EUR a month, to Mr. Glanz.",
        "The heating is serviced every October by the firm Silva.",
        "The parking space 14 belongs to the neighbours Ott.",
    ]
    german = (
        "Die Miete für die Wohnung in Graz beträgt 950 Euro. Das zahlt Herr Dr. Glanz. Am 7. Mai kommt Frau Silva nach "
        "Linz. Dort wohnt Otto."
    )
    assert facts(german) == [
        "Die Miete für die Wohnung in Graz beträgt 950 Euro.",
        "Am 7. Mai kommt Frau Silva nach Linz.",
    ]
    listed = "- Ann keeps the keys in /srv/keys.\n- Bob's train is K1004 at 9:15.\n2. Cora has the card QX-300."
    assert facts(listed) == [
        "Ann keeps the keys in /srv/keys.",
        "Bob's train is K1004 at 9:15.",
        "Cora has the card QX-300.",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "All of this is wrong:\nAnn moved to Graz in May 2026.\nBob moved to Linz in June 2026.",
        "# Plans we gave up\n\nAnn moves to Graz in May 2026.\nBob moves to Linz in June 2026.",
        "| who | where |\n|---|---|\n| Ann | Graz |\n| Bob | Linz |",
        "```\nAnn moves to Graz in May 2026.\nBob moves to Linz in June 2026.\n```",
        "> Ann moves to Graz in May 2026.\n> Bob moves to Linz in June 2026.",
        "Ann moved to Graz in May 2026. She likes it there. They were happy.",
        "If Ann leaves, Bob moves to Graz. If Bob leaves, Ann moves to Linz.",
        "Ann habite à Lyon depuis mai 2026 et travaille chez Silva. Bob habite à Nantes et travaille avec Cora.",
        "tea coffee milk sugar\nbread butter jam honey",
        "",
    ],
)
def test_a_text_that_would_lose_its_sense_in_pieces_has_no_facts(text: str) -> None:
    assert facts(text) == []


@given(st.text(max_size=400))
def test_every_fact_stands_in_its_text(text: str) -> None:
    told = " ".join(text.split())
    assert all(" ".join(fact.split()) in told for fact in facts(text))
