"""`delegate_to_agent`: a turn that another turn asks for, and `list_available_agents` (HB10).

The specialist's turn is an ordinary turn in the session `delegation:<digest>`: after a kill it continues with the
answers that its model gave, and one commit has the turns of that session, the receipt and the reply. It takes no lane
of its group, because the turn that asks still holds it.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import anyio

from honeybadger_agent.errors import AgentError
from honeybadger_agent.models.model import ModelFailed
from honeybadger_agent.turn.orchestrator import TurnLimits
from honeybadger_agent.wire import DEFAULT_DELEGATION_SECONDS, DelegateToAgent, DelegationResult, Refusal
from honeybadger_host.handler_kinds import Asked, ChangeHandler, Outcome, TurnUnderWay
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.handlers.redaction import not_blank
from honeybadger_host.handlers.turns.chat_turn import AgentRuntime, ChatTurn, chosen
from honeybadger_host.handlers.turns.output import Shown
from honeybadger_host.journal.schema import TOOL_REQUEST

MAX_DEPTH = 3  # maximum depth of delegation
# Delegated turns that run at the same time at each depth; a turn waits only for turns of the next depth.
AT_ONCE = 8
_LAST_SHARE = 0.2  # share of its seconds that a turn reserves for its own answer


async def delegate_to_agent(
    runtime: AgentRuntime,
    slots: Sequence[anyio.CapacityLimiter],
    asked: Asked[DelegateToAgent],
    under_way: TurnUnderWay,
) -> ChangeHandler:
    turn, seconds = await _begun(runtime, asked, under_way)
    state = ""
    try:
        with runtime.under_way.counting(turn), anyio.move_on_after(seconds) as in_time:
            async with slots[len(_chain(turn.parent))]:
                await turn.ask()
    except (ModelFailed, AgentError) as error:
        state, turn.outcome = "failed", turn.cut(str(error))
    if in_time.cancelled_caught:
        state, turn.outcome = "timed_out", turn.cut(f"the limit of {seconds:.0f} seconds is reached")

    def decide(_: Asked, now: datetime) -> Outcome:
        outcome = turn.outcome
        result = DelegationResult(
            state=state or ("done" if outcome.stopped_by is None else "stopped"),  # type: ignore[arg-type]
            content=outcome.text,
            stopped_by=outcome.stopped_by,
            agent=turn.agent.id,
            session=turn.asked.session,
            tokens=turn.tokens,
        )
        return Outcome(result.model_dump(exclude_none=True), turn.appended(now)[1])

    return ChangeHandler(decide)


def list_available_agents(deps: Dependencies, asked: Asked, now: datetime) -> Mapping[str, Any]:
    found = deps.agents.specialists_of(asked.sender)
    return {"agents": [{"agent": one.id, "name": one.display_name, "description": one.description} for one in found]}


async def _begun(
    runtime: AgentRuntime, asked: Asked[DelegateToAgent], under_way: TurnUnderWay
) -> tuple[ChatTurn, float]:
    """Return the specialist's turn, and the seconds that it may take. Raises Refusal."""
    payload, texts = asked.payload, runtime.memory.texts(asked)
    seconds = float(payload.timeout_seconds or DEFAULT_DELEGATION_SECONDS)
    parent: ChatTurn | None = None
    if (named := TOOL_REQUEST.fullmatch(asked.request_id)) is not None:  # else a program asks
        # after a restart this request may be read before the turn that asks runs again
        parent = await runtime.under_way.wait_for(asked.group, named["turn"], seconds)
        if parent is None or parent.agent.id != asked.sender:
            raise Refusal("conflict", "the turn that asked for this is over: nobody waits for the answer", field="id")
    _check(runtime, asked, payload.agent, _chain(parent))
    agent = chosen(runtime, asked.group, payload.agent)
    task = texts.text("payload.task", not_blank("payload.task", payload.task))
    context = texts.text("payload.context", payload.context or "")
    limits = _limits(runtime, parent, seconds)
    turn = ChatTurn(
        runtime,
        replace(asked, session=f"delegation:{under_way.name.rpartition('.')[2]}"),
        under_way,
        asked.sender,
        f"{task}\n\nContext:\n{context}" if context else task,
        texts.changed,
        agent,
        Shown(under_way, redacts=texts.mode != "off"),
        parent=parent,
        limits=limits,
    )
    return turn, limits.seconds


def _chain(turn: ChatTurn | None) -> list[ChatTurn]:
    """Return a turn, its requester, the requester's requester, and so on."""
    chain = []
    while turn is not None:
        chain.append(turn)
        turn = turn.parent
    return chain


def _check(runtime: AgentRuntime, asked: Asked, agent: str, chain: list[ChatTurn]) -> None:
    """Raise Refusal where this sender cannot ask this agent now."""
    asking = [turn.agent.id for turn in reversed(chain)] or [asked.sender]
    if agent in asking:
        raise Refusal(
            "conflict",
            f"{agent} cannot be asked: it waits for this answer ({' → '.join([*asking, agent])}); do it yourself",
            field="payload.agent",
        )
    known = [one.id for one in runtime.memory.agents.specialists_of(asked.sender)]
    if agent not in known:
        raise Refusal(
            "not_found",
            f"{asked.sender} cannot give tasks to {agent}; it can to: {', '.join(known) or 'nobody'}",
            field="payload.agent",
        )
    if len(chain) > MAX_DEPTH:
        raise Refusal(
            "conflict",
            f"{' → '.join(asking)} is as long as such a chain may be: do it yourself, with what you know",
            field="payload.agent",
        )


def _limits(runtime: AgentRuntime, parent: ChatTurn | None, seconds: float) -> TurnLimits:
    """Return the limits of a delegated turn: what its parent has left, less time for its answer. Raises Refusal."""
    if parent is None:
        return replace(runtime.limits, seconds=seconds)
    limits = parent.limits or runtime.limits
    if limits.seconds:
        left = limits.seconds - (time.monotonic() - parent.began)
        seconds = min(seconds, left - limits.seconds * _LAST_SHARE)
        if seconds <= 0:
            raise Refusal(
                "unavailable",
                f"this turn ends in {max(left, 0):.0f} s, too soon to ask anybody: answer with what you have",
            )
    tokens = max(1, limits.total_tokens - parent.tokens) if limits.total_tokens else 0
    return replace(limits, seconds=seconds, total_tokens=tokens)
