"""Nine homes on three machines against one, and what becomes of the homes of a machine that is lost.

Three servers and all 27 hosts share the processor and the disk of one machine. What the same work takes of a processor
says what machines with processors of their own would gain.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from bench.cluster import NatsServers, joined_homes, note, rate_of, run_command, shares_of, three_servers
from bench.hosting import Daemon, Process
from bench.pipeline import Figure

_MACHINES = 3
_IDLE_SECONDS = 20.0


def bench_homes(base: Path, notes: int = 3000) -> list[Figure]:
    base.mkdir(parents=True, exist_ok=True)
    with three_servers(base) as servers, ExitStack() as opened:
        one, one_cost = _Homes(base, servers, 1, opened).measured(notes)
    with three_servers(base) as servers, ExitStack() as opened:
        nine = _Homes(base, servers, 9, opened)
        many, many_cost = nine.measured(notes // 3)
        share = sum(shares_of([*nine.hosts.values(), *servers.processes], _IDLE_SECONDS))
        away = nine.lose_machine()
    ratio = many / one
    return [
        Figure("one home on three machines: notes dropped at once", f"{one:,.0f}/s", f"each {one_cost}"),
        Figure(
            "nine homes on the same machines",
            f"{many:,.0f}/s",
            f"each {many_cost}",
            goal="2.5 times one",
            is_met=ratio >= 2.5,
        ),
        Figure("... against one", f"{ratio:.2f} times"),
        Figure("... all 27 hosts and 3 servers, idle", f"{share:.0f} % of a core"),
        Figure("a machine lost, until its three homes answer", f"{away:.1f} s", goal="7 s", is_met=away <= 7),
    ]


def _cpu_seconds(processes: Sequence[Process]) -> float:
    return sum(process.cpu_seconds() for process in processes)


class _Homes:
    """Homes that three machines keep: home `n` is owned by machine `n` modulo three."""

    def __init__(self, base: Path, servers: NatsServers, count: int, opened: ExitStack) -> None:
        self.hosts: dict[tuple[int, int], Daemon] = {}
        """By the numbers of the machine and the home."""
        self._servers = servers
        for number in range(count):
            homes, setting = opened.enter_context(joined_homes(base, servers, _MACHINES))
            for machine in sorted(range(_MACHINES), key=lambda one: (one - number) % _MACHINES):
                self.hosts[machine, number] = opened.enter_context(Daemon(homes[machine], setting))
                note(homes[machine], f"s{machine}", "first")  # the first one owns the home by then
        done = json.loads(run_command(homes[0], setting[0], "balance", "--json"))
        if any(home["why"] or home["owner"] != home["order"][0] for home in done):
            raise RuntimeError(f"the homes are not balanced: {done}")

    def measured(self, notes: int) -> tuple[float, str]:
        """Return how many notes a second owners do, and what of a core each note takes."""
        owners = [host for (machine, home), host in self.hosts.items() if machine == home % _MACHINES]
        others = [host for host in self.hosts.values() if host not in owners]
        kinds: list[Sequence[Process]] = [owners, others, self._servers.processes]
        before = [_cpu_seconds(some) for some in kinds]
        rate = rate_of([host.home for host in owners], notes)
        done = notes * len(owners)
        taken = [(_cpu_seconds(some) - was) / done * 1000 for some, was in zip(kinds, before, strict=True)]
        return rate, "{:.2f} ms of a core: owner {:.2f}, others {:.2f}, servers {:.2f}".format(sum(taken), *taken)

    def lose_machine(self) -> float:
        """Kill all hosts of one machine; return the seconds until each of its homes has answered on another."""
        lost, other = 2, 0
        for (machine, _), host in self.hosts.items():
            if machine == lost:
                host.end()
        begun = time.perf_counter()
        waiting = [host.home for (machine, home), host in self.hosts.items() if machine == other and home % 3 == lost]
        with ThreadPoolExecutor(len(waiting)) as pool:
            for _ in pool.map(lambda home: note(home, "late", "after"), waiting):
                pass
        return time.perf_counter() - begun
