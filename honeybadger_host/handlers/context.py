"""`get_context`, and `preview_context` for the operator: a context is made, named and explained (HB5)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from honeybadger_agent.mailbox import GLOBAL_GROUP
from honeybadger_agent.wire import GetContext, PreviewContext, Refusal
from honeybadger_host.context.earlier import EarlierContexts
from honeybadger_host.context.maker import ContextMaker, Question, result_of
from honeybadger_host.handler_kinds import Answer, Asked
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.memory.injection_ledger import Served
from honeybadger_host.text.neutralise import estimate_tokens
from honeybadger_host.text.time_stamps import to_milliseconds

_MAX_ATTEMPTS: Final = 3  # how often a context is made at most, if its group is written to meanwhile


def get_context(
    maker: ContextMaker, deps: Dependencies, asked: Asked[GetContext], now: datetime
) -> Mapping[str, Any] | Answer:
    """Return a `ContextResult`. Raises Refusal, WorldFailed.

    Args:
        maker: makes contexts of the present memory.
    """
    payload, group = asked.payload, asked.group
    is_preview = isinstance(payload, PreviewContext)
    now = to_milliseconds(now)  # the precision of everything that is kept
    tokens = None if payload.message is None else estimate_tokens(payload.message)
    budget = _budget_of(payload, deps.settings.context.budget_tokens, tokens or 0)
    question = Question(group, asked.session, payload.message, tokens, budget, payload.most_turns, parts=payload.parts)
    name = payload.agent if isinstance(payload, PreviewContext) else asked.sender
    agent = deps.agents.current.get(name or "")
    if is_preview and name is not None and agent is None:
        why = f"there is no agent {name!r}: `honeybadger-host status --json` lists them"
        raise Refusal("not_found", why, field="payload.agent")
    if payload.as_of is not None:
        return EarlierContexts(deps.journal.path, deps.ledger).answer(question, payload.as_of, name, now)
    for _ in range(_MAX_ATTEMPTS):
        seq = deps.written_seq()
        made, recalled = maker.make(question, agent, deps.agents.specialists_of(name or ""), now)
        if not deps.journal.has_changed((group, GLOBAL_GROUP), seq):
            break
    result = result_of(made, recalled, seq)
    at = round(now.timestamp() * 1000)
    served = Served(group, asked.session, asked.sender, at, result, recalled.new, recalled.turn)
    messages = [] if payload.message is None else [{"role": "user", "content": payload.message}]
    return Answer({**result, "messages": messages}, None if is_preview else served)


def _budget_of(payload: GetContext, default_tokens: int, message_tokens: int) -> int:
    """Return the budget of system text and message in tokens; four characters are one. 0 means no limit."""
    budget = default_tokens if payload.budget_tokens is None else payload.budget_tokens
    if payload.max_characters is None:
        return budget
    most = max(1, payload.max_characters // 4) + message_tokens
    return min(budget, most) if budget else most
