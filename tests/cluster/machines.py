"""Machines that keep one home: real hosts, each with a home folder of its own, behind real servers."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import orjson
import pytest

from honeybadger_host.cluster import operating
from honeybadger_host.cluster.lease import LEASE_SECONDS, put_lease
from honeybadger_host.cluster.log import read_place
from honeybadger_host.cluster.operating import begin, join
from honeybadger_host.cluster.servers import Servers as Connection
from honeybadger_host.cluster.servers import Unreachable
from honeybadger_host.files.home import make_home
from honeybadger_host.settings import Cluster as Settings
from tests.cluster.servers import Servers, reached
from tests.hosting import HostProcess, RawSender, run_cli, wait_for

TABLES = ("changes", "receipts", "turns", "spent", "seen", "tasks", "emptied", "tombstones", "texts")


def dump(journal: Path) -> dict[str, list[tuple[object, ...]]]:
    """Return all that the machines have in common."""
    with closing(sqlite3.connect(journal)) as connection:
        return {table: connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in TABLES}


class Machine:
    """One machine: a home folder, and a host that may run there."""

    def __init__(
        self, folder: Path, name: str, urls: Sequence[str], settings: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.home = folder / name
        self.urls = list(urls)
        self._settings = {"cluster.servers": ",".join(urls), **settings}
        self.settings = Settings(**{name.removeprefix("cluster."): value for name, value in self._settings.items()})
        make_home(self.home)
        self.host = HostProcess(self.home, self._settings)
        self.box = RawSender(self.home)
        self.is_lost = False
        self._reading = threading.Lock()
        self._read = 0
        self._lines: dict[str, list[dict[str, Any]]] = {}

    def command(self, *arguments: str) -> str:
        """Run a command of the cluster on this machine; return what it printed.

        As long as it says that the servers do not answer, they have not chosen a leader yet.
        """
        settings = [f"--set={name}={value}" for name, value in self._settings.items()]
        done = run_cli("cluster", *arguments, *settings, home=self.home, env=self.host.env)

        def is_done() -> bool:
            nonlocal done
            if done.returncode == 8:
                done = run_cli("cluster", *arguments, *settings, home=self.home, env=self.host.env)
            return done.returncode != 8

        wait_for(is_done, 90, what=f"cluster {arguments[0]}")
        assert done.returncode == 0, done.stderr
        return done.stdout

    def kill(self) -> None:
        """End the host without a chance to clean up; a lease it had is over at once, not only after three seconds."""
        self.host.kill()
        self.end_lease()

    def replace(self, owner: Machine) -> None:
        """Kill the host of the owner, and wait until this machine serves in its place."""
        before = self.events("host.started")
        owner.kill()
        wait_for(lambda: self.events("host.started") > before, what=f"{self.home.name} owns the home")

    def end_lease(self) -> None:
        names, _, node = read_place(self.journal)
        with suppress(Unreachable), closing(Connection(self.settings.urls, self.settings.credentials)) as servers:
            put_lease(servers, names, node, "")

    def lines(self, event: str) -> list[dict[str, Any]]:
        """Return the log lines of one event; what a host says when it ends is none."""
        with self._reading:
            if self.host.stderr.is_file():
                with self.host.stderr.open("rb") as file:
                    file.seek(self._read)
                    said = file.read()
                said = said[: said.rfind(b"\n") + 1]
                self._read += len(said)
                for line in said.splitlines():
                    if line.startswith(b"{"):
                        value = orjson.loads(line)
                        self._lines.setdefault(value["event"], []).append(value)
            return [*self._lines.get(event, [])]

    def events(self, name: str) -> int:
        return len(self.lines(name))

    def own(self) -> None:
        """Start the host and wait until it serves."""
        self.begin("host.started", "owns the home")

    def follow(self) -> None:
        """Start the host and wait until it follows another."""
        self.begin("cluster.follows", "follows")

    def begin(self, event: str, what: str) -> None:
        """Start the host and wait until it says something new."""
        before = self.events(event)
        self.host.launch()

        def has_begun() -> bool:
            self.host.notifications.poll()  # a socket that nobody reads from is full by and by, and the host waits
            return self.events(event) > before

        wait_for(has_begun, what=f"{self.home.name} {what}")

    @property
    def journal(self) -> Path:
        return self.home / "data" / "journal.db"

    def node(self) -> str:
        """Return its name among those that keep the home."""
        return read_place(self.journal)[2]

    def position(self) -> tuple[int, str]:
        with closing(sqlite3.connect(self.journal)) as connection:
            found = dict(connection.execute("SELECT key, value FROM meta WHERE key LIKE 'log_%'"))
        return int(found["log_seq"]), str(found["log_chain"])

    def dump(self) -> dict[str, list[tuple[object, ...]]]:
        return dump(self.journal)

    def close(self) -> None:
        self.host.close()


class Cluster:
    """Machines that keep one home.

    Args:
        lease_seconds: a busy machine of the tests may stop an owner for longer than a lease is.
    """

    def __init__(
        self,
        folder: Path,
        names: Sequence[str],
        servers: Servers,
        urls: Sequence[Sequence[str]],
        settings: Mapping[str, str] = MappingProxyType({}),
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        self.servers = servers
        self.machines = [Machine(folder, name, some, settings) for name, some in zip(names, urls, strict=True)]
        for machine in self.machines:
            machine.host.settings |= {"cluster.lease.LEASE_SECONDS": lease_seconds}
        first, *others = self.machines
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(operating, "LEASE_SECONDS", lease_seconds)
            self.identity = reached(lambda: begin(first.home, first.settings, is_anew=False))
        for machine in others:
            reached(partial(join, machine.home, machine.settings, self.identity))

    def begin(self) -> list[Machine]:
        """Let the first machine own the home, and the others follow it; return them in this order."""
        first, *others = self.machines
        first.own()
        for machine in others:
            machine.follow()
        return self.machines

    def settle(self) -> None:
        """Wait until all that run have come to the end of the log."""

        def is_level() -> bool:
            return len({machine.position() for machine in self.machines if machine.host.is_running}) == 1

        wait_for(is_level, what="all machines are level")

    def close(self) -> None:
        for machine in self.machines:
            machine.close()
        self.servers.close()
