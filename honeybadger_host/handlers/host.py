"""The host itself: `ping`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from honeybadger_agent.wire import PROTOCOL
from honeybadger_host import __version__
from honeybadger_host.domain import Asked, QueryHandler
from honeybadger_host.text.time_stamps import time_stamp


def ping() -> QueryHandler:
    """Return the handler of `ping`."""

    def answer(asked: Asked, now: datetime) -> Mapping[str, Any]:
        at = time_stamp(now, "milliseconds")
        return {"host_version": __version__, "protocol": PROTOCOL, "now": at}

    return QueryHandler(answer)
