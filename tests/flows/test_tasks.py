"""Tasks of a real host: each run once, behind people, whatever happens to the host, its clock and its files."""

import json
import os
import shutil
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from honeybadger_agent.models.model import ModelSaid
from tests.commands import cli_text
from tests.conftest import HostFactory
from tests.endpoint import Answer, Asked, openai, served
from tests.flows.world import put_task, records, script, wait_for_status
from tests.hosting import PATIENCE, HostProcess, RawSender, request, run_agent, status_of, turns_of, wait_for

QUICK: Mapping[str, object] = {"tasks.least_seconds": 1, "work.scheduler.LOOK_SECONDS": 0.2}
GREET = {"when": "greet", "answers": [{"text": "Good morning", "input_tokens": 30, "output_tokens": 4}]}
QUIET = {"when": "look", "answers": [{"text": "NOTHING."}]}
HELLO = {"when": "hello", "answers": [{"text": "Hello to you."}]}
FAILS = {"when": "break", "answers": [{"fails": "overloaded"}]}
EVERY_SECOND: Mapping[str, Any] = {"schedule_type": "interval", "interval_seconds": 1}
MODEL = (GREET, QUIET, HELLO, FAILS)


def said(home: Path, session: str = "main", group: str = "main") -> list[str]:
    """Return the texts of a session, oldest first."""
    return [turn["content"] for turn in turns_of(home, session, group)]


def schedule(sender: RawSender, stem: str, **members: Any) -> str:
    """Schedule a task, every second unless `members` say otherwise; return its id."""
    every = EVERY_SECOND if "schedule_type" not in members else {}
    made = sender.do(stem, "schedule_task", **{"name": stem, "description": "greet", **every, **members})
    return str(made["id"])


def listed(sender: RawSender, stem: str) -> list[dict[str, Any]]:
    tasks: list[dict[str, Any]] = sender.do(stem, "list_tasks")["tasks"]
    return tasks


def put(home: Path, task: str, group: str = "main", **members: Any) -> Path:
    """Write a task's file as a person does, due every second unless `members` say otherwise."""
    return put_task(home, task, group, **{"description": "greet", **EVERY_SECOND, **members})


def of_operator(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_agent("tasks", *words, "--sender", "operator", home=home)


def wait_until_doctor_says(home: Path, fault: str) -> None:
    """Wait until the host's status has a fault of a task; then the doctor says it."""
    wait_for(lambda: any(fault in why for why in status_of(home)["tasks"]["refused"]))
    assert fault in cli_text("doctor", home=home)


def refused_of(host: HostProcess, group: str) -> list[dict[str, Any]]:
    return [event for event in host.events("task.refused") if event["file"].startswith(f"groups/{group}/")]


def shifted(home: Path) -> tuple[Callable[[float], None], str]:
    """Return what sets the scheduler's clock ahead, by seconds, and the source of a host that looks at that clock."""
    shift = home / "shift"

    def set_clock(ahead_seconds: float) -> None:
        (home / "shift.new").write_text(str(ahead_seconds))
        (home / "shift.new").rename(shift)

    set_clock(0)
    source = f"""
import pathlib
from datetime import UTC, datetime, timedelta
from honeybadger_host import compose
shift = pathlib.Path({str(shift)!r})
compose.wall_clock = lambda: datetime.now(UTC) + timedelta(seconds=float(shift.read_text()))
"""
    return set_clock, source


@pytest.fixture(scope="module")
def serving() -> Callable[[Path], HostProcess]:
    return lambda home: HostProcess(home, {**script(home, *MODEL), **QUICK})


@pytest.fixture
def tasker(asker: RawSender) -> Iterator[RawSender]:
    """A sender of a fresh group of `served`, whose tasks end with the test."""
    yield asker
    shutil.rmtree(asker.memory.parent / "tasks")


def test_a_task_runs_on_time_in_the_groups_conversation(served: HostProcess, tasker: RawSender) -> None:
    home, group = tasker.home, tasker.group
    task = schedule(tasker, "morning")
    wait_for(lambda: len(records(home, "done", group)) >= 2)
    tasker.ask("p", request("p", "pause_task", payload={"task": task}))
    assert tasker.chat("a1", "hello")["ok"]  # behind a run that had begun
    [row] = listed(tasker, "l")
    assert (row["state"], row["why"]) == ("paused", "by asker")
    assert row["runs"] >= 2
    assert row["tokens"] == 34 * row["runs"]
    assert said(home, group=group)[:2] == ["Execute scheduled task: morning. greet", "Good morning"]
    told = tasker.do("m", "get_messages", after=0)["messages"]
    assert [(one["sender"], one["content"]) for one in told] == [("assistant", "Good morning")] * row["runs"]
    runs = [datetime.fromisoformat(record["run"]) for record in records(home, "done", group)]
    after = [(later - runs[0]).total_seconds() for later in runs]
    assert after == sorted({*map(round, after)})  # they do not drift; a busy machine may miss one
    for record, run in zip(records(home, "done", group), runs, strict=True):
        assert 0 <= (datetime.fromisoformat(record["at"]) - run).total_seconds() < 20
    assert task in [event["task"] for event in served.events("task.fired") if event["group"] == group]
    assert 30 in [event["input_tokens"] for event in served.events("turn.ran") if event["group"] == group]


def test_an_empty_answer_is_sent_only_when_wanted(tasker: RawSender) -> None:
    home, group = tasker.home, tasker.group
    schedule(tasker, "watch", description="look")
    wait_for(lambda: records(home, "done", group))
    assert records(home, "done", group)[0]["quiet"] is True
    assert said(home, group=group) == []
    assert not (home / "data" / "messages" / f"{group}.jsonl").exists()
    schedule(tasker, "told", description="look", deliver="always", context_mode="isolated")
    wait_for(lambda: said(home, "task:told", group))
    assert said(home, "task:told", group)[:2] == ["Execute scheduled task: told. look", "NOTHING."]
    schedule(tasker, "never", deliver="never")
    wait_for(lambda: [record for record in records(home, "done", group) if record["task"] == "never"])
    assert said(home, group=group) == []


def test_a_condition_is_checked_before_tokens_are_spent(tasker: RawSender) -> None:
    home, group = tasker.home, tasker.group
    schedule(tasker, "new", only_if="new_turns")
    schedule(tasker, "file", only_if="changed:MEMORY.md", context_mode="isolated")
    wait_for(lambda: {record["task"] for record in records(home, "skipped", group)} == {"new", "file"})
    assert {record["task"] for record in records(home, "done", group)} == {"file"}  # seen for the first time
    assert tasker.chat("a1", "hello")["ok"]
    tasker.note("n1", "User likes tea")
    wait_for(lambda: Counter(record["task"] for record in records(home, "done", group)) == {"new": 1, "file": 2})
    skipped = len(records(home, "skipped", group))
    wait_for(lambda: len(records(home, "skipped", group)) >= skipped + 4)
    assert len(records(home, "done", group)) == 3
    assert records(home, "skipped", group)[-1]["why"] in (
        "nobody said anything since the last run",
        "MEMORY.md has not changed since the last run",
    )


def test_a_run_resumed_after_a_kill_names_missed_ones(make_host: HostFactory, home: Path) -> None:
    set_clock, source = shifted(home)
    host = make_host({**script(home, GREET, delay_seconds=10 * PATIENCE), **QUICK}, source=source).start()
    put(home, "hourly", interval_seconds=3600)
    (seen,) = wait_for(lambda: records(home, "scheduled"))
    set_clock(5 * 3600)
    host.wait_for_event("task.fired")
    host.kill()
    assert records(home, "done") == []
    script(home, GREET)
    host.start()
    (done,) = wait_for(lambda: records(home, "done"))
    run, since = datetime.fromisoformat(done["run"]), datetime.fromisoformat(seen["until"])
    first, last = map(datetime.fromisoformat, done["missed"])
    assert timedelta() < first - since <= timedelta(hours=1)
    assert (run - last, last - first) == (timedelta(hours=1), timedelta(hours=3))


def test_clock_jumps_double_no_run_and_report_missed_ones(
    make_host: HostFactory, home: Path, stranger: RawSender
) -> None:
    set_clock, source = shifted(home)
    host = make_host({**script(home, *MODEL), **QUICK}, source=source).start()
    noon = (datetime.now(UTC) + timedelta(hours=12)).hour  # of a day that is not over when the test is
    task = schedule(stranger, "daily", schedule_type="cron", cron_expression=f"0 {noon} * * *", time_zone="UTC")
    set_clock(365 * 86_400)
    wait_for(lambda: records(home, "done"))
    [ahead] = records(home, "done")
    run, first, last = map(datetime.fromisoformat, (ahead["run"], *ahead["missed"]))
    assert (run - last, (run - first).days) == (timedelta(days=1), 364)
    set_clock(0)
    [row] = listed(stranger, "l")
    assert row["why"].startswith("the clock was set back: it ran for ")
    set_clock(365 * 86_400)
    host.restart()
    put(home, "seen", interval_seconds=400 * 86_400)
    wait_for(lambda: "seen" in {record["task"] for record in records(home, "scheduled")}, what="a look at all tasks")
    set_clock(366 * 86_400 + 61)
    wait_for(lambda: len(records(home, "done")) >= 2)
    runs = [record["run"] for record in records(home, "done")]
    assert runs == sorted(set(runs))
    assert row["id"] == task


def test_a_persons_file_is_a_task_or_reported(served: HostProcess, tasker: RawSender) -> None:
    home, group = tasker.home, tasker.group
    broken = put(home, "broken", group, interval_seconds=0)
    put(home, "by-hand", group)
    wait_for(lambda: records(home, "done", group))
    assert said(home, group=group)[0] == "Execute scheduled task: by-hand. greet"
    (refused,) = refused_of(served, group)
    assert (refused["file"], refused["why"]) == (
        f"groups/{group}/tasks/broken.json",
        "interval_seconds must be at least 1",
    )
    states = {row["id"]: row["state"] for row in listed(tasker, "l")}
    assert states["broken"] == "paused"
    put(home, "broken", group)
    wait_for(lambda: {record["task"] for record in records(home, "done", group)} == {"broken", "by-hand"})
    put(home, "broken", group, paused=True)
    wait_for(lambda: [record for record in records(home, "paused", group) if record["task"] == "broken"])
    done = Counter(record["task"] for record in records(home, "done", group))
    wait_for(lambda: Counter(one["task"] for one in records(home, "done", group))["by-hand"] > done["by-hand"] + 2)
    assert Counter(record["task"] for record in records(home, "done", group))["broken"] <= done["broken"] + 1
    assert len(refused_of(served, group)) == 1
    broken.unlink()
    wait_for(lambda: [row["id"] for row in listed(tasker, f"l{time.monotonic_ns()}")] == ["by-hand"])


def test_odd_files_among_tasks_hide_no_other_task(served: HostProcess, tasker: RawSender) -> None:
    home, group = tasker.home, tasker.group
    folder = put(home, "good", group).parent
    (folder / "linked.json").symlink_to(folder / "good.json")
    os.mkfifo(folder / "fifo.json")
    (folder / "folder.json").mkdir()
    (folder / "garbage.json").write_bytes(b"\xff\xfe{")
    (folder / "list.json").write_text("[]")
    (folder / "large.json").write_text(json.dumps({"name": "x" * 100_000}))
    (folder / "nothing.json").write_text("")
    (folder / "notes.txt").write_text("not a task")
    (folder / ".hidden.json").write_text("an editor's")
    put(home, "bad name!", group)
    (folder / os.fsdecode(b"caf\xe9.json")).write_text("{}")
    put(home, "blank", group, description=" \u200b\n")
    put(home, "nameless", group, name="  ")
    put(home, "late", group, schedule_type="once", interval_seconds=None, run_at="9999-12-31T23:59:59-11:00")
    put(home, "later", group, created="9999-12-31T23:59:59Z", interval_seconds=86_400)
    put(home, "never", group, schedule_type="cron", interval_seconds=None, cron_expression="0 0 30 2 *")
    put(home, "twice", group, schedule_type="cron", cron_expression="* * * * *")
    put(home, "moon", group, time_zone="Moon/Crater")
    put(home, "outside", group, only_if="changed:../../secret")
    wait_for(lambda: {record["task"] for record in records(home, "done", group)} == {"good"})
    (folder / os.fsdecode(b"caf\xe9.json")).write_text("[]")  # while the folder is watched
    written = status_of(home)["written_at"]
    wait_for(lambda: status_of(home)["written_at"] > written + 1)

    def told() -> dict[str, str]:
        whys = {row["id"]: row.get("why", "") for row in listed(tasker, f"l{time.monotonic_ns()}")}
        return whys if whys["outside"] else {}

    whys = wait_for(told)
    for task, why in {
        "linked": "the host needs a file",
        "fifo": "the host needs a file",
        "folder": "the host needs a file",
        "garbage": "it is not JSON",
        "list": "it must be a JSON object",
        "large": "65536",
        "nothing": "it is not JSON",
        "late": "run_at",
        "later": "created",
        "never": "names a day that does not exist",
        "twice": "interval_seconds goes with schedule_type interval",
        "moon": "Moon/Crater",
        "outside": "only_if names no file of the group's folder",
        "bad name!": "its name is wrong: rename it",
        "caf\\xe9": "its name is wrong: rename it",
        "blank": "description is blank",
        "nameless": "name is blank",
    }.items():
        assert why in whys[task], (task, whys[task])
    assert "good" in whys
    assert not whys.keys() & {"notes", ".hidden"}
    refused = {event["file"].rpartition("/")[2] for event in refused_of(served, group)}
    assert {"bad name!.json", "caf\\xe9.json", "blank.json"} <= refused
    wait_until_doctor_says(home, f"groups/{group}/tasks/bad name!.json: its name is wrong")
    (folder / "bad name!.json").rename(folder / "good-name.json")
    wait_for(lambda: "good-name" in {record["task"] for record in records(home, "done", group)})
    wait_for(lambda: "bad name!" not in str(status_of(home)["tasks"]["refused"]))
    for action in ("run", "resume", "pause"):  # none of which would do anything
        assert "mend or cancel it" in of_operator(home, action, "moon", "--group", group).stderr, action
    assert cli_text("status", home=home).count(f"groups/{group}/tasks/garbage.json") == 1
    done = len(records(home, "done", group))
    wait_for(lambda: len(records(home, "done", group)) > done + 1)
    assert not served.events("pipeline.failed")


def test_an_offline_models_task_waits_and_says_why(make_host: HostFactory, home: Path, stranger: RawSender) -> None:
    """It told the group "I am the offline model" at each run."""
    script(home, *MODEL)
    host = make_host({**QUICK}).start()
    task = schedule(stranger, "news")
    wait_for(lambda: host.events("task.refused"))
    why = "agent assistant has only the offline model, which cannot do tasks; choose a model"
    (refused,) = host.events("task.refused")
    assert (refused["file"], why in refused["why"]) == (f"groups/main/tasks/{task}.json", True)
    (row,) = listed(stranger, "l")
    assert (row["state"] in ("waiting", "due"), why in row["why"]) == (True, True)
    assert why in of_operator(home).stdout
    assert why in of_operator(home, "run", task).stderr
    wait_for_status(home, lambda text: "does not run: groups/main/tasks/news.json: agent assistant" in text)
    put(home, "daily", interval_seconds=86_400)
    wait_until_doctor_says(home, f"groups/main/tasks/daily.json: {why}")
    created = json.loads((home / row["file"]).read_text())["created"]
    wait_for(lambda: datetime.now(UTC) > datetime.fromisoformat(created) + timedelta(seconds=3))
    assert said(home) == []
    assert [records(home, event) for event in ("done", "failed", "skipped")] == [[], [], []]
    agent = home / "config/agents/assistant.json"
    agent.parent.mkdir()
    agent.write_text('{"model": "scripted:script.json"}')
    wait_for(lambda: records(home, "done"))
    assert said(home)[1] == "Good morning"
    assert len([event for event in host.events("task.refused") if "news" in event["file"]]) == 1
    wait_for(lambda: why not in str(status_of(home)))
    assert why not in cli_text("doctor", home=home)


def test_a_task_is_noticed_without_file_events(make_host: HostFactory, home: Path) -> None:
    make_host({**script(home, *MODEL), **QUICK, "ipc.watch": False}).start()
    file = put(home, "news")
    wait_for(lambda: len(said(home)) > 2, what="the second run")
    file.write_text(json.dumps({**json.loads(file.read_bytes()), "description": "look"}))
    wait_for(lambda: any(record.get("quiet") for record in records(home, "done")), what="the edited task")
    file.unlink()
    wait_for(lambda: status_of(home)["tasks"]["known"] == 0)


def test_a_task_waits_for_its_agent(served: HostProcess, tasker: RawSender) -> None:
    """Each of its runs failed, and the doctor said that the agent has only the offline model."""
    home, group = tasker.home, tasker.group
    put(home, "news", group, agent="ghost")
    (refused,) = wait_for(lambda: refused_of(served, group))
    assert refused["why"] == "there is no agent 'ghost'; there are: assistant"
    wait_until_doctor_says(home, f"groups/{group}/tasks/news.json: {refused['why']}")
    agent = home / "config/agents/ghost.json"
    agent.parent.mkdir()
    agent.write_text('{"model": "scripted:script.json"}')
    wait_for(lambda: records(home, "done", group))
    assert records(home, "failed", group) == []


def test_a_run_gets_the_newest_ten_turns(make_host: HostFactory, stranger: RawSender) -> None:
    with served(lambda _: openai(ModelSaid("Good morning"))) as endpoint:
        model = endpoint.settings
        curation = {"model.curation": "offline", "curation.apply": "review"}
        host = make_host({**model, **curation, **QUICK}).start()
        for number in range(14):
            said = {"role": "user", "content": f"saying {number:02}"}
            stranger.do(f"t{number}", "append_turn", **said)

        def heard() -> list[int]:
            wait_for(lambda: endpoint.asked)
            return [number for number in range(14) if f"saying {number:02}" in endpoint.asked[-1].system]

        schedule(stranger, "every", deliver="never")
        assert heard() == list(range(4, 14))
        host.settings["history.budget_tokens"] = 30
        host.stop()
        endpoint.asked.clear()
        host.start()
        found = heard()
        assert found == list(range(found[0], 14))
        assert 2 <= len(found) < 10


def test_due_tasks_do_not_wait_for_a_full_scan(make_host: HostFactory, home: Path) -> None:
    folders = 60
    set_clock, source = shifted(home)
    slow = """
import os, time
from honeybadger_host.work import scheduler
scandir, why_skipped = os.scandir, scheduler.why_skipped
def note(*what):
    with open(os.environ["HOME_OF_TEST"] + "/looks", "a") as file:
        print(time.time(), *what, file=file)
def slowly(folder="."):
    if str(folder).endswith("/tasks"):
        note()
        time.sleep(0.05)
    return scandir(folder)
def looked(run, *rest):
    note(run.id)
    return why_skipped(run, *rest)
os.scandir, scheduler.why_skipped = slowly, looked
"""
    for number in range(folders):
        (home / f"groups/g{number}/tasks").mkdir(parents=True)
    settings = {**script(home, *MODEL), **QUICK}
    host = make_host(settings, source=source + slow, env={"HOME_OF_TEST": str(home)}).start()
    ahead = timedelta(hours=1)
    dues = [datetime.now(UTC) + timedelta(seconds=5 + 1.3 * number) for number in range(3)]
    for number, due in enumerate(dues):  # once they are found, which takes 3 s, the clock is set
        put(home, f"t{number}", schedule_type="once", interval_seconds=None, run_at=(due + ahead).isoformat())
    wait_for(lambda: len(records(home, "scheduled")) == len(dues), what="all are found")
    set_clock(ahead.total_seconds())
    set_at = (home / "shift").stat().st_mtime
    wait_for(lambda: len(host.events("task.fired")) == len(dues))
    lines = [line.split() for line in (home / "looks").read_text().splitlines()]
    for number, due in enumerate(dues):
        seen_at = next(at for at, (_, *run) in enumerate(lines) if run == [f"t{number}"])
        since = max(due.timestamp(), set_at)
        late = [float(at) for at, *run in lines[:seen_at] if not run and float(at) > since]
        assert len(late) < folders / 3, (number, late)


def test_a_failed_run_is_retried_then_told(make_host: HostFactory, home: Path, stranger: RawSender) -> None:
    host = make_host({**script(home, *MODEL), **QUICK, "work.scheduler.RETRY_SECONDS": 0.1}).start()
    task = schedule(stranger, "bad", description="break", schedule_type="cron", cron_expression="0 0 1 1 *")
    assert stranger.do("r", "run_task", task=task)["state"] == "due"
    wait_for(lambda: records(home, "failed"))
    [row] = listed(stranger, "l")
    assert (row["state"], len(row["next"]), row["runs"]) == ("failed", 5, 1)
    assert "overloaded" in row["why"]
    assert len(host.events("task.waiting")) == 2
    assert said(home) == []


def test_status_says_why_a_run_waits(make_host: HostFactory, home: Path, stranger: RawSender) -> None:
    make_host({**script(home, *MODEL), **QUICK}).start()
    task = schedule(stranger, "bad", description="break", schedule_type="cron", cron_expression="0 0 1 1 *")
    stranger.do("r", "run_task", task=task)
    (waiting,) = wait_for(lambda: status_of(home)["tasks"].get("waiting"))
    assert waiting.startswith(f"groups/main/tasks/{task}.json: ")
    assert "overloaded" in waiting
    assert f"task waits: {waiting}" in cli_text("status", home=home)
    (row,) = listed(stranger, "l")
    assert (row["state"], "overloaded" in row["why"]) == ("due", True)
    stranger.do("c", "cancel_task", task=task)
    wait_for(lambda: not status_of(home)["tasks"]["waiting"])


def test_a_task_paused_before_its_run_does_not_run(make_host: HostFactory, home: Path, stranger: RawSender) -> None:
    has_thought = threading.Event()

    def think(_: Asked) -> Answer:
        has_thought.wait(PATIENCE)
        return openai(ModelSaid("Hello to you."))

    with served(think) as endpoint:
        host = make_host({**endpoint.settings, **QUICK}).start()
        stranger.say("a1", "hello")
        wait_for(lambda: endpoint.asked)
        task = schedule(stranger, "late")
        wait_for(lambda: host.events("task.fired"))
        stranger.ask("p", request("p", "pause_task", payload={"task": task}))
        has_thought.set()
        assert stranger.reply("a1")["ok"]
        assert stranger.chat("a2", "hello")["ok"]
    assert records(home, "done") == []
    assert [row["state"] for row in listed(stranger, "l")] == ["paused"]


def test_many_due_tasks_do_not_delay_people(make_host: HostFactory, home: Path, stranger: RawSender) -> None:
    set_clock, source = shifted(home)
    settings = {**script(home, *MODEL, delay_seconds=0.1), **QUICK, "turns.at_once": 3}
    host = make_host(settings, source=source).start()
    groups = [f"g{number}" for number in range(12)]
    for group in groups:
        for number in range(2):
            put(home, f"t{number}", group, interval_seconds=3600)
    wait_for(lambda: all(len(records(home, "scheduled", group=group)) == 2 for group in groups))
    host.kill()
    set_clock(3600)
    stranger.say("a1", "hello")
    host.start()
    assert stranger.reply("a1")["ok"]
    answered_at = (stranger.replies / "a1.json").stat().st_mtime
    wait_for(lambda: all(len(records(home, "done", group=group)) == 2 for group in groups))
    ended_at = [datetime.fromisoformat(one["at"]) for group in groups for one in records(home, "done", group=group)]
    assert max(ended_at).timestamp() > answered_at, "the message waited for the tasks"
    assert all(len(said(home, group=group)) == 4 for group in groups)


def test_operators_and_agents_manage_tasks_by_command(make_host: HostFactory, home: Path, stranger: RawSender) -> None:
    host = make_host({**script(home, *MODEL), **QUICK}).start()
    schedule(stranger, "News", schedule_type="cron", cron_expression="0 9 * * *", time_zone="Europe/Berlin")
    put(home, "broken", "kitchen", interval_seconds=0)
    wait_for(lambda: host.events("task.refused"))
    broken = of_operator(home, "--group", "kitchen").stdout
    assert broken.startswith("broken  paused")
    assert "interval_seconds must be at least 1" in broken
    assert of_operator(home).stdout.startswith("news  waiting  cron 0 9 * * * (Europe/Berlin)  next 20")
    told = wait_for_status(home, lambda text: "tasks     2, 0 due, next 20" in text)
    assert "does not run: groups/kitchen/tasks/broken.json: interval" in told
    assert "due" in of_operator(home, "run", "news").stdout
    wait_for(lambda: records(home, "done"))
    shown = of_operator(home, "show", "news").stdout
    assert "done" in shown
    assert "1 run, 34 tokens" in shown
    assert "\n  description: greet\n" in shown
    assert "by operator: too loud" in of_operator(home, "pause", "news", "--why", "too loud").stdout
    assert "waiting" not in run_agent("tasks", home=home).stdout
    assert run_agent("tasks", "resume", "news", home=home).stdout.startswith("news  ")
    assert json.loads(run_agent("tasks", "show", "news", "--json", home=home).stdout)["task"]["by"] == "stranger"
    assert run_agent("tasks", "cancel", "news", home=home).stdout.startswith("news  over")
    assert run_agent("tasks", home=home).stdout == "there are no tasks\n"
    changes = [line.split(maxsplit=5)[-1] for line in cli_text("log", "main", home=home).splitlines()]
    assert changes[:2] == ["news cancelled: by user", "News: greet"]
    assert "news paused: by operator: too loud" in changes
    assert run_agent("tasks", "pause", home=home).returncode == 2
    assert "this group has no task news" in of_operator(home, "cancel", "news").stderr
