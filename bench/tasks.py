"""Scheduled tasks: what 10,000 cost a host with nothing to do, how late a due one begins, what 500 cost people."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bench.hosting import Daemon, new_home, running
from bench.pipeline import Figure, percentile
from honeybadger_agent import SyncClient
from honeybadger_agent.errors import AgentError

_GROUPS = 100
_SETTLE_SECONDS = 40.0  # what a start looks at by and by: the index, people's edits


def bench_tasks(base: Path, tasks: int = 10_000, seconds: float = 60) -> list[Figure]:
    shares = []
    with new_home(base) as home:
        for group in range(_GROUPS):  # the same folders with and without
            (home / f"groups/g{group}/tasks").mkdir(parents=True)
        for count in (0, tasks):
            for number in range(count):
                line = f"{number % 60} {number % 24} 1 1 *"
                _put(home, f"g{number % _GROUPS}", f"t{number}", schedule_type="cron", cron_expression=line)
            with running(home) as daemon:
                _wait_for_tasks(daemon, count)
                time.sleep(_SETTLE_SECONDS)
                before, at = daemon.cpu_seconds(), time.monotonic()
                time.sleep(seconds)
                shares.append((daemon.cpu_seconds() - before) / (time.monotonic() - at) * 100)
        late = _lateness(home, tasks)
    return [
        Figure(
            f"{tasks} tasks that are not due, idle",
            f"{shares[1] - shares[0]:.2f} % of a core",
            f"{shares[0]:.2f} % without",
            goal="1 %",
            is_met=shares[1] - shares[0] < 1,
        ),
        Figure(
            "a due task begins among them, p99",
            f"{percentile(late, 0.99) * 1000:.0f} ms",
            f"{percentile(late, 0.5) * 1000:.0f} ms p50",
            goal="1 s",
            is_met=percentile(late, 0.99) < 1,
        ),
        *bench_many_due(base),
    ]


def bench_many_due(base: Path, tasks: int = 500, seconds: float = 1.0) -> list[Figure]:
    """People's messages, one after another, while a host starts with tasks that are all due; a model of a second."""
    with new_home(base) as home:
        _script(home, seconds)
        client = SyncClient(home, "people", "ann", timeout_seconds=120)
        settings = ["model.name=scripted:script.json"]
        with running(home, settings) as daemon:
            alone = [_said(client) for _ in range(30)]
            soon = datetime.now(UTC) + timedelta(seconds=60)
            for number in range(tasks):
                _put(home, f"g{number % _GROUPS}", f"t{number}", schedule_type="once", run_at=soon.isoformat())
            _wait_for_tasks(daemon, tasks)
        if (left := (soon - datetime.now(UTC)).total_seconds()) < 0:
            raise RuntimeError(f"it took the host {60 - left:.0f} s to take up {tasks} tasks: they were due before")
        time.sleep(left + 1)
        with running(home, settings):
            beside = [_said(client) for _ in range(30)]
    p99, floor = percentile(beside, 0.99), percentile(alone, 0.99)
    return [
        Figure(
            f"a person's turn while {tasks} tasks are due, a model of {seconds:g} s, p99",
            f"{p99:.2f} s",
            f"{floor:.2f} s without",
            f"{p99 / floor:.1f}",
            "at most double",
            p99 <= 2 * floor,
        )
    ]


def _put(home: Path, group: str, task: str, **members: object) -> None:
    path = home / "groups" / group / "tasks" / f"{task}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"name": task, "description": "x", "time_zone": "UTC", **members}))


def _script(home: Path, seconds: float = 0.0) -> None:
    turns = [{"answers": [{"text": "Done."}]}]
    (home / "script.json").write_text(json.dumps({"turns": turns, "delay_seconds": seconds}))


def _status(daemon: Daemon) -> dict[str, Any]:
    """Return what a host says of its tasks; what one before it said does not count."""
    try:
        status = json.loads((daemon.home / "data/status.json").read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    tasks: dict[str, Any] = status["tasks"] if status["pid"] == daemon.process.pid else {}
    return tasks


def _wait_for_tasks(daemon: Daemon, count: int) -> None:
    """Wait until a host knows all tasks, and has recorded that."""
    deadline = time.monotonic() + 300
    while not ((tasks := _status(daemon)) and tasks["known"] == count and tasks["due"] == 0):
        if time.monotonic() > deadline:
            raise RuntimeError(f"the host does not take up {count} tasks: {tasks}")
        time.sleep(0.5)


def _lateness(home: Path, known: int, due: int = 100) -> list[float]:
    """Return how late tasks began, in seconds, each in a group of its own, two a second."""
    _script(home)
    log = home / "daemon.log"
    log.unlink()
    with running(home, ["model.name=scripted:script.json"]) as daemon:
        _wait_for_tasks(daemon, known)
        begin = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=10)
        for number in range(due):
            at = (begin + timedelta(seconds=number / 2)).isoformat()
            _put(home, f"due{number}", "once", schedule_type="once", run_at=at)
        deadline = time.monotonic() + 120
        while (
            len(ran := [line for line in map(json.loads, log.read_text().splitlines()) if line["event"] == "turn.ran"])
            < due
        ):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{len(ran)} of {due} tasks ran")
            time.sleep(1)
    late = []
    for line in ran:
        due_at = datetime.strptime(line["id"].rpartition(".")[2], "%Y%m%dT%H%M%S%fZ").replace(tzinfo=UTC)
        began = datetime.fromisoformat(line["timestamp"]) - timedelta(milliseconds=line["ms"])
        late.append((began - due_at).total_seconds())
    return late


def _said(client: SyncClient) -> float:
    began = time.monotonic()
    try:
        client.chat("Good morning")
    except AgentError as error:
        raise RuntimeError(str(error)) from error
    return time.monotonic() - began
