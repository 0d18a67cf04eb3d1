"""Standard input and output of the MCP server: every request gets an answer, even one that cannot be parsed.

The library's own reader drops a line that it cannot parse, so that a client waits for its answer for ever. Lone
surrogates, control characters, bytes that are not UTF-8, huge numbers and deep nesting are enough for that.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import orjson
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import types
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError


async def _no_lines() -> AsyncIterator[str]:
    """Yield nothing: the library reads this in place of standard input."""
    for line in list[str]():
        yield line


@asynccontextmanager
async def standard_streams() -> AsyncIterator[tuple[MemoryObjectReceiveStream[Any], Any]]:
    """Yield the streams of incoming and outgoing messages, for `Server.run`."""
    lines = anyio.wrap_file(sys.stdin.buffer)
    to_server, received = anyio.create_memory_object_stream[Any](0)
    async with (
        to_server,
        received,
        stdio_server(stdin=_no_lines()) as (unused, sent),  # type: ignore[arg-type]
        unused,
        anyio.create_task_group() as reading,
    ):
        reading.start_soon(_read, lines, to_server, sent)
        yield received, sent


async def _read(lines: anyio.AsyncFile[bytes], to_server: MemoryObjectSendStream[Any], sent: Any) -> None:
    async with to_server:
        async for line in lines:
            message = message_of(line)
            if isinstance(message, types.JSONRPCError):
                await sent.send(SessionMessage(message))
            elif message is not None:
                await to_server.send(SessionMessage(message))


def message_of(line: bytes) -> types.JSONRPCMessage | None:
    """Return the message on a line, or the error that answers it, or None if there is nothing to answer."""
    text = line.decode("utf-8-sig", "surrogateescape").strip()  # what is not UTF-8 is refused as a surrogate
    if not text:
        return None
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError) as error:
        return _refusal(types.PARSE_ERROR, f"not JSON: {error}", None)
    if not isinstance(value, dict):
        return _refusal(types.INVALID_REQUEST, "a message is one JSON object; there are no batches", None)
    request_id = value.get("id")
    if type(request_id) not in (int, str) or not _is_sendable(request_id):
        request_id = None
    try:
        message: types.JSONRPCMessage = types.jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValidationError as error:
        if "method" not in value or "id" not in value:
            return None  # a reply, or a notification: neither is ever answered
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"][1:])
        return _refusal(types.INVALID_REQUEST, f"not a request: {where}: {first['msg']}", request_id)
    if isinstance(message, types.JSONRPCNotification) and "id" in value:
        return _refusal(types.INVALID_REQUEST, "not a request: id must be a string or an integer", None)
    if isinstance(message, types.JSONRPCRequest) and not _is_sendable(value):
        what = "text with lone surrogates, numbers over 64 bits, or more than 250 levels"
        return _refusal(types.INVALID_REQUEST, f"not a request: it has {what}", request_id)
    return message


def _is_sendable(value: object) -> bool:
    try:
        orjson.dumps(value)
    except TypeError:
        return False
    return True


def _refusal(code: int, message: str, request_id: int | str | None) -> types.JSONRPCError:
    return types.JSONRPCError(jsonrpc="2.0", id=request_id, error=types.ErrorData(code=code, message=message))
