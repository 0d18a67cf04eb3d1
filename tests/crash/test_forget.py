"""A forgotten text stays forgotten: power cuts, repeated requests, a kill and a torn ledger."""

import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.conftest import IS_LONG
from tests.crash.features import FORGETTING, SECRET, TO_FORGET, ask, left_in
from tests.crash.hosts import Nursery, Point, Work, cut_power, ended, keep_all, kill_again
from tests.hosting import RawSender, request


@pytest.fixture
def work(work_of: Callable[[str], Work]) -> Work:
    return work_of("forget")


@pytest.mark.parametrize("is_synced", [True, False])
def test_a_power_cut_after_the_answer_brings_nothing_back(
    nursery: Nursery, work: Work, tmp_path: Path, rng: random.Random, is_synced: bool
) -> None:
    """Neither of what an earlier host was told, nor of what this one was. With its control: the same look sees what
    syncs are for.
    """
    home, shadow = tmp_path / "home", tmp_path / "shadow"
    work.begin(home)
    (RawSender(home, sender="operator").requests / "f1.json").unlink()
    keep_all(home, shadow)
    faults = () if is_synced else ("--without-sync",)
    with ended(nursery.start(home, FORGETTING, kill=Point("unlinked", 3), shadow=shadow, faults=faults)) as host:
        ann = RawSender(home, sender="ann")
        ann.do("again", content=f"It is said once more: {SECRET}")
        ann.do("context", "get_context", message="Where does the cellar key hang?")
        ask(home, TO_FORGET)
        assert host.wait() == -signal.SIGKILL
    assert left_in(home) == []
    cut_power(home, shadow, rng, is_mixed=False)
    if is_synced:
        assert left_in(home) == []
    with nursery.serving(home, FORGETTING):
        pass
    assert bool(left_in(home)) is not is_synced


@pytest.mark.parametrize("point", ["kept", "replied"])
def test_a_repeated_forget_spares_what_was_said_since(nursery: Nursery, work: Work, tmp_path: Path, point: str) -> None:
    home = tmp_path / "home"
    work.begin(home)
    with ended(nursery.start(home, FORGETTING, kill=Point(point, 1))) as host:
        assert host.wait() == -signal.SIGKILL
    operator = RawSender(home, sender="operator")
    assert (operator.requests / "f1.json").exists()
    persona = home / "groups" / "main" / "CLAUDE.md"
    assert persona.read_text() == "Be kind.\nBe brief.\n"
    persona.write_text(f"Be kind.\nBe brief.\n{SECRET}\n")
    with ended(nursery.start(home, FORGETTING)) as host:
        operator.wait_until_taken("f1")
        first = operator.reply("f1")
        assert persona.read_text() == f"Be kind.\nBe brief.\n{SECRET}\n"
        (operator.replies / "f1.json").unlink()
        ask(home, TO_FORGET)
        operator.wait_until_taken("f1")
        assert operator.reply("f1") == first
        assert persona.read_text() == f"Be kind.\nBe brief.\n{SECRET}\n"
        again = operator.ask("f2", request("f2", "forget", payload={"text": SECRET}))
        assert again["result"]["files"] == ["groups/main/CLAUDE.md"]


def test_killed_and_with_a_torn_ledger_it_is_still_forgotten(
    nursery: Nursery, work: Work, tmp_path: Path, rng: random.Random
) -> None:
    def tear(home: Path) -> None:
        for path in (home / "data").glob("recalled.db*"):
            path.write_bytes(b"torn" * 1024)

    assert kill_again(nursery, tmp_path, rng, work, stride=5 if IS_LONG else 131, harm=tear) > 1
