"""Several machines on one. Without `HB_CLUSTER=1`, as `make test-cluster` sets it, nothing is run."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.machines import Cluster
from tests.cluster.servers import Servers, in_memory

if os.environ.get("HB_CLUSTER") != "1":
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with in_memory() as folder:
        yield folder


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    """Return what makes machines that keep one home, on which no host runs yet, and their servers."""
    with ExitStack() as opened:

        def make(*names: str, count: int = 1, servers: Servers | None = None, **more: Any) -> Cluster:
            running = servers or Servers(tmp_path / "servers", count)
            more.setdefault("urls", [running.urls] * len(names))
            return opened.enter_context(closing(Cluster(tmp_path, names, running, **more)))

        yield make


@pytest.fixture
def pair(made: Callable[..., Cluster]) -> Cluster:
    return made("a", "b")
