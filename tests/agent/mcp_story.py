"""Every tool of the MCP server called once, for clients of any language."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

COMMAND: Final = (sys.executable, "-W", "error", "-m", "honeybadger_agent.cli", "mcp")
"""The command as it is installed, with warnings as errors."""


def arguments(home: Path, *more: str, sender: str = "claude") -> list[str]:
    """Return the command without its program."""
    return [*COMMAND[1:], "--home", str(home), "--sender", sender, *more]


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
        Step("list_memory_categories", {}, "user-preferences: 1 (2 with those below)", {"total": 2}),
        Step("search_memory", {"query": "Who likes tea?", "limit": 1}, f"[{entry_id}] (user-", {"is_complete": True}),
        Step("memory_search", {"query": "quantum chromodynamics", "scope": "turns"}, "Nothing matches.", {"hits": []}),
        Step("get_memory", {"id": entry_id}, f"[{entry_id}] (user-preferences; updated 20", {"tags": []}),
        Step("memory_get", {"id": entry_id}, "; version ", {"content": "User likes tea"}),
        Step("list_working_memory", {}, "Working memory is empty.", {"entries": []}),
        Step("save_to_working_memory", working, "Kept: page, until 20", {"replaced": False}),
        Step("get_from_working_memory", {"key": "page"}, "\ndraft of the page", {"category": "web", "by": "claude"}),
        Step("search_working_memory", {"query": "draft"}, "[page] (web; until 20", {}),
        Step("list_working_memory", {}, "17 characters; by claude; tags: a)", {"skipped": 0}),
        Step("load_session", {}, "nothing was said or kept in it yet", {"is_new": True}),
        Step("update_session", {"add_facts": ["It rains"], "active_tasks": [task]}, "1 fact, 1 task.", {"tasks": 1}),
        Step("load_session", {}, "- [t1] Write the page: Running, 50%", {"facts": ["It rains"]}),
        Step("compact_session", {}, "Nothing was to be compacted.", {"is_changed": False}),
        Step("list_sessions", {}, "main: 0 turns, changed 20", {"total": 1}),
        Step("send_message", {"content": "It is done."}, "Sent as message ", {"neutralised": {}}),
        Step("get_messages", {"limit": 1}, "It is done.", {}),
        Step("record_feedback", {"kind": "praise"}, "Recorded.", {"turn": None}),
        Step("schedule_task", daily, "cron 0 9 * * * (Europe/Berlin). Next runs: 20", {"id": "read-the-news"}),
        Step("pause_task", {"task": "read-the-news", "why": "holidays"}, "paused, cron", {"next": []}),
        Step("list_tasks", {}, "read-the-news: Read the news (cron 0 9 * * * (Europe/Berlin)), paused (by claude", {}),
        Step("resume_task", {"task": "read-the-news"}, "Next runs: 20", {"state": "waiting"}),
        Step("cancel_task", {"task": "read-the-news"}, "over, cron 0 9 * * * (Europe/Berlin). It will not run.", {}),
        Step("delete_session", {}, "Deleted data/context/main/main.json.", {"is_deleted": True}),
        Step("delete_session", {}, "nothing to delete", {"is_deleted": False}),
        Step("edit_memory", {"id": entry_id, "tags": ["drinks"]}, f"Changed: [{entry_id}] in", {"tags": ["drinks"]}),
        Step("delete_memory", {"id": entry_id}, f"Deleted: [{entry_id}]", {"content": "User likes tea"}),
    ]
