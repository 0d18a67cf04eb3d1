"""Notes leave MEMORY.md for the archive, and the host dies at every call of that."""

from __future__ import annotations

import itertools
import random
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from honeybadger_host.files.home import make_home
from tests.crash.chains import Chain, Figures, kills_in_recovery, until_over
from tests.crash.conftest import IS_LONG
from tests.crash.hosts import Kill, Nursery, Point, When
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
    with nursery.serving(home, {"ops.maintenance.CHECKPOINT_SECONDS": 0.05}):
        wait_for(lambda: not story.is_waiting(), what="four replies")
        settle(home)
        story.look()
    return story


def chain(
    nursery: Nursery, settled: Story, folder: Path, first: Kill | Point, then: Sequence[Kill | Point], **more: Any
) -> Chain:
    """Return the deaths of hosts of one home in which two notes are removed and one comes meanwhile."""

    def begin(home: Path) -> Story:
        shutil.copytree(settled.home, home)
        story = Story(home)
        story.sent, story.acknowledged = [*settled.sent], {**settled.acknowledged}
        story.undo(settled.sent[1], 2)
        story.drop(_ANN, "note", "note 4")
        story.undo(settled.sent[3], 4)
        return story

    def wrong(home: Path) -> list[str]:
        group = home / "groups" / "alpha"
        archive = read(group / "archive" / "MEMORY.md")
        left = [path.name for path in group.iterdir() if path.name.startswith(".")]
        return left if _ARCHIVED.fullmatch(archive) else [*left, f"the archive: {archive.decode()}"]

    folder.mkdir()
    return Chain(nursery, folder, first, then, settings=_ONE_BY_ONE, begin=begin, wrong=wrong, **more)


@pytest.mark.parametrize(("when", "stride"), [("before", 83), ("after", 89), ("torn", 37)])
def test_killed_at_any_call_leaving_notes_are_kept(
    nursery: Nursery, settled: Story, tmp_path: Path, rng: random.Random, when: When, stride: int
) -> None:
    stride = 1 if IS_LONG else stride
    kind = "write" if when == "torn" else ""
    calls = itertools.count(rng.randint(1, stride), stride)
    figures = until_over(
        chain(nursery, settled, tmp_path / str(at), Kill(at, when, kind=kind), kills_in_recovery(rng)) for at in calls
    )
    assert figures.counts["kills"] > 1
    assert figures.is_good, figures


@pytest.mark.parametrize("point", POINTS[:: 1 if IS_LONG else 2])
def test_killed_thrice_while_notes_leave_nothing_is_lost(
    nursery: Nursery, settled: Story, tmp_path: Path, point: str
) -> None:
    then = [Point(point, 3), Point(point, 1)]
    figures = chain(nursery, settled, tmp_path / "chain", Point(point, 1), then).run()
    assert figures.counts["kills"]
    assert figures.is_good, figures


@pytest.mark.parametrize("is_mixed", [False, True])
def test_a_power_cut_while_notes_leave_takes_no_line(
    nursery: Nursery, settled: Story, tmp_path: Path, rng: random.Random, is_mixed: bool
) -> None:
    figures = Figures()
    for number in range(201 if IS_LONG else 2):
        first, second = (Kill(rng.randint(20, 120)) for _ in range(2))
        one = chain(nursery, settled, tmp_path / str(number), first, [second], cuts=rng, is_mixed=is_mixed)
        figures.add(one.run())
    assert figures.is_good, figures
