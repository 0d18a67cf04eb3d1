"""`make demo` and `make cluster` hold what they show, and leave nothing."""

import os
import sys
from pathlib import Path

import pytest

from tests.commands import finished

DEMOS = Path(__file__).parents[2] / "docs" / "demo"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("story", ["demo.py", "cluster.py"])
def test_the_story_holds_and_leaves_nothing(tmp_path: Path, story: str) -> None:
    done = finished([sys.executable, DEMOS / story], env={**os.environ, "TMPDIR": str(tmp_path)}, timeout=280)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "Everything held" in done.stdout
    assert list(tmp_path.iterdir()) == []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes()
        except OSError:
            continue
        assert str(tmp_path).encode() not in command, command
