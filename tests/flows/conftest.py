"""Fixtures of the flows: faults in the world around a host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from tests.flows.world import Fault, mounted


class FaultFactory(Protocol):
    def __call__(self, kind: str, path: str, number: int) -> Fault: ...


@pytest.fixture
def fault_of(shim: Path, home: Path) -> FaultFactory:
    """Make faults for hosts on `home`; see `Fault.of`."""

    def make(kind: str, path: str, number: int) -> Fault:
        return Fault.of(shim, home, kind, path, number)

    return make


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of three MiB and 200 inodes, with nothing on it."""
    with mounted(tmp_path / "disk", "size=3m,nr_inodes=200") as folder:
        yield folder
