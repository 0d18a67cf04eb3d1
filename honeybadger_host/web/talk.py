"""A conversation with an agent: its turns, the answer while it is written, and feedback on answers."""

import contextlib
from collections.abc import AsyncIterator

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
from honeybadger_host.files.safe_files import names_in
from honeybadger_host.web.markdown import shown_markdown
from honeybadger_host.web.rendering import href
from honeybadger_host.web.timeline import event, stream
from honeybadger_host.web.visits import PER_PAGE, Visit, checked_number, go, made

_LOOK_SECONDS = 0.2  # between two looks at an answer that is being written


def talk(visit: Visit) -> Response:
    session, turn = checked_session(visit.member("session", 100) or "main"), visit.member("turn", 100)
    mailbox = visit.home.mailbox(visit.group)
    # In this order: what is answered meanwhile is in the history at least.
    waiting = _waiting(mailbox, session)
    reply = None if turn is None else _reply(mailbox, checked_id(turn))
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
        waiting=waiting,
        failed=None if reply is None or reply.error is None else reply.error.message,
        done=visit.member("done", 20),
    )


def _waiting(mailbox: Mailbox, session: str) -> list[tuple[str, Chat]]:
    """Return the ids and the messages of a session that are not answered yet, oldest first."""
    found: list[tuple[str, Chat]] = []
    for turn in (name.removesuffix(".json") for name in names_in(mailbox.root / TURNS)):
        with contextlib.suppress(NotARequest, Refusal):
            asked = parse_request(mailbox.waiting(turn, TURNS) or b"", turn)
            if asked.session == session:
                found.append((turn, parse_members(Chat, asked.payload)))
    return found


def _reply(mailbox: Mailbox, turn: str) -> Reply | None:
    data = mailbox.reply(turn)
    return None if data is None else Reply.model_validate(orjson.loads(data))


def said(visit: Visit, form: dict[str, str]) -> Response:
    session, agent = checked_session(form.get("session", "main")), form.get("agent") or None
    turn = visit.home.say(
        visit.group, made(Chat, form.get("content", ""), form.get("as") or None, agent), session=session
    )
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
    visit.ask(
        made(RecordFeedback, form.get("kind", ""), form.get("content", "").strip() or None, turn), session=session
    )
    return go(href("g", visit.group, "talk", session=session, done="feedback"))
