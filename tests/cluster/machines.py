"""Machines that keep one home: real hosts, each with a home folder of its own, behind real servers."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import orjson

from honeybadger_host.storage.home import make_home
from tests.cluster.servers import Servers
from tests.hosting import HostProcess, RawSender, run_cli, wait_for

TABLES: Final = ("changes", "receipts", "turns", "spent", "edits", "lines", "seen", "tasks", "emptied", "tombstones")


class Machine:
    """One machine: a home folder, and a host that may run there."""

    def __init__(self, folder: Path, name: str, urls: Sequence[str]) -> None:
        self.home = folder / name
        self.urls = list(urls)
        make_home(self.home)
        self.host = HostProcess(self.home, {"cluster.servers": ",".join(urls)})
        self.box = RawSender(self.home)
        self.is_lost = False

    def command(self, *arguments: str) -> str:
        """Run a command of the cluster on this machine; return what it printed.

        As long as it says that the servers do not answer, they have not chosen a leader yet.
        """
        setting = f"cluster.servers={','.join(self.urls)}"
        done = run_cli("cluster", *arguments, "--set", setting, home=self.home)

        def is_done() -> bool:
            nonlocal done
            if done.returncode == 8:
                done = run_cli("cluster", *arguments, "--set", setting, home=self.home)
            return done.returncode != 8

        wait_for(is_done, 90, what=f"cluster {arguments[0]}")
        assert done.returncode == 0, done.stderr
        return done.stdout

    def lines(self, event: str) -> list[dict[str, Any]]:
        """Return the log lines of one event; what a host says when it ends is none."""
        lines = self.host.log_text().splitlines()
        return [orjson.loads(line) for line in lines if line.startswith("{") and f'"{event}"' in line]

    def events(self, name: str) -> int:
        return len(self.lines(name))

    def own(self) -> None:
        """Start the host and wait until it serves."""
        before = self.events("host.started")
        self.host.launch()
        wait_for(lambda: self.events("host.started") > before, what=f"{self.home.name} owns the home")

    def follow(self) -> None:
        """Start the host and wait until it follows another."""
        before = self.events("cluster.follows")
        self.host.launch()
        wait_for(lambda: self.events("cluster.follows") > before, what=f"{self.home.name} follows")

    @property
    def journal(self) -> Path:
        return self.home / "data" / "journal.db"

    def position(self) -> tuple[int, str]:
        with closing(sqlite3.connect(self.journal)) as connection:
            found = dict(connection.execute("SELECT key, value FROM meta WHERE key LIKE 'log_%'"))
        return int(found["log_seq"]), str(found["log_chain"])

    def dump(self) -> dict[str, list[tuple[object, ...]]]:
        """Return all that the machines have in common."""
        with closing(sqlite3.connect(self.journal)) as connection:
            return {table: connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in TABLES}

    def close(self) -> None:
        self.host.close()


class Cluster:
    """Machines that keep one home."""

    def __init__(self, folder: Path, names: Sequence[str], servers: Servers, urls: Sequence[Sequence[str]]) -> None:
        self.servers = servers
        self.machines = [Machine(folder, name, some) for name, some in zip(names, urls, strict=True)]
        self.identity = self.machines[0].command("init").splitlines()[0]
        for machine in self.machines[1:]:
            machine.command("join", self.identity)

    def settle(self) -> None:
        """Wait until all that run have come to the end of the log."""

        def is_level() -> bool:
            return len({machine.position() for machine in self.machines if machine.host.is_running}) == 1

        wait_for(is_level, what="all machines are level")

    def close(self) -> None:
        for machine in self.machines:
            machine.close()
        self.servers.close()
