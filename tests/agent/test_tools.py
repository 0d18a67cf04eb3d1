"""The tool table: what it writes, and that it refuses what the host would refuse, in the same words."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

import orjson
import pytest

from honeybadger_agent import AgentError, ReplyTimeout, SyncClient, tools, wire
from honeybadger_agent.errors import BY_CODE, Invalid, RequestFailed, TooLarge


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


def test_a_note_without_section_says_nothing_of_one() -> None:
    call = tools.update_memory("User prefers dark mode")
    data = wire.dump_request("a", call.type_name, call.payload)
    assert orjson.loads(data)["payload"] == {"content": "User prefers dark mode"}


@pytest.mark.parametrize("build", [tools.save_memory, tools.search_memory, partial(tools.save_to_working_memory, "k")])
def test_a_text_where_a_list_belongs_is_refused_and_not_taken_for_its_letters(build: Callable[..., object]) -> None:
    with pytest.raises(Invalid, match=r"payload\.tags must be an array"):
        build("x", tags="work")


def test_any_sequence_and_any_mapping_are_taken() -> None:
    call = tools.save_memory("x", tags=("a", "b"), metadata=MappingProxyType({"a": 1}))
    assert orjson.loads(wire.dump_request("a", call.type_name, call.payload))["payload"] == {
        "content": "x",
        "tags": ["a", "b"],
        "metadata": {"a": 1},
    }
    tasks = tools.update_session(active_tasks=(MappingProxyType({"id": "a", "description": "b"}),)).payload
    assert tasks == wire.UpdateSession(active_tasks=[wire.TaskUpdate(id="a", description="b")])


def test_the_description_tells_the_model_when_to_remember() -> None:
    """Source: HB1, word for word."""
    assert inspect.getdoc(tools.update_memory) == (
        "Save a note to the group's persistent memory. Use this when the user asks you to remember something."
    )


def test_the_description_of_save_memory_names_the_conventional_categories() -> None:
    """Source: RB4."""
    description = inspect.getdoc(tools.save_memory) or ""
    for prefix in ("user-preferences/", "user-preferences/inferred", "anti-patterns/{domain}", "project-context/"):
        assert prefix in description
    assert "general" in description


def test_every_request_type_is_a_tool_and_every_tool_a_request_type() -> None:
    operators = {"preview_context", "undo"}
    assert set(tools.TOOLS) == set(wire.REQUEST_TYPES) - operators


@pytest.mark.parametrize("name", tools.TOOLS)
def test_a_tool_takes_the_members_of_its_payload_and_describes_itself(name: str) -> None:
    tool, kind = tools.TOOLS[name], wire.REQUEST_TYPES[name]
    parameters = inspect.signature(tool).parameters
    assert set(parameters) == set(kind.payload.model_fields)
    required = {parameter.name for parameter in parameters.values() if parameter.default is inspect.Parameter.empty}
    assert required == {field for field, info in kind.payload.model_fields.items() if info.is_required()}
    assert inspect.getdoc(tool)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (tools.ping, {}),
        (tools.update_memory, {"content": "x", "section": "A"}),
        (tools.read_group_files, {}),
        (tools.append_turn, {"role": "tool", "content": "x", "sender": "s", "tools_used": ("a",), "input_tokens": 1}),
        (tools.get_history, {"budget_tokens": 0, "max_messages": 1}),
        (tools.get_context, {"message": "x", "budget_tokens": 100}),
        (
            tools.save_memory,
            {"content": "x", "category": "a/b-c", "tags": ("a",), "metadata": {"a": [1]}, "title": "T"},
        ),
        (tools.get_memory, {"id": "k3v9x2m4q7p1"}),
        (tools.edit_memory, {"id": "k3v9x2m4q7p1", "content": "x", "name": "a.md", "tags": (), "metadata": {}}),
        (tools.delete_memory, {"id": "k3v9x2m4q7p1"}),
        (tools.list_memory_entries, {"category": "a/b", "depth": 0, "name": "a.md", "limit": 1000, "offset": 5}),
        (tools.list_memory_categories, {}),
        (tools.save_to_working_memory, {"key": "k", "data": "x", "ttl_minutes": 0.5, "category": "c", "tags": ("a",)}),
        (tools.save_to_working_memory, {"key": "k", "data": "x", "ttl_minutes": 5}),
        (tools.get_from_working_memory, {"key": "k"}),
        (tools.search_working_memory, {"query": "x", "category": "c", "tags": ["a"]}),
        (tools.list_working_memory, {}),
    ],
)
def test_what_a_tool_builds_the_host_accepts(tool: Callable[..., tools.Call[Any]], arguments: dict[str, Any]) -> None:
    call = tool(**arguments)
    kind = wire.REQUEST_TYPES[call.type_name]
    assert call.result is kind.result
    request = wire.parse_request(wire.dump_request("a", call.type_name, call.payload), "a")
    assert wire.parse_payload(request) == call.payload


_DEEP: dict[str, Any] = {}
for _ in range(249):
    _DEEP = {"a": _DEEP}
WRONG: list[tuple[Callable[..., tools.Call[Any]], dict[str, Any], type[RequestFailed]]] = [
    (tools.update_memory, {"content": ""}, Invalid),
    (tools.update_memory, {"content": 5}, Invalid),
    (tools.update_memory, {"content": "x" * 32_769}, TooLarge),
    (tools.update_memory, {"content": "x", "section": "s" * 81}, TooLarge),
    (tools.append_turn, {"role": "boss", "content": "x"}, Invalid),
    (tools.append_turn, {"role": "user", "content": "x", "tools_used": ["a"] * 65}, TooLarge),
    (tools.append_turn, {"role": "user", "content": "x", "tools_used": ["a", ""]}, Invalid),
    (tools.get_history, {"budget_tokens": -1}, Invalid),
    (tools.get_history, {"max_messages": 0}, Invalid),
    (tools.get_context, {"budget_tokens": 1.5}, Invalid),
    (tools.get_context, {"message": ""}, Invalid),
    (tools.save_memory, {"content": ""}, Invalid),
    (tools.save_memory, {"content": "x" * 32_769}, TooLarge),
    (tools.save_memory, {"content": "x", "category": "a/../b"}, Invalid),
    (tools.save_memory, {"content": "x", "category": "a" * 201}, TooLarge),
    (tools.save_memory, {"content": "x", "tags": ["a"] * 33}, TooLarge),
    (tools.save_memory, {"content": "x", "tags": ["a" * 65]}, TooLarge),
    (tools.save_memory, {"content": "x", "metadata": {"a": "b" * 8192}}, TooLarge),
    (tools.save_memory, {"content": "x", "metadata": {"a": _DEEP}}, Invalid),
    (tools.save_memory, {"content": "x", "name": "../x"}, Invalid),
    (tools.save_memory, {"content": "x", "name": "x" * 129}, TooLarge),
    (tools.edit_memory, {"id": "x", "name": "a\nb"}, Invalid),
    (tools.edit_memory, {"id": "x", "content": "x" * 32_769}, TooLarge),
    (tools.list_memory_entries, {"limit": 1001}, Invalid),
    (tools.delete_memory, {"id": "../x"}, Invalid),
    (tools.save_to_working_memory, {"key": "", "data": "x"}, Invalid),
    (tools.save_to_working_memory, {"key": "k" * 101, "data": "x"}, TooLarge),
    (tools.save_to_working_memory, {"key": "k", "data": ""}, Invalid),
    (tools.save_to_working_memory, {"key": "k", "data": "x", "ttl_minutes": 0}, Invalid),
    (tools.save_to_working_memory, {"key": "k", "data": "x", "ttl_minutes": "5"}, Invalid),
    (tools.save_to_working_memory, {"key": "k", "data": "x", "ttl_minutes": True}, Invalid),
    (tools.save_to_working_memory, {"key": "k", "data": "x", "tags": ["a"] * 33}, TooLarge),
    (tools.search_working_memory, {"query": ""}, Invalid),
]


@pytest.mark.parametrize(("tool", "arguments", "kind"), WRONG)
def test_a_tool_refuses_what_the_host_would_refuse_in_the_same_words(
    tool: Callable[..., tools.Call[Any]], arguments: dict[str, Any], kind: type[RequestFailed]
) -> None:
    with pytest.raises(kind) as here:
        tool(**arguments)
    file = orjson.dumps({"v": 1, "id": "a", "type": tool.__name__, "payload": arguments})
    with pytest.raises(wire.Refusal) as there:
        wire.parse_payload(wire.parse_request(file, "a"))
    assert BY_CODE[there.value.code] is kind
    assert (str(here.value), here.value.field) == (there.value.message, there.value.field)


@pytest.mark.parametrize("text", ["\ud800", "a\udfff"])
def test_text_that_utf_8_cannot_hold_is_refused_before_it_is_sent(text: str) -> None:
    with pytest.raises(Invalid, match=r"^payload\.content must be text without lone surrogates$"):
        tools.update_memory(text)


def test_a_number_that_json_cannot_hold_is_refused_before_it_is_sent() -> None:
    with pytest.raises(Invalid, match=r"^payload\.budget_tokens must be at most 9007199254740991$"):
        tools.get_context(budget_tokens=2**70)


def test_every_error_code_of_the_protocol_has_its_exception() -> None:
    assert set(BY_CODE) == set(get_args(wire.ErrorCode))
    assert all(issubclass(kind, AgentError) and kind.code == code for code, kind in BY_CODE.items())
