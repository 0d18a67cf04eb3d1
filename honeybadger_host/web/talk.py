"""A conversation with an agent: its turns, the answer while it is written, and feedback on answers."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

import anyio
import orjson
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from honeybadger_agent.exchange import StreamTail
from honeybadger_agent.mailbox import TURNS, Mailbox, checked_id, checked_session
from honeybadger_agent.wire import (
    Chat,
    GetHistory,
    GetMessages,
    NotARequest,
    RecordFeedback,
    Refusal,
    Reply,
    StopTurn,
    parse_members,
    parse_request,
)
from honeybadger_host.web.asking import made
from honeybadger_host.web.forms import PER_PAGE, Visit, checked_number, go
from honeybadger_host.web.rendering import href, shown_markdown
from honeybadger_host.web.timeline import event, stream

_LOOK_SECONDS: Final = 0.2  # between two looks at an answer that is being written


def talk(visit: Visit) -> Response:
    session, turn = checked_session(visit.member("session", 100) or "main"), visit.member("turn", 100)
    # The state first: the history that is read after it has every answered turn.
    sent = _Sent("none") if turn is None else _look_at(visit, turn)
    history = visit.read(made(GetHistory, 0, PER_PAGE), session=session)
    return visit.page(
        "talk.html",
        session=session,
        agent=visit.member("agent", 64),
        agents=visit.home.agents(),
        sessions=visit.home.sessions(visit.group),
        turns=history.messages,
        most_turns=PER_PAGE,
        messages=visit.read(made(GetMessages)).messages,
        turn=turn,
        sent=sent,
        done=visit.member("done", 20),
    )


def _reply(mailbox: Mailbox, turn: str) -> Reply | None:
    data = mailbox.reply(turn)
    return None if data is None else Reply.model_validate(orjson.loads(data))


@dataclass(frozen=True, slots=True)
class _Sent:
    """A message that was sent from the page.

    Args:
        state: `waits`, `done`, `failed`, `gone`, or `none` if none was sent.
        why: the error if it failed.
        chat: the message, while it waits for its answer.
    """

    state: str
    why: str = ""
    chat: Chat | None = None


def _look_at(visit: Visit, turn: str) -> _Sent:
    mailbox = visit.home.mailbox(visit.group)
    data = mailbox.waiting(checked_id(turn), TURNS)  # before the reply: it is removed after the reply is written
    reply = _reply(mailbox, turn)
    if reply is not None:
        return _Sent("done") if reply.error is None else _Sent("failed", reply.error.message)
    return _Sent("gone") if data is None else _Sent("waits", chat=_chat_in(data, turn))


def _chat_in(data: bytes, turn: str) -> Chat | None:
    """Return the message in a request file; None if the page did not write the file."""
    with contextlib.suppress(NotARequest, Refusal):
        return parse_members(Chat, parse_request(data, turn).payload)
    return None


def said(visit: Visit, form: dict[str, str]) -> Response:
    session, agent = checked_session(form.get("session", "main")), form.get("agent") or None
    asked = made(Chat, form.get("content", ""), form.get("as") or None, agent)
    turn = visit.home.say(visit.group, asked, session=session)
    return go(href("g", visit.group, "talk", session=session, agent=agent, turn=turn))


def answer(visit: Visit) -> Response:
    """Stream the answer to a message while it is written."""
    turn = checked_id(visit.member("turn", 100) or "")
    return stream(_written(visit.home.mailbox(visit.group), turn))


async def _written(mailbox: Mailbox, turn: str) -> AsyncIterator[bytes]:
    """Yield the tool calls of an answer, its text so far as HTML, and its end."""
    text = ""
    with contextlib.closing(StreamTail(mailbox.stream_path(turn))) as tail:
        while True:
            is_waiting = mailbox.is_waiting(turn, TURNS)  # first: it is removed after the reply is written
            lines = await run_in_threadpool(tail.read)
            for line in lines:
                if line.kind == "text":
                    text += line.text or ""
                else:
                    text = "" if line.kind == "began" else text
                    yield event(line.kind, line.model_dump(exclude_none=True))
            if any(line.kind == "text" for line in lines):
                yield event("text", await run_in_threadpool(shown_markdown, text))
            reply = await run_in_threadpool(_reply, mailbox, turn)
            if reply is not None or not is_waiting:
                yield event("ended", None if reply is None or reply.error is None else reply.error.message)
                return
            await anyio.sleep(_LOOK_SECONDS)


def stopped(visit: Visit, form: dict[str, str]) -> Response:
    session, turn = checked_session(form.get("session", "main")), form.get("turn", "")
    visit.ask(made(StopTurn, turn=turn), session=session)
    return go("/" if form.get("from") == "home" else href("g", visit.group, "talk", session=session, turn=turn))


def told(visit: Visit, form: dict[str, str]) -> Response:
    session, turn = checked_session(form.get("session", "main")), checked_number(form.get("turn", ""), "turn")
    asked = made(RecordFeedback, form.get("kind", ""), form.get("content", "").strip() or None, turn)
    visit.ask(asked, session=session)
    return go(href("g", visit.group, "talk", session=session, done="feedback"))
