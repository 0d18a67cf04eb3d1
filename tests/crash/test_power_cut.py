"""The power goes: of every file only what was synced is left, or a part of the rest; removed requests come back."""

import itertools
import os
import random
import time
from pathlib import Path

import pytest

from honeybadger_host.files.home import make_home
from tests.crash.chains import Chain, Figures, chains, rounds, until_over
from tests.crash.conftest import IS_LONG
from tests.crash.hosts import Kill, Nursery, When, attend, cut_power, ended, keep_all
from tests.crash.story import BOXES, Story, producing

_MIN_CUTS = int(os.environ.get("HB_CRASH_CUTS", "3000"))


@pytest.mark.parametrize(
    ("when", "is_mixed", "stride"), [("before", False, 449), ("after", True, 509), ("torn", True, 293)]
)
def test_a_power_cut_at_any_call_keeps_acknowledged_changes(
    nursery: Nursery, tmp_path: Path, rng: random.Random, when: When, is_mixed: bool, stride: int
) -> None:
    first = rng.randint(1, stride)
    cut = chains(nursery, tmp_path, when, rng, first=first, stride=stride, has_power_cuts=True, is_mixed=is_mixed)
    figures = until_over(cut)
    assert figures.counts["cuts"] > figures.counts["chains"]
    assert figures.counts["acknowledged"]
    assert figures.verdict.is_good, figures


def test_a_power_cut_in_a_checkpoint_loses_no_change(nursery: Nursery, tmp_path: Path, rng: random.Random) -> None:
    """Calls on the database itself, beside its log, are those of a checkpoint."""
    figures = Figures()
    for at in range(rng.randint(4, 13), 24, 10):
        kill = Kill(at, "after", kind="write,sync,truncate", path="data/journal.db")
        figures.add(Chain(nursery, tmp_path / f"at-{at}", kill, [kill], cuts=rng, is_mixed=rng.random() < 0.5).run())
    assert figures.verdict.is_good, figures


def test_power_cuts_under_load_keep_acknowledged_changes(nursery: Nursery, tmp_path: Path, rng: random.Random) -> None:
    story = cut_under_load(nursery, tmp_path, rng, cuts=12 if IS_LONG else 3)
    verdict = story.check(is_ordered=False, may_replies_vanish=True)
    assert len(story.acknowledged) == len(story.sent)
    assert verdict.is_good, verdict


def cut_under_load(nursery: Nursery, folder: Path, rng: random.Random, *, cuts: int) -> Story:
    """Cut the power at random moments while producers drop, then serve what is left to the end."""
    home, shadow = folder / "home", folder / "shadow"
    make_home(home)
    story = Story(home)
    keep_all(home, shadow)
    faults = ("--constant", "ops.maintenance.CHECKPOINT_SECONDS=0.02")
    for cut in range(cuts):
        with (
            ended(nursery.start(home, {"spool.pipeline.BATCH_REQUESTS": 512}, faults=faults, shadow=shadow)) as host,
            producing(story, BOXES, 0.002, f" in cut {cut}"),
        ):
            lights_out = time.monotonic() + rng.uniform(0.05, 0.4)
            while time.monotonic() < lights_out:
                story.look()
            host.kill()
        story.look()
        cut_power(story.home, shadow, rng, is_mixed=bool(cut % 2))
        story.bring_back(rng)
        story.retry()
    with ended(nursery.start(home, {"spool.pipeline.BATCH_REQUESTS": 512}, faults=faults, shadow=shadow)) as host:
        assert attend(story, host) == 0, host.tail()
    return story


def test_without_syncing_acknowledged_notes_are_lost(nursery: Nursery, tmp_path: Path, rng: random.Random) -> None:
    """The control: the same check sees what syncs are for."""
    cut = chains(nursery, tmp_path, "before", rng, first=90, stride=30, has_power_cuts=True, faults=("--without-sync",))
    for chain in cut:
        figures = chain.run()
        if figures.verdict.lost:
            return
        assert not chain.is_over, figures


@pytest.mark.skipif(not IS_LONG, reason="the long form: HB_CRASH_LONG=1")
@pytest.mark.timeout(4 * 3600)
def test_power_cuts_at_every_call_keep_what_was_acknowledged(
    nursery: Nursery, tmp_path: Path, rng: random.Random, capsys: pytest.CaptureFixture[str]
) -> None:
    total = Figures()
    all_ways: list[tuple[When, bool]] = [("before", False), ("after", True), ("torn", True), ("before", True)]
    ways = itertools.cycle(all_ways)
    for number in rounds(total, "cuts", _MIN_CUTS, capsys):
        when, is_mixed = next(ways)
        folder = tmp_path / str(number)
        total.add(until_over(chains(nursery, folder, when, rng, has_power_cuts=True, is_mixed=is_mixed)))
