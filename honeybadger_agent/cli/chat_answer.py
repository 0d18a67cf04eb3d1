"""Waits for an answer, also while the host is away, and shows it while it comes, with its details at the end."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from honeybadger_agent.cli.explaining import kinds_of
from honeybadger_agent.cli.terminal import Rendered, Screen, complain, open_text, shown
from honeybadger_agent.client import SOON_SECONDS, Client, SyncClient
from honeybadger_agent.errors import AgentError, NotFound, ReplyTimeout
from honeybadger_agent.wire import ChatResult, StopTurn, StreamLine

TAKEN_BACK = "taken back: nobody had begun to answer it, and nothing was said"
_EMPTY_LINES = re.compile(r"\A(?:[^\S\n]*\n)+")


@dataclass(slots=True)
class Showing:
    """One answer on a screen: pieces of text as they come, tools on separate lines.

    Args:
        is_looked_on: a person is watching; else only the complete answer is written.
        is_framed: show the agent's name above it, and model, time and tokens below.
        steps: the text written so far in each step.
        tools: how many tools were shown.
        heard: when the last line came, or the message was sent (monotonic).
        text: output for the unfinished text.
    """

    screen: Screen
    is_looked_on: bool
    is_framed: bool = True
    agent: str = "agent"
    steps: dict[int, str] = field(default_factory=dict)
    tools: int = 0
    heard: float = field(default_factory=time.monotonic)
    text: Screen | Rendered | None = None

    def line(self, line: StreamLine) -> None:
        self.heard = time.monotonic()
        if not self.is_looked_on:
            return
        match line.kind:
            case "began":
                self.agent = line.agent or self.agent
                if (line.attempt or 1) > 1:
                    self.end_text()
                    self.screen.line("(The host was started again; so is the answer.)", "dim")
                    self.steps, self.tools = {}, 0
            case "text":
                self._text(line.step or 1, line.text or "")
            case "tool_ended":
                self._tool(line.tool or "a tool", line.summary or "", ok=line.ok is not False)
            case "tool_began":
                self.end_text()

    def finish(self, result: ChatResult) -> None:
        if not self.is_looked_on:
            content = shown(result.content) if self.screen.out.isatty() else result.content
            self.screen.out.write(content if content.endswith("\n") else f"{content}\n")
            self.screen.out.flush()
            if result.stopped_by is not None:
                complain(f"stopped: {result.stopped_by}")
            return
        self.agent = result.agent
        for run in result.tools[self.tools :]:
            self._tool(run.name, run.summary, ok=run.ok)
        self._write(self._rest_of(result))
        self.end_text()
        if result.stopped_by is not None:
            self.screen.line(f"Stopped: {result.stopped_by}.", "warning")
        if result.neutralised:
            self.screen.line(f"Made harmless in your message: {kinds_of(result.neutralised)}.", "warning")
        if self.is_framed:
            self.screen.line(f"  {footer_of(result)}", "dim")

    def end_text(self) -> None:
        if self.text is not None:
            self.text.end()
            self.text = None

    def _text(self, step: int, text: str) -> None:
        before = self.steps.get(step)
        if before is None:
            self.end_text()
        self.steps[step] = (before or "") + text
        self._write(text if before and before.strip() else self.steps[step])

    def _write(self, text: str) -> None:
        if self.text is None:
            text = _EMPTY_LINES.sub("", text)  # some models begin with these
            if not text.strip():
                return
            if self.is_framed:
                self.screen.line(f"{self.agent}>", "who")
            self.text = open_text(self.screen)
        self.text.feed(text)

    def _tool(self, name: str, summary: str, *, ok: bool) -> None:
        self.tools += 1
        self.end_text()
        self.screen.line(f"  {'·' if ok else '!'} {name}: {summary}", "dim" if ok else "warning")

    def _rest_of(self, result: ChatResult) -> str:
        """Return the unshown end of the answer: the stream lags, and may be deleted before it was read."""
        last = self.steps.get(result.steps, "")
        whole = "\n\n".join(text for text in self.steps.values() if text.strip())
        for begun in (last, whole):
            if begun.strip() and result.content.startswith(begun):
                return result.content[len(begun) :]
        self.end_text()
        return result.content


def stopped_answer(client: SyncClient, request_id: str) -> ChatResult | None:
    """Withdraw a message or stop its answer; return the answer so far, None if it had not begun.

    Raises: `ReplyTimeout`: no host answers, the next one will stop it; and as `SyncClient.answer`.
    """
    if client.withdraw(request_id):
        return None
    with contextlib.suppress(NotFound):  # it had finished
        client(StopTurn(turn=request_id), timeout_seconds=SOON_SECONDS)
    return client.answer(request_id, timeout_seconds=SOON_SECONDS)


def footer_of(result: ChatResult) -> str:
    parts = [result.model]
    if result.steps != 1:
        parts.append(f"{result.steps} steps")
    if result.input_tokens is not None or result.output_tokens is not None:
        parts.append(f"{result.input_tokens or 0:,} tokens in, {result.output_tokens or 0:,} out")
    return " · ".join(parts)


@dataclass(frozen=True, slots=True)
class Message:
    """A message; sending it again is the same request."""

    request_id: str
    content: str
    session: str
    speaker: str | None
    agent: str | None


async def answer_to(
    message: Message, client: Client, showing: Showing, note: Callable[[str], None], *, timeout_seconds: float
) -> ChatResult:
    """Return the answer to a message, which may have been sent before; partial output goes to `showing`.

    Args:
        note: called with remarks about the host.
    Raises: as `Client.chat`.
    """
    import asyncio  # takes 60 ms, which only a chat should pay

    watching = asyncio.create_task(_watch(client, showing, note))
    before, client.session = client.session, message.session
    try:
        return await client.chat(
            message.content,
            sender=message.speaker,
            agent=message.agent,
            request_id=message.request_id,
            timeout_seconds=timeout_seconds,
            on_line=showing.line,
        )
    finally:
        client.session = before
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _watch(client: Client, showing: Showing, note: Callable[[str], None]) -> None:
    """Ping the host in each silence; note once in each that it does not answer."""
    import asyncio

    noted = 0.0
    while True:
        heard = showing.heard
        await asyncio.sleep(SOON_SECONDS)
        if showing.heard != heard or noted == heard:
            continue
        try:
            await client.request("ping", {}, timeout_seconds=SOON_SECONDS)
        except ReplyTimeout:
            start = "Start one with `honeybadger-host run` in the home folder"
            note(f"No host answers. {start}; your message waits for it.")
            noted = heard
        except AgentError:
            pass  # reported by the wait for the answer
