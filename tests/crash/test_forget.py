"""SIGKILL at the n-th call that changes the disk, and at each named point, while something is forgotten."""

from __future__ import annotations

import json
import random
import shutil
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from honeybadger_host.files.home import JOURNAL_FILE, make_home
from honeybadger_host.journal.reader import LogFilter, read_log
from tests.crash.conftest import IS_LONG
from tests.crash.hosts import (
    RECORDED_AT_ONCE,
    Kill,
    Nursery,
    Point,
    Work,
    cut_power,
    deaths,
    ended,
    is_up,
    keep_all,
    kill_again,
    struck,
)
from tests.hosting import RawSender, request, wait_for
from tests.people import edits_in, newest_edit, settle, wait_until_looked_at

SECRET: Final = "the cellar key hangs behind the third barrel"
_SETTINGS: Final = {"ops.maintenance.CHECKPOINT_SECONDS": 0.05, "ops.forget.SETTLE_LOOK_SECONDS": 0.02}
POINTS: Final = ("planned", "file", "erased", "tidied", "buried", "unindexed", "vacuumed")


def tell(home: Path) -> None:
    """Have four notes, entries and turns; the secret is in every other one."""
    ann = RawSender(home, sender="ann").make()
    for number in range(4):
        content = f"note {number}" if number % 2 else f"note {number}: {SECRET}"
        ann.do(f"n{number}", content=content)
        ann.do(f"e{number}", "save_memory", content=content, category="home")
        ann.do(f"t{number}", "append_turn", role="user", content=content)


@pytest.fixture(scope="module")
def settled(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which it was said, written down and typed."""
    home = tmp_path_factory.mktemp("settled") / "home"
    make_home(home)
    with nursery.serving(home, RECORDED_AT_ONCE):
        wait_until_looked_at(home)
        tell(home)
        (home / "groups/main/CLAUDE.md").write_text(f"Be kind.\n{SECRET}\nBe brief.\n")
        newest_edit(home, "CLAUDE.md")
        settle(home)
    return home


def begin(settled: Path, home: Path) -> None:
    shutil.copytree(settled, home)
    ask(home)


def ask(home: Path) -> None:
    operator = RawSender(home, sender="operator").make()
    operator.drop("f1", request("f1", "forget", payload={"text": SECRET.upper()}))


def is_done(home: Path) -> bool:
    """Return whether it was answered; a host that died before it took the request away leaves it to be asked again."""
    folder = home / "data" / "ipc" / "main" / "operator"
    return (folder / "replies" / "f1.json").exists() and not (folder / "requests" / "f1.json").exists()


def left_in(home: Path) -> list[str]:
    files = [path for path in home.rglob("*") if path.is_file() and path.name != "f1.json"]
    return [str(path) for path in files if SECRET.encode() in path.read_bytes().lower()]


def check(home: Path, where: str) -> None:
    where = f"{where}: {struck(home)}"
    reply = json.loads((home / "data" / "ipc" / "main" / "operator" / "replies" / "f1.json").read_text())
    assert reply["ok"], f"{where}: {reply}"
    assert reply["result"]["left"] == [], f"{where}: {reply}"
    assert left_in(home) == [], where
    rows = [row for row in read_log(home / JOURNAL_FILE, LogFilter("main"), 99) if row.sender == "ann"]
    assert [row.seq for row in rows] == list(range(13, 0, -1)), where
    folder = home / "groups" / "main"
    memory = (folder / "MEMORY.md").read_text()
    assert [memory.count(f"note {number}") for number in range(4)] == [0, 1, 0, 1], f"{where}: {memory}"
    assert "[forgotten]" not in memory, where
    assert (folder / "CLAUDE.md").read_text() == "Be kind.\nBe brief.\n", where
    assert len(list((folder / "memory" / "home").glob("*.json"))) == 2, where
    people = edits_in(home / JOURNAL_FILE, LogFilter("main"))
    assert [edit.file for edit in people] == ["groups/main/CLAUDE.md"], f"{where}: {people}"
    with closing(sqlite3.connect(home / JOURNAL_FILE)) as journal:
        assert journal.execute("SELECT count(*) FROM meta WHERE key = 'forgetting'").fetchone() == (0,), where
        assert journal.execute("SELECT count(*) FROM tombstones").fetchone() == (1,), where
        assert journal.execute("SELECT count(*) FROM receipts WHERE sender = 'ann'").fetchone() == (12,), where
        kept = journal.execute("SELECT reply FROM receipts WHERE sender = 'operator' AND request = 'f1'").fetchall()
        assert [json.loads(data) for (data,) in kept] == [reply], where


def test_killed_at_any_call_exactly_that_is_forgotten(
    nursery: Nursery, settled: Path, tmp_path: Path, rng: random.Random
) -> None:
    work = Work(_SETTINGS, lambda home: begin(settled, home), lambda home, run: None, is_done, check)
    assert kill_again(nursery, tmp_path, rng, work, stride=1 if IS_LONG else 59, later=80) > 1


@pytest.mark.parametrize("is_mixed", [False, True])
def test_a_power_cut_at_any_call_forgets_exactly_that(
    nursery: Nursery, settled: Path, tmp_path: Path, rng: random.Random, is_mixed: bool
) -> None:
    shadow = tmp_path / "shadow"

    def begin_with_power(home: Path) -> None:
        shutil.rmtree(shadow, ignore_errors=True)
        begin(settled, home)
        keep_all(home, shadow)

    def live(home: Path, kill: Kill) -> bool:
        with ended(nursery.start(home, _SETTINGS, kill=kill, shadow=shadow)) as host:
            wait_for(lambda: host.poll() is not None or is_done(home), what="a kill, or the end")
            if host.poll() is None and is_up(host, home):
                host.send_signal(signal.SIGTERM)
            return host.wait() != 0

    for home, where in deaths(tmp_path, rng, 1 if IS_LONG else 137, begin_with_power, live):
        cut_power(Asked(home), shadow, rng, is_mixed=is_mixed)
        with nursery.serving(home, _SETTINGS):
            wait_for(lambda: is_done(home), what="it is forgotten")  # noqa: B023
        check(home, where)


@pytest.mark.parametrize("is_synced", [True, False])
def test_a_power_cut_after_the_answer_brings_nothing_back(
    nursery: Nursery, settled: Path, tmp_path: Path, rng: random.Random, is_synced: bool
) -> None:
    """With its control: the same look sees what syncs are for."""
    home, shadow = tmp_path / "home", tmp_path / "shadow"
    begin(settled, home)
    keep_all(home, shadow)
    faults = () if is_synced else ("--without-sync",)
    with ended(nursery.start(home, _SETTINGS, kill=Point("unlinked", 1), shadow=shadow, faults=faults)) as host:
        assert host.wait() == -signal.SIGKILL
    assert left_in(home) == []
    cut_power(Answered(home), shadow, rng, is_mixed=False)
    with nursery.serving(home, _SETTINGS):
        pass
    assert bool(left_in(home)) is not is_synced


class Answered:
    """Whoever has an answer, and asks no more."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def bring_back(self, rng: random.Random, share: float) -> None:
        pass


class Asked:
    """Whoever asked: without a whole reply, as after a power cut, they ask again."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def bring_back(self, rng: random.Random, share: float) -> None:
        reply = self.home / "data" / "ipc" / "main" / "operator" / "replies" / "f1.json"
        if not reply.exists() or not reply.read_bytes().endswith(b"\n"):
            ask(self.home)


@pytest.mark.parametrize("point", ["kept", "replied"])
def test_a_repeated_forget_spares_what_was_said_since(
    nursery: Nursery, settled: Path, tmp_path: Path, point: str
) -> None:
    home = tmp_path / "home"
    begin(settled, home)
    with ended(nursery.start(home, _SETTINGS, kill=Point(point, 1))) as host:
        assert host.wait() == -signal.SIGKILL
    operator = RawSender(home, sender="operator")
    assert (operator.requests / "f1.json").exists()
    persona = home / "groups" / "main" / "CLAUDE.md"
    assert persona.read_text() == "Be kind.\nBe brief.\n"
    persona.write_text(f"Be kind.\nBe brief.\n{SECRET}\n")
    with ended(nursery.start(home, _SETTINGS)) as host:
        operator.wait_until_taken("f1")
        first = operator.reply("f1")
        assert persona.read_text() == f"Be kind.\nBe brief.\n{SECRET}\n"
        (operator.replies / "f1.json").unlink()
        ask(home)
        operator.wait_until_taken("f1")
        assert operator.reply("f1") == first
        assert persona.read_text() == f"Be kind.\nBe brief.\n{SECRET}\n"
        again = operator.ask("f2", request("f2", "forget", payload={"text": SECRET}))
        assert again["result"]["files"] == ["groups/main/CLAUDE.md"]


def test_a_ledger_damaged_by_a_power_cut_starts_over(nursery: Nursery, settled: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    begin(settled, home)
    with ended(nursery.start(home, _SETTINGS, kill=Point("forget.buried", 1))) as host:
        assert host.wait() == -signal.SIGKILL
    for path in (home / "data").glob("recalled.db*"):
        path.write_bytes(b"torn" * 1024)
    with nursery.serving(home, _SETTINGS):
        wait_for(lambda: is_done(home), what="it is forgotten")
    check(home, "the ledger is damaged")


@pytest.mark.parametrize("point", POINTS[:: 1 if IS_LONG else 2])
def test_killed_at_a_named_point_it_is_still_forgotten(
    nursery: Nursery, settled: Path, tmp_path: Path, point: str
) -> None:
    home = tmp_path / "home"
    begin(settled, home)
    with ended(nursery.start(home, _SETTINGS, kill=Point(f"forget.{point}", 1))) as host:
        assert host.wait() == -signal.SIGKILL
    with ended(nursery.start(home, _SETTINGS)) as host:
        wait_for(lambda: is_done(home), what="it is forgotten")
    check(home, point)
