"""Waits for an answer, also while the host is away."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from honeybadger_agent.cli.chat_answer import Showing
from honeybadger_agent.client import Client
from honeybadger_agent.errors import AgentError, NotFound, ReplyTimeout
from honeybadger_agent.mailbox import new_id
from honeybadger_agent.wire import ChatResult

SILENCE_SECONDS: Final = 3.0  # after this silence the host is pinged
PING_SECONDS: Final = 1.5  # for the host to answer the ping
NO_HOST: Final = "No host answers. Start one with `honeybadger-host run` in the home folder"


@dataclass(frozen=True, slots=True)
class Message:
    """A message; sending it again is the same request."""

    request_id: str
    content: str
    session: str
    speaker: str | None
    agent: str | None


async def answer_to(
    message: Message,
    client: Client,
    showing: Showing,
    note: Callable[[str], None],
    *,
    timeout_seconds: float,
    is_new: bool,
) -> ChatResult:
    """Return the answer to a message; partial output goes to `showing`.

    Args:
        note: called with remarks about the host.
        is_new: it was not sent before. Else it is only waited for, and sent again if the host does not know it.
    Raises: as `Client.chat`.
    """
    watching = asyncio.create_task(_watch(client, showing, note))
    before, client.session = client.session, message.session
    try:
        if not is_new:
            with contextlib.suppress(NotFound):
                return await client.answer(message.request_id, timeout_seconds=timeout_seconds, on_line=showing.line)
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
    """Note once that the host does not answer, and once that it is back."""
    request_id, is_missed, answered = new_id(), False, 0
    while True:
        heard = showing.heard
        if (silent := time.monotonic() - heard) < SILENCE_SECONDS:
            is_missed = False  # the answer itself shows that it is back
            await asyncio.sleep(SILENCE_SECONDS - silent)
            continue
        try:
            await client.request("ping", {}, request_id=request_id, timeout_seconds=PING_SECONDS)
        except ReplyTimeout:
            if not is_missed:
                note(f"{NO_HOST}; your message waits for it.")
            is_missed = True
            continue  # the same ping again, so that there is only one file
        except AgentError:
            pass  # reported by the wait for the answer
        request_id, answered = new_id(), answered + 1
        if showing.heard == heard:
            if is_missed:
                note("The host is back.")
            elif not showing.has_begun and answered == 2 and showing.is_looked_on:
                note("Waiting for the agent; other messages may be answered first.")
        is_missed = False
        await asyncio.sleep(SILENCE_SECONDS)
