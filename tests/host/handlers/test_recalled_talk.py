"""Turns and notes come back for a message, once, with their ids; a message without a subject gets nothing."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from honeybadger_agent.wire import PART_NAMES
from tests.host.handlers.room import Room

SAID = "Recalled from long-term memory, said or noted before (relevant to this message):\n"
DAY = "2026-11-21"


def say(room: Room, *turns: tuple[str, str], session: str = "main") -> None:
    for sender, content in turns:
        role = "assistant" if sender == "assistant" else "user"
        payload = {"role": role, "content": content, "sender": sender}
        handler, asked = room.handler("append_turn"), room.asking("append_turn", payload, session=session)
        outcome = handler.decide(asked, room.now)
        room.unit.apply(outcome.changes)
        room.write(outcome.changes)
    room.index.touch(f"data/sessions/main/{session}.jsonl")


def recalled(context: Mapping[str, Any], state: str = "new") -> list[str]:
    return [row["id"] for row in context["recalled"] if row["state"] == state]


def note(room: Room, content: str, at: str = "2026-11-01 06:00", author: str = "cook") -> None:
    with (room.home / "groups/main/MEMORY.md").open("a") as file:
        file.write(f"\n## Kitchen ({author}, {at})\n- {content}\n")
    room.index.touch("groups/main/MEMORY.md")


def test_a_recalled_turn_has_day_and_speaker(room: Room) -> None:
    say(room, ("caroline", "I adopted a weasel from the Tagus shelter."), session="spring")
    context = room.ask("get_context", message="Where did Caroline adopt the weasel?")
    line = f"- [spring#1] ({DAY}, caroline via researcher): I adopted a weasel from the Tagus shelter.\n"
    assert SAID + line in context["system"]
    assert context["recalled"][0]["kind"] == "turn"
    assert room.ask("get_memory", id="spring#1")["content"] == "I adopted a weasel from the Tagus shelter."


def test_a_turn_comes_with_the_short_question_it_answers(room: Room) -> None:
    say(room, ("melanie", "Which river is it?"), ("caroline", "The Tagus, by the weasel shelter."), session="spring")
    context = room.ask("get_context", message="Tell me of the Tagus shelter")
    assert recalled(context) == ["spring#1", "spring#2"]
    assert [row["why"] for row in context["recalled"]] == ["spring#2 answers it", "it matches the message"]
    say(room, ("melanie", "Which river? " + "x" * 400), ("caroline", "The Zambezi."), session="summer")
    context = room.ask("get_context", message="Tell me of the Zambezi")
    whys = ["it matches the message", "its conversation, speaker, date or meaning matches the message"]
    assert [row["why"] for row in context["recalled"]] == whys


def test_replayed_turns_and_the_message_are_not_recalled(room: Room) -> None:
    say(room, ("user", "My weasel lives in the barn"), *(("assistant", f"filler {number}") for number in range(110)))
    say(room, ("user", "The weasel is ill"), ("assistant", "Poor weasel"), ("user", "Where does my weasel live?"))
    context = room.ask("get_context", message="Where does my weasel live?")
    assert recalled(context)[0] == "main#1"
    assert context["system"].count("weasel is ill") == 1
    assert "Where does my weasel live" not in context["system"]


def test_a_turn_that_a_small_context_omits_is_recalled(room: Room) -> None:
    say(room, ("user", "My weasel lives in the barn"), *(("assistant", "y" * 400) for _ in range(10)))
    small = room.ask("get_context", message="Where does the weasel live?", budget_tokens=600)
    assert f"- [main#1] ({DAY}, user): My weasel lives in the barn\n" in small["system"]
    assert small["tokens"] <= 600
    assert recalled(room.ask("get_context", message="Where does the weasel live?")) == []


def test_a_note_that_the_context_shows_is_not_recalled(room: Room) -> None:
    note(room, "The weasel eats Gouda.")
    for number in range(200):
        note(room, f"dish {number} {'y' * 60}", f"2026-11-02 06:{number % 60:02}")
    message = "What does the weasel eat?"
    whole = room.ask("get_context", message=message)
    assert (recalled(whole), whole["system"].count("Gouda")) == ([], 1)
    small = room.ask("get_context", message=message, budget_tokens=1500)
    (id_,) = recalled(small)
    assert f"- [{id_}] (2026-11-01, cook): The weasel eats Gouda.\n" in small["system"]
    assert "Gouda" in room.ask("get_memory", id=id_)["content"]


def test_history_is_recalled_unless_the_summary_says_it(room: Room) -> None:
    history, summary = (room.home / "groups/main" / name for name in ("HISTORY.md", "summary.md"))
    history.write_text("[2026-05-01 10:00] The weasel moved to Lisbon. It likes the Tagus.\n")
    room.index.touch("groups/main/HISTORY.md")
    context = room.ask("get_context", message="Where did the weasel move?")
    (id_,) = recalled(context)
    assert f"- [{id_}] (2026-05-01): [2026-05-01 10:00] The weasel moved to Lisbon." in context["system"]
    summary.write_text("[2026-05-01 10:00] The weasel moved to Lisbon.\nIt likes the Tagus.\n")
    assert recalled(room.ask("get_context", message="Where did the weasel move?")) == []


NOTHING = ["thanks!", "ok do it", "Hello!", "yes please", "go on", "Danke, mach das so.", "What do you mean?", "👍"]


@pytest.mark.parametrize("message", NOTHING)
def test_a_message_without_a_subject_recalls_nothing(room: Room, message: str) -> None:
    say(room, *(("user", text) for text in NOTHING), ("user", "Danke! ok, do it, please go on"), session="spring")
    say(room, ("assistant", "The weasel lives in the barn, thanks"), session="spring")
    context = room.ask("get_context", message=message)
    assert context["recalled"] == []
    assert "Recalled" not in context["system"]


def test_one_rare_word_recalls_eight_turns(room: Room) -> None:
    say(room, *(("caroline", f"The weasel did thing {number} today") for number in range(30)), session="spring")
    assert len(recalled(room.ask("get_context", message="Tell me a weasel joke"))) == 8
    assert len(recalled(room.ask("get_context", message="What did Caroline's weasel do?"))) == 30


def test_a_common_word_and_a_number_recall_what_has_both(room: Room) -> None:
    say(room, *(("caroline", f"That item {number} is fine") for number in range(50, 60)), session="spring")
    assert recalled(room.ask("get_context", message="tell me about item 55"))[0] == "spring#6"


def test_an_entry_comes_before_what_was_said(room: Room) -> None:
    say(room, *(("caroline", f"The weasel is weasel number {number}") for number in range(300)), session="spring")
    room.change("save_memory", content="The weasel lives in Lisbon", category="pets")
    room.index.touch_folder("groups/main/memory/pets")
    system = room.ask("get_context", message="What of Caroline and the weasel?")["system"]
    entries = "Recalled from long-term memory (relevant to this message):\n- ["
    assert 0 < system.index(entries) < system.index(SAID)
    assert "] (pets): The weasel lives in Lisbon\n" in system


@given(texts=st.lists(st.text(max_size=300), min_size=1, max_size=20), budget=st.integers(50, 2000))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15, deadline=None)
def test_recall_keeps_its_budget(tmp_path_factory: pytest.TempPathFactory, texts: list[str], budget: int) -> None:
    room = Room(tmp_path_factory.mktemp("home"))
    (room.home / "groups/main").mkdir(parents=True)
    say(room, *(("caroline", f"weasel {text}") for text in texts), session="spring")
    context = room.ask("get_context", message="the weasel of Caroline", budget_tokens=budget)
    (section,) = [row for row in context["sections"] if row["title"].startswith("Recalled")]
    assert section["tokens"] <= min(2000, budget // 2) + 1
    assert context["tokens"] <= budget


def test_only_the_parts_that_are_named_are_made(room: Room) -> None:
    (room.home / "groups/main/CLAUDE.md").write_text("Be brief.\n")
    note(room, "likes tea")
    say(room, ("caroline", "The weasel lives in Lisbon"), session="spring")
    say(room, ("user", "hello"))
    message = "Where does Caroline's weasel live?"
    some = room.ask("get_context", message=message, parts=["recalled", "notes"])
    assert some["system"].startswith("\n## Remembered Facts\n")
    assert SAID in some["system"]
    assert not any(word in some["system"] for word in ("Group:", "Be brief", "hello"))
    assert [row["title"] for row in some["sections"]] == [
        *("## Remembered Facts", "Recalled from long-term memory", "message")
    ]
    assert room.ask("get_context", message="thanks!", parts=["recalled"])["system"] == ""
    whole = room.ask("get_context", message=message)
    assert room.ask("get_context", message=message, parts=list(PART_NAMES))["system"] == whole["system"].removeprefix(
        "Group: main\n"
    )


@pytest.mark.parametrize("most", [40, 4000])
def test_a_context_has_at_most_the_characters_asked_for(room: Room, most: int) -> None:
    for number in range(200):
        note(room, f"dish {number} {'é' * (number % 7)} {'y' * 60}", f"2026-11-02 06:{number % 60:02}")
    say(room, *(("caroline", f"The weasel says {number} ü") for number in range(200)), session="spring")
    context = room.ask(
        "get_context", message="What does Caroline's weasel say?", parts=["notes", "recalled"], max_characters=most
    )
    assert len(context["system"]) <= most
    assert most < 4000 or len(context["system"]) > most // 2
