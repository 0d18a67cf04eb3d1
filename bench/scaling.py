"""The slopes on which docs/scaling.md rests: what a group, a home and a record cost.

Three servers and all hosts share the processor and the disk of one machine: these are bounds from above.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import nats

from bench.cluster import joined_homes, note, shares_of, three_servers, wait_until
from bench.hosting import Daemon, new_home, request, running
from bench.pipeline import Figure
from honeybadger_agent.mailbox import Mailbox
from honeybadger_host.cluster.servers import Servers
from honeybadger_host.files.home import JOURNAL_FILE

_IDLE_SECONDS = 120.0  # looks at all groups come once a minute
_SECONDS = 20.0


def bench_scaling(base: Path) -> list[Figure]:
    return [
        *(figure for groups in (1000, 3333, 10_000) for figure in _groups(base, groups)),
        *_logs(base),
        *_records(base, 5000),
        _takeover(base, 3333),
    ]


def _groups(base: Path, groups: int) -> list[Figure]:
    """The cost of a host of many groups while nothing happens."""
    with new_home(base) as home:
        for number in range(groups):
            Mailbox.of(home, f"g{number:05}", "agent").create()
            (home / "groups" / f"g{number:05}").mkdir()
        begun = time.perf_counter()
        with running(home) as daemon:
            started = time.perf_counter() - begun
            time.sleep(_SECONDS)  # it reads all of them once
            (share,) = shares_of([daemon], _IDLE_SECONDS)
            resident = daemon.resident_mib()
    return [
        Figure(f"{groups:,} groups: a start", f"{started:.1f} s"),
        Figure("... idle", f"{share:.1f} % of a core, {resident:.0f} MiB"),
    ]


def _logs(base: Path) -> list[Figure]:
    """The cost of the logs of many homes for the servers: three replicas each."""
    figures, made = [], 0
    with three_servers(base) as servers:
        for count in (1, 100, 300):
            with closing(Servers(servers.urls)) as connected:
                for number in range(made, count):
                    connected.make_stream(f"S{number}", f"s.{number}")
                    connected.publish(f"s.{number}", b"x", {})
            made = count
            share = max(shares_of(servers.processes, _SECONDS))
            resident = max(process.resident_mib() for process in servers.processes)
            figures.append(Figure(f"{count} logs: a server, idle", f"{share:.1f} % of a core, {resident:.0f} MiB"))
        for many in (1, 20, 200):
            rate = asyncio.run(_published(servers.urls, [f"s.{number}" for number in range(many)]))
            figures.append(Figure(f"... {many} of them, one publish after the other in each", f"{rate:,.0f}/s"))
        rate = asyncio.run(_published(servers.urls, ["s.0"] * 300))
        figures.append(Figure("... 300 publishes at once to one, as leases are", f"{rate:,.0f}/s"))
    return figures


async def _published(urls: list[str], subjects: Sequence[str], seconds: float = 5.0) -> float:
    """Return how many publishes a second three servers take, with one under way for each of `subjects`."""
    connection = await nats.connect(urls)
    jetstream, until, done = connection.jetstream(timeout=10), time.monotonic() + seconds, 0

    async def publish(subject: str) -> None:
        nonlocal done
        while time.monotonic() < until:
            await jetstream.publish(subject, b"x" * 1500)
            done += 1

    await asyncio.gather(*map(publish, subjects))
    await connection.close()
    return done / seconds


def _records(base: Path, count: int) -> list[Figure]:
    """How fast a machine that was away catches up, and whether a note costs more when the log is long."""
    with ExitStack() as opened:
        servers = opened.enter_context(three_servers(base))
        (owner, other), setting = opened.enter_context(joined_homes(base, servers, 2))
        opened.enter_context(Daemon(owner, setting))
        taken = [note(owner, "ada", f"n{number:05}") for number in range(count)]
        behind = _place_of(other)
        opened.enter_context(Daemon(other, setting))
        wait_until(lambda: _place_of(other) > behind)
        begun, behind = time.perf_counter(), _place_of(other)
        wait_until(lambda: _place_of(other) >= _place_of(owner), 0.005)
        rate = (_place_of(other) - behind) / (time.perf_counter() - begun)
        logged = asyncio.run(_bytes_of_logs(servers.urls))
        journal = (owner / JOURNAL_FILE).stat().st_size
    tenth = count // 10
    early, late = (f"{sorted(some)[tenth // 2] * 1000:.1f} ms" for some in (taken[:tenth], taken[-tenth:]))
    return [
        Figure(f"a note, the first {tenth} and the last of {count:,}", f"{early}, {late}"),
        Figure("... takes of each disk", f"{journal / count:,.0f} bytes of journal, {logged / count:,.0f} of log"),
        Figure("catching up", f"{rate:,.0f} records/s", goal="50,000/s", is_met=rate >= 50_000),
    ]


async def _bytes_of_logs(urls: list[str]) -> int:
    connection = await nats.connect(urls)
    streams = await connection.jetstream(timeout=10).streams_info()
    await connection.close()
    return sum(stream.state.bytes for stream in streams)


def _place_of(home: Path) -> int:
    with closing(sqlite3.connect(home / JOURNAL_FILE)) as connection:
        found = connection.execute("SELECT value FROM meta WHERE key = 'log_seq'").fetchone()
    return 0 if found is None else int(found[0])


def _takeover(base: Path, groups: int) -> Figure:
    """How long a home with a note in each of many groups is without an owner."""
    with ExitStack() as opened:
        servers = opened.enter_context(three_servers(base))
        (owner, other), setting = opened.enter_context(joined_homes(base, servers, 2))
        host = opened.enter_context(Daemon(owner, setting))
        note(owner, "ada", "first")
        opened.enter_context(Daemon(other, setting))
        for number in range(groups):
            mailbox = Mailbox.of(owner, f"g{number:05}", "ada")
            mailbox.create()
            mailbox.publish("n1", request("n1"), is_durable=False)
        replies = [Mailbox.of(owner, f"g{number:05}", "ada").path("replies", "n1") for number in range(groups)]
        wait_until(lambda: all(path.exists() for path in replies), 0.5)
        wait_until(lambda: _place_of(other) >= _place_of(owner), 0.1)
        host.end()
        begun = time.perf_counter()
        note(other, "bob", "n2")
        seconds = time.perf_counter() - begun
    return Figure(f"owner of {groups:,} groups killed, until the next reply", f"{seconds:.1f} s", goal="5 s")
