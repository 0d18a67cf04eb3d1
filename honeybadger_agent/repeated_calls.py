"""The request ids of MCP's tool calls over HTTP: a call that is repeated is the same request."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import orjson

from honeybadger_agent.mailbox import uuid7_at

if TYPE_CHECKING:
    from mcp import types

# A call that is sent again within this time is the same call: clients retry for minutes, not longer.
REPEAT_SECONDS = 600


@dataclass(slots=True)
class RepeatedCalls:
    """The request ids of tool calls: a call that is repeated after its answer was lost gets the same id.

    An id is made of the sender, the JSON-RPC id, the call's bytes and the period of `REPEAT_SECONDS` in which it first
    came. So a restarted server makes the same id, and the host answers it from the receipt.

    Args:
        now: seconds since the epoch.
    """

    now: Callable[[], float] = time.time
    _seen: dict[str, float] = field(default_factory=dict)

    def id_of(self, holder: str, rpc_id: int | str | None, asked: types.CallToolRequestParams) -> str:
        call = orjson.dumps([holder, rpc_id, asked.name, asked.arguments or {}], option=orjson.OPT_SORT_KEYS)
        now = self.now()
        period = now // REPEAT_SECONDS * REPEAT_SECONDS
        while self._seen and next(iter(self._seen.values())) < period - REPEAT_SECONDS:
            del self._seen[next(iter(self._seen))]
        before = _request_id(call, period - REPEAT_SECONDS)
        if before in self._seen:
            return before
        request_id = _request_id(call, period)
        self._seen[request_id] = period
        return request_id


def _request_id(call: bytes, period: float) -> str:
    digest = hashlib.sha256(call + b"%d" % period).digest()
    return uuid7_at(int(period * 1000), digest[:10])
