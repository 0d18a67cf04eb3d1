"""SIGKILL at the n-th call that changes the disk, while a turn runs in which a router asks two specialists.

Their models never say the same again."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any, Final

from honeybadger_host.files.home import make_home
from tests.crash.conftest import IS_LONG
from tests.crash.hosts import Nursery, Work, kill_again
from tests.flows.test_agents import agent
from tests.hosting import RawSender, turns_of

STRIDE: Final = 1 if IS_LONG else 97
SETTINGS: Final = {"model.name": "scripted:script.json", "spool.turn_queue.ATTEMPTS": 50}
SPECIALISTS: Final = {"cook": "a menu", "buyer": "a list"}


def write_scripts(home: Path, run: int) -> None:
    """Give all models other words than they had before."""

    def write(name: str, *answers: dict[str, Any]) -> None:
        (home / f"{name}.json").write_text(json.dumps({"turns": [{"answers": answers}]}))

    calls = [
        {"name": "delegate_to_agent", "arguments": {"agent": name, "task": f"{task}, said in run {run}"}}
        for name, task in SPECIALISTS.items()
    ]
    write("router", {"calls": calls}, {"text": f"Planned in run {run}."})
    for name, task in SPECIALISTS.items():
        note = {"content": f"{name} makes {task}, said in run {run}"}
        write(name, {"calls": [{"name": "update_memory", "arguments": note}]}, {"text": f"{name} in run {run}."})


def begin(home: Path) -> None:
    make_home(home)
    agent(home, "router", model="scripted:router.json", delegates_to=[*SPECIALISTS])
    for name in SPECIALISTS:
        agent(home, name, model=f"scripted:{name}.json")
    RawSender(home).make().say("a1", "Plan the party", agent="router")


def is_answered(home: Path) -> bool:
    sender = RawSender(home)
    return sender.peek("a1") is not None and not list(sender.turns.iterdir())


def test_killed_at_any_call_each_delegated_task_runs_once(nursery: Nursery, tmp_path: Path, rng: random.Random) -> None:
    work = Work(SETTINGS, begin, write_scripts, is_answered, check)
    assert kill_again(nursery, tmp_path, rng, work, STRIDE, later=250) >= 5


def check(home: Path, where: str) -> None:
    sender = RawSender(home)
    reply = json.loads(sender.peek("a1") or b"{}")
    assert reply["ok"], f"{where}: {reply}"
    runs = [re.fullmatch(r"(\w+), done: \1 in run \d\.", tool["summary"]) for tool in reply["result"]["tools"]]
    assert [found and found[1] for found in runs] == [*SPECIALISTS], f"{where}: {reply}"
    notes = sender.memory_text()
    for name, task in SPECIALISTS.items():
        assert len(re.findall(f"- {name} makes {task}, said in run", notes)) == 1, f"{where}: {notes}"
    told = {path.stem: turns_of(home, path.stem) for path in (home / "data/sessions/main").iterdir()}
    asked = [(turn["role"], turn["sender"], turn["content"]) for turn in told.pop("main")]
    assert asked == [
        ("user", "stranger", "Plan the party"),
        ("assistant", "router", reply["result"]["content"]),
    ], f"{where}: {asked}"
    assert len(told) == 2, f"{where}: {told}"
    for turns in told.values():
        (given, answer) = turns
        assert (given["sender"], given["role"], answer["role"]) == ("router", "user", "assistant"), f"{where}: {turns}"
        assert given["content"].startswith(SPECIALISTS[answer["sender"]]), f"{where}: {turns}"
        assert f"{answer['sender']}, done: {answer['content']}" in [
            tool["summary"] for tool in reply["result"]["tools"]
        ], f"{where}: {turns}"
    left = list((sender.home / "data/ipc").rglob("requests/*.json"))
    assert not left, f"{where}: {left}"
