"""`chat`: one turn of an agent (HB5, HB8). The agent asks and saves through its own box, like everybody else.

What was said and what was answered are appended together, when there is an answer: a turn that fails leaves no trace in
the conversation, and one that is repeated after a crash is in it once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import orjson
import structlog

from honeybadger_agent import tools
from honeybadger_agent.client import Client
from honeybadger_agent.errors import AgentError, RequestFailed
from honeybadger_agent.mailbox import Mailbox
from honeybadger_agent.models.model import Message, Model, ModelFailed, ModelSaid, ToolAnswer, ToolCall, ToolSpec
from honeybadger_agent.turn.dispatch import OFFERED
from honeybadger_agent.turn.orchestrator import TurnLimits, TurnOutcome, run_turn
from honeybadger_agent.turn.prompt import AgentRequest, messages, system_text
from honeybadger_agent.turn.thinking import Visible
from honeybadger_agent.turn.toolbox import MemoryTools
from honeybadger_agent.wire import Chat, ChatResult, Refusal, StreamLine, ToolRun
from honeybadger_host.agents import Agent, Agents
from honeybadger_host.domain import Asked, Change, ChangeHandler, Outcome, Turn, TurnAdded, TurnHandler, TurnUnderWay
from honeybadger_host.handlers.conversation import prepare_turn, speaker_of
from honeybadger_host.handlers.redaction import Screen
from honeybadger_host.memory.session_document_store import Sessions
from honeybadger_host.memory.turn_log import Conversations, dump_turn
from honeybadger_host.text.neutralise import estimate_tokens, is_blank, neutralise
from honeybadger_host.text.redaction import redact

log = structlog.get_logger()

_TOOL_SECONDS: Final = 60.0
"""How long the road may take to answer a tool; it answers within milliseconds unless the disk is full."""
_LONGEST_SUMMARY: Final = 200
_LAST_ANSWER: Final = 2
"""Times `turns.seconds`, after which no model is asked any more: an answer being written then has as long again."""


@dataclass(frozen=True, slots=True)
class Desk:
    """What the host runs agents with.

    Args:
        open_model: name of a model, None for the host's own -> the model; raises ModelFailed.
        is_ours: (group, agent) -> whether the host may write into that agent's box.
        look_into: called with a sender's folder when something came there; any thread.
    """

    home: Path
    agents: Agents
    open_model: Callable[[str | None], Awaitable[Model]]
    is_ours: Callable[[str, str], bool]
    look_into: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class TurnRoom:
    """What turns are made with."""

    desk: Desk
    conversations: Conversations
    documents: Sessions
    screen: Screen
    limits: TurnLimits


def chat(room: TurnRoom) -> TurnHandler:
    """Return the handler of `chat`."""
    prepare = prepare_turn(room.conversations, room.documents)

    async def run(asked: Asked, turn: TurnUnderWay) -> ChangeHandler[None]:
        payload = asked.payload
        assert isinstance(payload, Chat)  # noqa: S101  the table pairs type and payload
        if is_blank(neutralise(payload.content).text):
            raise Refusal("invalid", "payload.content is blank: nothing was said", field="payload.content")
        room.screen.session(asked)
        speaker = speaker_of(payload.sender, asked.sender)
        if payload.sender is not None:
            speaker = room.screen.name(asked, "payload.sender", speaker)
        content, changed = room.screen.text(asked, "payload.content", payload.content)
        agent = _chosen(room, asked.group, payload.agent)
        began, asked_at = time.monotonic(), datetime.now(UTC)
        shown = _Shown(turn, redacts=room.screen.mode != "off")
        try:
            model = _Timed(await room.desk.open_model(agent.model), asked, room.screen)
            shown.line(StreamLine(kind="began", agent=agent.id, model=model.name, attempt=turn.attempt))
            outcome = await _turn(room, asked, turn, agent, speaker, content, model, shown)
            shown.end()
        except ModelFailed as error:
            raise Refusal("unavailable", f"{error}; nothing was said, ask again with the same id") from None
        except RequestFailed as error:
            raise Refusal(error.code, f"the context: {error}") from None  # type: ignore[arg-type]
        except AgentError as error:
            raise Refusal("unavailable", f"the context: {error}") from None
        seconds = time.monotonic() - began
        log.info(
            "turn.ran",
            group=asked.group,
            session=asked.session,
            id=asked.request_id,
            agent=agent.id,
            model=model.name,
            steps=outcome.steps,
            tools=[answer.call.name for answer in outcome.answers],
            input_tokens=outcome.input_tokens,
            output_tokens=outcome.output_tokens,
            stopped_by=outcome.stopped_by,
            ms=round(seconds * 1000, 1),
            model_ms=round(model.seconds * 1000, 1),
        )

        def decide(asked: Asked, prepared: None, now: datetime) -> Outcome:
            number = room.conversations.next_number(asked.group, asked.session)
            said = Turn(number, asked_at, "user", speaker, asked.sender, content, estimate_tokens(content))
            answered = Turn(
                number + 1,
                now,
                "assistant",
                agent.id,
                agent.id,
                outcome.text,
                estimate_tokens(outcome.text),
                tools_used=tuple(answer.call.name[:100] for answer in outcome.answers),
                input_tokens=outcome.input_tokens,
                output_tokens=outcome.output_tokens,
            )
            added = [
                TurnAdded(asked.group, asked.session, one, dump_turn(one, asked.request_id)) for one in (said, answered)
            ]
            result = ChatResult(
                content=outcome.text,
                agent=agent.id,
                model=model.name,
                turn=answered.number,
                steps=outcome.steps,
                tools=[_tool_run(answer) for answer in outcome.answers],
                input_tokens=outcome.input_tokens,
                output_tokens=outcome.output_tokens,
                stopped_by=outcome.stopped_by,
                neutralised=dict(changed),
            )
            changes: tuple[Change, ...] = (*added, *room.documents.after_turns(added, now))
            return Outcome(result.model_dump(exclude_none=True), changes)

        return ChangeHandler(decide, prepare)

    return TurnHandler(run)


def _chosen(room: TurnRoom, group: str, asked_for: str | None) -> Agent:
    """Return the agent that answers. Raises Refusal."""
    agents = room.desk.agents.current
    agent = agents.get(asked_for or room.desk.agents.default)
    if agent is None:
        known = ", ".join(sorted(agents)[:20])
        raise Refusal("not_found", f"there is no agent {asked_for!r}; there are: {known}", field="payload.agent")
    if not room.desk.is_ours(group, agent.id):
        raise Refusal(
            "forbidden",
            f"{agent.id} is a sender of its own here (`honeybadger-host sender add`): the host does not speak as it",
            field="payload.agent",
        )
    return agent


async def _turn(
    room: TurnRoom,
    asked: Asked,
    turn: TurnUnderWay,
    agent: Agent,
    speaker: str,
    content: str,
    model: Model,
    shown: _Shown,
) -> TurnOutcome:
    """Run the turn. Raises ModelFailed, AgentError, WorldFailed."""
    client = await anyio.to_thread.run_sync(_client, room, asked, agent)
    context = await client.call(tools.get_context(content))
    toolbox = MemoryTools(client, turn.name, None if agent.tools is None else agent.tools & OFFERED.keys())
    request = AgentRequest(
        group=asked.group,
        agent=agent.id,
        session=asked.session,
        message=f"[{speaker}]: {content}" if speaker != "user" else content,
        context=context.system,
        tools=tuple(toolbox.specs),
    )
    seconds = room.limits.seconds * _LAST_ANSWER if room.limits.seconds else math.inf
    with anyio.move_on_after(seconds):  # else a model that never comes to an end keeps its group waiting
        return await run_turn(
            model,
            system_text(request),
            messages(request),
            toolbox,
            room.limits,
            shown,
            done=[_load_step(step) for step in turn.steps],
            keep=lambda said: turn.keep(_dump_step(said)),
        )
    raise ModelFailed(f"{model.name} did not come to an end within {seconds:g} s (turns.seconds)", is_passing=True)


def _client(room: TurnRoom, asked: Asked, agent: Agent) -> Client:
    """Return the way of an agent into its own box. Raises AgentError."""
    home = room.desk.home
    box = str(Mailbox.of(home, asked.group, agent.id).root)
    return Client(
        home,
        asked.group,
        agent.id,
        session=asked.session,
        timeout_seconds=_TOOL_SECONDS,
        sent=lambda: room.desk.look_into(box),
    )


def _dump_step(said: ModelSaid) -> bytes:
    return orjson.dumps(said)


def _load_step(step: bytes) -> ModelSaid:
    value = orjson.loads(step)
    calls = tuple(ToolCall(**call) for call in value.pop("calls"))
    return ModelSaid(Visible.of(value.pop("text")).text, calls, **value)


def _tool_run(answer: ToolAnswer) -> ToolRun:
    return ToolRun(name=answer.call.name[:100], ok=answer.ok, summary=redact(answer.summary)[0][:_LONGEST_SUMMARY])


@dataclass(slots=True)
class _Timed:
    """A model whose seconds are counted and in whose answers neither thinking nor a credential is left.

    What it says is kept, shown and appended: it is cleaned once, before all of that, also where a person's words would
    be refused: nobody can take a credential out of a model's answer and send it again.
    """

    model: Model
    asked: Asked
    screen: Screen
    seconds: float = 0.0

    @property
    def name(self) -> str:
        return self.model.name

    async def answer(
        self,
        system: str,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        on_text: Callable[[str], Awaitable[None]],
    ) -> ModelSaid:
        visible = Visible()

        async def pass_on(piece: str) -> None:
            if shown := visible.feed(piece):
                await on_text(shown)

        began = time.monotonic()
        try:
            said = await self.model.answer(system, messages, tools, pass_on)
        finally:
            self.seconds += time.monotonic() - began
        if rest := visible.end():
            await on_text(rest)
        said = replace(said, text=Visible.of(said.text).text)
        if self.screen.mode == "off":
            return said
        calls = tuple(ToolCall(call.id, call.name, self._clean(call.arguments)) for call in said.calls)
        return replace(said, text=_redacted(said.text), calls=calls)

    def _clean(self, arguments: str) -> str:
        """Return the arguments of a call without credentials in them, still JSON if they were."""
        try:
            clean, changed = Screen("redact").tree(self.asked, "a tool call", orjson.loads(arguments))
            return orjson.dumps(clean).decode() if changed else arguments
        except (orjson.JSONDecodeError, orjson.JSONEncodeError, RecursionError):  # no JSON, or too deep to be read
            return redact(arguments)[0]

    async def aclose(self) -> None:
        await self.model.aclose()


def _redacted(text: str) -> str:
    return redact(neutralise(text).text)[0]


@dataclass(slots=True)
class _Shown:
    """Passes on what happens to who looks on: text a line at most behind, so that no credential slips through in parts.

    Args:
        line_text: of the line of text that is not over.
        sent: how much of its cleaned form was passed on.
    """

    turn: TurnUnderWay
    redacts: bool
    step: int = 0
    line_text: str = ""
    sent: str = ""

    def line(self, line: StreamLine) -> None:
        self.turn.show(orjson.dumps(line.model_dump(exclude_none=True), option=orjson.OPT_APPEND_NEWLINE))

    async def text(self, step: int, piece: str) -> None:
        if not self.redacts:
            self.line(StreamLine(kind="text", step=step, text=piece))
            return
        if step != self.step:
            self.end()
            self.step = step
        self.line_text += piece
        whole, newline, rest = self.line_text.rpartition("\n")
        if newline:
            self._pass_on(_redacted(whole + newline))
            self.line_text, self.sent = rest, ""
        words, space, _ = self.line_text.rpartition(" ")  # a word that is not over may be the beginning of a credential
        if space:
            self._pass_on(_redacted(words + space))

    async def tool_began(self, step: int, call: ToolCall) -> None:
        self.end()
        self.line(StreamLine(kind="tool_began", step=step, tool=call.name[:100]))

    async def tool_ended(self, step: int, answer: ToolAnswer) -> None:
        ran = _tool_run(answer)
        self.line(StreamLine(kind="tool_ended", step=step, tool=ran.name, ok=ran.ok, summary=ran.summary))

    def end(self) -> None:
        """Send what is left of a text that is over."""
        if self.line_text:
            self._pass_on(_redacted(self.line_text))
        self.line_text, self.sent = "", ""

    def _pass_on(self, clean: str) -> None:
        """Send what of a cleaned text was not sent; when it changed under what was, no more of this line."""
        if clean.startswith(self.sent) and len(clean) > len(self.sent):
            self.line(StreamLine(kind="text", step=self.step, text=clean[len(self.sent) :]))
            self.sent = clean
