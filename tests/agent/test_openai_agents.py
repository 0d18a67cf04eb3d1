"""Sessions of the OpenAI Agents SDK on a real host: the cases of its own tests for a session, and some more."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from honeybadger_agent import Client, SyncClient
from honeybadger_agent.escaping import escaped
from tests.conftest import HostFactory
from tests.hosting import PATIENCE, RawSender

agents = pytest.importorskip("agents", reason="needs the extra openai-agents")
from agents import Agent, Runner, function_tool  # noqa: E402
from agents.testing import ScriptedModel, assistant_message, function_call  # noqa: E402

from honeybadger_agent.integrations.openai_agents import GroupSession  # noqa: E402

agents.set_tracing_disabled(True)
Item = Any


@pytest.fixture
def client(asker: RawSender) -> Client:
    return Client(asker.home, asker.group, "sdk", timeout_seconds=PATIENCE)


@pytest.fixture
def session(client: Client) -> GroupSession:
    return GroupSession(client, "user/42")


def message(role: str, content: str) -> Item:
    return {"role": role, "content": content}


SAID: list[Item] = [
    message("user", "Message 1"),
    message("assistant", "Response 1"),
    message("user", "Message 2"),
    message("assistant", "Response 2"),
]


async def contents(session: GroupSession, limit: int | None = None) -> list[Any]:
    return [item.get("content") for item in await session.get_items(limit)]


async def run(how: str, agent: Agent, said: Any, **more: Any) -> Any:
    if how == "run":
        return await Runner.run(agent, said, **more)
    streamed = Runner.run_streamed(agent, said, **more)
    async for _ in streamed.stream_events():
        pass
    return streamed


@pytest.mark.parametrize("how", ["run", "streamed"])
async def test_a_run_continues_its_own_session_only(client: Client, how: str) -> None:
    model = ScriptedModel([[assistant_message(text)] for text in ("San Francisco", "California", "No idea")])
    agent = Agent(name="guide", model=model)
    session, other = GroupSession(client, "one"), GroupSession(client, "two")
    first = await run(how, agent, "Where is the Golden Gate Bridge?", session=session)
    assert first.final_output == "San Francisco"
    await run(how, agent, "Which state is that?", session=session)
    assert [item.get("content") for item in model.calls[1].input if item.get("role") == "user"] == [
        "Where is the Golden Gate Bridge?",
        "Which state is that?",
    ]
    assert len(model.calls[1].input) == 3
    await run(how, agent, "Which state is that?", session=other)
    assert len(model.calls[2].input) == 1
    assert len(await session.get_items()) == 4


async def test_tool_calls_and_reasoning_come_back_unchanged(client: Client, session: GroupSession) -> None:
    @function_tool  # type: ignore[untyped-decorator]
    def weather(city: str) -> str:
        return f"Sunny in {city}"

    model = ScriptedModel(
        [[function_call("weather", {"city": "Oslo"}, call_id="c1")], [assistant_message("It is sunny.")]]
    )
    agent = Agent(name="guide", model=model, tools=[weather])
    await Runner.run(agent, "How is Oslo?", session=session)
    items = await session.get_items()
    assert items == [*model.calls[1].input, items[-1]]
    kinds = [item.get("type") or item.get("role") for item in items]
    assert kinds == ["user", "function_call", "function_call_output", "message"]
    client.session = escaped(session.session_id)
    turns = (await client.get_turns()).turns
    assert [(turn.role, turn.content) for turn in turns] == [
        ("user", "How is Oslo?"),
        ("tool", 'weather({"city":"Oslo"})'),
        ("tool", "Sunny in Oslo"),
        ("assistant", "It is sunny."),
    ]
    reasoning: Item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA" + "x1Yz" * 50}
    await session.add_items([reasoning, message("assistant", "<think>hm</think>"), message("user", "\u200b")])
    assert (await session.get_items())[-3] == reasoning


async def test_items_are_added_read_and_cleared(session: GroupSession) -> None:
    assert await session.get_items() == []
    await session.add_items([])
    await session.add_items(SAID[:2])
    assert await session.get_items() == SAID[:2]
    await session.clear_session()
    assert await session.get_items() == []
    assert await session.pop_item() is None
    await session.add_items(SAID[2:])
    assert await session.get_items() == SAID[2:]
    await session.clear_session()
    await session.clear_session()


async def test_the_newest_item_is_popped_in_its_session(client: Client, session: GroupSession) -> None:
    other = GroupSession(client, "User/42")
    assert await session.pop_item() is None
    await session.add_items(SAID)
    await other.add_items(SAID[:1])
    assert await session.pop_item() == SAID[3]
    assert await contents(session) == ["Message 1", "Response 1", "Message 2"]
    assert await asyncio.gather(*(session.pop_item() for _ in range(4))) == [SAID[2], SAID[1], SAID[0], None]
    assert await session.get_items() == []
    assert await other.get_items() == SAID[:1]
    await session.add_items(SAID[:1])
    assert await session.get_items() == SAID[:1]


async def test_a_call_that_is_cancelled_is_finished_first(session: GroupSession) -> None:
    adding = asyncio.ensure_future(session.add_items(SAID))
    await asyncio.sleep(0)
    adding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await adding
    assert await session.get_items() == SAID


async def test_every_agent_of_the_group_finds_what_was_said(make_host: HostFactory, home: Path) -> None:
    host = make_host().start()
    session = GroupSession(Client(home, "main", "sdk", timeout_seconds=PATIENCE), "chat-1")
    await session.add_items([message("user", "The quokka lives on Rottnest")])
    other = SyncClient(home, "main", "claude", session="chat-1", timeout_seconds=PATIENCE)
    assert other.search_memory("quokka").hits[0].id == "chat-1#1"
    other.append_turn("assistant", "So it does", sender="claude")
    other.append_turn("tool", "a tool of another program")
    host.kill()
    host.start()
    assert await session.get_items() == [
        message("user", "The quokka lives on Rottnest"),
        message("assistant", "So it does"),
    ]
    assert await session.pop_item() == message("assistant", "So it does")
