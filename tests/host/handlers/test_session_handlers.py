"""Session documents as requests decide them, batch by batch, on real files and a real journal (CM1-CM5)."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from honeybadger_host.journal.changes import Change
from honeybadger_host.journal.schema import Row
from honeybadger_host.memory.compaction import CompactionLimits
from honeybadger_host.memory.session_document import deleted_file
from tests.host.handlers import room as rooms
from tests.host.memory.test_session_document import SEED

NOW = datetime(2026, 11, 21, 6, 5, 59, tzinfo=UTC)
FILE = "data/context/main/main.json"


class Room(rooms.Room):
    """A room with the document of one session."""

    def __init__(self, home: Path, limits: CompactionLimits | None = None) -> None:
        super().__init__(home, limits=limits)
        self.now = NOW

    @property
    def file(self) -> Path:
        return self.home / FILE

    def on_disk(self) -> dict[str, Any]:
        value = orjson.loads(self.file.read_bytes())
        assert isinstance(value, dict)
        return value

    def say(self, *contents: str, session: str = "main") -> None:
        """Append turns, all in one batch."""
        changes: list[Change] = []
        for content in contents:
            outcome = self.decide("append_turn", in_session=session, role="user", content=content)
            self.unit.apply(outcome.changes)
            changes += outcome.changes
        self.write(changes)

    def load(self, session: str = "main") -> Mapping[str, Any]:
        return self.ask("load_session", session)

    def look(self) -> list[Row]:
        """Let time pass, and take in what people saved."""
        edits: list[Row] = []
        for _ in range(2):
            self.wall_ahead += 2.0
            self.projections.in_use.touch(FILE)
            edits += self.projections.take_in(self.projections.saves.look(), self.journal.next_seq)
            self.journal.next_seq += len(edits)
        return edits

    def contents(self, session: str = "main") -> list[str]:
        return [entry["content"] for entry in self.load(session)["recent_history"]]


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def test_a_session_nobody_used_is_a_new_empty_document(room: Room) -> None:
    loaded = room.load()
    assert {name: loaded[name] for name in SEED} == {
        **{name: type(value)() for name, value in SEED.items()},
        "session_id": "main",
        "tool_stats": {"total_calls": 0, "by_tool": {}, "failures": 0},
        "last_known_environment": {"workspace": "", "last_update": 0, "system_snapshot": {}},
        "token_usage": {"total_input": 0, "total_output": 0, "by_session": 0},
    }
    assert (loaded["is_new"], loaded["turns"], loaded["tokens"], loaded["file"]) == (True, 0, 0, FILE)
    assert not room.file.exists()


def test_an_update_changes_what_it_names_and_nothing_else(room: Room) -> None:
    room.say("Hello")
    room.change("update_session", add_facts=["User speaks English"], system_state={"a": {"b": 1, "c": 2}, "d": 3})
    state = room.change(
        "update_session",
        system_state={"a": {"b": None, "e": [1]}, "d": None},
        long_term_summary="It began well.",
        last_known_environment={"workspace": "/home/user/project", "system_snapshot": {"disk_usage_percent": 45.2}},
        tool_calls=[{"tool": "echo", "calls": 3, "failures": 1}],
    )
    written = room.on_disk()
    assert written["system_state"] == {"a": {"c": 2, "e": [1]}}
    assert written["facts"] == ["User speaks English"]
    assert written["long_term_summary"] == "It began well."
    assert written["last_known_environment"] == {
        "workspace": "/home/user/project",
        "last_update": int(NOW.timestamp()),
        "system_snapshot": {"disk_usage_percent": 45.2},
    }
    assert written["tool_stats"] == {"total_calls": 3, "by_tool": {"echo": 3}, "failures": 1}
    assert [entry["content"] for entry in written["recent_history"]] == ["Hello"]
    assert written["honeybadger"] == {"turns": 1}
    assert (state["facts"], state["entries"], state["turns"], state["file"]) == (1, 1, 1, FILE)
    assert state["version"] == room.load()["version"]


def test_facts_are_added_once_and_removed_word_for_word(room: Room) -> None:
    room.change("update_session", add_facts=["b", " a\n ", "b"])
    assert room.on_disk()["facts"] == ["b", "a"]
    room.change("update_session", remove_facts=["b"], add_facts=["c"])
    assert room.on_disk()["facts"] == ["a", "c"]


def test_a_task_starts_moves_on_and_ends(room: Room) -> None:
    start = int(NOW.timestamp())
    room.change("update_session", active_tasks=[{"id": "task_001", "description": "Monitor"}])
    task = {"id": "task_001", "description": "Monitor", "created_at": start}
    assert room.on_disk()["active_tasks"] == [{**task, "status": "Running", "progress": 0.0, "updated_at": start}]
    room.now += timedelta(seconds=60)
    room.change("update_session", active_tasks=[{"id": "task_001", "progress": 0.5}, {"id": "b", "description": "B"}])
    room.change("update_session", active_tasks=[{"id": "task_001", "status": "Completed", "progress": 1}])
    first, second = room.on_disk()["active_tasks"]
    assert first == {**task, "status": "Completed", "progress": 1.0, "updated_at": start + 60}
    assert second["id"] == "b"
    room.change("update_session", remove_tasks=["b"])
    assert [item["id"] for item in room.on_disk()["active_tasks"]] == ["task_001"]


def test_a_deleted_document_does_not_come_back(room: Room) -> None:
    nothing = room.change("delete_session")
    assert (nothing["is_deleted"], nothing["log"]) == (False, None)
    room.say("before")
    room.change("update_session", add_facts=["a"])
    room.say("just before")
    result = room.change("delete_session")
    log = "data/sessions/main/main.jsonl"
    assert (result["is_deleted"], result["file"], result["log"]) == (True, FILE, log)
    assert not room.file.exists()
    assert room.change("delete_session")["is_deleted"] is False
    assert len((room.home / log).read_bytes().splitlines()) == 2
    for _ in range(2):
        loaded = room.load()
        assert (loaded["facts"], loaded["recent_history"], loaded["is_new"]) == ([], [], True)
        assert loaded["token_usage"]["by_session"] == 0
        room.restart()
    room.say("after")
    room.restart()
    assert room.contents() == ["after"]
    tombstone = orjson.loads((room.home / deleted_file("main", "main")).read_bytes())
    deleted = {"session_id": "main", "turns": 2, "deleted_at": "2026-11-21T06:05:59Z", "by": "researcher"}
    assert tombstone == {**deleted, "context_begins_after": 0, "context_begins_at": None}


def test_sessions_are_listed_newest_first(room: Room) -> None:
    assert room.ask("list_sessions") == {"sessions": [], "total": 0}
    room.change("update_session", in_session="with:file", add_facts=["a"])
    room.say("Hello there", session="log-only")
    room.say("Hello", "again", session="both")
    room.change("update_session", in_session="both", add_facts=["a"])
    (room.file.parent / "notes of mine.json").write_text("{}")
    (room.file.parent / "both.json.deleted").write_text("{}")
    listed = room.ask("list_sessions")
    assert listed["total"] == 3
    rows = {row["session"]: row for row in listed["sessions"]}
    assert (rows["log-only"]["turns"], rows["log-only"]["tokens"], rows["log-only"]["has_file"]) == (1, 2, True)
    assert (rows["both"]["entries"], rows["both"]["has_file"], rows["with:file"]["entries"]) == (2, True, 0)
    times = [row["updated_at"] for row in listed["sessions"]]
    assert times == sorted(times, reverse=True)


def test_a_persons_document_repeats_no_message_of_the_log(room: Room) -> None:
    room.say("one", "two", "one")
    written = room.on_disk()
    del written["honeybadger"], written["recent_history"][0]
    room.file.unlink()
    room.look()
    room.file.write_bytes(orjson.dumps(written))
    room.look()
    assert room.contents() == ["two", "one"]
    room.say("three")
    room.sessions.write_out_all()
    assert (
        room.contents() == [entry["content"] for entry in room.on_disk()["recent_history"]] == ["two", "one", "three"]
    )
