"""Standard input and output of the MCP server: every request gets an answer, even one that cannot be parsed.

The library's own reader drops a line that it cannot parse, so that a client waits for its answer for ever. Lone
surrogates, control characters, bytes that are not UTF-8, huge numbers and deep nesting are enough for that. So it
reads the lines that are left here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import orjson
from mcp import types
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError


@asynccontextmanager
async def standard_streams() -> AsyncIterator[tuple[Any, Any]]:
    """Yield the streams of incoming and outgoing messages, for `Server.run`."""

    async def readable() -> AsyncIterator[str]:
        async for line in anyio.wrap_file(sys.stdin.buffer):
            message = read(line)
            if isinstance(message, str):
                yield message
            elif message is not None:
                await sent.send(SessionMessage(message))

    async with stdio_server(stdin=readable()) as (received, sent):  # type: ignore[arg-type]
        yield received, sent


def read(line: bytes) -> str | types.JSONRPCError | None:
    """Return the message on a line for the library, or the error that answers it; None: nothing is answered."""
    text = line.decode("utf-8-sig", "surrogateescape").strip()  # what is not UTF-8 is refused as a surrogate
    if not text:
        return None
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError) as error:
        return _refusal(types.PARSE_ERROR, f"not JSON: {error}", None)
    if not isinstance(value, dict):
        return _refusal(types.INVALID_REQUEST, "a message is one JSON object; there are no batches", None)
    if "method" not in value or "id" not in value:  # a reply or a notification, which is never answered
        return json.dumps(value)
    request_id = value["id"]
    if type(request_id) not in (int, str) or not _is_sendable(request_id):
        return _refusal(types.INVALID_REQUEST, "not a request: id must be a string or an integer", None)
    if not _is_sendable(value):
        what = "text with lone surrogates, numbers over 64 bits, or more than 250 levels"
        return _refusal(types.INVALID_REQUEST, f"not a request: it has {what}", request_id)
    try:
        types.jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"][1:])
        return _refusal(types.INVALID_REQUEST, f"not a request: {where}: {first['msg']}", request_id)
    return json.dumps(value)


def _is_sendable(value: object) -> bool:
    try:
        orjson.dumps(value)
    except TypeError:
        return False
    return True


def _refusal(code: int, message: str, request_id: int | str | None) -> types.JSONRPCError:
    return types.JSONRPCError(jsonrpc="2.0", id=request_id, error=types.ErrorData(code=code, message=message))
