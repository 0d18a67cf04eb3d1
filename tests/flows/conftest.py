"""Fixtures of the flows: faults in the world around a host."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from honeybadger_host.files.home import make_home
from tests.conftest import HostFactory
from tests.flows.world import Fault, SetClock, mounted
from tests.hosting import HostProcess


class FaultFactory(Protocol):
    def __call__(self, kind: str, path: str, number: int) -> Fault: ...


@pytest.fixture
def fault_of(shim: Path, home: Path) -> FaultFactory:
    """Make faults for hosts on `home`; see `Fault.of`."""

    def make(kind: str, path: str, number: int) -> Fault:
        return Fault.of(shim, home, kind, path, number)

    return make


@pytest.fixture
def clock(shim: Path, home: Path) -> SetClock:
    """A wall clock for hosts on `home` that can be set."""
    return SetClock.of(shim, home)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of three MiB and 200 inodes, with nothing on it."""
    with mounted(tmp_path / "disk", "size=3m,nr_inodes=200") as folder:
        yield folder


@pytest.fixture
def cramped(disk: Path, make_host: HostFactory) -> HostProcess:
    """A host on that disk, which is not started. Its log is elsewhere, so that the test can read it."""
    make_home(disk / "home")
    host = make_host({"spool.batch_writer.FULL_DISK_SECONDS": 0.5}, home=disk / "home")
    host.stderr = disk.parent / "host.stderr"
    return host
