"""SIGKILL at the n-th call that changes the disk, while a session is consolidated by a model of changing choices."""

from __future__ import annotations

import json
import random
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from honeybadger_host.curation.consolidation import SECTIONS
from honeybadger_host.domain import Turn
from honeybadger_host.memory.turn_log import dump_turn, turns_file
from honeybadger_host.memory.watermarks import watermark_file
from honeybadger_host.storage.home import make_home
from tests.crash.conftest import IS_LONG
from tests.crash.hosts import Nursery, Work, kill_again

STRIDE: Final = 1 if IS_LONG else 83
FACT: Final = "I am Ann, and I move to Lisbon on 12 March."
MARK: Final = watermark_file("main", "main")
SETTINGS: Final = {
    "model.curation": "scripted:script.json",
    "consolidation.memory_window": 10,
    "curation.runner.LOOK_SECONDS": 0.02,
    "curation.jobs.FIRST_PAUSE_SECONDS": 0.1,
}


def write_script(home: Path, run: int) -> None:
    """Let the model choose other sentences than it did before."""
    chosen = [f"{2 * run - 1}.1"]
    answer = {"history": chosen, "summary": chosen, "facts": [{"take": ["1.1"], "section": SECTIONS[run]}]}
    (home / "script.json").write_text(json.dumps({"turns": [{"answers": [{"text": json.dumps(answer)}]}]}))


def begin(home: Path) -> None:
    """Make a home with a conversation over its window, as a host that was killed leaves it."""
    make_home(home)
    path = home / turns_file("main", "main")
    path.parent.mkdir(parents=True, exist_ok=True)
    at = datetime.now(UTC).replace(microsecond=0)
    said = [FACT, *(f"This is message number {n}." for n in range(2, 12))]
    turns = [Turn(n, at, "user" if n % 2 else "assistant", "user", "ann", text, 9) for n, text in enumerate(said, 1)]
    path.write_bytes(b"".join(dump_turn(turn, f"r{turn.number}") for turn in turns))


def test_killed_at_a_call_and_again_a_session_is_consolidated_once(
    nursery: Nursery, tmp_path: Path, rng: random.Random
) -> None:
    work = Work(SETTINGS, begin, write_script, lambda home: (home / MARK).exists(), check)
    assert kill_again(nursery, tmp_path, rng, work, STRIDE, later=60) >= 3


def check(home: Path, where: str) -> None:
    """See that all of it is there once, and of one answer: the first that was kept."""
    group = home / "groups" / "main"
    history, summary = (group / "HISTORY.md").read_text(), (group / "summary.md").read_text()
    told = re.findall(r"^\[[^\]]+\] ann: (.*)$", history, re.MULTILINE)
    assert len(told) == 1, f"{where}: {history}"
    assert f"ann: {told[0]}" in summary, f"{where}: {told} {summary}"
    section = SECTIONS[1 + [FACT, "This is message number 3.", "This is message number 5."].index(told[0])]
    assert f"## {section} (ann via consolidator, " in (group / "MEMORY.md").read_text(), where
    assert summary.count("## main") == 1, f"{where}: {summary}"
    assert (group / "MEMORY.md").read_text().count(f"- {FACT}\n") == 1, where
    (proposal,) = [json.loads(path.read_text()) for path in (group / "proposals").glob("*.json")]
    assert {each["state"] for each in proposal["operations"]} == {"applied"}, where
    mark = json.loads((home / MARK).read_text())
    assert (mark["turn"], mark["proposal"], mark["passes"]) == (6, proposal["id"], 1), where
