"""The host itself: `ping`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from honeybadger_agent.wire import PROTOCOL
from honeybadger_host import __version__
from honeybadger_host.domain import Asked, QueryHandler
from honeybadger_host.text.time_stamps import time_stamp


def ping(tools_of: Callable[[str], frozenset[str] | None]) -> QueryHandler:
    """Return the handler of `ping`.

    Args:
        tools_of: sender -> the types it may use; None: all.
    """

    def answer(asked: Asked, now: datetime) -> Mapping[str, Any]:
        at = time_stamp(now, "milliseconds")
        known = {"host_version": __version__, "protocol": PROTOCOL, "now": at}
        tools = tools_of(asked.sender)
        return known if tools is None else {**known, "tools": sorted(tools)}

    return QueryHandler(answer)
