"""What a model is asked to consolidate, and what its answer becomes."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from honeybadger_host.curation.answers import WrongAnswer, read_answer
from honeybadger_host.curation.consolidation import (
    Consolidated,
    history_entry,
    memory_in,
    memory_operations,
    request_text,
)
from honeybadger_host.curation.notes import notes_of
from honeybadger_host.domain import Turn

AT = datetime(2026, 5, 7, 18, 3, tzinfo=UTC)
MEMORY = (
    "\n## Notes (bee, 2026-05-01 10:00)\n- Ann likes tea\n"
    "\n## Plans (bee, 2026-05-02 10:00)\n- The office moves in June\n"
)
NOTES = notes_of("main", MEMORY.encode() + b"\n## A heading\n")
_, PLANS, _ = NOTES


def turn(number: int, content: str, role: str = "user", sender: str = "ann", tools: tuple[str, ...] = ()) -> Turn:
    return Turn(number, AT, role, sender, sender, content, 1, tools_used=tools)  # type: ignore[arg-type]


TURNS = [
    turn(1, "The office moves in July, not in June."),
    turn(2, "Noted.", "assistant", "assistant", ("update_memory", "search_memory")),
    Turn(3, AT, "user", "bo", "front", "I am\nallergic to nuts.", 1),
]


def test_a_model_reads_notes_summary_and_turns() -> None:
    text = request_text(MEMORY, None, TURNS)
    assert text.endswith(
        "## Conversation to Process\n"
        "[2026-05-07 18:03] USER: The office moves in July, not in June.\n"
        "[2026-05-07 18:03] ASSISTANT [tools: update_memory, search_memory]: Noted.\n"
        "[2026-05-07 18:03] USER: bo via front: I am\n  allergic to nuts.\n"
    )
    assert memory_in(text) == f"{MEMORY.strip()}\n"
    assert memory_in(request_text("", "So far.", TURNS)) == ""
    assert "(empty)" in request_text("", None, TURNS)


@pytest.mark.parametrize(
    "text",
    [
        '{"history_entry": "x"}',
        '```json\n{"history_entry": "x"}\n```',
        'Here it is:\n{"history_entry": "x"}\nDone.',
        '<think>{"history_entry": "no"}</think>{"history_entry": "x"}',
        '{"history_entry": "x", "memory_update": null, "conversation_summary": ""}',
    ],
)
def test_a_good_answer_is_found_wherever_it_stands(text: str) -> None:
    found = read_answer(text, Consolidated)
    assert (found.history_entry, found.memory_update, found.conversation_summary or None) == ("x", None, None)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no JSON object"),
        ("null", "no JSON object"),
        ("[]", "no JSON object"),
        ("{}", "history_entry is missing"),
        ('{"history_entry": ""}', "history_entry is empty"),
        ('{"history_entry": ["x"]}', "history_entry must be a string"),
        ('{"history_entry": "x", "memory_update": {"a": 1}}', "memory_update must be a string"),
        ('{"history_entry": "x", "conversation_summary": 7}', "conversation_summary must be a string"),
        ('{"history_entry": "cut o', "not JSON"),
        (json.dumps({"history_entry": "x", "conversation_summary": "word " * 1001}), "1001 words"),
        (json.dumps({"history_entry": "x" * 9000}), "9000 characters"),
        ('{"a":' * 100_000, "not JSON"),
    ],
    ids=lambda text: text[:30],
)
def test_a_wrong_answer_says_what_is_wrong(text: str, says: str) -> None:
    with pytest.raises(WrongAnswer, match=says):
        read_answer(text, Consolidated)


def test_an_entry_is_dated_once() -> None:
    assert history_entry("Ann moved.", AT) == "[2026-05-07 18:03] Ann moved."
    assert history_entry("[2026-05-01 09:00] Ann moved.", AT) == "[2026-05-01 09:00] Ann moved."
    assert history_entry("Ann\n\n  moved. ", AT) == "[2026-05-07 18:03] Ann\nmoved."


def operations(memory: str) -> list[tuple[str, tuple[str, ...], str | None, list[int]]]:
    made = memory_operations(memory, NOTES, "main", TURNS)
    return [(each.op, each.sources, each.result, [said.turn for said in each.evidence]) for each in made]


def test_an_update_becomes_operations_on_single_notes() -> None:
    for same in ("", MEMORY, MEMORY.replace("- Ann likes tea", "* Ann likes tea.")):
        assert operations(same) == []
    assert operations(MEMORY + "\n- Bo is allergic to nuts\n") == [("add", (), "Bo is allergic to nuts", [3])]
    assert operations(MEMORY.replace("in June", "in July")) == [
        ("supersede", (PLANS,), "The office moves in July", [1])
    ]
    assert operations("## Notes\n- Ann likes tea\n") == [("retire", (PLANS,), None, [])]
    assert operations(MEMORY + "- Nobody said this thing\n") == [("add", (), "Nobody said this thing", [])]
