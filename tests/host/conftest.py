"""Fixtures for the packages of the host."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from honeybadger_host.journal.journal import Journal
from tests.host.documents.world import World
from tests.host.indexes import made
from tests.host.places import Place


@pytest.fixture(autouse=True)
def indexes_are_closed() -> Iterator[None]:
    """Close what `index_of` made: Python 3.13 says which databases were left open."""
    yield
    while made:
        made.pop().close()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.journal.close()


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    (tmp_path / "data").mkdir()
    opened = Journal.open(tmp_path / "data" / "journal.db")
    yield opened
    opened.close()
