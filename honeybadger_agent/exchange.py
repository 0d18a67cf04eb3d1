"""One request and its reply: the pauses between two looks for the reply, what a look finds, the stream of an answer.

A client looks into its own `replies/` at growing intervals (0.5 ms to 25 ms): that works on every file system and
across container mounts, where file events do not. Nothing waits here. A stream is only for watching: the reply has
everything, so torn or unknown lines are left out.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
from pydantic import ValidationError

from honeybadger_agent.errors import AgentError, NoMailbox, ReplyTimeout
from honeybadger_agent.mailbox import REPLIES, REQUESTS, TURNS, Box, Mailbox
from honeybadger_agent.wire import Reply, StreamLine, refusal_of

# Gets each line of an answer that is being written, between two looks for the reply; it must not take long.
OnLine = Callable[[StreamLine], None]

_FIRST_WAIT_SECONDS = 0.0005  # before the second look for a reply; each later pause is 1.3 times as long
_MAX_WAIT_SECONDS = 0.025  # the longest of these pauses


@dataclass(slots=True)
class Exchange:
    """A published request: go through `looks`, then take the `reply`; then, or without it, `end`.

    Args:
        is_query: it changes nothing: `end` removes it, for nobody waits for the answer any more.
        again: the bytes of a request that was in its box already when it was repeated. If it is removed and there is no
            reply, because another waiter took that, it is published again.
        found: the reply, once a look has found it; then its file is removed.
    """

    mailbox: Mailbox
    request_id: str
    timeout_seconds: float
    box: Box = REQUESTS
    is_query: bool = False
    again: bytes | None = None
    found: Reply | None = None

    def publish(self, data: bytes) -> None:
        """Put the request into its box. Raises `NoMailbox`."""
        try:
            self.mailbox.publish(self.request_id, data, self.box, is_durable=not self.is_query)
        except OSError as error:
            raise NoMailbox(f"cannot write into {self.mailbox.root}: {error.strerror}; nothing was sent") from error

    def looks(self, on_line: OnLine | None = None) -> Generator[float, None, None]:
        """Look for the reply until it is found or time is up; yield the seconds to wait before the next look.

        Close the generator at the end.

        Args:
            on_line: gets the new lines of a turn's answer.
        Raises: `NoMailbox`, `AgentError`.
        """
        with contextlib.closing(StreamTail(self.mailbox.stream_path(self.request_id))) as tail:
            for wait in self._waits():
                self._look()
                if on_line is not None:
                    for line in tail.read():
                        on_line(line)
                if self.found is not None:
                    return
                yield wait

    def reply(self) -> Reply:
        """Return the reply. Raises `ReplyTimeout` if there still is none; `NoMailbox`, `AgentError`."""
        self._look()
        if self.found is not None:
            return self.found
        box = self.mailbox.root / self.box
        state = f"it still lies in {box}: does honeybadger-host run on this home?"
        if not self.mailbox.is_waiting(self.request_id, self.box):
            state = "the host has taken it and its reply is late"
        elif self.box == TURNS and self.mailbox.stream_path(self.request_id).exists():
            state = f"an agent has begun to answer it; until it is done it lies in {box}"
        elif self.is_query:
            state = f"no host has read it from {box}: does honeybadger-host run on this home?"
        raise ReplyTimeout(self.request_id, self.timeout_seconds, state, is_query=self.is_query)

    def end(self) -> None:
        """Stop waiting: take back a query without a reply."""
        if self.is_query and self.found is None:
            with contextlib.suppress(OSError):
                self.mailbox.path(self.box, self.request_id).unlink()

    def _waits(self) -> Iterator[float]:
        began = time.monotonic()
        wait = _FIRST_WAIT_SECONDS
        while (left := self.timeout_seconds - (time.monotonic() - began)) > 0:
            yield min(wait, left)
            wait = min(wait * 1.3, _MAX_WAIT_SECONDS)

    def _look(self) -> None:
        if self.found is not None:
            return
        # checked before the reply: the host writes a reply, then removes the request
        is_gone = self.again is not None and not self.mailbox.is_waiting(self.request_id, self.box)
        try:
            data = self.mailbox.reply(self.request_id)
        except OSError as error:
            raise NoMailbox(
                f"request {self.request_id} was sent, but its reply cannot be read: "
                f"{self.mailbox.path(REPLIES, self.request_id)}: {error.strerror}"
            ) from error
        if data is None:
            if is_gone and self.again is not None:
                self.publish(self.again)
            return
        try:
            self.found = Reply.model_validate(orjson.loads(data))
        except orjson.JSONDecodeError:
            raise self._not_a_reply("not JSON") from None
        except ValidationError as error:
            raise self._not_a_reply(refusal_of(error).message) from None
        self.mailbox.discard_reply(self.request_id)

    def _not_a_reply(self, why: str) -> AgentError:
        return AgentError(f"{self.mailbox.path(REPLIES, self.request_id)} is not a reply this client reads: {why}")


class StreamTail:
    """Follows the stream of one turn across restarts of the host; each restart makes a new file.

    The file stays open, so that the next file cannot get its inode.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None
        self._begun = b""  # the beginning of a line that is not complete yet

    def read(self) -> list[StreamLine]:
        """Return the lines since the last read, oldest first; none while there is no stream."""
        lines = self._drain()
        if self._is_another():
            self.close()
            self._fd = open_regular(self._path)
            self._begun = b""
            lines += self._drain()
        return lines

    def close(self) -> None:
        """Close the file. May be called again."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _drain(self) -> list[StreamLine]:
        lines: list[StreamLine] = []
        if self._fd is not None:
            with contextlib.suppress(OSError):
                while data := os.read(self._fd, io.DEFAULT_BUFFER_SIZE):
                    *whole, self._begun = (self._begun + data).split(b"\n")
                    for line in whole:
                        with contextlib.suppress(ValidationError):  # torn, or of a kind that this version does not know
                            lines.append(StreamLine.model_validate_json(line))
        return lines

    def _is_another(self) -> bool:
        """Return whether the name belongs to another file than the open one."""
        try:
            now = os.stat(self._path, follow_symlinks=False)
        except OSError:
            return False  # gone: the reply is written, or the host begins again
        return self._fd is None or not os.path.samestat(now, os.fstat(self._fd))


def open_regular(path: Path) -> int | None:
    """Return a descriptor of a regular file, None for anything else: a FIFO would block its reader."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None
