"""Several machines on one. Without `HB_CLUSTER=1`, as `make test-cluster` sets it, nothing is run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.servers import in_memory

if os.environ.get("HB_CLUSTER") != "1":
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with in_memory() as folder:
        yield folder
