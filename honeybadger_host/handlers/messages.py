"""`send_message`, and `get_messages`, which can wait for one (HB10)."""

import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import anyio
import anyio.to_thread

from honeybadger_agent.mailbox import OPERATOR, is_system_sender
from honeybadger_agent.wire import GetMessages, Refusal, SendMessage
from honeybadger_agent.wording import listed
from honeybadger_host.handler_kinds import DEFAULT_ROWS, Asked, Outcome
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.handlers.redaction import with_neutralised
from honeybadger_host.handlers.speakers import senders_of
from honeybadger_host.journal.changes import Added
from honeybadger_host.work.messages import Message, dump_message, members_of, read_messages

# Readers that are woken at a time, so that a message with many readers leaves threads to others.
READ_AT_ONCE = 2


def send_message(deps: Dependencies, asked: Asked[SendMessage], now: datetime) -> Outcome:
    """Send a message, unless it is for somebody whom the group does not have."""
    senders = senders_of(deps.home, asked.group)
    people = {name for name in senders if name != OPERATOR and not is_system_sender(name)} | deps.agents.current.keys()
    for name in asked.payload.to or ():
        if name not in people:
            raise Refusal(
                "not_found",
                f"payload.to: this group has no {name}; there are: {listed(sorted(people))}; leave it out for all",
                field="payload.to",
            )
    texts = deps.texts(asked)
    message = Message(
        seq=deps.journal.next_seq,
        at=now,
        sender=asked.sender,
        content=texts.said("payload.content", asked.payload.content),
        session=asked.session,
        to=None if asked.payload.to is None else tuple(dict.fromkeys(asked.payload.to)),
        request=asked.request_id,
    )
    result = with_neutralised({"seq": message.seq}, texts.changed)
    return Outcome(result, (Added.of("message", asked.group, dump_message(message)),))


async def get_messages(
    deps: Dependencies, slots: anyio.CapacityLimiter, asked: Asked[GetMessages]
) -> Mapping[str, Any]:
    """Return messages, or wait for one. The operator sees all messages, others their own. Raises WorldFailed.

    Args:
        slots: for the threads that read.
    """
    payload, journal, arrivals = asked.payload, deps.journal, deps.arrivals
    is_all, limit = asked.sender == OPERATOR, payload.limit or DEFAULT_ROWS

    def is_shown(message: Message) -> bool:
        return is_all or message.to is None or asked.sender in (*message.to, message.sender)

    ends_at = time.monotonic() + (payload.wait_seconds or 0)
    # after a restore a reader may know a later number
    after = None if payload.after is None else min(payload.after, journal.committed_seq)
    while True:
        came = arrivals.next(asked.group)  # before reading: a message that comes later sets it
        messages, after = await anyio.to_thread.run_sync(
            read_messages, deps.home, asked.group, after, limit, is_shown, limiter=slots
        )
        left = ends_at - time.monotonic()
        if messages or left <= 0:
            return {"messages": [members_of(message) for message in messages], "after": after}
        with anyio.move_on_after(left):
            await came.wait()
