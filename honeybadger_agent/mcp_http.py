"""`honeybadger-agent mcp --http`: the MCP server over streamable HTTP; a bearer token says which sender asks.

It keeps no session, so a restart loses nothing and several may serve one home. TLS ends in front of it.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from mcp import types
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.context import ServerRequestContext
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import AnyHttpUrl
from starlette.applications import Starlette

from honeybadger_agent.cli.terminal import complain
from honeybadger_agent.client import Client
from honeybadger_agent.errors import AgentError
from honeybadger_agent.mcp_server import made_server
from honeybadger_agent.repeated_calls import RepeatedCalls
from honeybadger_agent.sender_tokens import BadTokenFile, digest_of, holder_of
from honeybadger_agent.tools import Choice
from honeybadger_agent.turn.dispatch import Memory

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def serve_http(
    home: Path, host: str, port: int, told: Callable[[str], None], choice: Choice, *, public_name: str | None = None
) -> None:
    """Serve MCP on an address until SIGTERM or SIGINT.

    Args:
        port: 0: any that is free.
        told: called with a line for the person who started the server.
        public_name: host name under which a proxy in front is reached; without it only loopback is bound.
    Raises `AgentError` if the address cannot be bound, or is not loopback and no proxy was named.
    """
    if public_name is None and host not in ("127.0.0.1", "localhost", "::1"):
        raise AgentError(
            f"{host} can be reached from other machines, and this server speaks no TLS: bind 127.0.0.1, put a proxy "
            f"with TLS in front of it and name it with --behind-proxy NAME"
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        raise AgentError(f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --http") from None
    with listening:
        shown = f"[{host}]" if ":" in host else host
        told(f"serving MCP at http://{shown}:{listening.getsockname()[1]}/mcp; Ctrl-C stops")
        config = uvicorn.Config(
            http_app(home, choice, public_name), ws="none", log_config=None, access_log=False, server_header=False
        )
        uvicorn.Server(config).run(sockets=[listening])


def http_app(home: Path, choice: Choice, public_name: str | None = None) -> Starlette:
    """Return the application: `POST /mcp` for holders of a sender's token, from known hosts and origins."""
    memories: dict[str, Memory] = {}
    calls = RepeatedCalls()

    def memory_of() -> Memory:
        holder = _holder()
        if holder not in memories:
            group, _, sender = holder.partition("/")
            memories[holder] = Memory(lambda: Client(home, group, sender))
        return memories[holder]

    def id_of(context: ServerRequestContext[Any, Any], asked: types.CallToolRequestParams) -> str:
        return calls.id_of(_holder(), context.request_id, asked)

    names = LOOPBACK if public_name is None else (*LOOPBACK, public_name)
    allowed = [form for name in names for form in (name, f"{name}:*")]
    return made_server(memory_of, choice, id_of).streamable_http_app(
        json_response=True,
        stateless_http=True,
        transport_security=TransportSecuritySettings(
            allowed_hosts=allowed,
            allowed_origins=[f"http://{name}" for name in allowed] + [f"https://{name}" for name in allowed],
        ),
        # no `resource_server_url`: a 401 that names one is taken as an invitation to OAuth, which is not spoken here
        auth=AuthSettings(issuer_url=AnyHttpUrl("http://localhost"), resource_server_url=None),
        token_verifier=_Verifier(home),
    )


def _holder() -> str:
    """Return `<group>/<sender>` of the request that is being answered."""
    token = get_access_token()
    if token is None:
        raise RuntimeError("a request came through without a token")
    return token.client_id


@dataclass(slots=True)
class _Verifier:
    home: Path

    async def verify_token(self, token: str) -> AccessToken | None:
        try:
            holder = holder_of(self.home, token)
        except BadTokenFile as error:
            complain(str(error))
            return None
        if holder is None:
            return None
        return AccessToken(token=digest_of(token), client_id=f"{holder.group}/{holder.sender}", scopes=[])
