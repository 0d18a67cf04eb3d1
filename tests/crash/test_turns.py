"""SIGKILL at the n-th call that changes the disk, while a turn runs on a model that never says the same again."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Final

from honeybadger_host.storage.home import make_home
from tests.crash.conftest import IS_LONG
from tests.crash.hosts import Nursery, Work, kill_again
from tests.hosting import RawSender

STRIDE: Final = 1 if IS_LONG else 47
WHAT: Final = ("tea", "coffee")
SETTINGS: Final = {"model.name": "scripted:script.json", "spool.turn_queue.ATTEMPTS": 50}


def write_script(home: Path, run: int) -> None:
    """Give the model other words than it had before."""
    answers = [
        {"calls": [{"name": "update_memory", "arguments": {"content": f"Likes {what}, said in run {run}"}}]}
        for what in WHAT
    ]
    turns = [{"answers": [*answers, {"text": f"Noted in run {run}."}]}]
    (home / "script.json").write_text(json.dumps({"turns": turns}))


def begin(home: Path) -> None:
    make_home(home)
    RawSender(home).make().say("a1", "Remember what I drink")


def is_answered(home: Path) -> bool:
    sender = RawSender(home)
    return sender.peek("a1") is not None and not list(sender.turns.iterdir())


def test_killed_at_a_call_and_again_a_turn_is_done_once(nursery: Nursery, tmp_path: Path, rng: random.Random) -> None:
    work = Work(SETTINGS, begin, write_script, is_answered, check)
    assert kill_again(nursery, tmp_path, rng, work, STRIDE, later=150) >= 5


def check(home: Path, where: str) -> None:
    sender = RawSender(home)
    reply = json.loads(sender.peek("a1") or b"{}")
    assert reply["ok"], f"{where}: {reply}"
    assert [tool["ok"] for tool in reply["result"]["tools"]] == [True, True], f"{where}: {reply}"  # no conflict
    notes = sender.memory_text()
    for what in WHAT:
        assert len(re.findall(f"- Likes {what}, said in run", notes)) == 1, f"{where}: {notes}"
    log = (sender.home / "data" / "sessions" / "main" / "main.jsonl").read_text().splitlines()
    turns = [(turn["role"], turn["content"]) for turn in map(json.loads, log)]
    assert turns == [("user", "Remember what I drink"), ("assistant", reply["result"]["content"])], f"{where}: {turns}"
