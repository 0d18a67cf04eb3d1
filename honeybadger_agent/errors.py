"""The errors of the client.

AgentError
├── ReplyTimeout       no reply in time; a change may still be served: ask again with the same id
├── NoMailbox          the folder does not exist, or may not be read or written
│   ├── NoHome         the folder that was named, or found, is not the home of a host; nothing was made
│   └── BadName        a group, a sender, a session or an id is not a name that the protocol allows (`mailbox`)
└── RequestFailed      refused, mostly by the host; `.code`, `.field`, `.retry_after_seconds`
    ├── Invalid        the request is wrong: correct it
    ├── Forbidden      not allowed for this group or sender: stop
    ├── NotFound       no such entry, session, task: go on without it
    ├── Conflict       it changed meanwhile, or the id is taken: read again, then decide
    ├── TooLarge       over a limit: send less
    ├── RateLimited    over a limit of the sender: wait `retry_after_seconds`
    ├── Unavailable    disk, model or server failed, nothing was changed: try again later
    └── Internal       a bug of the host; the request is kept in `data/dead/`: report it
"""

from __future__ import annotations

import re
from typing import ClassVar

from honeybadger_agent.wording import in_words


class AgentError(Exception):
    """Base of all errors of this package. By itself it says that a reply cannot be read, or that a setting is wrong."""

    code: ClassVar[str] = "bad_reply"  # the protocol's, or why there is none
    exit_code: ClassVar[int] = 1  # of a command


class NoMailbox(AgentError):
    """The mailbox cannot be used."""

    code = "no_mailbox"
    exit_code = 3


class NoHome(NoMailbox):
    """There is no home where it was looked for."""


class ReplyTimeout(AgentError):
    """There was no reply in time."""

    code = "no_reply"
    exit_code = 4

    def __init__(self, request_id: str, waited_seconds: float, state: str, *, is_query: bool = False) -> None:
        """Write the message.

        Args:
            state: the state of the request, in words.
            is_query: it was removed from its box and changes nothing.
        """
        self.request_id = request_id
        self.waited_seconds = waited_seconds
        self.state = state
        self.is_query = is_query
        message = f"no reply to {request_id} after {waited_seconds:g} s; {state}"
        if not is_query:
            message += f" (Asking again with request_id={request_id!r} is safe: it is never applied twice.)"
        super().__init__(message)


BY_CODE: dict[str, type[RequestFailed]] = {}


class RequestFailed(AgentError):
    """The host refused the request, or would have: then this package refused it and nothing was sent."""

    def __init__(self, message: str, *, field: str | None = None, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.field = field
        self.retry_after_seconds = retry_after_seconds

    def __init_subclass__(cls) -> None:
        """Name the class's code of the protocol, such as `not_found`."""
        cls.code = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()
        BY_CODE[cls.code] = cls


class Invalid(RequestFailed):
    """The request is wrong."""


class Forbidden(RequestFailed):
    """It is not allowed for this group or sender."""


class NotFound(RequestFailed):
    """There is no such entry, session or task."""


class Conflict(RequestFailed):
    """It changed meanwhile, or the id is taken."""


class TooLarge(RequestFailed):
    """It is over a limit."""


class RateLimited(RequestFailed):
    """The sender asks too often."""


class Unavailable(RequestFailed):
    """Disk, model or server failed; nothing was changed."""


class Internal(RequestFailed):
    """A bug of the host."""


def words_of(error: AgentError) -> str:
    """Return an error in words: the protocol's code and when to try again, or which reply did not come."""
    if isinstance(error, ReplyTimeout):
        return f"no reply to {error.request_id} after {error.waited_seconds:g} s; {error.state}"
    if isinstance(error, RequestFailed):
        seconds = error.retry_after_seconds
        return f"{error.code}: {error}" + ("" if seconds is None else f" (again in {in_words(seconds)})")
    return str(error)
