"""SIGKILL at the n-th call that changes the disk, and at every named point of the pipeline, three times in a row."""

import os
import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.crash.chains import WAYS, Chain, Figures, chains, rounds, until_over
from tests.crash.conftest import IS_LONG
from tests.crash.hosts import Kill, Nursery, Point, When
from tests.hosting import at_once

POINTS = ("placed", "committed", "projected", "replied", "unlinked")
_MIN_KILLS = int(os.environ.get("HB_CRASH_KILLS", "10000"))


@pytest.mark.parametrize(("when", "stride"), [("before", 449), ("after", 509), ("torn", 227)])
def test_killed_at_any_call_nothing_is_lost_or_doubled(
    nursery: Nursery, tmp_path: Path, rng: random.Random, when: When, stride: int
) -> None:
    first = rng.randint(1, stride)
    figures = until_over(chains(nursery, tmp_path, when, rng, first=first, stride=stride))
    assert figures.counts["kills"] > figures.counts["chains"]
    assert figures.verdict.is_good, figures


@pytest.mark.parametrize("point", POINTS)
def test_killed_thrice_at_a_point_nothing_is_lost(nursery: Nursery, tmp_path: Path, point: str) -> None:
    figures = at_point(nursery, tmp_path, point)
    assert figures.counts["kills"] == 3
    assert figures.verdict.is_good, figures


def at_point(nursery: Nursery, folder: Path, point: str, faults: Sequence[str] = ()) -> Figures:
    """Kill three hosts at a named point, then serve to the end."""
    death = Point(point, 1)
    return Chain(nursery, folder / point, death, [death, death], faults=faults).run()


def test_without_receipts_a_killed_host_doubles_requests(nursery: Nursery, tmp_path: Path) -> None:
    """The control: the same check sees what receipts are for."""
    figures = at_point(nursery, tmp_path, "committed", faults=("--without-receipts",))
    assert figures.verdict.doubled, figures


def test_without_receipts_a_kill_at_a_call_doubles_requests(nursery: Nursery, tmp_path: Path) -> None:
    """The control of the kills at calls: a change is committed, and its reply has no name yet."""
    kill = Kill(1, kind="rename", path="/replies/")
    figures = Chain(nursery, tmp_path / "chain", kill, faults=("--without-receipts",)).run()
    assert figures.verdict.doubled, figures


@pytest.mark.skipif(not IS_LONG, reason="the long form: HB_CRASH_LONG=1")
@pytest.mark.timeout(4 * 3600)
def test_killed_at_every_call_nothing_is_lost_or_doubled(
    nursery: Nursery, tmp_path: Path, rng: random.Random, capsys: pytest.CaptureFixture[str]
) -> None:
    total = Figures()

    def go_through(folder: Path, when: When, seed: int) -> Figures:
        return until_over(chains(nursery, folder, when, random.Random(seed)))

    for number in rounds(total, "kills", _MIN_KILLS, capsys):
        ways = [(tmp_path / f"{number}-{when}", when, rng.getrandbits(64)) for when in WAYS]
        for figures in at_once(*(partial(go_through, *way) for way in ways)):
            total.add(figures)
