"""The handlers over a home with the group `main`."""

from pathlib import Path

import pytest

from tests.host.handlers.room import Room


@pytest.fixture
def room(tmp_path: Path) -> Room:
    (tmp_path / "groups" / "main").mkdir(parents=True)
    return Room(tmp_path)
