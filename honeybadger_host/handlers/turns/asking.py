"""`chat`: one turn of an agent (HB5, HB8), and `stop_turn`, which ends one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio

from honeybadger_agent.mailbox import OPERATOR
from honeybadger_agent.wire import Chat, Refusal, StopTurn
from honeybadger_host.agents import Agent
from honeybadger_host.handler_kinds import (
    Asked,
    ChangeHandler,
    Keeps,
    StopAsked,
    TurnHandler,
    TurnUnderWay,
    WaitingHandler,
)
from honeybadger_host.handlers.conversation import prepare_turn, speaker_of
from honeybadger_host.handlers.turns.chat_turn import ChatTurn, StopATurn, TurnDependencies
from honeybadger_host.handlers.turns.output import Shown
from honeybadger_host.text.neutralise import is_blank, neutralise


def chat(deps: TurnDependencies) -> TurnHandler:
    prepare = prepare_turn(deps.turn_logs, deps.documents)

    async def run(asked: Asked, under_way: TurnUnderWay) -> ChangeHandler[None]:
        payload: Chat = asked.payload
        await anyio.to_thread.run_sync(deps.runtime.speakers.check, asked, {"payload.sender": (payload.sender, "user")})
        turn = begun(deps, asked, under_way)
        await turn.run()
        return ChangeHandler(turn.decide, prepare)

    return TurnHandler(run)


def stop_turn(stop: StopATurn, keep: Keeps) -> WaitingHandler:
    """Return the handler of `stop_turn`. It changes no memory: the turn it ends gets its own reply.

    Its answer is kept, so that a repeated request does not end another turn.
    """

    async def answer(asked: Asked) -> Mapping[str, Any]:
        payload: StopTurn = asked.payload
        is_operator = asked.sender == OPERATOR
        if payload.sender not in (None, asked.sender) and not is_operator:
            raise Refusal("forbidden", "a sender stops its own turns only", field="payload.sender")
        wanted = StopAsked(
            asked.group,
            payload.sender if is_operator else asked.sender,
            payload.turn,
            session=None if is_operator else asked.session,
            by=asked.sender,
        )
        result = (await stop(wanted)).model_dump()
        await keep(asked, result)
        return result

    return WaitingHandler(answer)


def begun(deps: TurnDependencies, asked: Asked, under_way: TurnUnderWay, most_turns: int | None = None) -> ChatTurn:
    """Return the turn that answers a message. Raises Refusal.

    Args:
        most_turns: newest turns of the conversation that it gets at most; None: no separate limit.
    """
    payload: Chat = asked.payload
    if is_blank(neutralise(payload.content).text):
        raise Refusal("invalid", "payload.content is blank: nothing was said", field="payload.content")
    deps.screen.path("session", asked.session)
    speaker = speaker_of(payload.sender, asked.sender)
    if payload.sender is not None:
        speaker = deps.screen.name(asked, "payload.sender", speaker)
    content, changed = deps.screen.text(asked, "payload.content", payload.content)
    agent = chosen(deps, asked.group, payload.agent)
    shown = Shown(under_way, redacts=deps.screen.mode != "off")
    return ChatTurn(deps, asked, under_way, speaker, content, changed, agent, shown, most_turns)


def chosen(deps: TurnDependencies, group: str, asked_for: str | None) -> Agent:
    """Return the agent that answers. Raises Refusal."""
    agents = deps.runtime.agents.current
    agent = agents.get(asked_for or deps.runtime.agents.default)
    if agent is None:
        known = ", ".join(sorted(agents)[:20])
        raise Refusal("not_found", f"there is no agent {asked_for!r}; there are: {known}", field="payload.agent")
    if not deps.runtime.is_ours(group, agent.id):
        why = f"{agent.id} was added with `honeybadger-host sender add`, so the host does not speak as it"
        raise Refusal("forbidden", why, field="payload.agent")
    return agent
