"""Notes leave MEMORY.md for the archive, and the host dies at every call of that."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from honeybadger_host.files.home import make_home
from tests.crash.chains import kills_in_recovery
from tests.crash.conftest import IS_LONG
from tests.crash.hosts import Kill, Nursery, Point, When, attend, cut_power, ended, keep_all, struck
from tests.crash.story import Story, read
from tests.crash.test_kill_points import POINTS
from tests.hosting import wait_for
from tests.people import settle

_ANN: Final = ("alpha", "ann")
_ONE_BY_ONE: Final = {"spool.pipeline.BATCH_REQUESTS": 1}
_ARCHIVED: Final = re.compile(
    rb"\n## Notes \(ann, [\d :-]{16}\)\n- note 1\n> Archived [\dTZ:-]{20} by operator: change 2 was undone\n"
    rb"\n## Notes \(ann, [\d :-]{16}\)\n- note 3\n> Archived [\dTZ:-]{20} by operator: change 4 was undone\n"
)


@pytest.fixture(scope="module")
def settled(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """A home with four notes that have settled."""
    home = tmp_path_factory.mktemp("settled") / "home"
    make_home(home)
    story = Story(home)
    for number in range(4):
        story.drop(_ANN, "note", f"note {number}")
    with nursery.serving(home):
        wait_for(lambda: not story.is_waiting(), what="four replies")
        settle(home)
        story.look()
    return story


class Life:
    """One home in which two notes are removed and one comes meanwhile, through several deaths."""

    def __init__(self, nursery: Nursery, settled: Story, folder: Path) -> None:
        self._nursery = nursery
        self._home = folder / "home"
        shutil.copytree(settled.home, self._home)
        self._story = Story(self._home)
        self._story.sent, self._story.acknowledged = [*settled.sent], {**settled.acknowledged}
        first, last = settled.sent[1], settled.sent[3]
        self._story.undo(first, 2)
        self._story.drop(_ANN, "note", "note 4")
        self._story.undo(last, 4)

    def live(self, kill: Kill | Point | None, shadow: Path | None = None) -> int:
        """Run one host until it dies or is done; return its exit code."""
        with ended(self._nursery.start(self._home, _ONE_BY_ONE, kill=kill, shadow=shadow)) as host:
            return attend(self._story, host)

    def lose_power(self, shadow: Path, rng: random.Random, *, is_mixed: bool) -> None:
        cut_power(self._story, shadow, rng, is_mixed=is_mixed)
        self._story.retry()

    def check(self, *, had_cuts: bool = False) -> None:
        """See that every note stands where it belongs, once, and nothing is left over."""
        assert self.live(None) == 0
        verdict = self._story.check(may_replies_vanish=had_cuts)
        folder = self._home / "groups" / "alpha"
        assert verdict.is_good, f"{struck(self._home)}: {verdict}"
        archive = read(folder / "archive" / "MEMORY.md")
        assert _ARCHIVED.fullmatch(archive), f"{struck(self._home)}: {archive.decode()}"
        assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def lives(nursery: Nursery, settled: Story, folder: Path) -> Iterator[Life]:
    number = 0
    while True:
        number += 1
        yield Life(nursery, settled, folder / str(number))
        shutil.rmtree(folder / str(number))


@pytest.mark.parametrize(("when", "stride"), [("before", 83), ("after", 89), ("torn", 37)])
def test_killed_at_any_call_leaving_notes_are_kept(
    nursery: Nursery, settled: Story, tmp_path: Path, rng: random.Random, when: When, stride: int
) -> None:
    stride = 1 if IS_LONG else stride
    at, kills = rng.randint(1, stride), 0
    for life in lives(nursery, settled, tmp_path):
        code = life.live(Kill(at, when, kind="write" if when == "torn" else ""))
        for kill in kills_in_recovery(rng) if code else ():
            life.live(kill)
        life.check()
        if code == 0:
            break
        kills += 1
        at += stride
    assert kills


@pytest.mark.parametrize("point", POINTS[:: 1 if IS_LONG else 2])
def test_killed_thrice_while_notes_leave_nothing_is_lost(
    nursery: Nursery, settled: Story, tmp_path: Path, point: str
) -> None:
    life = next(lives(nursery, settled, tmp_path))
    codes = [life.live(Point(point, passage)) for passage in (1, 3, 1)]
    assert codes[0] != 0
    life.check()


@pytest.mark.parametrize("is_mixed", [False, True])
def test_a_power_cut_while_notes_leave_takes_no_line(
    nursery: Nursery, settled: Story, tmp_path: Path, rng: random.Random, is_mixed: bool
) -> None:
    for number, life in enumerate(lives(nursery, settled, tmp_path)):
        shadow = tmp_path / f"shadow{number}"
        keep_all(tmp_path / str(number + 1) / "home", shadow)
        for _ in range(2):
            life.live(Kill(rng.randint(20, 120)), shadow)
            life.lose_power(shadow, rng, is_mixed=is_mixed)
        life.check(had_cuts=True)
        if number == (200 if IS_LONG else 1):
            break
