"""Clients that try again until they are answered, machines that are started again, and what must be true at the end."""

from __future__ import annotations

import random
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from itertools import chain

from honeybadger_host.cluster.log import Log, Names
from honeybadger_host.cluster.records import Position
from honeybadger_host.cluster.servers import Servers
from tests.cluster.machines import Cluster, Machine
from tests.cluster.servers import Proxy
from tests.hosting import RawSender, wait_for

_TRY_SECONDS = 0.8


class Client(threading.Thread):
    """Sends notes one after the other, each with one id, to whichever machine answers.

    Args:
        stays: the number of the one machine in whose folder it drops everything; None: it asks another one by and by.
    """

    def __init__(self, cluster: Cluster, name: str, stays: int | None) -> None:
        super().__init__(daemon=True)
        self.name, self._stays = name, stays
        self._boxes = [RawSender(machine.home, sender=name).make() for machine in cluster.machines]
        self.acknowledged: list[str] = []
        self.longest = 0.0
        self.ending = threading.Event()
        self.failed = ""

    def run(self) -> None:
        at, number = self._stays or 0, 0
        while not self.ending.is_set():
            number += 1
            stem, begun = f"{self.name}-{number:06}", time.monotonic()
            sent = set[int]()
            while True:
                box = self._boxes[at]
                if at not in sent:
                    box.note(stem, f"note {stem}.")
                    sent.add(at)
                until = time.monotonic() + _TRY_SECONDS
                while (data := box.peek(stem)) is None and time.monotonic() < until:
                    time.sleep(0.005)
                if data is not None:
                    break
                if self._stays is None:
                    at = (at + 1) % len(self._boxes)
            if b'"ok":true' not in data:
                self.failed = f"{stem}: {data!r}"
                return
            self.acknowledged.append(stem)
            self.longest = max(self.longest, time.monotonic() - begun)


class Unit(threading.Thread):
    """Starts hosts again that ended, as systemd does."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(daemon=True)
        self._machines = cluster.machines
        self.ending = threading.Event()
        self.codes: Counter[int] = Counter()

    def run(self) -> None:
        while not self.ending.wait(0.1):
            for machine in self._machines:
                machine.host.notifications.poll()
                if not machine.is_lost and not machine.host.is_running:
                    code = machine.host.process.poll()
                    self.codes[code if code is not None else 0] += 1
                    machine.host.launch()


class Story:
    """Clients at work on machines that fail."""

    def __init__(self, cluster: Cluster, proxies: list[list[Proxy]], seed: int) -> None:
        self.cluster, self.proxies = cluster, proxies
        self.rng = random.Random(seed)
        count = len(cluster.machines)
        self.clients = [
            Client(cluster, f"c{number}", number if number < count else None) for number in range(count + 1)
        ]
        self.unit = Unit(cluster)
        self.done: Counter[str] = Counter()
        for machine in cluster.machines:
            machine.host.launch()
        for thread in (self.unit, *self.clients):
            thread.start()
        self.progress()

    # ------------------------------------------------------------------------------------------------------- faults

    def owner(self) -> int:
        """Return the machine whose host was the last to own the home."""
        epochs = [machine.lines("cluster.owns") for machine in self.cluster.machines]
        return max(range(len(epochs)), key=lambda number: epochs[number][-1]["epoch"] if epochs[number] else -1)

    def progress(self) -> None:
        """Wait until every client was answered again."""
        before = [len(client.acknowledged) for client in self.clients]

        def waiting() -> list[str]:
            return [
                f"{client.name}-{len(client.acknowledged) + 1:06}"
                for client, count in zip(self.clients, before, strict=True)
                if not client.failed and len(client.acknowledged) < count + 2
            ]

        try:
            wait_for(lambda: not waiting(), 90, what=f"answers after {dict(self.done)}")
        except AssertionError as error:
            error.add_note(f"waiting: {waiting()}, ends: {dict(self.unit.codes)}")
            for machine in self.cluster.machines:
                log = machine.host.log_text().splitlines()[-12:]
                box = [str(path) for path in (machine.home / "data" / "ipc").glob("*/*/requests/*")]
                error.add_note("\n".join([machine.home.name, *log, *box]))
            raise
        assert [client.failed for client in self.clients] == [""] * len(self.clients)

    def kill_owner(self) -> None:
        self._machine().host.send_signal(signal.SIGKILL)

    def kill_two(self) -> None:
        """The owner, and the next one while it brings its files up to date."""
        owned = sum(machine.events("cluster.owns") for machine in self.cluster.machines)
        self.kill_owner()
        wait_for(
            lambda: sum(machine.events("cluster.owns") for machine in self.cluster.machines) > owned,
            what="somebody owns the home",
        )
        self.kill_owner()

    def lose_machine(self) -> None:
        """One that follows loses its disk, and joins anew."""
        machine = self.rng.choice([one for one in self.cluster.machines if one is not self._machine()])
        machine.is_lost = True
        machine.host.kill()
        (machine.home / "data" / "journal.db").unlink()
        (machine.home / "data" / "host.lock").unlink()
        shutil.rmtree(machine.home / "groups" / "main", ignore_errors=True)  # it may be lost twice
        machine.command("join", self.cluster.identity)
        machine.is_lost = False

    def end_owner(self) -> None:
        self._machine().host.send_signal(signal.SIGTERM)

    def kill_another(self) -> None:
        others = [machine for number, machine in enumerate(self.cluster.machines) if number != self.owner()]
        self.rng.choice(others).host.send_signal(signal.SIGKILL)

    def freeze_owner(self) -> None:
        machine = self._machine()
        machine.host.send_signal(signal.SIGSTOP)
        time.sleep(self.rng.uniform(3.5, 7))
        machine.host.send_signal(signal.SIGCONT)

    def cut_owner_off(self) -> None:
        cut = self.proxies[self.owner()]
        for proxy in cut:
            proxy.is_cut.set()
        time.sleep(self.rng.uniform(1, 6))
        if self.rng.random() < 0.5:
            for proxy in cut:
                proxy.drop_connections()
        for proxy in cut:
            proxy.is_cut.clear()

    def deafen_owner(self) -> None:
        """What it says arrives, and it hears no answer."""
        deaf = self.proxies[self.owner()]
        for proxy in deaf:
            proxy.is_deaf.set()
        time.sleep(self.rng.uniform(0.2, 3))
        for proxy in deaf:
            proxy.drop_connections()
            proxy.is_deaf.clear()

    def kill_server(self) -> None:
        server = self.rng.choice(self.cluster.servers.all)
        server.kill()
        time.sleep(self.rng.uniform(0, 2))
        server.start()
        wait_for(server.is_listening, what="the server listens again")

    def freeze_server(self) -> None:
        server = self.rng.choice(self.cluster.servers.all)
        server.send(signal.SIGSTOP)
        time.sleep(self.rng.uniform(0.5, 4))
        server.send(signal.SIGCONT)

    def _machine(self) -> Machine:
        return self.cluster.machines[self.owner()]

    def strike(self, fault: Callable[[], None]) -> None:
        """Let something fail, then wait until the clients are answered again."""
        self.done[fault.__name__] += 1
        time.sleep(self.rng.uniform(0, 0.3))
        fault()
        self.progress()

    @property
    def faults(self) -> list[Callable[[], None]]:
        return [
            *(
                self.kill_owner,
                self.kill_two,
                self.lose_machine,
                self.end_owner,
                self.kill_another,
                self.freeze_owner,
                self.cut_owner_off,
            ),
            *(self.deafen_owner, self.kill_server, self.freeze_server),
        ]

    # -------------------------------------------------------------------------------------------------------- ending

    def end(self) -> None:
        """Let the clients come to an end, and look."""
        for client in self.clients:
            client.ending.set()
        for client in self.clients:
            client.join(60)
            assert not client.is_alive()
        self.cluster.settle()
        self.unit.ending.set()
        self.unit.join(5)
        owner = self._machine()
        for number, machine in enumerate(self.cluster.machines):  # those that follow first: nobody takes over
            if number != self.owner():
                machine.host.send_signal(signal.SIGTERM)
                machine.host.wait()
        owner.host.send_signal(signal.SIGTERM)
        owner.host.wait()
        self.check(owner)

    def check(self, owner: Machine) -> None:
        assert set(self.unit.codes) <= {0, 8, -signal.SIGKILL}, self.unit.codes
        stems = [stem for client in self.clients for stem in client.acknowledged]
        text = owner.box.memory_text()
        told = Counter(line.partition("note ")[2].rstrip(".") for line in text.splitlines() if "note c" in line)
        assert [stem for stem in stems if not told[stem]] == [], "lost"
        assert [stem for stem, count in told.items() if count > 1] == [], "doubled"
        dumps = [machine.dump() for machine in self.cluster.machines]
        for machine, dump in zip(self.cluster.machines, dumps, strict=True):
            in_journal = Counter(str(row[4]) for row in dump["changes"] if row[5] == "note")
            assert [stem for stem in stems if in_journal[stem] != 1] == [], machine.home.name
            assert dump == dumps[0], machine.home.name
        assert len({machine.position() for machine in self.cluster.machines}) == 1
        assert stale_records(self.cluster.servers.urls, self.cluster.identity) == []
        for machine in self.cluster.machines:
            machine.command("verify")


def stale_records(urls: list[str], identity: str) -> list[int]:
    """Return the records that somebody wrote who did not own the home by then."""
    with closing(Servers(urls)) as servers:
        names = Names(identity)
        first, _ = servers.end_of(names.stream) or (1, 0)
        log = Log(servers, names, Position(first - 1, "0" * 64), lambda why: None)
        epoch, found = None, []
        for record in chain.from_iterable(log.read_to_end()):
            if not record.epoch:
                epoch = record.seq
            elif epoch is None:  # the log was trimmed
                epoch = record.epoch
            elif record.epoch != epoch:
                found.append(record.seq)
    return found
