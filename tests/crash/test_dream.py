"""SIGKILL at the n-th call that changes the disk, while a group dreams with a model of changing choices."""

from __future__ import annotations

import json
import os
import random
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from honeybadger_host.memory.entries.entry import Entry, dump_entry, entry_file
from honeybadger_host.memory.watermarks import Watermark, dreamt_file, dump_watermark, inferred_file
from tests.crash.conftest import IS_LONG
from tests.crash.hosts import Nursery, Point, Work, ended, kill_again
from tests.crash.test_consolidation import FACT, begin
from tests.hosting import RawSender, request

STRIDE: Final = 1 if IS_LONG else 113
RENT: Final = "The rent of the flat is 950 EUR a month, to Mr Glanz."
MERGED: Final = f"{RENT}\n{RENT[:-1]}, always."
TEA: Final = "Ann prefers green tea over coffee."
ENTRIES: Final = {"rent1": RENT, "rent2": f"{RENT[:-1]}, always.", "tea1": TEA, "tea2": TEA}
SETTINGS: Final = {
    "model.curation": "scripted:script.json",
    "dream.schedule": "0 0 1 1 *",
    "curation.dreams.QUIET_SECONDS": 0.0,
    "curation.runner.DREAM_LOOK_SECONDS": 0.02,
    "curation.runner.LOOK_SECONDS": 0.02,
    "curation.runner.FIRST_PAUSE_SECONDS": 0.1,
}


def write_home(home: Path) -> None:
    """Leave a group that dreamt long ago, and has something to dream of."""
    begin(home)
    for name, content in ENTRIES.items():
        path = home / entry_file("main", "home", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(dump_entry(Entry(name, "home", content, by="bee", created=datetime(2026, 11, 1, tzinfo=UTC))))
    mark = home / dreamt_file("main")
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.write_bytes(dump_watermark(Watermark(turn=0, at=datetime(2024, 12, 31, tzinfo=UTC))))
    os.utime(mark, (0, 0))


def write_script(home: Path, run: int) -> None:
    """Let the model choose other labels than it did before."""
    choice = {"join": [["E1", "E2"]], "refine": [{"of": "E3", "aliases": [f"run {run}"]}]}
    likes = {"take": ["main#1"], "strength": "strong"}
    answers = {"## Candidates": choice, "": {"preferences": [likes]}}
    turns = [{"when": when, "answers": [{"text": json.dumps(answer)}]} for when, answer in answers.items()]
    (home / "script.json").write_text(json.dumps({"turns": turns, "piece_characters": 1000}))


def test_killed_at_any_call_a_group_dreams_once(nursery: Nursery, tmp_path: Path, rng: random.Random) -> None:
    work = Work(SETTINGS, write_home, write_script, has_dreamt, check)
    assert kill_again(nursery, tmp_path, rng, work, STRIDE, later=80) >= 3


ON_REQUEST = {**SETTINGS, "dream.schedule": "", "model.curation": "offline"}


def asked_and_killed(nursery: Nursery, tmp_path: Path, point: str) -> RawSender:
    """Return the operator, who asked a host to dream that was killed at a point of it."""
    operator = RawSender(tmp_path / "home", sender="operator").make()
    write_home(operator.home)
    operator.drop("d1", request("d1", "dream"))
    with ended(nursery.start(operator.home, ON_REQUEST, kill=Point(point, 1))) as host:
        assert host.wait() == -signal.SIGKILL
    return operator


@pytest.mark.parametrize("point", ["kept", "replied"])
def test_a_killed_dream_request_is_answered_once(nursery: Nursery, tmp_path: Path, point: str) -> None:
    operator = asked_and_killed(nursery, tmp_path, point)
    home = operator.home
    assert (operator.requests / "d1.json").exists()
    for name in ("bob1", "bob2"):
        path = home / entry_file("main", "home", name)
        made = Entry(name, "home", "Bob plays chess.", by="bee", created=datetime(2026, 11, 1, tzinfo=UTC))
        path.write_bytes(dump_entry(made))
    with ended(nursery.start(operator.home, ON_REQUEST)):
        operator.wait_until_taken("d1")
        assert operator.reply("d1")["result"]["proposals"][0]["applied"] == 1
    group = home / "groups" / "main"
    assert len(list((group / "proposals").glob("*.json"))) == 1
    assert {"bob1", "bob2"} <= found_in(group / "memory").keys()


def test_a_kill_between_pass_and_receipt_folds_nothing_twice(nursery: Nursery, tmp_path: Path) -> None:
    operator = asked_and_killed(nursery, tmp_path, "committed")
    with ended(nursery.start(operator.home, ON_REQUEST)):
        operator.wait_until_taken("d1")
        assert operator.reply("d1")["result"]["proposals"] == []
    group = operator.home / "groups" / "main"
    assert len(list((group / "proposals").glob("*.json"))) == 1
    assert found_in(group / "archive/memory").keys() == {"tea1", "tea2"}
    assert len(found_in(group / "memory")) == len(ENTRIES) - 1


def has_dreamt(home: Path) -> bool:
    """Return whether the first pass is over; an end of the host behind it leaves the second one to the next dream."""
    mark = json.loads((home / dreamt_file("main")).read_text())
    return bool(mark["proposal"])


def check(home: Path, where: str) -> None:
    """See that each merge is there once, of one answer, with all that it was made of in the archive."""
    likes = [FACT] if (home / inferred_file("main")).exists() else []
    group = home / "groups" / "main"
    entries = found_in(group / "memory")
    contents = sorted(each["content"] for each in entries.values())
    assert contents == sorted([MERGED, TEA, *likes]), f"{where}: {entries}"
    archived = {name: each["content"] for name, each in found_in(group / "archive/memory").items()}
    assert archived == ENTRIES, f"{where}: {archived}"
    proposals = [json.loads(path.read_text()) for path in (group / "proposals").glob("*.json")]
    assert sorted(each["kind"] for each in proposals) == ["dream", *(["preferences"] if likes else [])], where
    (dream,) = (each for each in proposals if each["kind"] == "dream")
    assert {each["state"] for one in proposals for each in one["operations"]} == {"applied"}, f"{where}: {proposals}"
    mark = json.loads((home / dreamt_file("main")).read_text())
    assert mark["proposal"] == dream["id"], f"{where}: {mark}"


def found_in(folder: Path) -> dict[str, Any]:
    return {path.stem: json.loads(path.read_text()) for path in folder.rglob("*.json")}
