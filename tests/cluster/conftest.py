"""Several machines on one. Without `HB_CLUSTER=1`, as `make test-cluster` sets it, nothing is run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

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
def pair(tmp_path: Path) -> Iterator[Cluster]:
    """Two machines, on which no host runs yet, and one server."""
    servers = Servers(tmp_path / "servers", 1)
    with closing(Cluster(tmp_path, ["a", "b"], servers, [servers.urls] * 2)) as made:
        yield made
