"""Conversation: `append_turn`, `get_history` (AM1, HB6, HB9)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from honeybadger_agent.turn.thinking import Visible
from honeybadger_agent.wire import AppendTurn, GetHistory, Refusal
from honeybadger_host.domain import Asked, ChangeHandler, Outcome, QueryHandler, Turn, TurnAdded
from honeybadger_host.errors import WorldFailed
from honeybadger_host.handlers.redaction import Screen, with_neutralised
from honeybadger_host.memory.budget import format_history
from honeybadger_host.memory.session_document_store import Sessions
from honeybadger_host.memory.turn_log import dump_turn
from honeybadger_host.memory.turn_log_store import TurnLogs
from honeybadger_host.memory.watermarks import MOST_KEPT
from honeybadger_host.text.neutralise import estimate_tokens, is_blank, neutralise, one_line
from honeybadger_host.text.time_stamps import parse_time, time_stamp, to_milliseconds

log = structlog.get_logger()

OFF: Final = "no conversation is kept on this host (conversation.enabled): do without it"


def prepare_turn(turn_logs: TurnLogs, documents: Sessions) -> Callable[[Asked], None]:
    """Return what loads a session before turns are added to it."""

    def prepare(asked: Asked) -> None:
        turn_logs.load(asked.group, asked.session)
        try:
            documents.load(asked.group, asked.session)
        except WorldFailed as error:  # a turn does not need the document: it is in the log, whatever became of that
            log.warning("session.passed_over", group=asked.group, session=asked.session, error=str(error))

    return prepare


def append_turn(turn_logs: TurnLogs, documents: Sessions, screen: Screen) -> ChangeHandler[None]:
    """Return the handler of `append_turn`; a turn that brings the session's document over a limit compacts it."""

    def decide(asked: Asked, prepared: None, now: datetime) -> Outcome:
        payload: AppendTurn = asked.payload
        text, thoughts = payload.content, 0
        if payload.role == "assistant":
            visible = Visible.of(text)
            text, thoughts = visible.text, visible.count
        if is_blank(neutralise(text).text):
            what = "holds nothing but thinking" if thoughts else "is blank"
            raise Refusal("invalid", f"payload.content {what}: nothing was appended", field="payload.content")
        screen.path("session", asked.session)
        speaker = speaker_of(payload.sender, payload.role)
        content, changed = screen.text(asked, "payload.content", text)
        at = to_milliseconds(now)
        if payload.at is not None:
            at = _said_at(payload.at, turn_logs.last_at(asked.group, asked.session), at)
        turn = Turn(
            number=turn_logs.next_number(asked.group, asked.session),
            at=at,
            role=payload.role,
            sender=speaker if payload.sender is None else screen.name(asked, "payload.sender", speaker),
            by=asked.sender,
            content=content,
            token_count=estimate_tokens(content),
            tools_used=tuple(screen.name(asked, "payload.tools_used", name) for name in payload.tools_used or ()),
            input_tokens=payload.input_tokens,
            output_tokens=payload.output_tokens,
        )
        change = TurnAdded(asked.group, asked.session, turn, dump_turn(turn, asked.request_id))
        changed = {**changed, **({"thinking": thoughts} if thoughts else {})}
        result = with_neutralised({"turn": turn.number, "token_count": turn.token_count}, changed)
        return Outcome(result, (change, *documents.after_turns([change], now)))

    return ChangeHandler(decide, prepare_turn(turn_logs, documents))


def _said_at(text: str, last: datetime | None, now: datetime) -> datetime:
    """Return when an imported turn was said. Raises Refusal."""
    try:
        at = to_milliseconds(parse_time(text).astimezone(UTC))
    except (ValueError, OverflowError):
        why = "is not a time that exists: write 2026-11-21T09:30:00Z"
    else:
        if at > now:
            why = f"is in the future: here it is {time_stamp(now, 'milliseconds')}"
        elif last is not None and at < last:
            why = (
                f"is before the turn before it, which was said at {time_stamp(last, 'milliseconds')}: import turns in "
                "their order, into a session of their own"
            )
        else:
            return at
    raise Refusal("invalid", f"payload.at {why}; nothing was appended", field="payload.at")


def get_history(turn_logs: TurnLogs, *, default_budget_tokens: int, memory_window: int) -> QueryHandler:
    """Return the handler of `get_history`; without consolidation it has the newest ten turns (AB1)."""

    def answer(asked: Asked, now: datetime) -> Mapping[str, Any]:
        payload: GetHistory = asked.payload
        budget = default_budget_tokens if payload.budget_tokens is None else payload.budget_tokens
        turns = turn_logs.load(asked.group, asked.session).turns[0 if memory_window else -MOST_KEPT :]
        if payload.max_messages is not None:
            turns = turns[-payload.max_messages :]
        history = format_history(turns, budget)
        return {
            "text": history.text,
            "messages": [_message(turn) for turn in history.turns],
            "tokens": history.tokens,
            "dropped": history.dropped,
            "shortened": history.is_shortened,
        }

    return QueryHandler(answer)


def speaker_of(sender: str | None, default: str) -> str:
    """Return the name shown for a turn. Raises Refusal: it could forge another speaker's line."""
    if sender is None:
        return default
    name = one_line(sender)
    if name.changed or is_blank(name.text) or "[" in name.text or "]" in name.text:
        raise Refusal("invalid", "payload.sender must be one visible line without [ and ]", field="payload.sender")
    return name.text


def _message(turn: Turn) -> dict[str, Any]:
    at = time_stamp(turn.at, "milliseconds")
    return {"role": turn.role, "content": turn.content, "sender": turn.sender, "turn": turn.number, "at": at}
