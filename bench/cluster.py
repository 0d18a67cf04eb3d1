"""A home on three machines, all of them this one: what the shared log costs a note, and how long a takeover lasts.

Three servers and three hosts share two cores and one disk: these are bounds from above.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import orjson

from bench.hosting import NOTE, Daemon, Process, new_home, running
from bench.pipeline import Figure, percentile
from honeybadger_agent.mailbox import Mailbox
from honeybadger_host.cluster.servers import EXPECTED_HEADER, Servers, Unreachable

_SERVER = """
server_name: n{number}
listen: 127.0.0.1:{client}
jetstream {{ store_dir: "{store}", sync_interval: always }}
cluster {{ name: bench, listen: 127.0.0.1:{route}, routes: [{routes}] }}
"""
_PATIENCE_SECONDS = 60.0
_IDLE_SECONDS = 20.0


def bench_cluster(base: Path, notes: int = 300, bulk: int = 5000) -> list[Figure]:
    with ExitStack() as opened:
        alone = opened.enter_context(new_home(base))
        with running(alone):
            single = _latencies(alone, "ada", notes)
        servers = opened.enter_context(three_servers(base))
        bare = _bare(servers.urls, notes)
        homes, setting = opened.enter_context(joined_homes(base, servers, 3))
        hosts = []
        for number, home in enumerate(homes):
            hosts.append(opened.enter_context(Daemon(home, setting)))
            note(home, f"s{number}", "first")  # the first one owns the home by then
        owner, following, _ = homes
        at_owner = _latencies(owner, "ada", notes)
        elsewhere = _latencies(following, "bob", notes)
        rate = rate_of([owner], bulk)
        time.sleep(_IDLE_SECONDS)
        shares = shares_of(hosts, _IDLE_SECONDS)
        hosts[0].end()
        lost = time.monotonic()
        note(following, "bob", "after")
        taken_over = time.monotonic() - lost
    floor = f"{_shown(bare)} a bare publish, {_shown(single)} one machine"
    median, late = percentile(at_owner, 0.5) * 1000, percentile(at_owner, 0.99) * 1000
    return [
        Figure("a note, three machines", _shown(at_owner), floor, goal="5, 25 ms", is_met=median <= 5 and late <= 25),
        Figure("... dropped on a machine that follows", _shown(elsewhere)),
        Figure(f"{bulk:,} notes at once", f"{rate:,.0f}/s", goal="2,000/s", is_met=rate >= 2000),
        Figure("owner killed, until the next reply", f"{taken_over:.1f} s", goal="5 s", is_met=taken_over <= 5),
        Figure(
            "idle, of a core: owner; each that follows",
            f"{shares[0]:.1f} %; {shares[1]:.1f}, {shares[2]:.1f} %",
            goal="2 %",
            is_met=max(shares) < 2,
        ),
    ]


class NatsServers(NamedTuple):
    """NATS servers that are one cluster."""

    urls: list[str]
    processes: list[Process]


@contextmanager
def three_servers(base: Path) -> Iterator[NatsServers]:
    """Yield servers that keep what they have below `base`, once they have chosen a leader."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(6)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    clients, routes = ports[:3], ports[3:]
    joined = ", ".join(f"nats://127.0.0.1:{port}" for port in routes)
    program = Path(sys.executable).with_name("nats-server")
    servers = NatsServers([f"nats://127.0.0.1:{port}" for port in clients], [])
    with tempfile.TemporaryDirectory(dir=base, ignore_cleanup_errors=True) as folder:
        try:
            for number, (client, route) in enumerate(zip(clients, routes, strict=True)):
                config = Path(folder, f"n{number}.conf")
                store = config.with_suffix("")
                config.write_text(_SERVER.format(number=number, client=client, store=store, route=route, routes=joined))
                started = subprocess.Popen([str(program), "-c", str(config), "-l", str(store.with_suffix(".log"))])
                servers.processes.append(Process(started))
            wait_until(lambda: _is_ready(servers.urls), 0.5)
            yield servers
        finally:
            for process in servers.processes:
                process.end()


def _is_ready(urls: list[str]) -> bool:
    try:
        with closing(Servers(urls)) as connected:
            connected.make_stream("BARE", "bare")
    except Unreachable:
        return False
    return True


@contextmanager
def joined_homes(base: Path, servers: NatsServers, count: int) -> Iterator[tuple[list[Path], list[str]]]:
    """Yield the folders of machines that keep one home, and the setting that their hosts need."""
    with ExitStack() as opened:
        homes = [opened.enter_context(new_home(base / f"machine-{number}")) for number in range(count)]
        setting = f"cluster.servers={','.join(servers.urls)}"
        identity = run_command(homes[0], setting, "init").splitlines()[0]
        for home in homes[1:]:
            run_command(home, setting, "join", identity)
        yield homes, [setting]


def shares_of(processes: Sequence[Process], seconds: float) -> list[float]:
    """Return which part of a core each process takes for some seconds, in percent."""
    before = [process.cpu_seconds() for process in processes]
    time.sleep(seconds)
    return [(process.cpu_seconds() - was) / seconds * 100 for process, was in zip(processes, before, strict=True)]


def _bare(urls: list[str], count: int) -> list[float]:
    """Return the seconds of single publishes to three replicas, with what a record's message weighs."""
    found = []
    with closing(Servers(urls)) as connected:
        for number in range(count):
            begun = time.perf_counter()
            connected.publish("bare", b"x" * 1500, {EXPECTED_HEADER: str(number)})
            found.append(time.perf_counter() - begun)
    return found


def run_command(home: Path, setting: str, *arguments: str) -> str:
    command = [sys.executable, "-m", "honeybadger_host", "cluster", *arguments, "--home", str(home), "--set", setting]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _request(stem: str) -> bytes:
    return orjson.dumps({"v": 1, "id": stem, "type": "update_memory", "payload": {"content": f"{stem}: {NOTE}"}})


def note(home: Path, sender: str, stem: str, group: str = "main") -> float:
    """Drop a note; return the seconds until its reply is there."""
    mailbox = Mailbox.of(home, group, sender)
    mailbox.create()
    begun = time.perf_counter()
    mailbox.publish(stem, _request(stem))
    wait_until(lambda: mailbox.reply(stem) is not None)
    return time.perf_counter() - begun


def _latencies(home: Path, sender: str, count: int) -> list[float]:
    return [note(home, sender, f"n{number:05}") for number in range(-20, count)][20:]


def rate_of(homes: Sequence[Path], count: int) -> float:
    """Return how many notes a second are done when `count` are dropped at once into each home."""
    mailboxes = [Mailbox.of(home, "main", "bulk") for home in homes]
    begun = time.perf_counter()
    for mailbox in mailboxes:
        mailbox.create()
        for number in range(count):
            mailbox.publish(f"b{number:05}", _request(f"b{number:05}"), is_durable=False)
    wait_until(lambda: not any(any((mailbox.root / "requests").iterdir()) for mailbox in mailboxes), 0.01)
    return count * len(homes) / (time.perf_counter() - begun)


def wait_until(is_there: Callable[[], bool], pause_seconds: float = 0.0002) -> None:
    until = time.monotonic() + _PATIENCE_SECONDS
    while not is_there():
        if time.monotonic() > until:
            raise TimeoutError(f"not within {_PATIENCE_SECONDS:g} s")
        time.sleep(pause_seconds)


def _shown(sample: list[float]) -> str:
    return f"{percentile(sample, 0.5) * 1000:.1f}, {percentile(sample, 0.99) * 1000:.0f} ms"
