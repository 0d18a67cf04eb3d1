"""Calls of the MCP server: every tool once, for clients of any language; and one call over bare pipes."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

# The command as it is installed, with warnings as errors.
COMMAND = (sys.executable, "-W", "error", "-m", "honeybadger_agent.cli", "mcp")


def arguments(home: Path, *more: str, sender: str = "claude") -> list[str]:
    """Return the command without its program."""
    return [*COMMAND[1:], "--home", str(home), "--sender", sender, *more]


HELLO: Mapping[str, Any] = {
    "method": "initialize",
    "id": 1,
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}


def message(**members: Any) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", **members}, option=orjson.OPT_APPEND_NEWLINE)


def tool_called(command: Sequence[str], tool: str, content: str, **popen: Any) -> None:
    """Start a server with a command and call one tool over its bare pipes."""
    call = message(id=2, method="tools/call", params={"name": tool, "arguments": {"content": content}})
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **popen) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(message(**HELLO) + message(method="notifications/initialized") + call)
        server.stdin.flush()
        answers = [orjson.loads(server.stdout.readline()) for _ in range(2)]
        server.stdin.close()
    assert not answers[1]["result"].get("isError"), answers[1]


@dataclass(frozen=True)
class Step:
    """A call, what its text must say, and members its structured content must have."""

    tool: str
    arguments: Mapping[str, Any]
    says: str
    has: Mapping[str, Any]


def story(entry_id: str) -> list[Step]:
    """Return the calls in order.

    Args:
        entry_id: of an entry `User likes tea` in `user-preferences`, that the story deletes in the end.
    """
    working = {"key": "page", "data": "draft of the page", "ttl_minutes": 5, "category": "web", "tags": ["a"]}
    task = {"id": "t1", "description": "Write the page", "progress": 0.5}
    daily = {"name": "Read the news", "description": "Tell what is new", "schedule_type": "cron"}
    daily |= {"cron_expression": "0 9 * * *", "time_zone": "Europe/Berlin"}
    return [
        Step("get_context", {"message": "Tea?"}, "User likes tea", {"is_over_budget": False}),
        Step("get_history", {"max_messages": 5}, "Nothing was said in this session yet.", {"dropped": 0}),
        Step("update_memory", {"content": "Lunch is at noon", "section": "Times"}, "MEMORY.md", {"section": "Times"}),
        Step("read_group_files", {}, "=== MEMORY.md ===", {"summary": None, "problems": []}),
        Step(
            "save_memory",
            {"content": "User is in Chicago", "category": "user-preferences/place", "aliases": ["city"]},
            "Saved: [",
            {"by": "claude", "reinforced": 0, "aliases": ["city"]},
        ),
        Step("save_memory", {"content": "User likes tea", "category": "user-preferences"}, "now said 2 times", {}),
        Step("list_memory_categories", {}, '- {"category":"user-preferences","entries":1,"total":2}', {"total": 2}),
        Step("search_memory", {"query": "Who likes tea?", "limit": 1}, f"[{entry_id}] (user-", {"is_complete": True}),
        Step("search_memory", {"query": "quantum chromodynamics", "scope": "turns"}, "Nothing matches.", {"hits": []}),
        Step("get_memory", {"id": entry_id}, f"[{entry_id}] (user-preferences; updated 20", {"tags": []}),
        Step("get_memory", {"id": entry_id}, "; version ", {"content": "User likes tea"}),
        Step("list_working_memory", {}, "entries: []", {"entries": []}),
        Step("save_to_working_memory", working, "key: page\nexpires_at: 20", {"replaced": False}),
        Step("get_from_working_memory", {"key": "page"}, "\ndraft of the page", {"category": "web", "by": "claude"}),
        Step("search_working_memory", {"query": "draft"}, '- {"key":"page","expires_at":"20', {}),
        Step("list_working_memory", {}, '"tags":["a"],"by":"claude","characters":17}', {"skipped": 0}),
        Step("load_session", {}, "is_new: true", {"is_new": True}),
        Step("update_session", {"add_facts": ["It rains"], "active_tasks": [task]}, "facts: 1\ntasks: 1", {"tasks": 1}),
        Step(
            "load_session",
            {},
            '- {"id":"t1","description":"Write the page","status":"Running","progress":0.5',
            {"facts": ["It rains"]},
        ),
        Step("list_sessions", {}, '- {"session":"main","updated_at":"20', {"total": 1}),
        Step("send_message", {"content": "It is done."}, "seq: ", {"neutralised": {}}),
        Step("get_messages", {"limit": 1}, "It is done.", {}),
        Step("record_feedback", {"kind": "praise"}, "Done.", {"turn": None}),
        Step("schedule_task", daily, "schedule: cron 0 9 * * * (Europe/Berlin)", {"id": "read-the-news"}),
        Step("pause_task", {"task": "read-the-news", "why": "holidays"}, "state: paused", {"next": []}),
        Step("list_tasks", {}, '"id":"read-the-news"', {}),
        Step("resume_task", {"task": "read-the-news"}, 'next: ["20', {"state": "waiting"}),
        Step("cancel_task", {"task": "read-the-news"}, "state: over", {}),
        Step("delete_session", {}, "is_deleted: true\nfile: data/context/", {"is_deleted": True}),
        Step("delete_session", {}, "is_deleted: false", {"is_deleted": False}),
        Step("edit_memory", {"id": entry_id, "tags": ["drinks"]}, f"Changed: [{entry_id}] in", {"tags": ["drinks"]}),
        Step("delete_memory", {"id": entry_id}, f"Deleted: [{entry_id}]", {"content": "User likes tea"}),
    ]
