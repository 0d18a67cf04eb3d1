"""The requests about tasks on real files: what is scheduled, refused, paused, resumed, cancelled and shown."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from honeybadger_host.handlers import tasks
from honeybadger_host.journal.changes import Added, FileRemoved
from honeybadger_host.work.runs import run_id, run_in
from honeybadger_host.work.task_files import parse_task
from honeybadger_host.work.task_states import TaskState, recorded
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


def test_a_second_task_of_a_name_has_another_id(room: Room) -> None:
    first, second = (room.change("schedule_task", **DAILY)["id"] for _ in range(2))
    assert first == "read-the-news"
    assert second.startswith("read-the-news-")
    assert [row["id"] for row in room.ask("list_tasks")["tasks"]] == [first, second]
    assert room.change("schedule_task", **{**DAILY, "name": "読む"})["id"] == "task"


def test_a_time_without_offset_is_in_the_tasks_zone(room: Room) -> None:
    once = {**DAILY, "schedule_type": "once", "cron_expression": None, "run_at": "2026-11-21T12:00"}
    assert room.change("schedule_task", **once)["next"] == ["2026-11-21T11:00:00Z"]
    there = room.change("schedule_task", **{**once, "time_zone": "Asia/Tokyo", "run_at": "2026-11-22T09:00"})
    assert there["next"] == ["2026-11-22T00:00:00Z"]


def test_a_group_has_only_so_many_tasks(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "MOST_TASKS", 1)
    outcome = room.decide("schedule_task", **DAILY)
    room.unit.apply(outcome.changes)
    assert room.refused("schedule_task", **DAILY).code == "too_large"  # of the same batch
    room.write(outcome.changes)
    refused = room.refused("schedule_task", **DAILY)
    assert (refused.code, "the limit is 1:" in refused.message) == ("too_large", True)


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


def test_a_paused_task_makes_up_for_nothing(room: Room) -> None:
    room.change("schedule_task", **DAILY)
    room.change("pause_task", task="read-the-news")
    room.now += timedelta(days=10)
    assert room.change("resume_task", task="read-the-news")["state"] == "waiting"
    state = room.task_states.current("main", "read-the-news")
    assert state is not None
    assert state.until == room.now


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


def test_cancelling_removes_the_file_and_the_journal_keeps_it(room: Room) -> None:
    room.change("schedule_task", **DAILY)
    data = file_of(room).read_bytes()
    removed, record = room.decide("cancel_task", "ann", task="read-the-news").changes
    assert isinstance(removed, FileRemoved)
    assert isinstance(record, Added)
    assert removed.data == data
    row = room.change("cancel_task", "ann", task="read-the-news")
    assert (row["state"], row["why"], row["next"]) == ("over", "by ann", [])
    assert not file_of(room).exists()


def test_another_groups_task_is_none_of_this_group(room: Room) -> None:
    (room.home / "groups/kitchen/tasks").mkdir(parents=True)
    (room.home / "groups/kitchen/tasks/read-the-news.json").write_bytes(orjson.dumps(DAILY))
    for type_ in ("pause_task", "resume_task", "cancel_task", "run_task"):
        refused = room.refused(type_, task="read-the-news")
        assert (refused.code, refused.field) == ("not_found", "payload.task")
        assert "this group has no task read-the-news; it has none" in refused.message
    assert room.ask("list_tasks")["tasks"] == []
    assert len(room.ask("list_tasks", "main", "kitchen")["tasks"]) == 1


def test_a_broken_file_is_paused_and_can_be_cancelled(room: Room) -> None:
    room.change("schedule_task", **DAILY)
    file_of(room).write_text('{"name": "x", "descripton": "y", "schedule_type": "cron"}')
    [row] = room.ask("list_tasks")["tasks"]
    assert row["state"] == "paused"
    assert row["why"] == "description is missing; descripton is unknown"
    assert "mend or cancel it" in room.refused("pause_task", task="read-the-news").message
    room.change("cancel_task", task="read-the-news")
    assert not file_of(room).exists()


def test_a_requested_run_is_recorded_once(room: Room) -> None:
    room.change("schedule_task", **DAILY)
    assert room.change("run_task", "ann", task="read-the-news")["state"] == "due"
    assert room.decide("run_task", task="read-the-news").changes == ()
    room.restart()
    state = room.task_states.current("main", "read-the-news")
    assert state is not None
    assert (state.asked, state.why) == (NOW, "asked for by ann")
    room.running = run_id("read-the-news", NOW)
    assert room.ask("list_tasks")["tasks"][0]["state"] == "fired"
    assert run_in(room.running) == ("read-the-news", NOW)


def test_a_credential_in_a_task_is_redacted(room: Room) -> None:
    secret = "ghp_" + "aB3" * 12
    row = room.change("schedule_task", **{**DAILY, "description": f"Use {secret}"})
    assert row["neutralised"]["secrets"] == 1
    assert secret not in file_of(room).read_text()


def test_one_task_is_shown_with_all_its_members(room: Room) -> None:
    room.change("schedule_task", **DAILY, missed="skip", deliver="always")
    [row] = room.ask("list_tasks", task="read-the-news")["tasks"]
    assert (row["task"]["missed"], row["task"]["deliver"]) == ("skip", "always")
    assert parse_task(orjson.dumps(row["task"])) == parse_task(file_of(room).read_bytes())


def test_a_clock_set_back_is_the_reason_to_wait(room: Room) -> None:
    room.change("schedule_task", **DAILY)
    state = TaskState("read-the-news").after("done", NOW, until=NOW + timedelta(days=365))
    room.write([recorded("main", state)])
    [row] = room.ask("list_tasks")["tasks"]
    assert row["next"][0] == "2027-11-21T08:00:00Z"
    assert row["why"].startswith("the clock was set back: it ran for 2027-11-21T06:05:59Z already")


def test_a_batch_sees_its_tasks_before_they_are_written(room: Room) -> None:
    room.change("schedule_task", **DAILY)
    states = room.task_states
    change = recorded("main", TaskState("read-the-news").after("done", NOW, runs=7))
    room.unit.apply([change])
    assert getattr(states.view("main", "read-the-news"), "runs", None) == 7
    assert getattr(states.current("main", "read-the-news"), "runs", None) == 0
    room.unit.end_batch([])
    assert getattr(states.view("main", "read-the-news"), "runs", None) == 0
