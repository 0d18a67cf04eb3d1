"""A turn as people see it while it runs: the model's text, screened, and the tools."""

from dataclasses import dataclass, field

import orjson

from honeybadger_agent.models.model import MAX_SUMMARY_CHARACTERS, ToolAnswer, ToolCall
from honeybadger_agent.wire import StreamLine, ToolRun
from honeybadger_host.handler_kinds import TurnUnderWay
from honeybadger_host.text.redaction import redact, redact_line


def tool_run(answer: ToolAnswer) -> ToolRun:
    """Return the line that people see about a tool that ran."""
    return ToolRun(
        name=answer.call.name[:100], ok=answer.ok, summary=redact(answer.summary)[0][:MAX_SUMMARY_CHARACTERS]
    )


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
