"""One turn of an agent: asked for by `chat` (HB5, HB8), run, and ended by `stop_turn`.

The agent asks and saves through its own inbox, like everybody else. Message and answer are appended together, once
there is an answer: a turn that fails leaves no trace in the conversation, and a turn that is repeated after a crash is
appended once.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, ParamSpec, TypeAlias, TypeVar

import anyio
import anyio.to_thread
import orjson

from honeybadger_agent.client import Client
from honeybadger_agent.errors import AgentError, RequestFailed
from honeybadger_agent.mailbox import OPERATOR, Mailbox
from honeybadger_agent.models.model import Model, ModelFailed, ModelSaid, ToolCall
from honeybadger_agent.tools import made, tool_names
from honeybadger_agent.turn.orchestrator import AgentTurn, TurnLimits, TurnOutcome
from honeybadger_agent.turn.prompt import prompt_of
from honeybadger_agent.turn.thinking import Visible
from honeybadger_agent.turn.toolbox import MemoryTools
from honeybadger_agent.wire import Chat, ChatResult, GetContext, Refusal, StopResult, StopTurn, StreamLine
from honeybadger_host.agents import Agent, unknown_agent
from honeybadger_host.handler_kinds import Asked, ChangeHandler, Outcome, TurnUnderWay
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.handlers.redaction import not_blank, with_neutralised
from honeybadger_host.handlers.speakers import check_names, speaker_of
from honeybadger_host.handlers.turns.clean_model import CleanModel
from honeybadger_host.handlers.turns.output import Shown, tool_run
from honeybadger_host.journal.changes import Change, TurnAdded
from honeybadger_host.log import log
from honeybadger_host.memory.turn_log import dump_turn
from honeybadger_host.text.neutralise import estimate_tokens
from honeybadger_host.text.turn import ShownContext, Turn
from honeybadger_host.threads import Threads

P = ParamSpec("P")
T = TypeVar("T")

# Seconds that the pipeline may take to answer a tool: milliseconds, unless the disk is full.
_TOOL_SECONDS = 60.0


# (`stop_turn`, only of this sender, of this session; None: of any) -> its answer; see `TurnQueue.stop_turn`
StopATurn: TypeAlias = Callable[[Asked, str | None, str | None], Coroutine[Any, Any, StopResult]]


@dataclass(frozen=True, slots=True)
class AgentRuntime:
    """Everything that running agents needs.

    Args:
        open_model: name of a model, None for the host's own -> the model; raises ModelFailed.
        is_ours: (group, agent) -> whether the host may write into that agent's inbox.
        look_into: called with a sender's folder after a request came there; any thread.
        until_answered: returns when the host has answered requests.
        stop: ends a turn.
        threads: for the short work of turns with files, as many as turns at once.
        under_way: the turns that run.
    """

    memory: Dependencies
    open_model: Callable[[str | None], Awaitable[Model]]
    is_ours: Callable[[str, str], bool]
    look_into: Callable[[str], None]
    until_answered: Callable[[], Awaitable[None]]
    stop: StopATurn
    threads: Threads
    under_way: TurnsUnderWay = field(default_factory=lambda: TurnsUnderWay())

    @property
    def limits(self) -> TurnLimits:
        turns = self.memory.settings.turns
        return TurnLimits(turns.steps, turns.total_tokens, turns.seconds)


@dataclass(slots=True)
class ChatTurn:
    """One turn: `run` until there is an answer, then `decide` the turns to append.

    Args:
        changed: the changes made to `content`.
        turn: asks the model; None: it has not begun.
        parent: the turn that asked for this one.
        limits: its own limits; None: those of every turn.
    """

    runtime: AgentRuntime
    asked: Asked
    under_way: TurnUnderWay
    speaker: str
    content: str
    changed: Mapping[str, int]
    agent: Agent
    shown: Shown
    most_turns: int | None = None
    asked_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    turn: AgentTurn | None = None
    model: str = ""
    context: ShownContext | None = None
    outcome: TurnOutcome = field(init=False)
    parent: ChatTurn | None = None
    limits: TurnLimits | None = None
    began: float = field(default_factory=time.monotonic)

    @property
    def tokens(self) -> int:
        """Tokens so far, its tools included."""
        return 0 if self.turn is None else self.turn.tokens

    async def run(self) -> None:
        """Run the turn to its end. Raises Refusal, WorldFailed."""
        try:
            with self.runtime.under_way.counting(self):
                await self.ask()
        except ModelFailed as error:
            raise Refusal("unavailable", f"{error}; nothing was said, so you may ask again") from None
        except RequestFailed as error:
            raise Refusal(error.code, f"the context: {error}") from None  # type: ignore[arg-type]
        except AgentError as error:
            raise Refusal("unavailable", f"the context: {error}") from None

    async def ask(self) -> None:
        """Ask the model until there is an answer. Raises ModelFailed, AgentError, WorldFailed."""
        model = CleanModel(await self.runtime.open_model(self.agent.model), self.asked, self.shown.redacts)
        self.model = model.name
        self.shown.line(StreamLine(kind="began", agent=self.agent.id, model=model.name, attempt=self.under_way.attempt))
        outcome: TurnOutcome | None = None
        with self.under_way.stop.scope:
            outcome = await self._answered(model)
        self.outcome = outcome or self.cut(f"asked for by {self.under_way.stop.by}")
        self.shown.end()
        log.info(
            "turn.ran",
            group=self.asked.group,
            session=self.asked.session,
            id=self.asked.request_id,
            agent=self.agent.id,
            model=model.name,
            steps=self.outcome.steps,
            tools=[answer.call.name for answer in self.outcome.answers],
            input_tokens=self.outcome.input_tokens,
            output_tokens=self.outcome.output_tokens,
            stopped_by=self.outcome.stopped_by,
            ms=round((time.monotonic() - self.began) * 1000, 1),
            model_ms=round(model.seconds * 1000, 1),
        )

    async def _answered(self, model: Model) -> TurnOutcome:
        """Ask the model until its answer is final. Raises ModelFailed, AgentError, WorldFailed."""
        asked, under_way = self.asked, self.under_way
        client = await self.runtime.threads.run(OwnClient, self.runtime, asked, self.agent)
        context = await client(made(GetContext, self.content, most_turns=self.most_turns))
        self.context = ShownContext(context.hash, context.seq)
        allowed = self.agent.tools
        toolbox = MemoryTools(client, under_way.name, None if allowed is None else tool_names(allowed=allowed))
        message = self.content if self.speaker == "user" else f"[{self.speaker}]: {self.content}"
        who = f"the agent `{self.agent.id}` of the group `{asked.group}`, in its session `{asked.session}`"
        prompt = prompt_of(message, context.system, toolbox.specs, who, stable_characters=context.stable_characters)
        limits = self.limits or self.runtime.limits
        said = [_load_step(step) for step in under_way.steps]
        self.turn = AgentTurn(model, toolbox, limits, self.shown, self._keep, said)
        seconds = 2 * limits.seconds or math.inf  # after `turns.seconds` no new step begins
        with anyio.move_on_after(seconds):  # else a model that never ends its answer blocks its group
            return await self.turn.run(prompt)
        raise ModelFailed(f"{model.name} did not come to an end within {seconds:g} s (turns.seconds)", is_passing=True)

    async def _keep(self, said: ModelSaid) -> None:
        await self.under_way.keep(orjson.dumps(said))

    def cut(self, why: str) -> TurnOutcome:
        """Return the text so far: whole answers, and the shown part of the last one."""
        said = [] if self.turn is None else self.turn.said
        texts = [each.text for each in said]
        if self.shown.step > len(said):
            texts.append(self.shown.text_of_step)
        texts = [text for text in texts if text.strip()]
        texts.append(f"(Stopped here: {why}.)" if texts else f"(Stopped before the first word: {why}.)")
        outcome = TurnOutcome.of("\n\n".join(texts), said, self.shown.answers, why)
        return replace(outcome, steps=max(len(said), self.shown.step))

    def decide(self, asked: Asked, now: datetime) -> Outcome:
        """Decide the turns to append, and the reply."""
        number, changes = self.appended(now)
        outcome = self.outcome
        result = ChatResult(
            content=outcome.text,
            agent=self.agent.id,
            model=self.model,
            turn=number,
            steps=outcome.steps,
            tools=[tool_run(answer) for answer in outcome.answers],
            input_tokens=outcome.input_tokens,
            output_tokens=outcome.output_tokens,
            delegated_tokens=sum(answer.tokens for answer in outcome.answers),
            stopped_by=outcome.stopped_by,
        )
        return Outcome(
            with_neutralised(result.model_dump(exclude_none=True, exclude={"neutralised"}), self.changed), changes
        )

    def appended(self, now: datetime) -> tuple[int, tuple[Change, ...]]:
        """Return the number of the answer, and the changes that append message and answer.

        It is 0, without changes, when no conversation is kept.
        """
        memory, asked, outcome, agent = self.runtime.memory, self.asked, self.outcome, self.agent.id
        if not memory.settings.conversation.enabled:
            return 0, ()
        number = memory.turn_logs.next_number(asked.group, asked.session)
        answered = Turn(
            number + 1,
            now,
            "assistant",
            agent,
            agent,
            outcome.text,
            estimate_tokens(outcome.text),
            tools_used=tuple(answer.call.name[:100] for answer in outcome.answers),
            input_tokens=outcome.input_tokens,
            output_tokens=outcome.output_tokens,
            context=self.context,
        )
        tokens = estimate_tokens(self.content)
        said = Turn(number, self.asked_at, "user", self.speaker, asked.sender, self.content, tokens)
        added = [
            TurnAdded(asked.group, asked.session, one, dump_turn(one, asked.request_id)) for one in (said, answered)
        ]
        return answered.number, (*added, *memory.sessions.after_turns(added, now))


class TurnsUnderWay:
    """The turns that run, by group and name: two groups may have turns of the same name. Event loop."""

    def __init__(self) -> None:
        self._turns: dict[tuple[str, str], ChatTurn] = {}
        self._came = anyio.Event()

    @contextlib.contextmanager
    def counting(self, turn: ChatTurn) -> Iterator[None]:
        """Register a turn while it runs. When it ends, the turns that it asked for are stopped.

        When the host stops, they are not: the next start continues all of them.
        """
        key = turn.asked.group, turn.under_way.name
        self._turns[key] = turn
        came, self._came = self._came, anyio.Event()
        came.set()
        is_over = True
        try:
            yield
        except anyio.get_cancelled_exc_class():
            is_over = False
            raise
        finally:
            del self._turns[key]
            if is_over:
                by = turn.under_way.stop.by or f"{turn.agent.id}, whose turn is over"
                for child in list(self._turns.values()):
                    if child.parent is turn:
                        child.under_way.stop.ask(by)

    async def wait_for(self, group: str, name: str, seconds: float) -> ChatTurn | None:
        """Return the turn of a name once it runs, or None if it does not in time."""
        with anyio.move_on_after(seconds):
            while (group, name) not in self._turns:
                await self._came.wait()
        return self._turns.get((group, name))


class OwnClient(Client):
    """A client in the process of the host, through the agent's own inbox: it looks for its reply once that is written.

    Raises AgentError.
    """

    def __init__(self, runtime: AgentRuntime, asked: Asked, agent: Agent) -> None:
        home = runtime.memory.home
        inbox = str(Mailbox.of(home, asked.group, agent.id).root)
        super().__init__(
            home,
            asked.group,
            agent.id,
            session=asked.session,
            timeout_seconds=_TOOL_SECONDS,
            sent=lambda: runtime.look_into(inbox),
        )
        self._until_answered, self._threads = runtime.until_answered, runtime.threads

    async def _aside(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._threads.run(work, *args, **kwargs)

    async def _pause(self, seconds: float) -> None:
        with anyio.move_on_after(_TOOL_SECONDS):
            await self._until_answered()


def _load_step(step: bytes) -> ModelSaid:
    value = orjson.loads(step)
    calls = tuple(ToolCall(**call) for call in value.pop("calls"))
    return ModelSaid(Visible.of(value.pop("text")).text, calls, **value)


async def chat(runtime: AgentRuntime, asked: Asked[Chat], under_way: TurnUnderWay) -> ChangeHandler:
    await runtime.threads.run(check_names, runtime.memory, asked, {"payload.sender": (asked.payload.sender, "user")})
    turn = begun(runtime, asked, under_way)
    await turn.run()
    return ChangeHandler(turn.decide)


async def stop_turn(stop: StopATurn, asked: Asked[StopTurn]) -> Mapping[str, Any]:
    """End a turn, which gets its own reply; memory does not change."""
    is_operator = asked.sender == OPERATOR
    if asked.payload.sender not in (None, asked.sender) and not is_operator:
        raise Refusal("forbidden", "a sender stops its own turns only", field="payload.sender")
    sender = asked.payload.sender if is_operator else asked.sender
    return (await stop(asked, sender, None if is_operator else asked.session)).model_dump()


def begun(
    runtime: AgentRuntime, asked: Asked[Chat], under_way: TurnUnderWay, most_turns: int | None = None
) -> ChatTurn:
    """Return the turn that answers a message. Raises Refusal.

    Args:
        most_turns: newest turns of the conversation that it gets at most; None: no separate limit.
    """
    payload, texts = asked.payload, runtime.memory.texts(asked)
    not_blank("payload.content", payload.content)
    speaker = speaker_of(texts, payload.sender, asked.sender)
    content = texts.text("payload.content", payload.content)
    agent = chosen(runtime, asked.group, payload.agent)
    shown = Shown(under_way, redacts=texts.mode != "off")
    return ChatTurn(runtime, asked, under_way, speaker, content, texts.changed, agent, shown, most_turns)


def chosen(runtime: AgentRuntime, group: str, asked_for: str | None) -> Agent:
    """Return the agent that answers. Raises Refusal."""
    agents = runtime.memory.agents
    agent = agents.current.get(asked_for or agents.default)
    if agent is None:
        raise Refusal("not_found", unknown_agent(asked_for or "", agents.current), field="payload.agent")
    if not runtime.is_ours(group, agent.id):
        raise Refusal(
            "forbidden",
            f"{agent.id} was added with `honeybadger-host sender add`, so the host does not speak as it",
            field="payload.agent",
        )
    return agent
