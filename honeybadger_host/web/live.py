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
from honeybadger_host.web.rendering import problem

_LOOK_SECONDS: Final = 1.0  # between two looks for changes
MAX_STREAMS: Final = 24  # open streams of all pages: each looks into the journal once a second


class Streams:
    """Counts the streams that are open."""

    def __init__(self) -> None:
        self.open = 0

    def answer(self, events: AsyncIterator[bytes]) -> Response:
        """Return a stream as an answer, or an error page if too many are open."""
        if self.open >= MAX_STREAMS:
            return problem(429, "Too many live pages are open", "Close some of them.", retry_after=10)
        return StreamingResponse(self._counted(events), media_type="text/event-stream")

    async def _counted(self, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        self.open += 1  # not earlier: a stream that never began is never ended
        try:
            async for event in events:
                yield event
        finally:
            self.open -= 1


def event(name: str, data: object) -> bytes:
    """Return one event. Its JSON has no line ends."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), orjson.dumps(data))


async def _events(request: Request) -> Response:
    streams: Streams = request.app.state.streams
    return streams.answer(_news(home_of(request), number(request, "after")))


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
