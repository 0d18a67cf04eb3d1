"""Requests that the host refuses, by type: what is asked, then the code, the field and a part of the message.

`<entry>`, `<typed>` and `<version>` stand for what `Scene` in `test_errors.py` has made: an entry of the category
`docs` with the name `taken.md`, a line that a person typed into MEMORY.md, and a version of the session `main`.
"""

from typing import Any

from honeybadger_agent.wire import ErrorCode

Row = tuple[dict[str, Any], ErrorCode, str | None, str]

TOKEN = "ghp_" + "a1B2c3D4" * 4 + "e5F6"
NO_ID = "k3v9x2m4q7p1"
DEEP = "[" * 600 + "]" * 600
BLANK = (" ", "\n\n", "\u200b\u2060", "\x00", "\u2800", " \n\t\u202e\ufeff")
FORGED = ("a\nb", "a]: hi [b", "[", "a\u2028b", "a\u202eb", "a\u200bb", "\x00", " ", "\u3164", "a\x1b[1m")
KEYS = (" ", " k", "k ", "a\nb", "a\u2028b", "a\x00b", "\u200b", "a\u202eb", "a\u200bb", "\u2800", "a\rb")
REPLACED = {"content": "x", "name": "taken.md", "category": "docs", "replace": True}
DAILY = {"name": "News", "description": "Tell it", "schedule_type": "cron", "cron_expression": "0 9 * * *"}
LATER = {"query": "tea", "since": "2026-05-02"}
ONCE = {"name": "News", "description": "Tell it", "schedule_type": "once"}
OFTEN = {"name": "News", "description": "Tell it", "schedule_type": "interval"}

TIMES = (
    ("2020-01-01T06:05:59Z", "is over"),
    ("2026-12-24", "has no time zone"),
    ("2026-12-24T18:00:00", "has no time zone"),
    ("soon", "is not a time"),
    ("0001-01-01T00:00:00+10:00", "is not a time"),
)


def said(**more: Any) -> dict[str, Any]:
    return {"role": "user", "content": "x", **more}


def keyed(**more: Any) -> dict[str, Any]:
    """Return two turns, of which the second has some other members."""
    return {"turns": [said(key="first"), {**said(key="b"), **more}]}


def put(**more: Any) -> dict[str, Any]:
    return {"type": "save_memory", "payload": {"content": "x", "category": "store/a", "name": "b"} | more}


def many(operation: dict[str, Any]) -> dict[str, Any]:
    """Return two operations, of which the second is this one."""
    return {"operations": [put(name="a"), operation]}


def change(type_: str, **payload: Any) -> dict[str, Any]:
    return many({"type": type_, "payload": payload})


OF_MANY = "payload.operations.1.payload"

REFUSED: dict[str, list[Row]] = {
    "update_memory": [
        *(({"content": text}, "invalid", "payload.content", "nothing was saved") for text in BLANK),
        ({"content": "x", "section": " \t"}, "invalid", "payload.section", "blank"),
        ({"content": "x", "section": "\u3164"}, "invalid", "payload.section", "blank"),
        ({"content": " \u200b", "pinned": True}, "invalid", "payload.content", "blank"),
        ({"content": "a" * 32_769}, "too_large", "payload.content", "32768"),
    ],
    "save_memory": [
        ({"content": " \u200b\n"}, "invalid", "payload.content", "blank"),
        ({"content": "x", "title": "\u200b"}, "invalid", "payload.title", "blank"),
        ({"content": "x", "tags": ["a", " "]}, "invalid", "payload.tags.1", "blank"),
        ({"content": "x", "aliases": ["\u202e"]}, "invalid", "payload.aliases.0", "blank"),
        ({"content": "x", "category": "../global"}, "invalid", "payload.category", "names of A-Z"),
        ({"content": "x", "category": TOKEN}, "invalid", "payload.category", "credential"),
        ({"content": "x", "name": TOKEN}, "invalid", "payload.name", "credential"),
        ({"content": "x", "replace": True}, "invalid", "payload.name", "needs payload.name"),
        ({"content": "x", "name": "a/b", "replace": True}, "invalid", "payload.name", "a name as a file has"),
        ({"content": "x", "name": "n", "expected_version": "v"}, "invalid", "payload.expected_version", "replace"),
        ({"content": "x", "name": "taken.md", "category": "DOCS"}, "conflict", "payload.name", "<entry>"),
        (REPLACED | {"expected_version": None}, "conflict", "payload.name", "has this name"),
        (REPLACED | {"name": "n", "expected_version": "v"}, "conflict", "payload.expected_version", "n"),
        ({"content": "x", "origin": "internet"}, "invalid", "payload.origin", ""),
        ({"content": "x", "origin_from": "https://example.org"}, "invalid", None, "say payload.origin, too"),
        ({"content": "x", "supersedes": [NO_ID]}, "not_found", "payload.supersedes", NO_ID),
        ({"content": "a" * 32_769}, "too_large", "payload.content", "32769 characters, the limit is 32768"),
        ({"content": "a" * 131_073, "category": "store/a", "name": "b"}, "too_large", "payload.content", "131072"),
        ({"content": DEEP, "category": "store/a", "name": "b"}, "invalid", "payload.content", "nested too deep"),
        *(({"content": "x", "valid_until": at}, "invalid", "payload.valid_until", says) for at, says in TIMES),
    ],
    "get_context": [
        ({"parts": ["dreams"]}, "invalid", "payload.parts.0", "must be"),
        ({"max_characters": 0}, "invalid", "payload.max_characters", "at least"),
    ],
    "edit_memory": [
        ({"id": NO_ID, "content": "x"}, "not_found", "payload.id", NO_ID),
        ({"id": "<entry>"}, "invalid", "payload", "nothing that is to change"),
        ({"id": "<entry>", "content": " \n"}, "invalid", "payload.content", "blank"),
        ({"id": "<entry>", "title": "\u200b"}, "invalid", "payload.title", "blank"),
        ({"id": "<entry>", "content": "y", "expected_version": "v"}, "conflict", "payload.expected_version", ""),
        *(({"id": "<entry>", "valid_until": at}, "invalid", "payload.valid_until", says) for at, says in TIMES),
    ],
    "edit_note": [
        ({"id": "MEMORY.md#abcdef123456", "content": "x"}, "conflict", "payload.id", ""),
        ({"id": "<typed>", "content": "x"}, "invalid", "payload.id", ""),
        ({"id": "<note>", "content": " \u200b "}, "invalid", "payload.content", ""),
        ({"id": "<note>", "content": "x" * 32_769}, "too_large", "payload.content", ""),
        ({"id": "<note>"}, "invalid", "payload", ""),
        ({"id": "../MEMORY.md", "content": "x"}, "invalid", "payload.id", ""),
    ],
    "delete_memory": [
        ({"id": NO_ID}, "not_found", "payload.id", f"no entry of this group has the id {NO_ID}"),
        ({"id": "<typed>"}, "invalid", None, ""),
        ({"category": "plans", "id": NO_ID}, "invalid", "payload", "either id, or name"),
        ({"name": ".."}, "invalid", "payload.name", "a name as a file has"),
        ({"category": "plans", "name": "n"}, "not_found", "payload.name", "no entry of plans has the name n"),
    ],
    "get_memory": [
        ({}, "invalid", "payload", "either id, or name"),
        ({"id": NO_ID, "name": "n"}, "invalid", "payload", "either id, or name"),
        ({"category": "plans"}, "invalid", "payload", "either id, or name"),
        ({"category": "plans", "name": "n"}, "not_found", "payload.name", "no entry of plans has the name n"),
        *(
            ({"id": id_}, "not_found", None, "")
            for id_ in (NO_ID, "main#9", "nobody#1", "MEMORY.md#000000000000", "HISTORY.md#1", "main.jsonl#1")
        ),
        *(
            ({"id": id_}, "invalid", None, "")
            for id_ in ("../main#1", "main#", "#1", "main#x", "groups/main/MEMORY.md#1")
        ),
    ],
    "change_many": [
        (many(put(content=" ")), "invalid", f"{OF_MANY}.content", "is blank"),
        (many(put(content="a" * 131_073)), "too_large", f"{OF_MANY}.content", "131072"),
        (many(put(content="a" * 32_769, category="b")), "too_large", f"{OF_MANY}.content", "32768"),
        (many(put(colour="red")), "invalid", f"{OF_MANY}.colour", "is unknown"),
        (many(put(name="taken.md", category="docs")), "conflict", f"{OF_MANY}.name", "has this name"),
        (many(put(name="a")), "conflict", f"{OF_MANY}.name", "operations.1 (save_memory): "),
        (change("delete_memory", category="store/a", name="b"), "not_found", f"{OF_MANY}.name", "has the name b"),
        (change("edit_memory", id=NO_ID, content="x"), "not_found", f"{OF_MANY}.id", NO_ID),
        (change("edit_memory", id=NO_ID), "invalid", OF_MANY, "says nothing that is to change"),
        (change("update_memory"), "invalid", "payload.operations.1.type", "must be"),
        ({"operations": []}, "invalid", "payload.operations", ""),
        ({"operations": [put()] * 101}, "too_large", "payload.operations", "101 items, the limit is 100"),
    ],
    "list_memory_entries": [
        ({"where": {"kind": "cat"}}, "invalid", "payload.where", "conditions on paths as content.status"),
        ({"where": {"content.a": {"$in": [1]}}}, "invalid", "payload.where", "objects of $eq, $ne"),
        ({"where": {"content.a": {"b": 1}}}, "invalid", "payload.where", "objects of $eq, $ne"),
        ({"where": {"content.a": {"$gt": None}}}, "invalid", "payload.where", "a number or a text"),
        ({"where": {"content.a": {"$lte": True}}}, "invalid", "payload.where", "a number or a text"),
        ({"where": {f"content.{n}": 1 for n in range(17)}}, "too_large", "payload.where", "17 items, the limit is 16"),
    ],
    "search_memory": [
        ({"query": "tea", "since": "2026-02-30"}, "invalid", "payload.since", "'2026-02-30' is not a time"),
        (LATER | {"until": "2026-05-01"}, "invalid", "payload.until", "is before payload.since 2026-05-02"),
    ],
    "archive_memory": [
        ({"id": "main#1"}, "invalid", "payload.id", ""),
        ({"id": "<typed>"}, "invalid", "payload.id", ""),
        ({"id": "MEMORY.md#4f0c21"}, "conflict", "payload.id", ""),
        ({"id": NO_ID}, "not_found", "payload.id", NO_ID),
    ],
    "append_turn": [
        *((said(content=text), "invalid", "payload.content", "is blank") for text in BLANK),
        *((said(sender=name), "invalid", "payload.sender", "one visible line") for name in FORGED),
        ({"role": "assistant", "content": "<think>hm"}, "invalid", "payload.content", "is blank"),
    ],
    "append_turns": [
        (keyed(content=" \u200b"), "invalid", "payload.turns.1.content", "is blank"),
        (keyed(key="a b"), "invalid", "payload.turns.1.key", ""),
        (keyed(role="assistant", content="<think>hm</think>"), "invalid", "payload.turns.1.content", "is blank"),
        (keyed(at="2026-02-31T10:00:00Z"), "invalid", "payload.turns.1.at", "is not a time that exists"),
        (keyed(at="0001-01-01T00:00:00+14:00"), "invalid", "payload.turns.1.at", "is not a time that exists"),
        (keyed(at="yesterday"), "invalid", "payload.turns.1.at", "must be a time, as 2026-11-21T06:00:00Z"),
        (keyed(sender="[Ben]"), "invalid", "payload.turns.1.sender", "one visible line"),
        ({"turns": []}, "invalid", "payload.turns", "is empty"),
        ({"turns": [said(key="first")] * 201}, "too_large", "payload.turns", "limit is 200"),
        (keyed(key="a", content="Goodbye"), "conflict", "payload.turns.1.key", "turn 1 "),
        (keyed(data='"' + "a" * 131_072), "too_large", "payload.turns.1.data", "131073 bytes"),
        (keyed(data="{'a': 1}"), "invalid", "payload.turns.1.data", "must be a text that is JSON"),
        (keyed(data=DEEP), "invalid", "payload.turns.1.data", "is nested too deep"),
    ],
    "get_turns": [
        ({"limit": 0}, "invalid", "payload.limit", "must be at"),
        ({"limit": 1001}, "invalid", "payload.limit", "must be at"),
        ({"before": 0}, "invalid", "payload.before", "must be at"),
        ({"after": -1}, "invalid", "payload.after", "must be at"),
    ],
    "withdraw_turns": [
        ({"from_turn": 0}, "invalid", "payload.from_turn", "must be at least 1"),
        ({"from_turn": 9}, "not_found", "payload.from_turn", "session main has no turn 9: its last turn is 1"),
    ],
    "chat": [
        *(({"content": text}, "invalid", "payload.content", "blank") for text in BLANK),
        *(({"content": "x", "sender": name}, "invalid", "payload.sender", "one visible line") for name in FORGED),
        ({"content": "x", "agent": "nobody"}, "not_found", "payload.agent", "there are: assistant"),
    ],
    "stop_turn": [
        ({"sender": "somebody"}, "forbidden", None, ""),
        ({}, "not_found", None, "no turn runs"),
        ({"turn": "nothing"}, "not_found", None, "it was answered, taken back, or never sent"),
    ],
    "record_feedback": [
        ({"kind": "correction"}, "invalid", "payload.content", "payload.content is needed for a correction"),
        ({"kind": "correction", "content": " \u200b "}, "invalid", "payload.content", "say what was wrong"),
        ({"kind": "praise", "turn": 9}, "not_found", "payload.turn", "session main has no turn 9, its newest is 1"),
    ],
    "update_session": [
        ({}, "invalid", "payload", ""),
        ({"expected_version": "x"}, "invalid", "payload", ""),
        ({"add_facts": ["b"], "expected_version": "x"}, "conflict", "payload.expected_version", "<version>"),
        ({"add_facts": ["a", " \u200b"]}, "invalid", "payload.add_facts.1", "blank"),
        ({"remove_facts": ["A"], "add_facts": ["d"]}, "not_found", "payload.remove_facts.0", ""),
        ({"long_term_summary": "x" * 6001}, "too_large", "payload.long_term_summary", ""),
        ({"system_state": {"a": "x" * 70_000}}, "too_large", "payload.system_state", ""),
        ({"last_known_environment": {"system_snapshot": {"a": "x" * 70_000}}}, "too_large", None, ""),
        ({"tool_calls": [{"tool": "\u200b"}]}, "invalid", "payload.tool_calls.0.tool", "blank"),
        ({"active_tasks": [{"id": " ", "description": "x"}]}, "invalid", "payload.active_tasks.0.id", "blank"),
        ({"active_tasks": [{"id": "new"}]}, "invalid", "payload.active_tasks.0.description", ""),
        ({"remove_tasks": ["b"]}, "not_found", "payload.remove_tasks.0", ""),
    ],
    "delete_session": [({"expected_version": "x"}, "conflict", "payload.expected_version", "")],
    "save_to_working_memory": [
        *(({"key": key, "data": "x"}, "invalid", "payload.key", "") for key in ("", *KEYS)),
        ({"key": TOKEN, "data": "x"}, "invalid", "payload.key", "credential"),
        ({"key": "k", "data": " \n\u200b"}, "invalid", "payload.data", "is blank"),
        ({"key": "k", "data": "x", "category": " "}, "invalid", "payload.category", "is blank"),
        ({"key": "k", "data": "x", "tags": ["a", "\u200b"]}, "invalid", "payload.tags", "is blank"),
        ({"key": "k", "data": "x", "ttl_minutes": 1e308}, "invalid", "payload.ttl_minutes", ""),
    ],
    "get_from_working_memory": [
        ({"key": "other"}, "not_found", "payload.key", "list_working_memory shows what is there")
    ],
    "search_working_memory": [({"query": " "}, "invalid", "payload.query", "query is blank")],
    "schedule_task": [
        (DAILY | {"cron_expression": "* * *"}, "invalid", "payload.cron_expression", "cannot be read"),
        (DAILY | {"cron_expression": "0 0 30 2 *"}, "invalid", "payload.cron_expression", "a day that does not exist"),
        (DAILY | {"cron_expression": "0 0 */31 2 MON#5"}, "invalid", "payload.cron_expression", "never fires"),
        (DAILY | {"cron_expression": "*/5 * * * * *"}, "invalid", "payload.cron_expression", "once a minute"),
        (DAILY | {"cron_expression": None}, "invalid", "payload.cron_expression", "needed for schedule_type cron"),
        (DAILY | {"interval_seconds": 60}, "invalid", "payload.interval_seconds", "goes with schedule_type interval"),
        (DAILY | {"time_zone": "Mars/Olympus"}, "invalid", "payload.time_zone", "'Mars/Olympus' is not known here"),
        (DAILY | {"description": " \n\u200b"}, "invalid", "payload.description", "is blank"),
        (DAILY | {"name": "  "}, "invalid", "payload.name", "is blank"),
        (DAILY | {"agent": "nobody"}, "not_found", "payload.agent", "no agent 'nobody'; there are: assistant"),
        (OFTEN | {"interval_seconds": 59}, "invalid", "payload.interval_seconds", "60"),
        (DAILY | {"only_if": "changed:../x"}, "invalid", "payload.only_if", "no file of the group's folder"),
        (ONCE | {"run_at": "tomorrow"}, "invalid", "payload.run_at", "must be a time"),
        (ONCE | {"run_at": "2020-01-01T07:00"}, "invalid", "payload.run_at", "is past: here it"),
    ],
    "pause_task": [({"task": "nobodys"}, "not_found", "payload.task", "this group has no task nobodys")],
    "resume_task": [({"task": "nobodys"}, "not_found", "payload.task", "this group has no task nobodys")],
    "cancel_task": [({"task": "nobodys"}, "not_found", "payload.task", "this group has no task nobodys")],
    "run_task": [({"task": "nobodys"}, "not_found", "payload.task", "this group has no task nobodys")],
    "send_message": [
        ({"content": "\u200b \n"}, "invalid", "payload.content", "blank"),
        ({"content": "hi", "to": ["bob"]}, "not_found", None, "this group has no bob; there are: asker"),
    ],
    "delegate_to_agent": [({"agent": "cook", "task": "x"}, "forbidden", None, "no delegates_to in config/agents/")],
    "list_available_agents": [({}, "forbidden", None, "no delegates_to in config/agents/")],
    "forget": [
        ({}, "invalid", None, ""),
        ({"text": "secret", "id": "x"}, "invalid", None, ""),
        ({"sender": "a", "session": "b"}, "invalid", None, ""),
        *(({"text": text}, "invalid", "payload.text", "") for text in ("ab", " a  ", "\n\n\n\n", "\\n\\n\\n")),
    ],
    "undo": [({"seq": 99_999}, "not_found", "payload.seq", "99999")],
    "rewind": [({"to": "soon"}, "invalid", "payload.to", ""), ({"to": "f" * 32}, "not_found", "payload.to", "")],
    "preview_context": [({"agent": "nobody"}, "not_found", None, "there is no agent 'nobody'")],
    "decide_proposal": [({"proposal": "nobody", "decision": "accept"}, "not_found", "payload.proposal", "no proposal")],
}
