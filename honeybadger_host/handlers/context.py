"""`get_context`, and `preview_context` for the operator: a context is made, named and explained (HB5).

With `as_of` it is a served context of the ledger, or one made of the files as they were; nothing is written.
"""

import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from honeybadger_agent.mailbox import GLOBAL_GROUP
from honeybadger_agent.wire import MAX_NUMBER, PART_NAMES, GetContext, PreviewContext, Refusal
from honeybadger_host.context.maker import ContextMaker, Question, result_of
from honeybadger_host.context.parts import Loaded, in_order, parts_of_files
from honeybadger_host.context.recall import Recalled
from honeybadger_host.context.text import build_context
from honeybadger_host.documents.history import read_past, version_at
from honeybadger_host.errors import FileProblem, NotFound, WorldFailed
from honeybadger_host.files.home import MEMORY, SUMMARY
from honeybadger_host.handler_kinds import Answer, Asked
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.journal.edits import is_edit
from honeybadger_host.journal.reader import read_changed_files
from honeybadger_host.memory.edited_notes import edited_notes, with_typed
from honeybadger_host.memory.injection_ledger import LEDGER_FILE, Served, ServedContext
from honeybadger_host.memory.markdown.group_files import text_of
from honeybadger_host.memory.markdown.notes import NOT_EDITED
from honeybadger_host.memory.moments import Moment, moment_of
from honeybadger_host.text.neutralise import estimate_tokens
from honeybadger_host.text.time_stamps import time_stamp, to_milliseconds

_MAX_ATTEMPTS = 3  # how often a context is made at most, if its group is written to meanwhile


def get_context(
    maker: ContextMaker, deps: Dependencies, asked: Asked[GetContext], now: datetime
) -> Mapping[str, Any] | Answer:
    """Return a `ContextResult`. Raises Refusal, WorldFailed."""
    payload, group = asked.payload, asked.group
    is_preview = isinstance(payload, PreviewContext)
    now = to_milliseconds(now)  # the precision of everything that is kept
    tokens = None if payload.message is None else estimate_tokens(payload.message)
    budget = _budget_of(payload, deps.settings.context.budget_tokens, tokens or 0)
    question = Question(group, asked.session, payload.message, tokens, budget, payload.most_turns, parts=payload.parts)
    name = payload.agent if isinstance(payload, PreviewContext) else asked.sender
    agent = deps.agents.current.get(name or "")
    if is_preview and name is not None and agent is None:
        raise Refusal(
            "not_found",
            f"there is no agent {name!r}: `honeybadger-host status --json` lists them",
            field="payload.agent",
        )
    if payload.as_of is not None:
        return _as_of(deps, question, payload.as_of, name, now)
    for _ in range(_MAX_ATTEMPTS):
        seq = deps.written_seq()
        made, recalled = maker.make(question, agent, deps.agents.specialists_of(name or ""), now)
        if max(deps.journal.newest_of.get(one, 0) for one in (group, GLOBAL_GROUP)) <= seq:
            break
    result = result_of(made, recalled, seq)
    served = Served(
        group, asked.session, asked.sender, round(now.timestamp() * 1000), result, recalled.new, recalled.turn
    )
    messages = [] if payload.message is None else [{"role": "user", "content": payload.message}]
    return Answer({**result, "messages": messages}, None if is_preview else served)


def _budget_of(payload: GetContext, default_tokens: int, message_tokens: int) -> int:
    """Return the budget of system text and message in tokens; four characters are one. 0 means no limit."""
    budget = default_tokens if payload.budget_tokens is None else payload.budget_tokens
    if payload.max_characters is None:
        return budget
    most = max(1, payload.max_characters // 4) + message_tokens
    return min(budget, most) if budget else most


def _as_of(deps: Dependencies, question: Question, as_of: str, sender: str | None, now: datetime) -> Mapping[str, Any]:
    """Return a `ContextResult` of an earlier moment, served to a sender (None: to any) or named by its hash."""
    try:
        moment = moment_of(as_of, deps.journal.path, deps.ledger, question.group, now)
        served = moment.served or _served_at(deps, question, moment, sender)
        result = None if served is None else deps.ledger.result_of(served.hash)
        if served is None or result is None:
            return _of_files(deps, question, moment)
        return {**result, "seq": served.seq} | _moment_members(served.seq, served.at, served.hash)
    except NotFound as error:
        raise Refusal("not_found", f"payload.as_of: {error}", field="payload.as_of") from None
    except (OSError, sqlite3.Error) as error:
        raise WorldFailed(f"{LEDGER_FILE} cannot be read: {error}") from error
    except ValueError as error:
        raise Refusal("invalid", f"payload.as_of: {error}", field="payload.as_of") from None


def _served_at(deps: Dependencies, question: Question, moment: Moment, sender: str | None) -> ServedContext | None:
    """Return the context that was served last up to a moment, if nothing was changed in between."""
    served = deps.ledger.served_until(question.group, question.session, moment.seq, moment.until, sender)
    if served is None:
        return None
    for group in (question.group, GLOBAL_GROUP):
        if read_changed_files(deps.journal.path, group, served.seq, moment.seq):
            return None
    return served


def _of_files(deps: Dependencies, question: Question, moment: Moment) -> Mapping[str, Any]:
    """Return the files as they were at a moment, in the form of a context."""
    group, budget_tokens = question.group, question.budget_tokens
    read = partial(_file_then, deps, seq=moment.seq)
    made = parts_of_files(group, read, budget_tokens, read(f"groups/{group}/{SUMMARY}"))
    parts = in_order(made, question.parts or PART_NAMES)
    head = f"Group: {group}\n" if question.parts is None else ""
    context = build_context(head, parts, len(parts), None, budget_tokens=budget_tokens)
    seq = min(moment.seq, MAX_NUMBER)
    return result_of(context, Recalled(), seq) | _moment_members(seq, moment.at, None)


def _file_then(deps: Dependencies, file: str, seq: int) -> Loaded:
    """Return a file as it was right after a change."""
    past = read_past(deps.journal.path, file)
    if not past.rows and past.seen is None:
        return None
    version = version_at(past, seq)
    if not version.is_known:
        return FileProblem(file, "is not known as it was then")
    if not version.is_there:
        return None
    found = text_of(file, version.text)
    if isinstance(found, str):
        return FileProblem(file, found)
    typed = with_typed(NOT_EDITED, [row for row in past.rows if is_edit(row) and row.seq <= seq])
    return replace(found, edited=edited_notes(found.text, typed)) if file.endswith(f"/{MEMORY}") else found


def _moment_members(seq: int, at: int, served: str | None) -> dict[str, Any]:
    """Return the moment as an answer describes it."""
    when = time_stamp(datetime.fromtimestamp(at / 1000, UTC), "milliseconds")
    return {"messages": [], "as_of": {"seq": seq, "at": when, "served": served}}
