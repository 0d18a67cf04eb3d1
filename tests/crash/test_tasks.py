"""SIGKILL at the n-th call that changes the disk, while tasks run that were due at the start: each run is made once."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from honeybadger_host.files.home import make_home
from tests.crash.conftest import IS_LONG
from tests.crash.hosts import Nursery, Work, kill_again
from tests.hosting import HostProcess, RawSender, turns_of, wait_for

STRIDE: Final = 1 if IS_LONG else 97
SETTINGS: Final = {"model.name": "scripted:script.json", "spool.turn_queue.ATTEMPTS": 50}
HOURS: Final = 3  # runs of one task that are due at the start, all to be made up for; of the other it is one
SLOW_CLOCK: Final = f"""
from datetime import UTC, datetime, timedelta
from honeybadger_host import compose
compose.wall_clock = lambda: datetime.now(UTC) - timedelta(hours={HOURS})
"""


def records(home: Path, event: str, group: str = "main") -> list[dict[str, Any]]:
    try:
        lines = (home / "data" / "tasks" / f"{group}.jsonl").read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    return [record for record in map(json.loads, lines) if record["event"] == event]


def runs_done(home: Path) -> Counter[tuple[str, str]]:
    return Counter((record["task"], record["run"]) for record in records(home, "done"))


def put(home: Path, task: str, group: str = "main", **members: object) -> None:
    path = home / "groups" / group / "tasks" / f"{task}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"name": task, "description": f"remember {task}", **members}))


@pytest.fixture(scope="module")
def due(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose host stopped hours ago, with two tasks."""
    home = tmp_path_factory.mktemp("due") / "home"
    make_home(home)
    minute = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=1)
    put(home, "hourly", schedule_type="cron", cron_expression=f"{minute.minute} * * * *", time_zone="UTC", missed="all")
    put(home, "once", schedule_type="once", run_at=(minute - timedelta(hours=1)).isoformat())
    with HostProcess(home, {"model.name": "offline"}, source=SLOW_CLOCK) as host:
        host.start()
        wait_for(lambda: len(records(home, "scheduled")) == 2)
        host.stop()
    return home


def write_script(home: Path, run: int) -> None:
    """Give the model other words than it had before."""
    turns = [
        {
            "when": f"remember {task}",
            "answers": [
                {"calls": [{"name": "update_memory", "arguments": {"content": f"Did {task}, said in run {run}"}}]},
                {"text": f"Done in run {run}."},
            ],
        }
        for task in ("hourly", "once")
    ]
    (home / "script.json").write_text(json.dumps({"turns": turns}))


def is_done(home: Path) -> bool:
    return len(runs_done(home)) >= HOURS + 1


def test_killed_at_any_call_each_run_is_made_once(
    nursery: Nursery, due: Path, tmp_path: Path, rng: random.Random
) -> None:
    work = Work(SETTINGS, lambda home: shutil.copytree(due, home, symlinks=True), write_script, is_done, check)
    assert kill_again(nursery, tmp_path, rng, work, STRIDE, later=250) >= 5


def check(home: Path, where: str) -> None:
    done = runs_done(home)
    assert set(done.values()) == {1}, f"{where}: {done}"
    assert Counter(task for task, _ in done) == {"hourly": HOURS, "once": 1}, f"{where}: {done}"
    assert records(home, "failed") == records(home, "missed") == [], where
    notes = RawSender(home).memory_text()
    assert Counter(re.findall(r"- Did (\w+), said in run", notes)) == {"hourly": HOURS, "once": 1}, f"{where}: {notes}"
    turns = turns_of(home)
    assert set(Counter(turn["request"] for turn in turns).values()) == {2}, f"{where}: {turns}"
    assert len(turns) == 2 * (HOURS + 1), f"{where}: {turns}"
    told: list[Mapping[str, Any]] = [
        json.loads(line) for line in (home / "data/messages/main.jsonl").read_text().splitlines()
    ]
    assert Counter(message["request"] for message in told) == Counter({turn["request"]: 1 for turn in turns}), where
    assert not (home / "groups/main/tasks/once.json").exists(), where
    assert (home / "groups/main/tasks/hourly.json").exists(), where
