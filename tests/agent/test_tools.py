"""The request types as tools: what is written, and that they refuse what the host would refuse, in the same words."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, get_args

import orjson
import pytest

from honeybadger_agent import AgentError, ReplyTimeout, SyncClient, wire
from honeybadger_agent.errors import BY_CODE, Invalid, RequestFailed, TooLarge
from honeybadger_agent.tools import made


def test_update_memory_tool_writes_ipc_file_with_correct_payload(home: Path) -> None:
    """Seed HB, test plan, item 1. The agent's id is the folder the file lies in; nobody serves it here."""
    client = SyncClient(home, "main", "researcher", timeout_seconds=0.01)
    with pytest.raises(ReplyTimeout) as late:
        client.update_memory("User prefers dark mode", "Preferences")
    [written] = (home / "data/ipc/main/researcher/requests").iterdir()
    assert written.name == f"{late.value.request_id}.json"
    request = orjson.loads(written.read_bytes())
    assert request.pop("sent_at").endswith("Z")
    assert request == {
        "v": 1,
        "id": late.value.request_id,
        "type": "update_memory",
        "session": "main",
        "payload": {"content": "User prefers dark mode", "section": "Preferences"},
    }


def test_the_description_tells_the_model_when_to_remember() -> None:
    """Source: HB1, word for word."""
    assert inspect.getdoc(wire.UpdateMemory) == (
        "Save a note to the group's persistent memory. Use this when the user asks you to remember something."
    )


_DEEP: dict[str, Any] = {}
for _ in range(249):
    _DEEP = {"a": _DEEP}
# `test_wire` has what is refused of each kind of member; these are limits that stand nowhere else.
WRONG: list[tuple[type[wire.Request[Any]], dict[str, Any], type[RequestFailed]]] = [
    (wire.UpdateMemory, {"content": ""}, Invalid),
    (wire.SaveMemory, {"content": "x", "category": "a" * 201}, TooLarge),
    (wire.SaveMemory, {"content": "x", "tags": ["a"] * 33}, TooLarge),
    (wire.SaveMemory, {"content": "x", "tags": ["a" * 65]}, TooLarge),
    (wire.SaveMemory, {"content": "x", "metadata": {"a": "b" * 8192}}, TooLarge),
    (wire.SaveMemory, {"content": "x", "metadata": {"a": _DEEP}}, Invalid),
    (wire.SaveMemory, {"content": "x", "name": "x" * 129}, TooLarge),
    (wire.ListMemoryEntries, {"limit": 1001}, Invalid),
    (wire.SaveToWorkingMemory, {"key": "k" * 101, "data": "x"}, TooLarge),
    (wire.SaveToWorkingMemory, {"key": "k", "data": "x", "ttl_minutes": True}, Invalid),
]


@pytest.mark.parametrize(("tool", "arguments", "kind"), WRONG)
def test_a_tool_refuses_in_the_hosts_words(
    tool: type[wire.Request[Any]], arguments: dict[str, Any], kind: type[RequestFailed]
) -> None:
    with pytest.raises(kind) as here:
        made(tool, **arguments)
    file = orjson.dumps({"v": 1, "id": "a", "type": tool.type_name, "payload": arguments})
    with pytest.raises(wire.Refusal) as there:
        wire.parse_payload(wire.parse_request(file, "a"))
    assert BY_CODE[there.value.code] is kind
    assert (str(here.value), here.value.field) == (there.value.message, there.value.field)


def test_every_error_code_of_the_protocol_has_its_exception() -> None:
    assert set(BY_CODE) == set(get_args(wire.ErrorCode))
    assert all(issubclass(kind, AgentError) and kind.code == code for code, kind in BY_CODE.items())
