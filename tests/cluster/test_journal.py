"""The suite of the embedded journal, on one that several machines keep; another machine follows each test."""

import inspect
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from honeybadger_host.journal.journal import Journal
from tests.cluster import servers as real
from tests.cluster.machines import dump
from tests.cluster.test_log import connected, copy_of, follow, log_of, names, shared_journal
from tests.host.journal import test_journal as embedded

__all__ = ["names"]
_OF_ONE_MACHINE = {
    "test_a_commit_is_synced_before_it_returns",  # here the servers do that
}
path = embedded.path
globals().update(
    {
        name: test
        for name, test in vars(embedded).items()
        if name.startswith("test_") and "journal" in inspect.signature(test).parameters and name not in _OF_ONE_MACHINE
    }
)


@pytest.fixture(scope="module")
def server() -> Iterator[real.Servers]:
    with real.in_memory() as folder, closing(real.Servers(folder, 1)) as running:
        yield running


@pytest.fixture
def journal(path: Path, tmp_path: Path, server: real.Servers) -> Iterator[Journal]:
    other = tmp_path / "other.db"
    Journal.open(path).close()
    copy_of(path, other)
    with closing(connected(server.urls)) as servers:
        opened, log = shared_journal(path, servers)
        yield opened
        opened.close()
        assert follow(other, log_of(servers)) == log.position
    assert dump(other) == dump(path)
