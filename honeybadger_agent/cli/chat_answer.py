"""How one answer is shown while it comes, and what is said about it when it is there."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import Final

from honeybadger_agent.cli.explaining import kinds_of
from honeybadger_agent.cli.markup import Markup
from honeybadger_agent.cli.terminal import Screen, painted, shown
from honeybadger_agent.cli.wrapping import Wrap
from honeybadger_agent.wire import ChatResult, StreamLine

_EMPTY_LINES: Final = re.compile(r"\A(?:[^\S\n]*\n)+")


@dataclass(slots=True)
class Showing:
    """One answer on a screen: pieces of text as they come, tools on lines of their own.

    Args:
        is_looked_on: by a person; else only the answer is written, when it is whole.
        is_framed: the agent's name stands before it, the model and what it took below it.
        steps: what was written so far in each asking of the model.
        tools: how many tools were shown.
        heard: when the last line came, or the message was sent (monotonic).
    """

    screen: Screen
    is_looked_on: bool
    is_framed: bool = True
    agent: str = "agent"
    has_begun: bool = False
    steps: dict[int, str] = field(default_factory=dict)
    tools: int = 0
    heard: float = field(default_factory=time.monotonic)
    markup: Markup | None = None
    wrap: Wrap = field(default_factory=lambda: Wrap(None))

    def line(self, line: StreamLine) -> None:
        """Show what a line of the stream says."""
        self.heard = time.monotonic()
        self.has_begun = self.has_begun or line.kind == "began"
        if not self.is_looked_on:
            return
        match line.kind:
            case "began":
                self.agent = line.agent or self.agent
                if (line.attempt or 1) > 1:
                    self._end_text()
                    self.screen.line("(The host was started again; so is the answer.)", "dim")
                    self.steps, self.tools = {}, 0
            case "text":
                self._text(line.step or 1, line.text or "")
            case "tool_ended":
                self._tool(line.tool or "a tool", line.summary or "", ok=line.ok is not False)
            case "tool_began":
                self._end_text()

    def finish(self, result: ChatResult) -> None:
        """Show what of the answer was not shown yet, and what it took."""
        if not self.is_looked_on:
            self.screen.write((shown(result.content) if self.screen.out.isatty() else result.content) + "\n")
            return
        self.agent = result.agent
        for run in result.tools[self.tools :]:
            self._tool(run.name, run.summary, ok=run.ok)
        self._rest_of(result)
        self._end_text()
        if result.stopped_by is not None:
            self.screen.line(f"Stopped: {result.stopped_by}.", "warning")
        if result.neutralised:
            self.screen.line(f"Made harmless in your message: {kinds_of(result.neutralised)}.", "warning")
        if self.is_framed:
            self.screen.line(f"  {footer_of(result)}", "dim")

    def give_up(self) -> None:
        """End what was begun: there will be no more of it."""
        self._end_text()
        self.screen.fresh_line()

    def _text(self, step: int, text: str) -> None:
        before = self.steps.get(step)
        if before is None:
            self._end_text()
        self.steps[step] = (before or "") + text
        if self.markup is None:
            text = _from_first_words(text if before and before.strip() else self.steps[step])
            if not text.strip():
                return
            self._begin_text()
        self._write(text)

    def _begin_text(self) -> None:
        self.screen.fresh_line()
        name = f"{shown(self.agent)}> " if self.is_framed else ""
        self.markup, self.wrap = Markup(), Wrap(self.screen.columns, len(name))
        self.screen.write(painted(name, "who") if self.screen.is_styled else name)

    def _write(self, text: str) -> None:
        assert self.markup is not None  # noqa: S101  text has begun
        out = ""
        for character in shown(text):
            styled = self.markup.feed(character)  # also without styles: it knows what is code
            piece = styled if self.screen.is_styled else character
            out += self.wrap.feed(piece, is_verbatim=self.markup.is_verbatim)
        self.screen.write(out)

    def _end_text(self) -> None:
        if self.markup is not None:
            rest = self.markup.end() if self.screen.is_styled else ""
            self.screen.write(self.wrap.feed(rest, is_verbatim=self.markup.is_verbatim) + self.wrap.end())
            self.markup = None
        self.screen.fresh_line()

    def _tool(self, name: str, summary: str, *, ok: bool) -> None:
        self.tools += 1
        self._end_text()
        self.screen.paragraph(f"  {'·' if ok else '!'} {name}: {summary}", "dim" if ok else "warning", indent=4)

    def _rest_of(self, result: ChatResult) -> None:
        """Show the end of the answer: the stream is some words behind, and may have been gone before it was read."""
        last = self.steps.get(result.steps, "")
        whole = "\n\n".join(text for text in self.steps.values() if text.strip())
        if last.strip() and result.content.startswith(last):
            rest = result.content[len(last) :]
        elif whole and result.content.startswith(whole):
            rest = result.content[len(whole) :]
        else:
            self._end_text()
            rest = _from_first_words(result.content)
        if rest and self.markup is None:
            self._begin_text()
        if rest:
            self._write(rest)


def _from_first_words(text: str) -> str:
    """Return `text` without the empty lines that models begin with."""
    return _EMPTY_LINES.sub("", text)


def interrupted(request_id: str, *, is_withdrawn: bool) -> str:
    """Return what becomes of a message after Ctrl-C, for a command that ends with it."""
    if is_withdrawn:
        return "taken back: nobody had begun to answer it, and nothing was said"
    return f"not waiting any more; the answer goes on being written: honeybadger-agent answer {request_id}"


def footer_of(result: ChatResult) -> str:
    """Return on one line which model answered and what it took."""
    parts = [result.model]
    if result.steps != 1:
        parts.append(f"{result.steps} steps")
    if result.input_tokens is not None or result.output_tokens is not None:
        parts.append(f"{result.input_tokens or 0:,} tokens in, {result.output_tokens or 0:,} out")
    return " · ".join(parts)
