"""The session document: its exact shape, what of a hand-edited file is kept, and turns folded in."""

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_agent.wire import MAX_NUMBER
from honeybadger_host.memory.session_document import (
    Environment,
    HistoryEntry,
    Mark,
    SessionDocument,
    Task,
    TokenUsage,
    ToolStats,
    dump_document,
    parse_document,
    version_of,
    with_turns,
)
from honeybadger_host.text.turn import Turn

NOW = datetime(2026, 11, 21, 6, 5, 59, tzinfo=UTC)

# The document of seed CM, member for member.
SEED: dict[str, Any] = {
    "session_id": "user:agent:timestamp",
    "system_state": {"last_workspace": "/home/user/project", "preferences": {}},
    "facts": ["User prefers verbose output", "Project uses Rust 1.75"],
    "recent_history": [
        {"timestamp": 1708654321, "role": "user", "content": "Create a new file", "token_count": 5},
        {"timestamp": 1708654322, "role": "assistant", "content": "I'll create the file for you", "token_count": 8},
        {"timestamp": 1708654323, "role": "tool", "content": '{"success": true}', "token_count": 12},
    ],
    "long_term_summary": "User requested file creation. Successfully created test.txt.",
    "active_tasks": [
        {
            "id": "task_001",
            "description": "Monitor system resources",
            "status": "Running",
            "progress": 0.5,
            "created_at": 1708654000,
            "updated_at": 1708654321,
        }
    ],
    "tool_stats": {"total_calls": 42, "by_tool": {"file_write": 15, "file_read": 20, "echo": 7}, "failures": 2},
    "last_known_environment": {
        "workspace": "/home/user/project",
        "last_update": 1708654321,
        "system_snapshot": {"memory_usage_mb": 8192, "disk_usage_percent": 45.2},
    },
    "token_usage": {"total_input": 15420, "total_output": 8930, "by_session": 24350},
}


def turn(number: int, content: str = "Hello", **more: Any) -> Turn:
    more.setdefault("role", "user")
    more.setdefault("token_count", len(content) // 4)
    at = NOW + timedelta(seconds=number)
    return Turn(number=number, at=at, sender="user", by="user", content=content, **more)


def test_the_seeds_document_is_read_and_written_exactly() -> None:
    document = parse_document(orjson.dumps(SEED), "user:agent:timestamp")
    written = orjson.loads(dump_document(document))
    assert written.pop("honeybadger") == {"turns": None}
    assert written == SEED
    assert list(written) == list(SEED)
    for member in ("tool_stats", "last_known_environment", "token_usage"):
        assert list(written[member]) == list(SEED[member])
    assert list(written["recent_history"][0]) == list(SEED["recent_history"][0])
    assert list(written["active_tasks"][0]) == list(SEED["active_tasks"][0])


def test_what_a_person_added_is_kept_wherever_it_stands() -> None:
    edited = orjson.loads(orjson.dumps(SEED))
    edited["my_note"] = {"see": ["elsewhere"]}
    edited["honeybadger"] = {"turns": 3, "by": "hand"}
    edited["recent_history"][0]["mood"] = "good"
    edited["active_tasks"][0]["owner"] = "me"
    edited["tool_stats"]["since"] = 1
    edited["last_known_environment"]["os"] = "Linux"
    edited["token_usage"]["cost"] = 0.5
    document = parse_document(b"\xef\xbb\xbf" + orjson.dumps(edited), "user:agent:timestamp")
    assert document.turns == 3
    assert orjson.loads(dump_document(document)) == edited


TEXT = st.text(max_size=12)
SCALAR = st.none() | st.booleans() | st.integers(-MAX_NUMBER, MAX_NUMBER) | TEXT
JSON = st.recursive(
    SCALAR, lambda part: st.lists(part, max_size=2) | st.dictionaries(TEXT, part, max_size=2), max_leaves=4
)
FREE = st.dictionaries(TEXT, JSON, max_size=2)
COUNT = st.integers(0, MAX_NUMBER)
TIME = st.integers(-MAX_NUMBER, MAX_NUMBER)
ENTRIES = st.builds(HistoryEntry, timestamp=TIME, role=TEXT, content=TEXT, token_count=st.none() | COUNT)
TASKS = st.builds(
    Task, id=TEXT, description=TEXT, status=TEXT, progress=st.floats(0, 1), created_at=TIME, updated_at=TIME
)
DOCUMENTS = st.builds(
    SessionDocument,
    session_id=st.just("s"),
    system_state=FREE,
    facts=st.lists(TEXT, max_size=2).map(tuple),
    recent_history=st.lists(ENTRIES, max_size=2).map(tuple),
    long_term_summary=TEXT,
    active_tasks=st.lists(TASKS, max_size=2).map(tuple),
    tool_stats=st.builds(
        ToolStats, total_calls=COUNT, by_tool=st.dictionaries(TEXT, COUNT, max_size=2), failures=COUNT
    ),
    last_known_environment=st.builds(Environment, workspace=TEXT, last_update=TIME, system_snapshot=FREE),
    token_usage=st.builds(TokenUsage, total_input=COUNT, total_output=COUNT, by_session=COUNT),
    honeybadger=st.builds(Mark, turns=COUNT),
)


@given(DOCUMENTS)
def test_every_document_is_read_as_it_was_written(document: SessionDocument) -> None:
    assert parse_document(dump_document(document), "s") == document


def test_turns_become_history_and_are_counted() -> None:
    turns = [
        turn(1, "x" * 40),
        turn(2, "y" * 80, role="assistant", tools_used=("echo", "file_read", "echo")),
        turn(3, "z", role="assistant", input_tokens=500, output_tokens=70),
        turn(4, "{}", role="tool", input_tokens=9),
    ]
    document = with_turns(SessionDocument(session_id="s"), turns)
    assert document.recent_history[0] == HistoryEntry(
        timestamp=int(turns[0].at.timestamp()), role="user", content="x" * 40, token_count=10
    )
    assert [entry.role for entry in document.recent_history] == ["user", "assistant", "assistant", "tool"]
    assert document.tool_stats == ToolStats(total_calls=3, by_tool={"echo": 2, "file_read": 1})
    assert document.token_usage == TokenUsage(
        total_input=10 + 500 + 9, total_output=20 + 70, by_session=10 + 500 + 9 + 20 + 70
    )
    assert document.turns == 4


@given(st.integers(0, 12), st.integers(0, 12))
def test_turns_come_in_once_however_they_are_handed_over(first: int, again: int) -> None:
    turns = [turn(number, f"message {number}", tools_used=("echo",)) for number in range(1, 13)]
    whole = with_turns(SessionDocument(session_id="s"), turns)
    parts = with_turns(with_turns(SessionDocument(session_id="s"), turns[:first]), turns[:again])
    assert with_turns(parts, turns) == whole


def test_counts_stay_within_what_json_readers_keep() -> None:
    turns = [turn(number, input_tokens=MAX_NUMBER, output_tokens=MAX_NUMBER) for number in (1, 2, 3)]
    document = with_turns(SessionDocument(session_id="s"), turns)
    assert document.token_usage == TokenUsage(total_input=MAX_NUMBER, total_output=MAX_NUMBER, by_session=MAX_NUMBER)
    assert parse_document(dump_document(document), "s") == document


def test_a_version_changes_with_what_an_update_may_overwrite() -> None:
    document = parse_document(orjson.dumps(SEED), "s")
    other = {"facts": ("other",), "system_state": {"a": 1}, "long_term_summary": "other", "active_tasks": ()}
    for member, value in {**other, "last_known_environment": Environment(workspace="/elsewhere")}.items():
        assert version_of(document.model_copy(update={member: value})) != version_of(document), member
