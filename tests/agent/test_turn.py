"""A whole turn on real parts: a model over HTTP, the loop, tools over the road of a real host."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from honeybadger_agent import Client
from honeybadger_agent.models import ModelSettings, open_model
from honeybadger_agent.models.model import Model, ModelSaid, ToolAnswer, ToolCall
from honeybadger_agent.turn.orchestrator import TurnLimits, TurnOutcome, run_turn
from honeybadger_agent.turn.prompt import AgentRequest, messages, system_text
from honeybadger_agent.turn.toolbox import MemoryTools
from tests.endpoint import Answer, Asked, anthropic, openai, served
from tests.hosting import HostProcess, RawSender

NOTE = ToolCall(
    "call_1", "update_memory", '{"content": "User prefers dark mode for all UIs", "section": "Preferences"}'
)
SEARCH = ToolCall("call_2", "search_memory", '{"query": "Which theme does the user like for UIs?"}')


class Killed(Exception):
    """Stands for the end of the process."""


@dataclass
class Looking:
    """Looks on, and ends the attempt after a tool when told to."""

    dies_after_tool: bool = False
    pieces: list[str] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)

    async def text(self, step: int, piece: str) -> None:
        self.pieces.append(piece)

    async def tool_began(self, step: int, call: ToolCall) -> None: ...

    async def tool_ended(self, step: int, answer: ToolAnswer) -> None:
        self.ran.append(answer.summary)
        if self.dies_after_tool:
            raise Killed


async def turn(
    model: Model,
    home: Path,
    message: str,
    *,
    number: str = "turn-1",
    session: str = "main",
    looking: Looking | None = None,
    done: Sequence[ModelSaid] = (),
    kept: list[ModelSaid] | None = None,
) -> TurnOutcome:
    client = Client(home, "main", "ada", session=session, timeout_seconds=20)
    context = await client.get_context(message)
    tools = MemoryTools(client, number)
    request = AgentRequest("main", "ada", session, message, context.system, tools.specs)

    async def keep(said: ModelSaid) -> None:
        if kept is not None:
            kept.append(said)

    looking = looking or Looking()
    return await run_turn(
        model, system_text(request), messages(request), tools, TurnLimits(), looking, done=done, keep=keep
    )


def talking(write: Callable[[ModelSaid], Answer]) -> Callable[[Asked], Answer]:
    """Answer as a model would that saves, searches, and reads what it found."""

    def answering(asked: Asked) -> Answer:
        last = str(asked.body["messages"][-1])
        if "Remember that" in last:
            return write(ModelSaid("I will. ", (NOTE,), 900, 20))
        if "Which theme" in last:
            return write(ModelSaid("", (SEARCH,), 900, 20))
        if "Saved in MEMORY.md, section Preferences" in last:
            return write(ModelSaid("Saved: dark mode.", (), 950, 6))
        return write(ModelSaid("You like dark mode." if "dark mode" in last else "I do not know.", (), 990, 5))

    return answering


@pytest.mark.parametrize(("name", "path", "write"), [("openai", "/v1", openai), ("anthropic", "", anthropic)])
async def test_what_a_model_over_http_saves_another_session_knows(
    host: HostProcess, home: Path, name: str, path: str, write: Callable[[ModelSaid], Answer]
) -> None:
    with served(talking(write)) as endpoint:
        model = open_model(f"{name}:test", ModelSettings(base_url=endpoint.url + path))
        looking = Looking()
        saved = await turn(model, home, "Remember that I prefer dark mode for all UIs", looking=looking)
        assert (saved.text, saved.steps, saved.stopped_by) == ("Saved: dark mode.", 2, None)
        assert (saved.input_tokens, saved.output_tokens) == (1850, 26)
        assert "".join(looking.pieces) == "I will. Saved: dark mode."
        assert looking.ran == ["Saved in MEMORY.md, section Preferences: User prefers dark mode for all UIs"]
        assert "## Preferences (ada, " in RawSender(home).memory_text()
        found = await turn(model, home, "Which theme do I like?", number="turn-2", session="new")
        assert found.text == "You like dark mode."
        assert "## Tools" in endpoint.asked[-1].system
        await model.aclose()


async def test_a_turn_that_ended_in_the_middle_is_finished_and_saves_once(host: HostProcess, home: Path) -> None:
    with served(talking(openai)) as endpoint:
        model = open_model("openai:test", ModelSettings(base_url=f"{endpoint.url}/v1"))
        message = "Remember that I prefer dark mode for all UIs"
        kept: list[ModelSaid] = []
        for _ in range(2):
            with pytest.raises(Killed):
                await turn(model, home, message, looking=Looking(dies_after_tool=True), done=kept.copy(), kept=kept)
        assert (len(kept), len(endpoint.asked)) == (1, 1)
        outcome = await turn(model, home, message, done=kept.copy(), kept=kept)
        assert (outcome.text, outcome.steps) == ("Saved: dark mode.", 2)
        assert len(endpoint.asked) == 2
        assert RawSender(home).memory_text().count("dark mode") == 1
        await model.aclose()


async def test_turns_of_several_sessions_share_a_model(host: HostProcess, home: Path) -> None:
    with served(talking(openai)) as endpoint:
        model = open_model("openai:test", ModelSettings(base_url=f"{endpoint.url}/v1"))
        message = "Remember that I prefer dark mode for all UIs"
        turns = (turn(model, home, message, number=f"turn-{number}", session=f"s{number}") for number in range(8))
        assert {outcome.text for outcome in await asyncio.gather(*turns)} == {"Saved: dark mode."}
        assert RawSender(home).memory_text().count("dark mode") == 8
        await model.aclose()
