"""Arrivals of messages: wakes readers and pushes that wait for one."""

from __future__ import annotations

import asyncio
from typing import Final

import anyio

ANY_GROUP: Final = ""  # means every group


class Arrivals:
    """Wakes the readers and pushes that wait for a message of a group."""

    def __init__(self) -> None:
        self._next: dict[str, anyio.Event] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def next(self, group: str) -> anyio.Event:
        """Return an event that is set at the next message of a group, or of any group. Event loop."""
        self._loop = asyncio.get_running_loop()
        return self._next.setdefault(group, anyio.Event())

    def came(self, group: str) -> None:
        """Announce that a message is in the group's file. Any thread."""
        if self._loop is not None and (group in self._next or ANY_GROUP in self._next):
            self._loop.call_soon_threadsafe(self._wake, group)

    def _wake(self, group: str) -> None:
        for key in (group, ANY_GROUP):
            if (event := self._next.pop(key, None)) is not None:
                event.set()
