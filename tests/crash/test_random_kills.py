"""SIGKILL at random moments: the command as it is installed, producers that never stop, an editor in MEMORY.md."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.crash.conftest import IS_LONG
from tests.crash.story import BOXES, Editor, Story, producing
from tests.hosting import HostProcess, wait_for

SETTINGS = {"ipc.sweep_seconds": 0.02, "log.level": "warning"}
_KILLS = 75 if IS_LONG else 3
_PAUSE_SECONDS = 0.004


@pytest.mark.parametrize("has_editor", [False, True], ids=["alone", "with an editor"])
def test_killed_at_random_under_load_nothing_is_lost(
    home: Path, tmp_path: Path, rng: random.Random, has_editor: bool
) -> None:
    story = Story(home)
    copies = tmp_path / "copies"
    copies.mkdir()
    with HostProcess(home, SETTINGS) as host:
        with producing(story, BOXES, _PAUSE_SECONDS):
            for kill in range(_KILLS):
                answered = len(story.acknowledged)
                host.start()
                editor = Editor(story, "alpha", random.Random(kill), edits=3, copies=copies) if has_editor else None
                death = time.monotonic() + rng.uniform(0.0, 0.4)
                while time.monotonic() < death or len(story.acknowledged) == answered:
                    story.look()
                    if editor is not None:
                        editor.step()
                    time.sleep(0.002)
                host.kill()
                if editor is not None:
                    editor.finish()
                story.look()
        host.start()
        wait_for(lambda: not story.is_waiting(), 60, what="every box empty")
        host.stop()
    story.look()
    verdict = story.check(is_ordered=not has_editor)
    assert len(story.acknowledged) == len(story.sent)
    assert verdict.is_good, verdict
