"""`forget`: what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from honeybadger_agent.wire import Refusal
from honeybadger_host.errors import WorldFailed
from honeybadger_host.handler_kinds import Asked
from honeybadger_host.handlers.host import forget
from tests.host.handlers.room import Room


@pytest.fixture
def room(home: Path) -> Room:
    return Room(home)


def refused(room: Room, **payload: Any) -> Refusal:
    async def now(asked: Asked) -> Mapping[str, Any]:
        raise WorldFailed("no space")

    asked = room.asking("forget", payload, "operator")
    with pytest.raises(Refusal) as found:
        anyio.run(forget(now).answer, asked)
    return found.value


def test_a_failed_forget_goes_on_with_the_same_command(room: Room) -> None:
    refusal = refused(room, text="secret")
    assert (refusal.code, "the same command" in refusal.message) == ("unavailable", True)
