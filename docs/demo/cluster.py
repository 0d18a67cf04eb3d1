"""`make cluster`: several machines in under a minute, on this one: real NATS servers, and a real host for each machine.

An agent on the second machine writes notes all the time, one after the other, and asks again until it is answered.
Meanwhile the host that owns the home is killed with SIGKILL, comes back and follows; a fourth
machine joins; the home is moved to it. Then every acknowledged note is looked for, and the journals are compared.
Exit code 0 only when everything held. Nothing is left behind.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from demo import say, show, wait_until

from honeybadger_agent import ReplyTimeout, SyncClient, new_id
from honeybadger_agent.tools import made
from honeybadger_agent.wire import UpdateMemory
from honeybadger_host.files.home import make_home

wait = partial(wait_until, seconds=90)
SERVER = Path(sys.executable).with_name("nats-server")
CONFIG = """
server_name: {name}
listen: 127.0.0.1:{port}
jetstream {{ store_dir: "{folder}/{name}", sync_interval: always, max_file_store: 1GB }}
cluster {{ name: demo, listen: 127.0.0.1:{route}, routes: [ {routes} ] }}
"""


class Process:
    """A program that is ended with the story."""

    def __init__(self, log: Path, *command: str) -> None:
        self._log, self._command = log, command
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Machine:
    """A home folder, and the host on it."""

    def __init__(self, folder: Path, name: str, urls: str) -> None:
        self.home, self.setting = folder / name, ["--set", f"cluster.servers={urls}"]
        make_home(self.home)

    def command(self, *words: str) -> str:
        """Run a command of the cluster; servers that have just begun may not have chosen a leader yet."""
        command = [sys.executable, "-m", "honeybadger_host", "cluster", *words, "--home", str(self.home), *self.setting]
        until = time.monotonic() + 30
        while True:
            done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
            if done.returncode != 8 or time.monotonic() > until:
                break
        if done.returncode:
            raise SystemExit(f"cluster {' '.join(words)}: {done.stderr}")
        return done.stdout

    def run(self) -> Process:
        command = [sys.executable, "-m", "honeybadger_host", "run", "--home", str(self.home), *self.setting]
        self.host = Process(self.home.with_suffix(".log"), *command)
        return self.host

    def owns(self) -> bool:
        return self.status().get("mode") == "open"

    def follows(self) -> bool:
        return self.status().get("mode") == "follows"

    def status(self) -> dict[str, Any]:
        try:
            said: dict[str, Any] = json.loads((self.home / "data/status.json").read_bytes())
        except FileNotFoundError:
            return {}
        return said if said["pid"] == self.host.process.pid else {}


class Agent(threading.Thread):
    """Writes notes in the folder of one machine, whoever owns the home; the same id until it is answered."""

    def __init__(self, home: Path) -> None:
        super().__init__(daemon=True)
        self._client = SyncClient(home, "main", "scout", timeout_seconds=1)
        self.acknowledged = 0
        self.longest = 0.0
        self.ending = threading.Event()

    def run(self) -> None:
        while not self.ending.is_set():
            request_id, began = new_id(), time.monotonic()
            while True:
                try:
                    self._client.call(made(UpdateMemory, f"Note {self.acknowledged + 1}."), request_id=request_id)
                    break
                except ReplyTimeout:
                    continue
            self.acknowledged += 1
            self.longest = max(self.longest, time.monotonic() - began)
            time.sleep(0.1)

    def gap(self) -> float:
        """Return the longest time without an answer since it was asked for last, once two more have come."""
        count = self.acknowledged
        wait(lambda: self.acknowledged > count + 1)
        longest, self.longest = self.longest, 0.0
        return longest


def main() -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="honeybadger-cluster-") as name, ExitStack() as opened:
        checks = story(Path(name), opened)
    say("7", "what had to hold")
    for what, held in checks.items():
        print(f"   {'held  ' if held else 'FAILED'}  {what}")
    failed = not all(checks.values())
    print(f"\n{'FAILED' if failed else 'Everything held'}, {time.monotonic() - began:.0f} seconds.")
    return 1 if failed else 0


def story(folder: Path, opened: ExitStack) -> dict[str, bool]:
    say("1", "three NATS servers, and a home on three machines: `cluster init` on one, `cluster join` on the others")
    urls = start_servers(folder, opened)
    machines = [Machine(folder, f"machine-{number}", urls) for number in (1, 2, 3, 4)]
    one, two, three, four = machines
    identity = one.command("init").splitlines()[0]
    for machine in (one, two, three):
        if machine is not one:
            machine.command("join", identity)
        opened.callback(machine.run().kill)
        wait(machine.owns if machine is one else machine.follows)
    show([line.replace(f"{folder}/", "") for line in one.command("status").splitlines()])

    say("2", "a note on machine-1 is read on machine-2")
    SyncClient(one.home, "main", "ann", timeout_seconds=20).update_memory("The movers come on 12 March.")
    read = SyncClient(two.home, "main", "scout", timeout_seconds=20).get_context("When do the movers come?").system
    show([line for line in read.splitlines() if "movers" in line][:1])
    agent = Agent(two.home)
    agent.start()
    agent.gap()

    say("3", "kill -9 of the host on machine-1, which owns the home, while an agent on machine-2 writes notes")
    one.host.kill()
    wait(lambda: two.owns() or three.owns())
    next_one = two if two.owns() else three
    print(f"   {next_one.home.name} owns the home; the agent waited {agent.gap():.1f} s (the lease is 3 s)")
    one.host.start()
    wait(one.follows)
    print("   machine-1 is back, and follows")

    say("4", "machine-4 joins, with what all others have")
    four.command("join", identity)
    opened.callback(four.run().kill)
    wait(four.follows)

    say("5", "the home is moved there on purpose: `cluster move machine-4`")
    agent.gap()
    print("   " + one.command("move", "machine-4").strip().replace(f"{folder}/", ""))
    moved_in = agent.gap()
    where = json.loads(one.command("status", "--json"))["owner"]
    print(f"   the agent waited {moved_in:.1f} s; people edit files on {where.replace(f'{folder}/', '')}")

    say("6", "the log's hashes are followed on each machine: `cluster verify`")
    agent.ending.set()
    agent.join(30)
    ends = [machine.command("verify") for machine in machines]
    text = (four.home / "groups/main/MEMORY.md").read_text()
    counts = [text.count(f"- Note {number}.\n") for number in range(1, agent.acknowledged + 1)]
    show([*map(str.strip, ends), f"{agent.acknowledged} notes of the agent were acknowledged"])
    return {
        "what was written on one machine was read on the next": "12 March" in read,
        "another machine went on, and the killed one follows": one.follows(),
        "machine-4 owns the home now": four.owns() and "machine-4" in where,
        "each acknowledged note is there once": bool(counts) and set(counts) == {1},
        "all journals are on the log's line, and it has one end": len(set(ends)) == 1,
    }


def start_servers(folder: Path, opened: ExitStack) -> str:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(6)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    routes = ", ".join(f"nats://127.0.0.1:{port}" for port in ports[3:])
    for number, (port, route) in enumerate(zip(ports[:3], ports[3:], strict=True), 1):
        name = f"server-{number}"
        path = folder / f"{name}.conf"
        path.write_text(CONFIG.format(name=name, port=port, route=route, routes=routes, folder=folder))
        opened.callback(Process(folder / f"{name}.log", str(SERVER), "-c", str(path)).kill)
    return ",".join(f"nats://127.0.0.1:{port}" for port in ports[:3])


if __name__ == "__main__":
    sys.exit(main())
