"""SIGKILL at the n-th call that changes the disk, while a session is consolidated by a model of changing choices."""

from __future__ import annotations

import contextlib
import json
import random
import re
import sqlite3
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from honeybadger_agent.models.model import ModelSaid
from honeybadger_host.curation.consolidation import SECTIONS
from honeybadger_host.files.home import JOURNAL_FILE, make_home
from honeybadger_host.memory.turn_log import dump_turn, turns_file
from honeybadger_host.memory.watermarks import watermark_file
from honeybadger_host.text.neutralise import estimate_tokens
from honeybadger_host.text.turn import Turn
from tests.crash.conftest import IS_LONG
from tests.crash.hosts import Nursery, Work, kill_again
from tests.endpoint import Answer, Asked, openai, served
from tests.hosting import HostProcess, wait_for

STRIDE: Final = 1 if IS_LONG else 83
FACT: Final = "I am Ann, and I move to Lisbon on 12 March."
MARK: Final = watermark_file("main", "main")
SETTINGS: Final = {
    "model.curation": "scripted:script.json",
    "consolidation.memory_window": 10,
    "curation.runner.LOOK_SECONDS": 0.02,
    "curation.runner.FIRST_PAUSE_SECONDS": 0.1,
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


def test_killed_at_any_call_a_session_is_consolidated_once(
    nursery: Nursery, tmp_path: Path, rng: random.Random
) -> None:
    work = Work(SETTINGS, begin, write_script, lambda home: (home / MARK).exists(), check)
    assert kill_again(nursery, tmp_path, rng, work, STRIDE, later=60) >= 3


def test_ten_kills_book_at_most_twice_the_cost(tmp_path: Path, rng: random.Random) -> None:
    home, paid = tmp_path / "home", Counter[str]()
    begin(home)
    log = (home / turns_file("main", "main")).read_bytes()
    for n in range(3):  # a question that three kills cut short is given up: the next session asks the next one
        (home / turns_file("main", f"more-{n}")).write_bytes(log)

    def answering(asked: Asked) -> Answer:
        """Charge for the prompt and for each piece that is sent, then hang."""
        paid["tokens"] += estimate_tokens(asked.system) + estimate_tokens(str(asked.body["messages"][-1]["content"]))
        said = ["".join(rng.choices("abcdefgh ", k=rng.randint(4, 80))) for _ in range(rng.choice([0, 9, 90, 400]))]
        paid["tokens"] += estimate_tokens("".join(said))
        paid["sent"] += 1
        return openai(ModelSaid("".join(said)), pieces_of_text=said, then="hang")

    with served(answering) as endpoint:
        settings = {**SETTINGS, **endpoint.settings, "model.curation": "openai:test"}
        for kill in range(1, 11):
            with HostProcess(home, settings).launch() as host:
                wait_for(lambda: paid["sent"] == kill, what="a question")  # noqa: B023  called at once
                wait_for(lambda: booked(home) >= paid["tokens"], what=f"{paid} booked: {booked(home)}")
                host.kill()
            assert paid["tokens"] <= booked(home) <= 2 * paid["tokens"], (kill, paid)


def booked(home: Path) -> int:
    """Return the tokens that the journal has booked."""
    with contextlib.closing(sqlite3.connect(f"file:{home / JOURNAL_FILE}?mode=ro", uri=True)) as journal:
        return int(journal.execute("SELECT total(tokens) FROM spent").fetchone()[0])


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
