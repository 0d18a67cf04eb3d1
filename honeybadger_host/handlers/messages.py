"""`send_message`, and `get_messages`, which can wait for one (HB10)."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread

from honeybadger_agent.mailbox import OPERATOR, is_system_sender
from honeybadger_agent.wire import GetMessages, Refusal, SendMessage
from honeybadger_agent.wording import listed
from honeybadger_host.errors import WorldFailed
from honeybadger_host.handler_kinds import DEFAULT_ROWS, Asked, ChangeHandler, Outcome, WaitingHandler
from honeybadger_host.handlers.conversation import senders_of
from honeybadger_host.handlers.redaction import CleanTexts, Screen, with_neutralised
from honeybadger_host.journal.changes import Added
from honeybadger_host.journal.journal import Journal
from honeybadger_host.text.time_stamps import to_milliseconds
from honeybadger_host.work.messages import Arrivals, Message, MessagesRead, dump_message, members_of, read_messages

# Readers that are woken at a time, so that a message with many readers leaves threads to others.
_READ_AT_ONCE: Final = 2


def send_message(
    home: Path, agents: Callable[[], Collection[str]], journal: Journal, screen: Screen
) -> ChangeHandler[None]:
    """Return the handler of `send_message`.

    Args:
        agents: the ids of the home's agents.
        journal: its next number is the message's.
    """

    def prepare(asked: Asked) -> None:
        payload: SendMessage = asked.payload
        people = [name for name in senders_of(home, asked.group) if name != OPERATOR and not is_system_sender(name)]
        known = {*people, *agents()}
        for name in payload.to or ():
            if name not in known:
                there_are = listed(sorted(known))
                why = f"payload.to: this group has no {name}; there are: {there_are}; leave it out for all"
                raise Refusal("not_found", why, field="payload.to")

    def decide(asked: Asked, prepared: None, now: datetime) -> Outcome:
        payload: SendMessage = asked.payload
        screen.path("session", asked.session)
        texts = CleanTexts(asked, screen)
        content = texts.said("payload.content", payload.content)
        to = None if payload.to is None else tuple(dict.fromkeys(payload.to))
        message = Message(
            seq=journal.next_seq,
            at=to_milliseconds(now),
            sender=asked.sender,
            content=content,
            session=asked.session,
            to=to,
            request=asked.request_id,
        )
        result = with_neutralised({"seq": message.seq}, texts.changed)
        return Outcome(result, (Added.of("message", asked.group, dump_message(message)),))

    return ChangeHandler(decide, prepare)


def get_messages(home: Path, journal: Journal, arrivals: Arrivals) -> WaitingHandler:
    """Return the handler of `get_messages`. The operator sees all messages, others their own."""
    slots = anyio.CapacityLimiter(_READ_AT_ONCE)

    def read(asked: Asked, payload: GetMessages, after: int | None) -> MessagesRead:
        limit = payload.limit or DEFAULT_ROWS
        is_operator = asked.sender == OPERATOR
        try:
            return read_messages(
                home, asked.group, after, limit, lambda message: is_operator or message.is_for(asked.sender)
            )
        except OSError as error:
            raise WorldFailed(f"the messages of {asked.group} cannot be read: {error.strerror}") from error

    async def answer(asked: Asked) -> Mapping[str, Any]:
        payload: GetMessages = asked.payload
        ends_at = time.monotonic() + (payload.wait_seconds or 0)
        after = payload.after
        if after is not None:
            after = min(after, journal.committed_seq)  # after a restore a reader may know a later number
        while True:
            came = arrivals.next(asked.group)  # before reading: a message that comes later sets it
            found = await anyio.to_thread.run_sync(read, asked, payload, after, limiter=slots)
            left = ends_at - time.monotonic()
            if found.messages or left <= 0:
                return {"messages": [members_of(message) for message in found.messages], "after": found.after}
            after = found.after
            with anyio.move_on_after(left):
                await came.wait()

    return WaitingHandler(answer)
