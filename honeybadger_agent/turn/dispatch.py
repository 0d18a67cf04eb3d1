"""A model's way to its memory: what it is offered, how its call becomes one request, what it reads of a refusal.

Shared by the MCP server and the tools of a turn, so that a model meets the same memory on both roads.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from honeybadger_agent import tools, wire
from honeybadger_agent.client import Client
from honeybadger_agent.errors import BY_CODE, AgentError, NoMailbox, ReplyTimeout, RequestFailed
from honeybadger_agent.mailbox import new_id
from honeybadger_agent.tools import Call

ResultT = TypeVar("ResultT", bound=wire.Wire)

WITHHELD: Final = {"ping", "append_turn", "list_memory_entries", "stop_turn"}
"""Tools that are not for a model: for programs, and for front ends, which write down who said what and end turns."""

ALIASES: Final[Mapping[str, str]] = {"memory_search": "search_memory", "memory_get": "get_memory"}
"""Names that users of other memory servers know."""

OFFERED: Final[Mapping[str, str]] = {
    **{name: name for name in tools.TOOLS if name not in WITHHELD},
    **ALIASES,
}
"""Name of a tool -> request type."""

_MOST_UNANSWERED: Final = 100


@dataclass(slots=True)
class Memory:
    """One sender's way to the host, and the changes it has no answer to.

    Args:
        client: or what makes one, asked for with every call until it does.

    A model cannot name the id of a request. So the ids of changes that were not answered are kept: the same call
    again asks with the same id, and is never applied twice.
    """

    client: Client | Callable[[], Client]
    unanswered: dict[tuple[str, str], str] = field(default_factory=dict)

    async def ask(self, call: Call[ResultT], request_id: str | None = None) -> ResultT:
        """Send a call and return its result. Raises `AgentError`.

        Args:
            request_id: for a change that has none yet. Default: a new one.
        """
        import asyncio  # 60 ms that a program without a loop should not pay; one with a loop has paid already

        client = self.client if isinstance(self.client, Client) else self.client()
        self.client = client
        if not wire.REQUEST_TYPES[call.type_name].changes:
            return await client.call(call, request_id=request_id)
        same = (call.type_name, call.payload.model_dump_json(exclude_none=True))
        request_id = self.unanswered.pop(same, None) or request_id or new_id()
        try:
            return await client.call(call, request_id=request_id)
        except (ReplyTimeout, NoMailbox, asyncio.CancelledError):
            self.unanswered[same] = request_id
            if len(self.unanswered) > _MOST_UNANSWERED:
                del self.unanswered[next(iter(self.unanswered))]
            raise


def description_of(name: str) -> str:
    """Return what a model is told of a tool of `OFFERED`."""
    kind = OFFERED[name]
    description = inspect.getdoc(tools.TOOLS[kind]) or ""
    return description if name == kind else f"The same as {kind}. {description}"


def payload_of(kind: wire.RequestType, arguments: dict[str, Any]) -> wire.Wire:
    """Return the arguments as the host would read them, refused in its words. Raises `RequestFailed`."""
    try:
        return wire.parse_payload(wire.Request(v=wire.PROTOCOL, id="call", type=kind.name, payload=arguments))
    except wire.Refusal as refusal:
        raise BY_CODE[refusal.code](refusal.message, field=refusal.field) from None


def code_of(error: AgentError) -> str:
    """Return the code a model and its program know an error by."""
    match error:
        case RequestFailed():
            return error.code
        case ReplyTimeout():
            return "no_reply"
        case NoMailbox():
            return "no_mailbox"
        case _:
            return "bad_reply"


def complaint_of(error: AgentError) -> str:
    """Return what a model reads: the code, what is wrong, what now."""
    if isinstance(error, ReplyTimeout):
        return (
            f"no_reply: no reply after {error.waited_seconds:g} s; {error.state}. The request may still be served. "
            "Calling this again with the same arguments is safe: it is never applied twice."
        )
    seconds = error.retry_after_seconds if isinstance(error, RequestFailed) else None
    return f"{code_of(error)}: {error}" + ("" if seconds is None else f" (again in {seconds:g} s)")
