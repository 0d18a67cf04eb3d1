"""Hypothesis without a time limit for each example: the machine may be busy, and every test has its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.host.indexes import made
from tests.host.places import Place
from tests.host.storage.projected import World

settings.register_profile("rooms", deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("rooms")


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
