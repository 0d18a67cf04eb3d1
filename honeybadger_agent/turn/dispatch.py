"""Dispatch of a model's tool calls: the tools it may use, a call as one request, errors in words for the model.

Shared by the MCP server and the tools of a turn, so that a model sees the same memory in both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from honeybadger_agent import wire
from honeybadger_agent.client import SOON_SECONDS, Client
from honeybadger_agent.errors import AgentError, NoMailbox, ReplyTimeout, RequestFailed, words_of
from honeybadger_agent.mailbox import new_id
from honeybadger_agent.wire import ResultT
from honeybadger_agent.wording import sentence


@dataclass(slots=True)
class Memory:
    """One sender's connection to the host, and its changes without a reply.

    Args:
        client: a client, or a function that makes one, tried at every call until it succeeds.

    A model cannot give a request id. So the ids of the newest 1,000 changes without a reply are kept: the same call
    again in the same session uses the same id, and is never applied twice.
    """

    client: Client | Callable[[], Client]
    unanswered: dict[tuple[str, str, str], str] = field(default_factory=dict)

    async def allowed_tools(self) -> frozenset[str] | None:
        """Return the types this sender may use; None: all, or not known yet (the host refuses the others)."""
        try:
            tools = (await self._connected()(wire.Ping(), timeout_seconds=SOON_SECONDS)).tools
        except AgentError:
            return None
        return None if tools is None else frozenset(tools)

    def _connected(self) -> Client:
        """Return the client; make it if there is none yet. Raises `AgentError`."""
        if not isinstance(self.client, Client):
            self.client = self.client()
        return self.client

    async def ask(self, request: wire.Request[ResultT], request_id: str | None = None) -> ResultT:
        """Send a request and return its result. Raises `AgentError`.

        Args:
            request_id: of a change not sent before; default: a new one.
        """
        import asyncio  # takes 60 ms, which only programs with a loop should pay

        client = self._connected()
        if not request.changes:
            return await client(request, request_id=request_id)
        same = (client.session, request.type_name, request.model_dump_json(exclude_none=True))
        request_id = self.unanswered.pop(same, None) or request_id or new_id()
        try:
            return await client(request, request_id=request_id)
        except (ReplyTimeout, NoMailbox, asyncio.CancelledError):
            if len(self.unanswered) == wire.MAX_LISTED:
                del self.unanswered[next(iter(self.unanswered))]
            self.unanswered[same] = request_id
            raise


def complaint_of(error: AgentError) -> str:
    """Return an error in words for a model: code, cause and remedy."""
    if isinstance(error, ReplyTimeout):
        told = f"no_reply: no reply after {error.waited_seconds:g} s; {sentence(error.state)}"
        if error.is_query:
            return told
        again = "Calling this again with the same arguments is safe: it is never applied twice."
        return f"{told} The request may still be served. {again}"
    return words_of(error) if isinstance(error, RequestFailed) else f"{error.code}: {error}"
