"""Messages of a group, read as they come."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator

from honeybadger_agent.cli.explaining import about_message
from honeybadger_agent.client import SyncClient
from honeybadger_agent.errors import AgentError, RateLimited, ReplyTimeout, Unavailable
from honeybadger_agent.mailbox import REQUESTS, new_id
from honeybadger_agent.tools import made
from honeybadger_agent.wire import GetMessages, GroupMessage, MessagesResult

_WAIT_SECONDS = 60  # that one request waits for a message


class Following:
    """Iterator over messages as they come, also across restarts of the host; `close` it when it is no longer read.

    Args:
        after: number of the last message that was read; None: only messages from now on.
        missed: called whenever no host answers.
    """

    def __init__(self, client: SyncClient, after: int | None, missed: Callable[[], None]) -> None:
        self._client = client
        self._after = after
        self._missed = missed
        self._request_id = ""

    def __iter__(self) -> Iterator[GroupMessage]:
        if self._after is None:
            self._after = self._asked(made(GetMessages, limit=1)).after
        while True:
            found = self._asked(made(GetMessages, self._after, wait_seconds=_WAIT_SECONDS))
            yield from found.messages
            self._after = found.after

    def close(self) -> None:
        """Take back the waiting request. Any thread."""
        if self._request_id:
            with contextlib.suppress(OSError):
                self._client.mailbox.path(REQUESTS, self._request_id).unlink()

    def _asked(self, request: GetMessages) -> MessagesResult:
        self._request_id = new_id()
        while True:
            try:
                return self._client(request, request_id=self._request_id)
            except ReplyTimeout:
                self._missed()
            except (RateLimited, Unavailable) as error:
                time.sleep(error.retry_after_seconds or 1)


class Heard:
    """Messages that come while a person does something else, read by a thread.

    Args:
        came: called by that thread with each message.
    """

    def __init__(self, client: SyncClient, came: Callable[[], None]) -> None:
        self._sender = client.mailbox.root.name
        self._following = Following(client, None, lambda: None)
        self._messages: queue.SimpleQueue[GroupMessage] = queue.SimpleQueue()
        self._came = came
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with contextlib.suppress(AgentError):  # an older host without messages; other errors are reported elsewhere
            for message in self._following:
                if message.sender != self._sender:
                    self._messages.put(message)
                    self._came()

    def lines(self) -> Iterator[str]:
        with contextlib.suppress(queue.Empty):
            while True:
                yield from message_lines(self._messages.get_nowait())

    def close(self) -> None:
        self._following.close()


def message_lines(message: GroupMessage) -> Iterator[str]:
    yield f"[{message.seq}] ({about_message(message)})"
    for line in message.content.split("\n"):
        yield f"  {line}"
