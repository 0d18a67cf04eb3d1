"""One home through several deaths: dropped into, killed or cut from power again and again, served to the end."""

from __future__ import annotations

import itertools
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from honeybadger_host.files.home import make_home
from tests.crash.hosts import Kill, Nursery, Point, When, attend, cut_power, ended, keep_all, struck, struck_file
from tests.crash.story import Story, Verdict, read
from tests.hosting import at_once

_QUICK_CHECKPOINTS = ("--constant", "ops.maintenance.CHECKPOINT_SECONDS=0.003")
_KILLED = -9
WAYS: Sequence[When] = ("before", "after", "torn")


@dataclass(slots=True)
class Figures:
    """The result of chains and storms.

    Args:
        counts: how many of each thing, as `kills`.
        bad: what was wrong, and where a host was struck.
    """

    counts: Counter[str] = field(default_factory=Counter)
    verdict: Verdict = field(default_factory=Verdict)
    bad: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return self.verdict.is_good and not self.bad

    def add(self, other: Figures) -> None:
        self.counts += other.counts
        self.verdict.add(other.verdict)
        self.bad += other.bad

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {what}" for what, count in self.counts.items())
        wrong = [len(found) for found in (self.verdict.lost, self.verdict.doubled, self.verdict.wrong)]
        return "\n".join([f"{counts}: {wrong} lost, doubled, wrong", *self.bad[:5]])


@dataclass(slots=True)
class Chain:
    """How a chain goes.

    Args:
        first: where the first host dies; None: it does not.
        then: where the next ones do.
        faults: of every host; see `launch.py`.
        is_mixed: see `cut_power`.
    """

    nursery: Nursery
    folder: Path
    first: Kill | Point | None
    then: Sequence[Kill | Point] = ()
    faults: Sequence[str] = ()
    cuts: random.Random | None = None
    is_mixed: bool = False
    rounds: int = 2
    is_over: bool = False
    """The first host finished before it came to the call where it was to die."""

    def run(self) -> Figures:
        """Go through the deaths, then to the end; the folder is removed when all is well."""
        self.folder.mkdir(parents=True)
        figures = Figures(Counter(chains=1))
        home = self.folder / "home"
        make_home(home)
        story = Story(home)
        story.drop_some(self.rounds, may_forget=self.cuts is None)
        shadow = self.folder / "shadow" if self.cuts else None
        if shadow is not None:
            keep_all(home, shadow)
        for number, kill in enumerate((self.first, *self.then)):
            code = self._live(story, shadow, kill)
            figures.counts["kills"] += code == _KILLED
            self.is_over |= number == 0 and code == 0
            if code not in (0, _KILLED):
                return self._failed(figures, story, code)
            if shadow is not None and self.cuts is not None:
                cut_power(story.home, shadow, self.cuts, is_mixed=self.is_mixed)
                story.bring_back(self.cuts)
                figures.counts["cuts"] += 1
                story.retry()
        if (code := self._live(story, shadow, None)) != 0:
            return self._failed(figures, story, code)
        figures.counts["acknowledged"] = len(story.acknowledged)
        figures.verdict = story.check(is_ordered=not self.cuts, may_replies_vanish=bool(self.cuts))
        if figures.verdict.is_good:
            shutil.rmtree(self.folder)
        else:
            figures.bad.append(f"{self.first}, {self._struck(home)}\n{figures.verdict}\n({self.folder})")
        return figures

    def _live(self, story: Story, shadow: Path | None, kill: Kill | Point | None) -> int:
        """Run one host until it dies or is done; return its exit code."""
        faults = (*_QUICK_CHECKPOINTS, *self.faults)
        with ended(self.nursery.start(story.home, faults=faults, kill=kill, shadow=shadow)) as host:
            return attend(story, host)

    def _failed(self, figures: Figures, story: Story, code: int) -> Figures:
        figures.verdict.wrong.append(f"a host ended with exit code {code}")
        log = read(story.home.parent / "home.stderr").decode(errors="replace")[-1500:]
        figures.bad.append(f"{self.first}, {self._struck(story.home)}: exit code {code}\n{log}")
        return figures

    def _struck(self, home: Path) -> str:
        return "struck at " + ", ".join(read(struck_file(home)).decode(errors="replace").splitlines() or [struck(home)])


def rounds(total: Figures, what: str, least: int, capsys: pytest.CaptureFixture[str]) -> Iterator[int]:
    """Number the rounds of a campaign until it has so many of something; the figures are printed and must be good."""
    for number in itertools.count(1):
        if total.counts[what] >= least:
            return
        yield number
        with capsys.disabled():
            print(f"\nround {number}: {total}", flush=True)
        assert total.is_good, str(total)


def chains(
    nursery: Nursery,
    folder: Path,
    when: When,
    rng: random.Random,
    *,
    first: int = 1,
    stride: int = 1,
    has_power_cuts: bool = False,
    **more: Any,
) -> Iterator[Chain]:
    """Yield chains whose first host dies at the calls `first`, `first + stride`, …, and two more while they recover.

    Args:
        more: of `Chain`.
    """
    for at in itertools.count(first, stride):
        kill = Kill(at, when, kind="write" if when == "torn" else "")
        then = [Kill(rng.randint(1, 45), rng.choice(WAYS)) for _ in range(2)]
        cuts = random.Random(rng.getrandbits(64)) if has_power_cuts else None
        yield Chain(nursery, folder / f"{when}-{at}", kill, then, cuts=cuts, **more)


def until_over(chains: Iterable[Chain]) -> Figures:
    """Run chains whose first death is later and later, until a host is done before it."""
    figures = Figures()
    for chain in chains:
        figures.add(chain.run())
        if chain.is_over:
            return figures
    raise AssertionError("the work never ended")


def live(
    nursery: Nursery, home: Path, rng: random.Random, look: Callable[[], object], *, at_calls: bool, **more: Any
) -> None:
    """Let a host live until it is killed; `look` is called meanwhile.

    Args:
        at_calls: half of them die at some call, not at some moment.
        more: of `Nursery.start`.
    """
    at_call = Kill(rng.randint(1, 900), rng.choice(("before", "after"))) if at_calls and rng.random() < 0.5 else None
    seconds = rng.choice((rng.uniform(0, 0.3), rng.uniform(0.3, 1.5), rng.uniform(1.5, 4))) if at_call is None else 4
    with ended(nursery.start(home, kill=at_call, **more)) as host:
        death = time.monotonic() + seconds
        while time.monotonic() < death and host.poll() is None:
            look()
            time.sleep(0.02)
    assert host.wait() == _KILLED, host.tail()


def storms(storm: Callable[[Path, random.Random], Figures], folder: Path, rng: random.Random, count: int) -> Figures:
    """Run some storms at once, each in a folder of its own."""
    total, seeds = Figures(), [random.Random(rng.getrandbits(64)) for _ in range(count)]
    for one in at_once(*(partial(storm, folder / f"home{at}", seed) for at, seed in enumerate(seeds))):
        total.add(one)
    return total
