"""Server-sent events: one stream for each page that shows the newest changes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import anyio
import orjson
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from honeybadger_host.files.home import is_served
from honeybadger_host.web.asking import Home
from honeybadger_host.web.forms import home_of, number
from honeybadger_host.web.looking_back import newest_seq

_LOOK_SECONDS: Final = 1.0  # between two looks for changes


def stream(events: AsyncIterator[bytes]) -> Response:
    """Return events as an answer that goes on until the reader is gone."""
    return StreamingResponse(events, media_type="text/event-stream")


def event(name: str, data: object) -> bytes:
    """Return one event. Its JSON has no line ends."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), orjson.dumps(data))


async def _events(request: Request) -> Response:
    return stream(_news(home_of(request), number(request, "after")))


async def _news(home: Home, after: int) -> AsyncIterator[bytes]:
    """Yield `changed` when the journal grew, and `host` when a host started or stopped."""
    was_up: bool | None = None
    while True:
        is_up, newest = await run_in_threadpool(_look, home)
        if is_up != was_up:
            yield event("host", is_up)
            was_up = is_up
        if newest > after:
            yield event("changed", newest)
            after = newest
        yield b":\n\n"  # a comment, which fails if the reader is gone
        await anyio.sleep(_LOOK_SECONDS)


def _look(home: Home) -> tuple[bool, int]:
    return is_served(home.path), newest_seq(home.journal)


ROUTES: Final = (Route("/events", _events),)
