"""The request types as tools: what is written, and that they refuse what the host would refuse, in the same words."""

import inspect
from pathlib import Path
from typing import Any, get_args

import orjson
import pytest

from honeybadger_agent import AgentError, Client, ReplyTimeout, SyncClient, wire
from honeybadger_agent.errors import BY_CODE, Invalid, RequestFailed, TooLarge
from honeybadger_agent.mailbox import new_id
from honeybadger_agent.models.model import MAX_SUMMARY_CHARACTERS, ToolCall, one_line
from honeybadger_agent.tools import made, tool_names
from honeybadger_agent.turn.orchestrator import Toolbox
from honeybadger_agent.turn.toolbox import MemoryTools, specs_of
from tests.agent.mcp_story import story
from tests.hosting import RawSender


def test_update_memory_tool_writes_ipc_file_with_correct_payload(home: Path) -> None:
    """Seed HB, test plan, item 1. The agent's id is the folder the file lies in; nobody serves it here."""
    client = SyncClient(home, "main", "researcher", timeout_seconds=0.01)
    with pytest.raises(ReplyTimeout) as late:
        client.update_memory("User prefers dark mode", "Preferences")
    [written] = (home / "data/ipc/main/researcher/requests").iterdir()
    assert written.name == f"{late.value.request_id}.json"
    request = orjson.loads(written.read_bytes())
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


SECRET = "ghp_" + "a1B2" * 9


def call(tool: str, **arguments: Any) -> ToolCall:
    return ToolCall("call-1", tool, orjson.dumps(arguments).decode())


def box(asker: RawSender, prefix: str = "turn-1", *, sender: str = "ada", **more: Any) -> MemoryTools:
    return MemoryTools(Client(asker.home, asker.group, sender, timeout_seconds=60), prefix, **more)


def is_for_people(summary: str) -> bool:
    return 0 < len(summary) <= MAX_SUMMARY_CHARACTERS and summary.isprintable()


async def test_every_tool_answers_in_prose_and_one_line(asker: RawSender) -> None:
    known = await Client(asker.home, asker.group, "researcher").save_memory("User likes tea", "user-preferences")
    tools: Toolbox = box(asker, new_id(), sender="claude", allowed=tool_names())
    called = set()
    for number, step in enumerate(story(known.id)):
        answer = await tools.run(call(step.tool, **step.arguments), f"{number}.0")
        assert answer.ok, answer.content
        assert step.says in answer.content, step.tool
        assert is_for_people(answer.summary), (step.tool, answer.summary)
        called.add(step.tool)
    assert called == set(tool_names())
    assert "## Times (claude, " in asker.memory_text()


async def test_a_repeated_call_in_a_turn_is_applied_once(asker: RawSender) -> None:
    note = call("update_memory", content="User prefers dark mode", section="UIs")
    first = await box(asker).run(note, "1.0")
    again = await box(asker).run(note, "1.0")  # as after a crash: another process, the same turn
    assert first == again
    assert asker.memory_text().count("dark mode") == 1
    await box(asker).run(note, "2.0")
    await box(asker, "turn-2").run(note, "1.0")
    assert asker.memory_text().count("dark mode") == 3
    assert first.summary == "Saved in MEMORY.md, section UIs: User prefers dark mode"


async def test_a_refusal_is_an_answer_with_its_code(asker: RawSender) -> None:
    tools = box(asker)

    async def refused(key: str, asked: ToolCall) -> str:
        answer = await tools.run(asked, key)
        assert not answer.ok
        assert is_for_people(answer.summary)
        return answer.content

    assert (await refused("1.0", call("get_memory", id="k3v9x2m4q7p1"))).startswith("not_found: ")
    assert (await refused("1.1", call("update_memory", content="x" * 32_769))).startswith("too_large: ")
    assert await refused("1.2", call("search_memory", qery="tea")) == (
        "invalid: payload.qery is unknown; did you mean query?"
    )
    await tools.run(call("update_memory", content="one"), "2.0")
    assert (await refused("2.0", call("update_memory", content="another"))).startswith("conflict: ")


async def test_no_summary_shows_a_credential(asker: RawSender) -> None:
    for tool in ("update_memory", "save_memory"):
        answer = await box(asker).run(call(tool, content=f"The token is {SECRET}"), f"{tool}.0")
        assert SECRET not in answer.summary + answer.content
    found = await box(asker).run(call("search_memory", query="token"), "9.0")
    assert SECRET not in found.summary + found.content


async def test_a_long_result_is_cut_and_says_so(asker: RawSender) -> None:
    for number in range(3):
        await box(asker).run(call("update_memory", content=f"{number}" * 30_000), f"{number}.0")
    answer = await box(asker).run(call("read_group_files"), "9.0")
    assert answer.ok
    assert 60_000 < len(answer.content) < 60_200
    assert "(Cut here: 60000 of 9" in answer.content
    assert answer.summary.startswith("Read 9")


def test_a_wrong_tool_is_a_bug() -> None:
    for allowed in (["bash"], ["ping", "update_memory"]):
        with pytest.raises(ValueError, match="there is no tool"):
            specs_of(allowed)


def test_a_summary_holds_nothing_a_terminal_would_obey() -> None:
    assert one_line("a\x1b[2J\u202eb\nc\td") == "a [2J b c d"
    assert one_line("x" * 300) == "x" * 199 + "…"
