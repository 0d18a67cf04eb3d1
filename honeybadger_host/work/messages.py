"""Messages to the people and agents of a group, one line of JSON each, and their arrivals.

`data/messages/<group>.jsonl` is a log. Its lines are in the order of their numbers, so a reader finds its place without
reading all of them. A line that is not a message is skipped.
"""

import asyncio
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, takewhile
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import anyio
import orjson
from pydantic import Field

from honeybadger_host.files.home import MESSAGES_FOLDER
from honeybadger_host.files.safe_files import needed, opened_plain
from honeybadger_host.memory.edited import Edited, Stamp, Texts, checked_lines
from honeybadger_host.memory.turn_log import lines_back


class Message(Edited):
    """One message, and its line.

    Args:
        seq: its number in the journal, greater than those of all messages before it.
        sender: the name of its sender.
        to: names of senders; None: all of the group.
        request: id of the request.
    """

    seq: Annotated[int, Field(ge=1)]
    at: Stamp
    sender: str
    content: str
    session: str
    to: Texts | None = None
    request: str = ""


def members_of(message: Message) -> dict[str, Any]:
    """Return the members of a message that are shown and pushed; `to` is None if it is for all."""
    return message.model_dump(include=Message.model_fields.keys() - {"request"})


def dump_message(message: Message) -> bytes:
    return orjson.dumps(message.model_dump(exclude_none=True), option=orjson.OPT_APPEND_NEWLINE)


def read_messages(
    home: Path, group: str, after: int | None, most: int, is_wanted: Callable[[Message], bool]
) -> tuple[Sequence[Message], int]:
    """Return the first `most` wanted messages after a number, or the newest if it is None, oldest first.

    With them comes the number of the last message that was read, wanted or not: the next call continues after it.
    Raises WorldFailed.
    """
    path = home / MESSAGES_FOLDER / f"{group}.jsonl"
    with needed(path), opened_plain(path) as opened:
        if opened is None:
            return (), after or 0
        fd, size = opened
        if after is None:
            newest = [*islice(_parsed(_newest_first(fd, size)), 1)]
            found = [*islice(filter(is_wanted, _parsed(_newest_first(fd, size))), most)]
            return found[::-1], newest[0].seq if newest else 0
        wanted: list[Message] = []
        with os.fdopen(fd, "rb", closefd=False) as file:
            for message in _parsed(_lines(file, _first_place(file, size, after))):
                if message.seq > after:
                    after = message.seq
                    if is_wanted(message):
                        wanted.append(message)
                        if len(wanted) == most:
                            break
        return wanted, after


def _first_place(file: BinaryIO, size: int, after: int) -> int:
    """Return the offset of the first message after a number, or of the end."""

    def first_seq(start: int) -> int:
        message = next(_parsed(_lines(file, start)), None)
        return after + 1 if message is None else message.seq

    return bisect_right(range(size), after, key=first_seq)


def _parsed(lines: Iterator[bytes]) -> Iterator[Message]:
    return checked_lines(Message, lines, "message.skipped")


def _lines(file: BinaryIO, start: int) -> Iterator[bytes]:
    """Return the complete lines that begin at `start` or later."""
    file.seek(max(0, start - 1))
    if start:
        file.readline()  # the end of the line before
    return takewhile(lambda line: line.endswith(b"\n"), file)


def _newest_first(fd: int, size: int) -> Iterator[bytes]:
    """Yield the complete lines, the last one first."""
    return (line for _, line in islice(lines_back(fd, size), 1, None))


ANY_GROUP = ""  # means every group


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
