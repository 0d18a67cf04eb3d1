"""The offline model: what it keeps, what it finds, what it says of itself, and that no text upsets it."""

import time

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_agent import Client
from honeybadger_agent.mailbox import new_id
from honeybadger_agent.models.model import Message, ModelSaid, ToolAnswer, ToolCall, ToolsAnswered, UserSaid
from honeybadger_agent.models.offline import OfflineModel, fact_in, reply
from honeybadger_agent.tools import parsed
from honeybadger_agent.turn.orchestrator import AgentTurn, TurnLimits, TurnOutcome, arguments_of
from honeybadger_agent.turn.prompt import prompt_of
from honeybadger_agent.turn.toolbox import MemoryTools
from honeybadger_agent.wire import REQUEST_TYPES
from tests.hosting import RawSender

ALL = {"update_memory", "save_memory", "search_memory"}


class Silent:
    """Nobody looks on."""

    async def text(self, step: int, piece: str) -> None: ...

    async def tool_began(self, step: int, call: ToolCall) -> None: ...

    async def tool_ended(self, step: int, answer: ToolAnswer) -> None: ...


async def say(asker: RawSender, message: str, *, session: str = "main") -> TurnOutcome:
    """Run a turn as a host does: the words of both are in the log, the user's before the turn."""
    client = Client(asker.home, asker.group, "ada", session=session, timeout_seconds=60)
    context = await client.get_context(message)
    await client.append_turn("user", message)
    tools = MemoryTools(client, f"turn-{new_id()}")

    async def keep(_: ModelSaid) -> None: ...

    prompt = prompt_of(message, context.system, tools.specs, f"`ada` in the session `{session}`")
    turn = AgentTurn(OfflineModel(), tools, TurnLimits(), Silent(), keep)
    outcome = await turn.run(prompt)
    await client.append_turn("assistant", outcome.text)
    return outcome


async def test_it_finds_memories_but_not_the_question_itself(asker: RawSender) -> None:
    question = "Where does the gardener keep the ladder?"
    nothing = await say(asker, question)
    assert nothing.text.startswith("I remember nothing about that. I am the offline model: ")
    assert (await say(asker, question)).text == nothing.text
    client = Client(asker.home, asker.group, "researcher", timeout_seconds=60)
    await client.append_turn("user", "The gardener keeps the ladder behind the shed")
    said = await say(asker, question)
    assert said.text.startswith("This is what I remember:\n- The gardener keeps the ladder behind the shed [main#")
    entry = await client.save_memory("The ladder of the gardener is in the cellar now", "house")
    saved = await say(asker, question)
    assert f"- The ladder of the gardener is in the cellar now [{entry.id}] (house" in saved.text
    assert "behind the shed" not in saved.text


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("Remember that I prefer dark mode for all UIs", "I prefer dark mode for all UIs"),
        ("please remember: I'm allergic to nuts.", "I'm allergic to nuts."),
        ("Don’t forget that my birthday is in May", "my birthday is in May"),
        ("Can you please remember that I never drink coffee?", "I never drink coffee"),
        ("I want you to remember that Anna comes in May", "Anna comes in May"),
        ("please note: the door sticks", "the door sticks"),
        ("Keep in mind that the shop closes at six", "the shop closes at six"),
        ("Make a note of the code on the fridge", "the code on the fridge"),
        ("Hello! Remember that I live in my van", "I live in my van"),
        ("Remember to call Bob", "to call Bob"),
        ("Remember that what we said holds", "what we said holds"),
    ],
)
def test_requests_to_remember_are_kept_word_for_word(text: str, fact: str) -> None:
    assert fact_in(text) == fact


@pytest.mark.parametrize(
    "text",
    [
        *("Do you remember what I like?", "Can you remember where I live?", "Remember?", "remember when we met"),
        *("What do you remember about tea?", "I will never forget that day", "I forget that all the time"),
        *("Forget that I like tea", "don't remember that", "Save", "note", "Hello", ""),
    ],
)
def test_what_is_no_request_to_remember_is_not_kept(text: str) -> None:
    assert fact_in(text) is None


@pytest.mark.parametrize("text", ["What do I like?", "Tell me about tea", "Wie heißt Anna?", "tea?", "does Ann ski"])
def test_questions_are_searched_for(text: str) -> None:
    said = reply([UserSaid(text)], ALL)
    assert {call.name for call in said.calls} == {"search_memory"}


def after(message: UserSaid, said: ModelSaid, contents: list[str], *, ok: bool) -> list[Message]:
    answers = (ToolAnswer(call, ok, contents[number % len(contents)], "") for number, call in enumerate(said.calls))
    return [message, said, ToolsAnswered(tuple(answers))]


wishes = st.sampled_from(["Remember that ", "don't forget ", "forget that ", "note: ", "What ", "tell me ", "", "\n"])


@given(wishes, st.text(), st.sets(st.sampled_from(sorted(ALL))), st.lists(st.text(), min_size=1), st.booleans())
def test_any_text_gets_a_readable_answer(wish: str, text: str, tools: set[str], contents: list[str], ok: bool) -> None:
    message = UserSaid(wish + text)
    said = reply([message], tools)
    assert said == reply([message], tools)
    for call in said.calls:
        assert call.name in tools
        parsed(REQUEST_TYPES[call.name], arguments_of(call))
    if said.calls:
        last = reply(after(message, said, contents, ok=ok), tools)
        assert last.calls == ()
        assert last.text
    else:
        assert said.text


@pytest.mark.parametrize(
    "text",
    ["\n" * 100_000, "remember " + " " * 100_000, "a. " * 40_000, "please " * 15_000, "forget that " + " \n" * 50_000],
)
def test_no_text_costs_more_than_its_length(text: str) -> None:
    """A pattern that went back and forth over these would take hours."""
    began = time.process_time()
    reply([UserSaid(f"x{text}x")], ALL)
    assert time.process_time() - began < 5


def test_a_request_by_others_becomes_a_note_about_them() -> None:
    said = reply([UserSaid("[Ann]: Remember that I prefer tea")], {"update_memory"})
    assert orjson.loads(said.calls[0].arguments) == {"content": 'Ann said: "I prefer tea"'}
