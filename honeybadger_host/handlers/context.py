"""`get_context`, and `preview_context` for the operator: a context is made, named and explained (HB5)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from typing import Final

from honeybadger_agent.mailbox import GLOBAL_GROUP
from honeybadger_agent.wire import GetContext, PreviewContext, Refusal
from honeybadger_host.agents import NOBODY, Identity
from honeybadger_host.context.earlier import EarlierContexts
from honeybadger_host.context.maker import ContextMaker, Question, result_of
from honeybadger_host.handler_kinds import Answer, Asked, QueryHandler
from honeybadger_host.memory.served import Served
from honeybadger_host.text.neutralise import estimate_tokens
from honeybadger_host.text.time_stamps import to_milliseconds

_MAX_ATTEMPTS: Final = 3  # how often a context is made at most, if its group is written to meanwhile


def get_context(
    maker: ContextMaker,
    identity_of: Callable[[str], Identity],
    written_seq: Callable[[], int],
    has_changed: Callable[[Collection[str], int], bool],
    earlier: EarlierContexts,
) -> QueryHandler:
    """Return the handler of `get_context` and `preview_context`.

    Args:
        maker: makes contexts of the present memory.
        identity_of: sender -> its identity, when it is an agent of this home.
        written_seq: every change up to this number is in the files.
        has_changed: whether some groups were written to after a change of this number.
    """

    def answer(asked: Asked, now: datetime) -> Answer:
        """Return a `ContextResult`. Raises Refusal, WorldFailed."""
        payload: GetContext = asked.payload
        now = to_milliseconds(now)  # the precision of everything that is kept
        group = asked.group
        tokens = None if payload.message is None else estimate_tokens(payload.message)
        budget = _budget_of(payload, maker.settings.context.budget_tokens, tokens or 0)
        question = Question(
            group, asked.session, payload.message, tokens, budget, payload.most_turns, parts=payload.parts
        )
        identity = _identity(asked, payload)
        if payload.as_of is not None:
            sender = payload.agent if isinstance(payload, PreviewContext) else asked.sender
            return Answer(earlier.answer(question, payload.as_of, sender, now))
        for _ in range(_MAX_ATTEMPTS):
            seq = written_seq()
            made = maker.make(question, identity, now)
            if not has_changed((group, GLOBAL_GROUP), seq):
                break
        result = result_of(made, seq)
        at = round(now.timestamp() * 1000)
        served = Served(group, asked.session, asked.sender, at, result, made.recalled.injection)
        messages = [] if payload.message is None else [{"role": "user", "content": payload.message}]
        return Answer({**result, "messages": messages}, None if isinstance(payload, PreviewContext) else served)

    def _identity(asked: Asked, payload: GetContext) -> Identity:
        """Return the agent that the context is for, or `NOBODY`. Raises Refusal if there is no such agent."""
        if not isinstance(payload, PreviewContext):
            return identity_of(asked.sender)
        if payload.agent is None:
            return NOBODY
        if (identity := identity_of(payload.agent)) == NOBODY:
            why = f"there is no agent {payload.agent!r}: `honeybadger-host status --json` lists them"
            raise Refusal("not_found", why, field="payload.agent")
        return identity

    return QueryHandler(answer)


def _budget_of(payload: GetContext, default_tokens: int, message_tokens: int) -> int:
    """Return the budget of system text and message in tokens; four characters are one. 0 means no limit."""
    budget = default_tokens if payload.budget_tokens is None else payload.budget_tokens
    if payload.max_characters is None:
        return budget
    most = max(1, payload.max_characters // 4) + message_tokens
    return min(budget, most) if budget else most
