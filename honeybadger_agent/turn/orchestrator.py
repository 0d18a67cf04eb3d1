"""One turn: ask the model and run the tools it calls, until its answer is final or a limit is reached.

It does no I/O itself: model, tools, stream and journal are passed in.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import orjson

from honeybadger_agent.models.model import (
    Message,
    Model,
    ModelSaid,
    Prompt,
    ToolAnswer,
    ToolCall,
    ToolsAnswered,
    ToolSpec,
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """The limits of one turn; 0 means no limit. Checked before each call of the model, not during it.

    Args:
        steps: calls of the model, those of an earlier attempt included.
        total_tokens: input and output tokens of all calls, as the provider counts them, else a quarter of the
            characters.
        seconds: since this attempt began.
    """

    steps: int = 12
    total_tokens: int = 0
    seconds: float = 300


class Toolbox(Protocol):
    """The tools of one turn."""

    async def run(self, call: ToolCall, key: str) -> ToolAnswer:
        """Run one of `specs`; an error that the model can act on is an answer with `ok=False`.

        Args:
            call: its arguments are a JSON object.
            key: names this call in its turn; the same after a crash, so that a change is made once.
        """


class Events(Protocol):
    """Watches a running turn. Steps count from 1."""

    async def text(self, step: int, piece: str) -> None: ...

    async def tool_began(self, step: int, call: ToolCall) -> None: ...

    async def tool_ended(self, step: int, answer: ToolAnswer) -> None: ...


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """The result of a turn.

    Args:
        text: never empty.
        steps: answers of the model, those of an earlier attempt included.
        input_tokens, output_tokens: of all steps whose provider counts them; None: none does.
        stopped_by: the limit that ended the turn, with its number; None: the model was done.
    """

    text: str
    steps: int
    answers: tuple[ToolAnswer, ...]
    input_tokens: int | None
    output_tokens: int | None
    stopped_by: str | None

    @classmethod
    def of(
        cls, text: str, said: Sequence[ModelSaid], answers: Sequence[ToolAnswer], stopped_by: str | None
    ) -> TurnOutcome:
        """Return the result of a turn in which the model gave these answers."""
        asked = [each.input_tokens for each in said if each.input_tokens is not None]
        answered = [each.output_tokens for each in said if each.output_tokens is not None]
        return cls(
            text,
            steps=len(said),
            answers=tuple(answers),
            input_tokens=sum(asked) if asked else None,
            output_tokens=sum(answered) if answered else None,
            stopped_by=stopped_by,
        )


@dataclass(slots=True)
class AgentTurn:
    """One turn. Its state may be read while it runs.

    Args:
        keep: awaited with every new answer before its tools run.
        said: answers of the model; at first those that an earlier attempt kept before a crash. They are not asked for
            again; their tools run again with the same keys.
        tokens: tokens so far, those of its tools included.
    """

    model: Model
    toolbox: Toolbox
    limits: TurnLimits
    events: Events
    keep: Callable[[ModelSaid], Awaitable[None]]
    said: list[ModelSaid] = field(default_factory=list)
    tokens: int = 0
    clock: Callable[[], float] = time.monotonic
    _messages: list[Message] = field(default_factory=list)
    _answers: list[ToolAnswer] = field(default_factory=list)

    async def run(self, prompt: Prompt) -> TurnOutcome:
        """Run the turn to its end. Raises ModelFailed, and any exception of `keep` and `events`."""
        began = self.clock()
        for step in itertools.count(1):
            if step <= len(self.said):
                said = self.said[step - 1]
                if said.text:
                    await self.events.text(step, said.text)
            else:
                if (limit := self._reached(self.clock() - began)) is not None:
                    return self._outcome(limit)
                longer = replace(prompt, messages=(*prompt.messages, *self._messages))
                said = await self.model.answer(longer, partial(self.events.text, step))
                self.said.append(said)
                await self.keep(said)
            if said.note:
                await self.events.text(step, said.note)
            asked, answered = said.input_tokens, said.output_tokens
            self.tokens += _estimate(prompt.system, *prompt.messages, *self._messages) if asked is None else asked
            self.tokens += _estimate(said) if answered is None else answered
            if not said.calls:
                break
            answers = []
            for index, call in enumerate(said.calls):
                await self.events.tool_began(step, call)
                answers.append(await _answered(self.toolbox, prompt.tools, call, f"{step}.{index}"))
                await self.events.tool_ended(step, answers[-1])
                self.tokens += answers[-1].tokens
            self._messages += [said, ToolsAnswered(tuple(answers))]
            self._answers += answers
        return self._outcome(None)

    def _outcome(self, limit: str | None) -> TurnOutcome:
        last = self.said[-1].text if self.said and limit is None else ""
        text = last if last.strip() else "\n\n".join(said.text for said in self.said if said.text.strip())
        if not text:
            text = (
                "The model gave no text."
                if limit is None
                else f"I had to stop before I had an answer: {limit}. What the tools did until then is done."
            )
        if limit is None:
            text += self.said[-1].note
        return TurnOutcome.of(text, self.said, self._answers, limit)

    def _reached(self, seconds: float) -> str | None:
        """Return the limit that is reached, or None if none is."""
        limits = self.limits
        if limits.steps and len(self.said) >= limits.steps:
            return f"the limit of {limits.steps} steps is reached"
        if limits.total_tokens and self.tokens >= limits.total_tokens:
            return f"the limit of {limits.total_tokens} tokens is reached"
        if limits.seconds and seconds >= limits.seconds:
            return f"the limit of {limits.seconds:g} seconds is reached"
        return None


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """Return the arguments of a call; none mean an empty object. Raises ValueError if they are not a JSON object."""
    read = orjson.loads(call.arguments) if call.arguments.strip() else {}
    if not isinstance(read, dict):
        raise ValueError("they must begin with {")
    return read


async def _answered(toolbox: Toolbox, specs: Sequence[ToolSpec], call: ToolCall, key: str) -> ToolAnswer:
    """Return the result of a call; every error is an answer that a model can read."""
    if call.name not in {spec.name for spec in specs}:
        names = ", ".join(spec.name for spec in specs) or "none"
        return ToolAnswer.refused(call, f"invalid: there is no tool {call.name[:60]!r}; the tools are: {names}")
    try:
        arguments_of(call)
    except ValueError as error:
        return ToolAnswer.refused(call, f"invalid: the arguments of {call.name} are not a JSON object: {error}")
    try:
        return await toolbox.run(call, key)
    except Exception as error:  # noqa: BLE001  a bug of one tool must not cost the turn; it is logged with its traceback
        _log.exception("tool %s failed at %s", call.name, key)
        return ToolAnswer.refused(call, f"internal: {call.name} failed with {type(error).__name__}; go on without it")


def _estimate(*said: str | Message) -> int:
    """Return tokens as a quarter of the characters, for providers that do not count."""
    return len(repr(said)) // 4
