"""Conversation: `append_turn`, `append_turns`, `get_turns`, `get_history` (AM1, HB6, HB9)."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from honeybadger_agent.turn.thinking import Visible
from honeybadger_agent.wire import (
    MAX_NUMBER,
    AppendTurn,
    AppendTurns,
    GetHistory,
    GetTurns,
    ImportedTurn,
    KeyedTurn,
    Refusal,
)
from honeybadger_host.handler_kinds import MAX_REPLY_BYTES, Asked, Outcome
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.handlers.redaction import Texts, not_blank, with_neutralised
from honeybadger_host.handlers.speakers import check_names, speaker_of
from honeybadger_host.journal.changes import TurnAdded
from honeybadger_host.memory.markdown.budget import format_history
from honeybadger_host.memory.session_document import Deletion
from honeybadger_host.memory.turn_log import data_in, dump_turn
from honeybadger_host.memory.turn_log_store import MAX_KEPT
from honeybadger_host.text.neutralise import estimate_tokens
from honeybadger_host.text.phrases import FORGOTTEN
from honeybadger_host.text.time_stamps import parse_time, time_stamp, to_milliseconds
from honeybadger_host.text.turn import Turn

_DEFAULT_TURNS = 100  # turns of a reply to a request that gives no limit
_UNDATED = datetime.min.replace(tzinfo=UTC)

OFF = "no conversation is kept on this host (conversation.enabled): do without it"


def turn_in(texts: Texts, payload: AppendTurn | KeyedTurn | ImportedTurn, member: str) -> Turn:
    """Return a turn of a request as the log keeps it, but for its number and time, which are decided later.

    Args:
        member: its path in the request, e.g. `payload`.
    Raises Refusal.
    """
    text = payload.content
    if payload.role == "assistant" and "<" in text:  # else nothing can be hidden, and looking takes 0.1 ms
        visible = Visible.of(text)
        text = visible.text
        if visible.count:
            texts.changed["thinking"] += visible.count
    not_blank(f"{member}.content", text)
    speaker = speaker_of(texts, payload.sender, payload.role, f"{member}.sender")
    content = texts.text(f"{member}.content", text)
    tools = tuple(texts.shown_name(f"{member}.tools_used", name) for name in payload.tools_used or ())
    return Turn(0, _UNDATED, payload.role, speaker, texts.asked.sender, content, estimate_tokens(content), tools)


def append_turn(deps: Dependencies, asked: Asked[AppendTurn], now: datetime) -> Outcome:
    """Append a turn; one that brings the session's document over a limit compacts it."""
    payload, texts = asked.payload, deps.texts(asked)
    check_names(deps, asked, {"payload.sender": (payload.sender, payload.role)})
    turn = replace(
        turn_in(texts, payload, "payload"),
        number=deps.turn_logs.next_number(asked.group, asked.session),
        at=now,
        input_tokens=payload.input_tokens,
        output_tokens=payload.output_tokens,
    )
    change = TurnAdded(asked.group, asked.session, turn, dump_turn(turn, asked.request_id))
    result = with_neutralised({"turn": turn.number, "token_count": turn.token_count}, texts.changed)
    return Outcome(result, (change, *deps.sessions.after_turns([change], now)))


def append_turns(deps: Dependencies, asked: Asked[AppendTurns], now: datetime) -> Outcome:
    """Append all turns with new keys in one commit, or none."""
    turns, texts = asked.payload.turns, deps.texts(asked)
    names = {f"payload.turns.{place}.sender": (one.sender, one.role) for place, one in enumerate(turns)}
    check_names(deps, asked, names)
    known = deps.turn_logs.keyed(asked.group, asked.session, {keyed.key for keyed in turns})
    number = deps.turn_logs.next_number(asked.group, asked.session)
    last = deps.turn_logs.last_at(asked.group, asked.session)
    numbers: list[int] = []
    changes: list[TurnAdded] = []
    changed: Counter[str] = Counter()
    for place, keyed in enumerate(turns):
        member, own = f"payload.turns.{place}", texts.of_record()
        data = None if keyed.data is None else own.data(f"{member}.data", keyed.data)
        said = replace(turn_in(own, keyed, member), key=keyed.key, data=data)
        there = known.get(keyed.key)
        if there is not None:
            _check_same(there, said, f"{member}.key")
            numbers.append(there.number)
            continue
        last = at_or_later(keyed.at, last, now, f"{member}.at")
        turn = replace(said, number=number + len(changes), at=last)
        known[keyed.key] = turn
        numbers.append(turn.number)
        changes.append(TurnAdded(asked.group, asked.session, turn, dump_turn(turn, asked.request_id)))
        changed.update(own.changed)
    result = {"added": len(changes), "known": len(numbers) - len(changes), "turns": numbers}
    after = deps.sessions.after_turns(changes, now) if changes else ()
    return Outcome(with_neutralised(result, changed), (*changes, *after))


def _check_same(there: Turn, said: Turn, field: str) -> None:
    """Raise Refusal if the turn of a key has other words or data; a forgotten turn is not compared."""
    is_same = (there.role, there.content, there.data) == (said.role, said.content, said.data)
    if is_same or FORGOTTEN in there.content or FORGOTTEN in (there.data or ""):
        return
    raise Refusal(
        "conflict",
        f"{field}: turn {there.number} of this session has the key {said.key!r} and says something else: give what "
        "was said there another key; nothing was appended",
        field=field,
    )


def time_given(text: str, field: str) -> datetime:
    """Return a time of a request in whole milliseconds. Raises Refusal."""
    try:
        return to_milliseconds(parse_time(text).astimezone(UTC))
    except (ValueError, OverflowError):
        raise Refusal(
            "invalid", f"{field} is not a time that exists: write 2026-11-21T09:30:00Z", field=field
        ) from None


def at_or_later(text: str | None, last: datetime | None, now: datetime, field: str) -> datetime:
    """Return when a turn was said, not before the turn before it and not in the future. Raises Refusal."""
    at = now if text is None else min(now, time_given(text, field))
    return at if last is None else max(at, last)


def get_turns(deps: Dependencies, asked: Asked[GetTurns], now: datetime) -> Mapping[str, Any]:
    """Return turns as the log has them; those of a deleted session only with `whole`."""
    payload, group, session = asked.payload, asked.group, asked.session
    limit = _DEFAULT_TURNS if payload.limit is None else payload.limit
    deletion = Deletion() if payload.whole else deps.sessions.deletion(group, session)
    size, turns = 0, list[dict[str, Any]]()
    found = deps.turn_logs.stored(
        group,
        session,
        after=payload.after or 0,
        before=payload.before or MAX_NUMBER + 1,
        newest_first=payload.newest_first or False,
    )
    for logged in found:
        turn = logged.turn
        if not payload.whole and (logged.is_withdrawn or not deletion.shows(turn)):
            continue
        size += len(logged.line)
        if len(turns) == limit or (turns and size > MAX_REPLY_BYTES):
            return {"turns": turns, "has_more": True}
        more = {"sender": turn.sender, "key": turn.key, "data": data_in(logged.line), "by": turn.by}
        turns.append({**_message(turn), **more, **({"withdrawn": True} if logged.is_withdrawn else {})})
    return {"turns": turns, "has_more": False}


def get_history(deps: Dependencies, asked: Asked[GetHistory], now: datetime) -> Mapping[str, Any]:
    """Return the newest turns within a budget; without consolidation at most ten (AB1)."""
    payload, settings = asked.payload, deps.settings
    budget = settings.history.budget_tokens if payload.budget_tokens is None else payload.budget_tokens
    held = deps.turn_logs.window(asked.group, asked.session).turns
    newest = held if settings.consolidation.memory_window else held[-MAX_KEPT:]
    _, turns = deps.sessions.deletion(asked.group, asked.session).left(newest)
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


def _message(turn: Turn) -> dict[str, Any]:
    return {
        "role": turn.role,
        "content": turn.content,
        "sender": turn.shown_name,
        "turn": turn.number,
        "at": time_stamp(turn.at, "milliseconds"),
    }
