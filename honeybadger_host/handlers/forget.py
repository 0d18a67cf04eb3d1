"""`forget`: the operator has something removed from everywhere; `ops/forget.py` does it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from honeybadger_agent.wire import Forget, Refusal
from honeybadger_host.errors import JournalError, WorldFailed
from honeybadger_host.handler_kinds import Asked, WaitingHandler
from honeybadger_host.text.phrases import folded

MIN_ASKED: Final = 3


def forget(now: Callable[[Asked], Awaitable[Mapping[str, Any]]]) -> WaitingHandler:
    async def answer(asked: Asked) -> Mapping[str, Any]:
        payload: Forget = asked.payload
        given = [name for name in ("id", "text", "sender", "session") if getattr(payload, name) is not None]
        if len(given) != 1:
            raise Refusal("invalid", "payload must have one of id, text, sender and session", field="payload")
        if payload.text is not None and len(folded(payload.text)) < MIN_ASKED:
            why = f"payload.text must have {MIN_ASKED} characters: it is forgotten wherever it stands, also in words"
            raise Refusal("invalid", why, field="payload.text")
        try:
            return await now(asked)
        except (WorldFailed, JournalError) as error:
            why = f"{error}; what was begun goes on with the same command, or the next start"
            raise Refusal("unavailable", why) from None

    return WaitingHandler(answer)
