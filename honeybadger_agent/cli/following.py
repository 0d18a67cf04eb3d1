"""Messages of a group, read as they come."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from typing import Final

from honeybadger_agent.cli.explaining import about_message
from honeybadger_agent.client import SyncClient
from honeybadger_agent.errors import RateLimited, ReplyTimeout, Unavailable
from honeybadger_agent.mailbox import REQUESTS, new_id
from honeybadger_agent.tools import made
from honeybadger_agent.wire import GetMessages, GroupMessage

_WAIT_SECONDS: Final = 60


def followed(client: SyncClient, after: int, missed: Callable[[], None]) -> Generator[GroupMessage, None, None]:
    """Yield each message as it comes, also over an end of the host; close it when nobody reads any more.

    Args:
        missed: called whenever no host answers.
    Raises AgentError.
    """
    while True:
        request, request_id = made(GetMessages, after, wait_seconds=_WAIT_SECONDS), new_id()
        while True:
            try:
                found = client(request, request_id=request_id)
                break
            except ReplyTimeout:
                missed()
            except (RateLimited, Unavailable) as error:
                time.sleep(error.retry_after_seconds or 1)
            except BaseException:
                client.mailbox.path(REQUESTS, request_id).unlink(missing_ok=True)
                raise
        yield from found.messages
        after = found.after


def message_lines(message: GroupMessage) -> Iterator[str]:
    """Yield a message as lines for people."""
    yield f"[{message.seq}] ({about_message(message)})"
    for line in message.content.split("\n"):
        yield f"  {line}"
