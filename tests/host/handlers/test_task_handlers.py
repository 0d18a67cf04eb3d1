"""The requests about tasks on real files: what is scheduled, refused, paused, resumed, cancelled and shown."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from honeybadger_host.work.runs import run_in, stamp_of
from honeybadger_host.work.task_files import recorded
from tests.host.handlers.room import NOW, Room

DAILY: dict[str, Any] = {
    "name": "Read the news",
    "description": "Tell what is new",
    "schedule_type": "cron",
    "cron_expression": "0 9 * * *",
}


def file_of(room: Room, task: str = "read-the-news") -> Path:
    return room.home / "groups" / "main" / "tasks" / f"{task}.json"


def test_a_task_is_a_file_and_shows_five_runs(room: Room) -> None:
    row = room.change("schedule_task", **DAILY)
    assert row["next"] == [f"2026-11-{day}T08:00:00Z" for day in range(21, 26)]
    assert (row["id"], row["state"], row["agent"]) == ("read-the-news", "waiting", "assistant")
    assert "neutralised" not in row
    said = orjson.loads(file_of(room).read_bytes())
    assert said == {**DAILY, "time_zone": "Europe/Berlin", "agent": "assistant", "created": "2026-11-21T06:05:59Z"} | {
        "by": "researcher"
    }
    [line] = (room.home / "data/tasks/main.jsonl").read_bytes().splitlines()
    assert orjson.loads(line)["event"] == "scheduled"
    room.restart()
    state = room.task_states.current("main", "read-the-news")
    assert state is not None
    assert state.until == NOW  # what was before is none of its runs


def test_an_agent_schedules_itself_only(room: Room) -> None:
    assert room.change("schedule_task", "assistant", **DAILY)["agent"] == "assistant"
    folder = room.home / "config" / "agents"
    folder.mkdir(parents=True)
    (folder / "other.json").write_bytes(b"{}")
    room.restart()
    assert room.refused("schedule_task", "assistant", **DAILY, agent="other").code == "forbidden"
    assert room.change("schedule_task", "a-person", **DAILY, agent="other")["agent"] == "other"


def test_pausing_changes_one_member_of_the_file(room: Room) -> None:
    room.change("schedule_task", **DAILY)
    said = orjson.loads(file_of(room).read_bytes())
    row = room.change("pause_task", "ann", task="read-the-news", why="holidays")
    assert (row["state"], row["why"], row["next"]) == ("paused", "by ann: holidays", [])
    assert orjson.loads(file_of(room).read_bytes()) == {**said, "paused": "by ann: holidays"}
    assert room.decide("pause_task", task="read-the-news").changes == ()
    row = room.change("resume_task", task="read-the-news")
    assert (row["state"], len(row["next"])) == ("waiting", 5)
    assert orjson.loads(file_of(room).read_bytes()) == said
    assert room.decide("resume_task", task="read-the-news").changes == ()


def test_the_end_of_a_run_undoes_no_pause(room: Room) -> None:
    room.change("schedule_task", **DAILY)
    room.change("pause_task", task="read-the-news")
    state = room.task_states.current("main", "read-the-news")
    assert state is not None
    ended = recorded("main", state.after("done", NOW, run=NOW, until=NOW, runs=1))
    room.write([ended])
    [row] = room.ask("list_tasks")["tasks"]
    assert (row["state"], row["runs"], row["last"]) == ("paused", 1, "2026-11-21T06:05:59Z")
    room.change("cancel_task", task="read-the-news")
    room.write([ended])
    assert room.ask("list_tasks")["tasks"] == []


def test_a_cancelled_task_says_who_cancelled_it(room: Room) -> None:
    """It said that its agent has no model, which no longer matters."""
    folder = room.home / "config" / "agents"
    folder.mkdir(parents=True)
    (folder / "assistant.json").write_bytes(b'{"model": "offline"}')
    room.restart()
    assert "offline" in room.change("schedule_task", **DAILY)["why"]
    assert room.change("cancel_task", "ann", task="read-the-news")["why"] == "by ann"


def test_a_requested_run_is_recorded_once(room: Room) -> None:
    room.change("schedule_task", **DAILY)
    assert room.change("run_task", "ann", task="read-the-news")["state"] == "due"
    assert room.decide("run_task", task="read-the-news").changes == ()
    room.restart()
    state = room.task_states.current("main", "read-the-news")
    assert state is not None
    assert (state.asked, state.why) == (NOW, "asked for by ann")
    asked = replace(room.asking("list_tasks", {}, "scheduler"), request_id=f"read-the-news.{stamp_of(NOW)}")
    room.under_way["main"] = asked
    assert room.ask("list_tasks")["tasks"][0]["state"] == "fired"
    assert run_in(asked.request_id) == ("read-the-news", NOW)
