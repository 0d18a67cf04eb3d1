"""The MCP server over HTTP: a real server process, real sockets, the library's own client."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.commands import cli_error, cli_json, cli_text
from tests.hosting import PATIENCE, Child, HostProcess, RawSender, forge, run_agent, wait_for

if TYPE_CHECKING:
    from mcp import Client


@dataclass
class HttpServer:
    process: Child
    url: str


@contextmanager
def serving(home: Path, *more: str) -> Iterator[HttpServer]:
    """Run a server, forked with its library imported, until it is killed."""
    said = home.parent / "mcp-http.out"
    said.unlink(missing_ok=True)
    command = ["--as-agent", "mcp", "--home", str(home), "--http", "127.0.0.1:0", *more]
    process = forge("honeybadger_agent.mcp_server", "honeybadger_agent.mcp_http").fork(
        command, {}, stdout=said, stderr=said
    )
    try:
        found = wait_for(lambda: said.exists() and re.match(r"serving MCP at (http://\S+);.*\n", said.read_text()))
        assert found
        yield HttpServer(process, found[1])
    finally:
        process.kill()


@asynccontextmanager
async def connected(url: str, token: str, mode: Any = "auto") -> AsyncIterator[Client]:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


def token_of(home: Path, sender: str, group: str = "main") -> str:
    return cli_text("sender", "token", group, sender, home=home).strip()


def posted(url: str, token: str | None, body: bytes, headers: Mapping[str, str] = {}) -> tuple[int, Any]:
    """Return status and JSON (or text) of one POST."""
    known = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    if token is not None:
        known["Authorization"] = f"Bearer {token}"
    asked = urllib.request.Request(url, data=body, headers={**known, **headers})
    try:
        with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
            status, said = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        status, said = error.code, error.read()
    with contextlib.suppress(ValueError):
        return status, json.loads(said)
    return status, said.decode()


def called(content: str, rpc_id: int = 3) -> bytes:
    """Return a tool call as a client of the protocol version 2025-11-25 sends it without a session."""
    arguments = {"content": content}
    params = {"name": "update_memory", "arguments": arguments}
    return json.dumps({"jsonrpc": "2.0", "id": rpc_id, "method": "tools/call", "params": params}).encode()


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_token_says_who_writes(asker: RawSender, mode: str) -> None:
    first, second = token_of(asker.home, "claude", asker.group), token_of(asker.home, "codex", asker.group)
    with serving(asker.home) as server:
        async with connected(server.url, first, mode) as one, connected(server.url, second, mode) as other:
            done = await one.call_tool("update_memory", {"content": "User likes tea", "section": "Drinks"})
            assert not done.is_error
            done = await other.call_tool("save_memory", {"content": "User moved to Chicago"})
            assert done.structured_content is not None
            assert done.structured_content["by"] == "codex"
            found = await one.call_tool("search_memory", {"query": "Where did the user move?"})
            assert found.structured_content is not None
            assert found.structured_content["hits"][0]["author"] == "codex"
    assert "## Drinks (claude, " in asker.memory_text()


def test_a_stranger_is_refused(host: HostProcess, home: Path) -> None:
    token = token_of(home, "claude")
    with serving(home) as server:
        for headers, status in (
            ({"Authorization": "Bearer hb_wrong"}, 401),
            ({"Authorization": "Basic hb_wrong"}, 401),
            ({"Host": "evil.example"}, 421),
            ({"Origin": "https://evil.example"}, 403),
        ):
            assert posted(server.url, token, called("User likes tea"), headers)[0] == status, headers
        assert posted(server.url, None, called("User likes tea"))[0] == 401
        assert not (home / "groups/main/MEMORY.md").exists()
        assert posted(server.url, token, called("User likes tea"), {"Origin": "http://localhost:3000"})[0] == 200
        assert body_refused(server.url, token) == 413
        (home / "config/tokens.json").write_text("{")
        wait_for(lambda: posted(server.url, token, called("User likes tea"))[0] == 401)
    cli_error("sender", "token", "--list", home=home, code=3)


def body_refused(url: str, token: str) -> int:
    """Return the status for a body over the limit, which is not sent."""
    address = urllib.parse.urlsplit(url)
    with contextlib.closing(http.client.HTTPConnection(address.netloc, timeout=PATIENCE)) as connection:
        connection.putrequest("POST", address.path)
        for name, value in (("Authorization", f"Bearer {token}"), ("Content-Length", "6000000")):
            connection.putheader(name, value)
        connection.endheaders()
        return connection.getresponse().status


def test_a_revoked_token_stops_at_once(asker: RawSender) -> None:
    first, kept = token_of(asker.home, "claude", asker.group), token_of(asker.home, "codex", asker.group)
    with serving(asker.home) as server:
        assert posted(server.url, first, called("User likes tea"))[0] == 200
        assert cli_json("sender", "token", asker.group, "claude", "--revoke", home=asker.home)["revoked"] == 1
        assert posted(server.url, first, called("User likes beer"))[0] == 401
        assert posted(server.url, kept, called("User likes water"))[0] == 200
    assert "beer" not in asker.memory_text()


def test_a_repeated_call_is_applied_once_after_a_kill(asker: RawSender) -> None:
    token = token_of(asker.home, "claude", asker.group)
    for _ in range(2):
        with serving(asker.home) as server:
            for _ in range(2):
                status, said = posted(server.url, token, called("User likes tea"))
                assert (status, said["result"]["isError"]) == (200, False)
    with serving(asker.home) as server:
        assert posted(server.url, token, called("User likes tea", rpc_id=4))[0] == 200
    assert asker.memory_text().count("User likes tea") == 2


def test_only_hashes_of_tokens_are_kept_and_listed(home: Path) -> None:
    token = token_of(home, "claude")
    file = home / "config/tokens.json"
    assert token not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    [row] = cli_json("sender", "token", "--list", home=home)
    assert (row["group"], row["sender"]) == ("main", "claude")
    for group, sender in (("main", "operator"), ("main", "human"), ("glo bal", "claude")):
        cli_error("sender", "token", group, sender, home=home, code=2)


def test_other_machines_are_served_behind_a_named_proxy_only(asker: RawSender) -> None:
    done = run_agent("mcp", "--http", "0.0.0.0:0", home=asker.home)
    assert done.returncode == 1
    assert "--behind-proxy" in done.stderr
    token = token_of(asker.home, "claude", asker.group)
    with serving(asker.home, "--behind-proxy", "memory.example") as server:
        assert posted(server.url, token, called("a"), {"Host": "memory.example"})[0] == 200
        assert posted(server.url, token, called("b"), {"Origin": "https://memory.example"})[0] == 200
