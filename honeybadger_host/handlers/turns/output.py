"""A model's output in a turn: screened, and shown while it comes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

import orjson

from honeybadger_agent.models.model import (
    MAX_SUMMARY_CHARACTERS,
    Model,
    ModelSaid,
    OnText,
    Prompt,
    ToolAnswer,
    ToolCall,
)
from honeybadger_agent.turn.thinking import Visible
from honeybadger_agent.wire import StreamLine, ToolRun
from honeybadger_host.handler_kinds import Asked, TurnUnderWay
from honeybadger_host.handlers.redaction import Texts
from honeybadger_host.text.redaction import redact, redact_line


def tool_run(answer: ToolAnswer) -> ToolRun:
    """Return the line that people see about a tool that ran."""
    summary = redact(answer.summary)[0][:MAX_SUMMARY_CHARACTERS]
    return ToolRun(name=answer.call.name[:100], ok=answer.ok, summary=summary)


@dataclass(slots=True)
class CleanModel:
    """A model that counts its seconds and removes thinking and credentials from its answers.

    A model's text is cleaned once, before it is kept, shown and appended. A credential is removed even where a person's
    message would be refused, since nobody can correct a model's answer and send it again.
    """

    model: Model
    asked: Asked
    redacts: bool
    seconds: float = 0.0

    @property
    def name(self) -> str:
        return self.model.name

    async def answer(self, prompt: Prompt, on_text: OnText) -> ModelSaid:
        visible = Visible()

        async def pass_on(piece: str) -> None:
            if shown := visible.feed(piece):
                await on_text(shown)

        began = time.monotonic()
        try:
            said = await self.model.answer(prompt, pass_on)
        finally:
            self.seconds += time.monotonic() - began
        if rest := visible.end():
            await on_text(rest)
        said = replace(said, text=Visible.of(said.text).text)
        if not self.redacts:
            return said
        calls = tuple(ToolCall(call.id, call.name, self._clean(call.arguments)) for call in said.calls)
        return replace(said, text=redact_line(said.text), calls=calls)

    def _clean(self, arguments: str) -> str:
        """Return the arguments of a call without credentials in them, still JSON if they were."""
        try:
            value = orjson.loads(arguments)
            clean = Texts(self.asked, "redact").tree("a tool call", value)
            return arguments if clean == value else orjson.dumps(clean).decode()
        except (orjson.JSONDecodeError, orjson.JSONEncodeError, RecursionError):  # no JSON, or too deep to be read
            return redact(arguments)[0]

    async def aclose(self) -> None:
        await self.model.aclose()


@dataclass(slots=True)
class Shown:
    """Streams a turn to its readers. Text is at most one line late, so that no credential is shown in parts.

    Args:
        text_of_step: the part of the text of `step` that was passed on.
        line_text: the line that is not complete yet.
        sent: the part of its cleaned form that was passed on.
        answers: the tools' answers, in order; that of a running tool says that it may still finish.
    """

    turn: TurnUnderWay
    redacts: bool
    step: int = 0
    text_of_step: str = ""
    line_text: str = ""
    sent: str = ""
    answers: list[ToolAnswer] = field(default_factory=list)

    def line(self, line: StreamLine) -> None:
        self.turn.show(orjson.dumps(line.model_dump(exclude_none=True), option=orjson.OPT_APPEND_NEWLINE))

    async def text(self, step: int, piece: str) -> None:
        if step != self.step:
            self.end()
            self.step, self.text_of_step = step, ""
        if not self.redacts:
            self._pass_on(piece)
            return
        self.line_text += piece
        whole, newline, rest = self.line_text.rpartition("\n")
        if newline:
            self._pass_on_line(redact_line(whole + newline))
            self.line_text, self.sent = rest, ""
        words, space, _ = self.line_text.rpartition(" ")  # an incomplete word may be the beginning of a credential
        if space:
            self._pass_on_line(redact_line(words + space))

    async def tool_began(self, step: int, call: ToolCall) -> None:
        self.end()
        self.answers.append(ToolAnswer(call, ok=False, content="", summary="stopped while it ran; it may yet be done"))
        self.line(StreamLine(kind="tool_began", step=step, tool=call.name[:100]))

    async def tool_ended(self, step: int, answer: ToolAnswer) -> None:
        self.answers[-1] = answer
        ran = tool_run(answer)
        self.line(StreamLine(kind="tool_ended", step=step, tool=ran.name, ok=ran.ok, summary=ran.summary))

    def end(self) -> None:
        """Send the rest of a finished text."""
        if self.line_text:
            self._pass_on_line(redact_line(self.line_text))
        self.line_text, self.sent = "", ""

    def _pass_on_line(self, clean: str) -> None:
        """Send the unsent part of a cleaned text; nothing more of a line whose sent part has changed."""
        if clean.startswith(self.sent) and len(clean) > len(self.sent):
            self._pass_on(clean[len(self.sent) :])
            self.sent = clean

    def _pass_on(self, text: str) -> None:
        self.line(StreamLine(kind="text", step=self.step, text=text))
        self.text_of_step += text
