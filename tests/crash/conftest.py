"""Fixtures of the crash suite: the shim, compiled once, and the nursery of hosts."""

import functools
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.crash.features import FEATURES
from tests.crash.hosts import Nursery, Work

IS_LONG = os.environ.get("HB_CRASH_LONG", "") not in ("", "0")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if IS_LONG and item.path.parent == Path(__file__).parent and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(3600))


@pytest.fixture(scope="session")
def nursery(shim: Path) -> Nursery:
    return Nursery(shim)


@pytest.fixture(scope="session")
def work_of(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Work]:
    """Work of hosts for a feature; made once, for each kill has a copy of its home."""
    folder = tmp_path_factory.mktemp("features")
    return functools.cache(lambda feature: FEATURES[feature](nursery, folder))


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory where that is possible: a SIGKILL takes nothing from it, and thousands of syncs cost nothing.

    HB_CRASH_KEEP=1 keeps it.
    """
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="crash-", dir=memory if os.access(memory, os.W_OK) else None))
    yield folder
    if not os.environ.get("HB_CRASH_KEEP"):
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def rng() -> random.Random:
    """Randomness that the seed of the run repeats."""
    return random.Random(random.getrandbits(64))
