"""Clients that try again until they are answered, machines that are started again, and what must be true at the end."""

import base64
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TypeAlias

import pytest

from honeybadger_agent.mailbox import REQUESTS
from honeybadger_agent.relay import BOX_HEADER, ID_HEADER
from honeybadger_host.cluster.lease import OWNERS
from honeybadger_host.cluster.log import Log, Names, logs_of
from honeybadger_host.cluster.records import Position, Record
from honeybadger_host.cluster.servers import Servers, Unreachable
from honeybadger_host.documents.history import read_pasts, versions
from honeybadger_host.errors import SettingsError
from honeybadger_host.journal.schema import SCHEMA_VERSION
from tests.cluster.machines import Cluster, Machine
from tests.cluster.servers import Proxy, reached
from tests.cluster.servers import Servers as Running
from tests.hosting import RawSender, request, run_cli, wait_for

GROUPS = tuple(f"g{number:02}" for number in range(20))
FORGED = "said by nobody who may"
_PEOPLES = b"a person wrote"
_TRY_SECONDS = 0.8
# Longest pause of a client; the short form does as much with a third of the requests.
_PAUSE_SECONDS = 0.25 if "HB_CLUSTER_FAULTS" in os.environ else 1.0
_FEW = 300  # changes, of which the last one is looked back at; else two more

Fault: TypeAlias = Callable[[], None]

# A wall clock that a file sets: how many seconds it is ahead.
CLOCK = """
import time
real, real_ns = time.time, time.time_ns

def ahead():
    try:
        with open(FILE) as file:
            return float(file.read() or 0)
    except OSError:
        return 0.0

time.time = lambda: real() + ahead()
time.time_ns = lambda: real_ns() + int(ahead() * 1e9)
"""


def clock_of(machine: Machine) -> Path:
    return machine.home.parent / f"{machine.home.name}.clock"


def give_clock(machine: Machine) -> None:
    """Let the host of a machine have, from its next start on, a wall clock of its own."""
    machine.host.source = CLOCK.replace("FILE", repr(str(clock_of(machine)))) + machine.host.source


def set_clock(machine: Machine, seconds: float) -> None:
    """Set it so far ahead."""
    temporary = clock_of(machine).with_suffix(".tmp")
    temporary.write_text(str(seconds))
    temporary.rename(clock_of(machine))


class Worker(threading.Thread):
    """Works until it is told to end."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.ending = threading.Event()


class Client(Worker):
    """Sends requests one after the other, each with one id, to whichever machine answers; most are notes.

    Args:
        stays: the number of the one machine in whose folders it drops everything; None: it asks another one by and by.
        seed: draws groups, other requests and pauses; None: notes in `main`, ten a second at most.
    """

    def __init__(self, cluster: Cluster, name: str, stays: int | None, seed: int | None = None) -> None:
        super().__init__()
        self.name, self._stays = name, stays
        self._rng = None if seed is None else random.Random(seed)
        self._groups = GROUPS if self._rng else ("main",)
        self._boxes = [
            {group: RawSender(machine.home, group, name).make() for group in self._groups}
            for machine in cluster.machines
        ]
        self.acknowledged: list[tuple[str, str]] = []  # group and id of each request that was done
        self.waits_for = ""
        self.took: list[tuple[float, float]] = []  # when each was answered, monotonic, and after how many seconds
        self.failed = ""

    def run(self) -> None:
        at, number = self._stays or 0, 0
        while not self.ending.is_set():
            number += 1
            group = self._rng.choice(self._groups) if self._rng else self._groups[0]
            stem, begun = f"{self.name}-{number:06}", time.monotonic()
            self.waits_for = f"{group}/{self.name}/{stem}"
            data = self._request(stem)
            sent = set[int]()
            while True:
                box = self._boxes[at][group]
                if at not in sent:
                    box.drop(stem, data)
                    sent.add(at)
                until = time.monotonic() + _TRY_SECONDS
                while (reply := box.peek(stem)) is None and time.monotonic() < until:
                    time.sleep(0.005)
                if reply is not None:
                    break
                if self._stays is None:
                    at = (at + 1) % len(self._boxes)
            if b'"ok":true' not in reply:
                self.failed = f"{stem}: {reply!r}"
                return
            for machine in sent:
                with contextlib.suppress(FileNotFoundError):
                    (self._boxes[machine][group].replies / f"{stem}.json").unlink()
            self.acknowledged.append((group, stem))
            took = time.monotonic() - begun
            self.took.append((begun + took, took))
            time.sleep(self._rng.uniform(0, _PAUSE_SECONDS) if self._rng else 0.1)

    def _request(self, stem: str) -> bytes:
        drawn = self._rng.random() if self._rng else 1
        if drawn < 0.05:
            key = f"key{round(180 * drawn)}"
            return request(stem, "save_to_working_memory", payload={"key": key, "data": f"at work on {stem}."})
        if drawn < 0.1:
            return request(stem, "save_memory", payload={"category": "general", "content": f"The entry {stem}."})
        return request(stem, content=f"note {stem}.")


class Person(Worker):
    """Edits files on the machine that owns the home: appends to MEMORY.md, and saves the persona anew as editors do."""

    def __init__(self, cluster: Cluster, owner: Callable[[], int], seed: int) -> None:
        super().__init__()
        self._cluster, self._owner = cluster, owner
        self._rng = random.Random(seed)
        self.edits = 0

    def run(self) -> None:
        while not self.ending.wait(self._rng.uniform(0.5, 2)):
            home = self._cluster.machines[self._owner()].home
            folder = home / "groups" / self._rng.choice(GROUPS)
            with contextlib.suppress(OSError):  # the group is not there yet, or the machine has just lost its disk
                if self._rng.random() < 0.5:
                    persona = folder / "CLAUDE.md"
                    temporary = persona.with_name(".CLAUDE.md.editor")
                    held = persona.read_text()[-2000:] if persona.exists() else "Rules:\n"
                    temporary.write_text(f"{held}Rule {self.edits}.\n")
                    temporary.rename(persona)
                else:
                    fd = os.open(folder / "MEMORY.md", os.O_WRONLY | os.O_APPEND)
                    os.write(fd, b"%s %d\n" % (_PEOPLES, self.edits))
                    os.close(fd)
                self.edits += 1


class Unit(Worker):
    """Starts hosts again that ended, as systemd does."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self._machines = cluster.machines
        self.codes: Counter[int] = Counter()
        self.wrong: list[str] = []
        """What hosts said that ended with another code than those of a machine that comes back."""

    def run(self) -> None:
        while not self.ending.wait(0.1):
            for machine in self._machines:
                machine.host.notifications.poll()
                if not machine.is_lost and not machine.host.is_running:
                    code = machine.host.process.poll() or 0
                    self.codes[code] += 1
                    if code not in (0, 8, -signal.SIGKILL):
                        self.wrong.append(f"{machine.home.name}: {machine.host.stderr.read_text()[-2000:]}")
                    machine.host.launch()


class Story:
    """Clients at work on machines that fail.

    Args:
        drone: the file of an agent's key, where the servers want keys and speak TLS.
    """

    def __init__(self, cluster: Cluster, proxies: list[list[Proxy]], seed: int, drone: Path | None = None) -> None:
        self.cluster, self.proxies, self.drone = cluster, proxies, drone
        self.rng = random.Random(seed)
        count = len(cluster.machines)
        self.clients = [
            Client(cluster, f"c{number}", number if number < count else None, seed + number)
            for number in range(count + 1)
        ]
        self.person = Person(cluster, self.owner, seed)
        self.unit = Unit(cluster)
        self.secrets: list[str] = []  # texts that were said and forgotten
        self.left: list[dict[str, str]] = []  # what `forget` said is left somewhere, for whoever reads the figures
        self.stood_still: list[float] = []
        """The longest that anybody waited for an answer while something was forgotten and nothing failed."""
        self.done: Counter[str] = Counter()
        self.told: list[str] = []  # when which fault was, for who looks for the cause of what it did
        for machine in cluster.machines:
            give_clock(machine)
            machine.host.launch()
        self.workers: list[Worker] = [self.unit, self.person, *self.clients]
        for thread in self.workers:
            thread.start()
        self.progress()

    def owner(self) -> int:
        """Return the number of the machine whose host was the last to own the home."""
        epochs = [machine.lines("cluster.owns") for machine in self.cluster.machines]
        return max(range(len(epochs)), key=lambda number: epochs[number][-1]["epoch"] if epochs[number] else -1)

    def progress(self) -> None:
        """Wait until every client was answered again."""
        before = [len(client.acknowledged) for client in self.clients]
        begun = time.time()

        def waiting() -> list[str]:
            return [
                client.waits_for
                for client, count in zip(self.clients, before, strict=True)
                if not client.failed and len(client.acknowledged) < count + 2
            ]

        try:
            wait_for(lambda: not waiting(), 120, what=f"answers after {dict(self.done)}")
        except AssertionError as error:
            error.add_note(f"waiting: {waiting()}, ends: {dict(self.unit.codes)}")
            error.add_note(self.meanwhile(begun - 30, time.time()))
            for machine in self.cluster.machines:
                box = [str(path) for path in (machine.home / "data" / "ipc").glob("*/*/requests/*")]
                error.add_note("\n".join([machine.home.name, *box]))
            raise
        assert [client.failed for client in self.clients] == [""] * len(self.clients)

    def meanwhile(self, since: float, until: float) -> str:
        """Return what was done, and what the machines and servers logged, between two moments."""
        first, last = (datetime.fromtimestamp(at, UTC).isoformat()[:19] for at in (since, until))
        found = [line for line in self.told if first <= line[:19] <= last]
        for machine in self.cluster.machines:
            for line in machine.host.log_text().splitlines():
                if line.startswith("{"):
                    at = json.loads(line).get("timestamp", "")[:19]
                    if first <= at <= last:
                        found.append(f"{at} {machine.home.name} {line[:400]}")
        for server in self.cluster.servers.all:
            for line in (server.folder / "log").read_text(errors="replace").splitlines():
                day, _, rest = line.partition("] ")[2].partition(" ")
                at = f"{day.replace('/', '-')}T{rest[:8]}"
                if first <= at <= last:
                    found.append(f"{at} {server.folder.name} {line[:250]}")
        return "\n".join(sorted(found, key=lambda line: line[:19])[-400:])

    def kill_owner(self) -> None:
        self._machine().host.send_signal(signal.SIGKILL)

    def kill_two(self) -> None:
        """The owner, and the next one while it brings its files up to date."""
        owned = self._owned()
        self.kill_owner()
        wait_for(lambda: self._owned() > owned, 120, what="somebody owns the home")
        self.kill_owner()

    def _owned(self) -> int:
        return sum(machine.events("cluster.owns") for machine in self.cluster.machines)

    def lose_machine(self) -> None:
        """One that follows loses its disk, and joins anew."""
        machine = self.rng.choice([one for one in self.cluster.machines if one is not self._machine()])
        machine.is_lost = True
        machine.host.kill()
        for path in (machine.home / "data").iterdir():
            if path.is_dir() and path.name != "ipc":
                shutil.rmtree(path)
            elif path.is_file():
                path.unlink()
        for group in GROUPS:
            shutil.rmtree(machine.home / "groups" / group, ignore_errors=True)  # it may be lost twice
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
        time.sleep(self.rng.uniform(3.5, 5))
        machine.host.send_signal(signal.SIGCONT)

    def set_clock(self) -> None:
        """The wall clock of a machine jumps, by up to a day and to either side."""
        machine = self.rng.choice(self.cluster.machines)
        set_clock(machine, self.rng.choice([0, -86400, 86400, self.rng.uniform(-60, 60)]))

    def cut_owner_off(self) -> None:
        self._cut(self.proxies[self.owner()], self.rng.uniform(1, 5))

    def _cut(self, proxies: Sequence[Proxy], seconds: float) -> None:
        for proxy in proxies:
            proxy.is_cut.set()
        time.sleep(seconds)
        if self.rng.random() < 0.5:
            for proxy in proxies:
                proxy.drop_connections()
        for proxy in proxies:
            proxy.is_cut.clear()

    def deafen_owner(self) -> None:
        """Let what the owner sends arrive, and no answer reach it."""
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

    def part_servers(self) -> None:
        """One server hears nothing of the others; hosts are connected with it as before."""
        number = self.rng.randrange(len(self.cluster.servers.all))
        self._cut(self.cluster.servers.around(number), self.rng.uniform(1, 6))

    def move_leader(self) -> None:
        """Another server leads the log, or the lease, from here on."""

        def step_down(servers: Servers) -> None:
            stream = self.rng.choice([names_now(servers, self.cluster.identity).stream, OWNERS])
            servers.ask(f"$JS.API.STREAM.LEADER.STEPDOWN.{stream}", b"")

        self._with_servers(step_down)

    def forget(self) -> None:
        """The operator has a note forgotten, on whichever machine, while other faults go on."""
        number, machine = len(self.secrets), self.rng.choice(self.cluster.machines)
        secret, group = f"the {number}th number of the safe is {self.rng.getrandbits(60)}", self.rng.choice(GROUPS)
        self.secrets.append(secret)
        for sender, stem, data in (
            ("keeper", f"k{number}", request(f"k{number}", content=f"{secret}.")),
            ("operator", f"f{number}", request(f"f{number}", "forget", payload={"text": secret})),
        ):
            box = RawSender(machine.home, group, sender).make()
            box.drop(stem, data)
            reply = box.reply(stem, 240)
            assert reply["ok"], reply
            self.left += reply["result"].get("left", [])

    def downgrade(self) -> None:
        """Somebody between the owner and the servers offers no TLS, and hears no key."""
        proxies = self.proxies[self.owner()]
        for proxy in proxies:
            proxy.is_lying.set()
            proxy.drop_connections()
        time.sleep(self.rng.uniform(0.5, 4))
        for proxy in proxies:
            proxy.is_lying.clear()
            assert b"CONNECT" not in proxy.heard

    def forge(self) -> None:
        """An agent's key writes to the log and takes the lease; `check` sees that nothing came of it."""
        names = Names(self.cluster.identity)
        with contextlib.suppress(Unreachable), closing(self.cluster.servers.connect()) as servers:
            names = names_now(servers, self.cluster.identity)
        record = {"Hb-Epoch": "0", "Hb-Schema": str(SCHEMA_VERSION), "Hb-Chain": "0" * 64, "Hb-Part": "1/1"}
        asked = {BOX_HEADER: REQUESTS, ID_HEADER: "forged"}
        tried: dict[str, tuple[bytes, dict[str, str]]] = {
            names.subjects.replace("*", "forger"): (b'"forger"', record),
            names.subject("owner"): (b"forger", {}),
            f"{names.subject('ask')}.{GROUPS[0]}.c0": (request("forged", content=FORGED), asked),
            f"$JS.API.STREAM.DELETE.{names.stream}": (b"", {}),
        }
        with (
            contextlib.suppress(Unreachable, SettingsError),
            closing(Servers(self.cluster.servers.urls, str(self.drone))) as servers,
        ):
            for subject, (data, headers) in tried.items():
                with pytest.raises(Unreachable):
                    servers.publish(subject, data, headers)

    def lose_lease(self) -> None:
        """The lease goes before its time, as when the clock of the server that leads it jumps ahead."""
        self._with_servers(lambda servers: servers.purge(OWNERS, (servers.end_of(OWNERS) or (0, 0))[1]))

    def _with_servers(self, act: Callable[[Servers], object]) -> None:
        with contextlib.suppress(Unreachable), closing(self.cluster.servers.connect()) as servers:
            act(servers)

    def fill_disk(self) -> None:
        """The disk of a server is full; somebody makes room and starts it again."""
        server = self.rng.choice(self.cluster.servers.all)
        with full(server.store):
            time.sleep(self.rng.uniform(0.5, 4))
        server.kill()
        server.start()
        wait_for(server.is_listening, what="the server listens again")

    def empty_server(self) -> None:
        """A server comes back with an empty disk, once the others have everything."""
        self._wait_for_replicas()
        server = self.rng.choice(self.cluster.servers.all)
        server.kill()
        for path in server.store.iterdir():
            shutil.rmtree(path)
        server.start()
        self._wait_for_replicas()

    def _wait_for_replicas(self) -> None:
        def are_level() -> bool:
            try:
                with closing(self.cluster.servers.connect()) as servers:
                    said = json.loads(servers.ask("$JS.API.STREAM.LIST", b"") or b"{}")
            except Unreachable:
                return False
            found = [stream["cluster"].get("replicas", []) for stream in said.get("streams") or []]
            return bool(found) and all(
                len(some) == 2 and all(one["current"] and not one.get("offline") and not one.get("lag") for one in some)
                for some in found
            )

        wait_for(are_level, 90, what="all servers have the log")

    def _machine(self) -> Machine:
        return self.cluster.machines[self.owner()]

    def strike(self, *faults: Fault) -> None:
        """Let something fail, or several things at once, then wait until the clients are answered again."""
        time.sleep(self.rng.uniform(0, 0.3))
        failed: list[BaseException] = []

        def act(fault: Fault) -> None:
            self._tell(fault.__name__)
            try:
                fault()
            except BaseException as error:  # noqa: BLE001  it is raised below
                error.add_note(fault.__name__)
                failed.append(error)

        threads = [threading.Thread(target=act, args=(fault,)) for fault in faults]
        begun = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]
        for fault in faults:
            self.done[fault.__name__] += 1
        self.progress()
        if faults == (self.forget,):
            took = [took for client in self.clients for ended, took in client.took if ended > begun]
            self.stood_still.append(max(took))
        self._tell("answered")

    def _tell(self, what: str) -> None:
        self.told.append(f"{datetime.now(UTC).isoformat()[:23]} {what}, the owner was {self._machine().home.name}")

    @property
    def _of_hosts(self) -> list[Fault]:
        return [
            *(self.kill_owner, self.kill_two, self.lose_machine, self.end_owner, self.kill_another),
            *(self.freeze_owner, self.set_clock),
        ]

    @property
    def _of_networks(self) -> list[Fault]:
        strangers = [self.downgrade, self.forge] if self.drone else []
        return [self.cut_owner_off, self.deafen_owner, self.part_servers, *strangers]

    @property
    def _of_servers(self) -> list[Fault]:
        return [self.kill_server, self.freeze_server, self.move_leader, self.lose_lease]

    @property
    def _of_disks(self) -> list[Fault]:
        """These come alone: a second loss beside theirs is more than three servers bear."""
        return [self.empty_server, *([self.fill_disk] if os.path.ismount(self.cluster.servers.all[0].store) else [])]

    def draw(self) -> list[Fault]:
        """Return the next faults: one, or two that are at once."""
        kinds = [self._of_hosts, self._of_networks, self._of_servers, [self.forget]]
        if self.rng.random() < 0.08:
            return [self.rng.choice(self._of_disks)]
        if self.rng.random() < 0.5:
            return [self.rng.choice([fault for kind in kinds for fault in kind])]
        return [self.rng.choice(kind) for kind in self.rng.sample(kinds, 2)]

    def end(self) -> None:
        """Let the clients come to an end, and look."""
        self.person.ending.set()
        for client in self.clients:
            client.ending.set()
        for client in self.clients:
            client.join(60)
            assert not client.is_alive()
        self.person.join(5)
        begun = time.time()
        try:
            wait_for(self._is_settled, what="all machines have one journal, and the owner's files are what it says")
        except AssertionError as error:
            for machine in self.cluster.machines:
                error.add_note(f"{machine.home.name}: {machine.position()}, {differences(machine)}")
            error.add_note(self.meanwhile(begun - 10, time.time()))
            raise
        folders = [one.home for one in self.cluster.machines] + [one.store for one in self.cluster.servers.all]
        wait_for(
            lambda: not [path for folder in folders for path in residue(folder, self.secrets)],
            300,
            what="nothing is left of what was forgotten",
        )
        owner = self._machine()
        self.unit.ending.set()
        self.unit.join(5)
        for number, machine in enumerate(self.cluster.machines):  # those that follow first: nobody takes over
            if number != self.owner():
                machine.host.send_signal(signal.SIGTERM)
                machine.host.wait()
        owner.host.send_signal(signal.SIGTERM)
        owner.host.wait()
        self.check(owner)

    def _is_settled(self) -> bool:
        if len({machine.position() for machine in self.cluster.machines}) != 1:
            return False
        first, *others = [machine.dump() for machine in self.cluster.machines]
        return all(other == first for other in others) and not differences(self._machine())

    def check(self, owner: Machine) -> None:
        assert not self.unit.wrong, "\n".join(self.unit.wrong)
        acknowledged = list(chain.from_iterable(client.acknowledged for client in self.clients))
        dumps = [machine.dump() for machine in self.cluster.machines]
        for machine, dump in zip(self.cluster.machines, dumps, strict=True):
            receipts = Counter((str(row[2]), str(row[4])) for row in dump["receipts"])
            assert [one for one in acknowledged if receipts[one] != 1] == [], machine.home.name
            changed = Counter(str(row[4]) for row in dump["changes"] if row[5] == "note")
            assert [stem for stem, count in changed.items() if count > 1] == [], "doubled in the journal"
            assert FORGED not in machine.journal.read_bytes().decode("latin-1")
        moments = [int(str(row[1])) for row in dumps[0]["changes"]]
        assert moments == sorted(moments), "what was decided later never has an earlier time, whatever clocks say"
        noted = {str(row[4]) for row in dumps[0]["changes"] if row[5] == "note"}
        for group in GROUPS:
            text = RawSender(owner.home, group).memory_text()
            told = Counter(line.partition("note ")[2].rstrip(".") for line in text.splitlines() if "note c" in line)
            stems = [stem for of_group, stem in acknowledged if of_group == group and stem in noted]
            assert [stem for stem in stems if not told[stem]] == [], "lost"
            assert [stem for stem, count in told.items() if count > 1] == [], "doubled"
        assert stale_records(self.cluster.servers, self.cluster.identity) == []
        for machine in self.cluster.machines:
            machine.command("verify")
        for machine in self.cluster.machines:
            assert run_cli("cluster", "leave", home=machine.home).returncode == 0
            assert differences(machine, but_people=True) == [], machine.home.name
        self.check_contexts([int(str(row[0])) for row in dumps[0]["changes"]])

    def check_contexts(self, changes: Sequence[int]) -> None:
        """See that each machine, now alone, makes the same context and shows the same files as of earlier changes."""
        moments = [changes[-1]] if len(changes) < _FEW else [changes[len(changes) * at // 3 - 1] for at in (1, 2, 3)]
        for seq in moments:
            for command in (("context", GROUPS[0]), ("show", f"{GROUPS[0]}/MEMORY.md")):
                shown = [run_cli(*command, "--as-of", seq, home=machine.home) for machine in self.cluster.machines]
                assert {one.returncode for one in shown} == {0}, [one.stderr for one in shown]
                assert len({one.stdout for one in shown}) == 1, (command, seq)
                assert shown[0].stdout

    def figures(self) -> str:
        """Return what was done, and how long the longest answer took."""
        count = sum(len(client.acknowledged) for client in self.clients)
        longest = max(took for client in self.clients for _, took in client.took)
        still = [f"{seconds:.1f}" for seconds in sorted(self.stood_still)]
        return "\n".join(
            [
                f"{sum(self.done.values())} faults {dict(self.done)}",
                f"{count} requests, {self.person.edits} edits, longest {longest:.1f} s, ends {dict(self.unit.codes)}",
                f"longest during each forget that was alone: {', '.join(still)} s",
            ]
        )


@contextlib.contextmanager
def full(store: Path) -> Iterator[None]:
    """Leave no room on the file system of a folder."""
    filler = store / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1 << 16))
    try:
        yield
    finally:
        filler.unlink()


@contextlib.contextmanager
def file_systems(stores: Sequence[Path], size: str = "512m") -> Iterator[None]:
    """Give each folder a small file system of its own, where we may."""
    mounted: list[Path] = []
    try:
        for store in stores:
            store.mkdir(parents=True, exist_ok=True)
            command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(store)]
            if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
                break
            mounted.append(store)
        yield
    finally:
        for store in mounted:
            subprocess.run(["umount", "-l", str(store)], check=False)


def differences(machine: Machine, *, but_people: bool = False) -> list[str]:
    """Return the files of groups that are not what the journal beside them says.

    Args:
        but_people: leave out what people wrote: on a machine that was cut off nobody looked at it yet.
    """
    files = [f"groups/{group}/MEMORY.md" for group in GROUPS]
    if not but_people:
        files += [f"groups/{group}/CLAUDE.md" for group in GROUPS]
    found = []
    for past in read_pasts(machine.journal, files):
        text = b""
        for _, version in versions(past):
            text = version.text
        path = machine.home / past.file
        held = path.read_bytes() if path.exists() else b""
        if but_people:
            text, held = (b"".join(row for row in one.splitlines(True) if _PEOPLES not in row) for one in (text, held))
        if held != text:
            found.append(past.file)
    return found


def residue(folder: Path, texts: Sequence[str]) -> list[str]:
    """Return the files below a folder in which a text stands: as it is, as UTF-16, or as base64 from any place."""
    wanted = [form for text in texts for form in (text.encode(), text.encode("utf-16-le"))]
    for text in texts:
        coded = (base64.b64encode(bytes(before) + text.encode()) for before in range(3))
        wanted += (form[8:-4] for form in coded)  # without the bytes before it, and without the padding
    found: list[str] = []
    for path in (Path(above, name) for above, _, names in os.walk(folder) for name in names):
        with contextlib.suppress(OSError):  # a server may remove it in this moment, or its folder
            data = path.read_bytes()
            found += [str(path)] if any(form in data for form in wanted) else []
    return found


def names_now(servers: Servers, identity: str) -> Names:
    """Return the names of a home whose log goes on in the newest stream."""
    return Names(identity, max(logs_of(servers, Names(identity)).values(), default=0))


def stale_records(running: Running, identity: str) -> list[int]:
    """Return the records that somebody wrote who did not own the home by then."""
    with closing(running.connect()) as servers:
        names = names_now(servers, identity)
        first, _, _ = servers.end_of(names.stream) or (1, 0, 0)
        log = Log(names, Position(first - 1, "0" * 64))
        log.servers = servers
        records: list[Record] = []
        reached(lambda: records.extend(chain.from_iterable(log.read_to_end())))
    epoch, found = None, []
    for record in records:
        if not record.epoch:
            epoch = record.seq
        elif epoch is None:  # the log was trimmed
            epoch = record.epoch
        elif record.epoch != epoch:
            found.append(record.seq)
    return found
