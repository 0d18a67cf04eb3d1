"""Real NATS servers on loopback, each a process that can be killed, frozen and cut off."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.hosting import wait_for

_PROGRAM: Final = Path(sys.executable).with_name("nats-server")
_CONFIG: Final = """
server_name: {name}
listen: 127.0.0.1:{client}
jetstream {{ store_dir: "{store}", sync_interval: always, max_file_store: 2GB }}
cluster {{
  name: test
  listen: 127.0.0.1:{route}
  routes: [{routes}]
}}
"""
_ALONE: Final = """
server_name: {name}
listen: 127.0.0.1:{client}
jetstream {{ store_dir: "{store}", sync_interval: always, max_file_store: 2GB }}
"""


@contextlib.contextmanager
def in_memory() -> Iterator[Path]:
    """Yield a folder in memory where that is possible: three servers that sync each message cost a disk much."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="cluster-", dir=memory if os.access(memory, os.W_OK) else None, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


def free_ports(count: int) -> list[int]:
    """Return ports of loopback that nobody listens on."""
    with contextlib.ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class Server:
    """One server; what it stored stays from one start to the next."""

    def __init__(self, folder: Path, name: str, client: int, config: str) -> None:
        self.folder, self.client = folder / name, client
        self.folder.mkdir(parents=True)
        self._config = self.folder / "server.conf"
        self._config.write_text(config.format(name=name, client=client, store=self.folder / "store"))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.client}"

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen([str(_PROGRAM), "-c", str(self._config)], stdout=log, stderr=log)

    def send(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(20)
            self._process = None

    def is_listening(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.client), 1):
            return True
        return False


def guarded(folder: Path, key: str) -> Server:
    """Start one server that lets nobody in but the owner of a key."""
    (port,) = free_ports(1)
    server = Server(folder, "guarded", port, _ALONE + f"authorization {{{{ users: [ {{{{ nkey: {key} }}}} ] }}}}")
    server.start()
    wait_for(server.is_listening, what=f"{server.url} listens")
    return server


class Servers:
    """Some servers that are one cluster, or one that stands alone."""

    def __init__(self, folder: Path, count: int) -> None:
        ports = free_ports(2 * count)
        clients, routes = ports[:count], ports[count:]
        joined = ", ".join(f"nats://127.0.0.1:{port}" for port in routes)
        self.all = [
            Server(
                folder,
                f"n{number}",
                client,
                _ALONE if count == 1 else _CONFIG.replace("{route}", str(route)).replace("{routes}", joined),
            )
            for number, (client, route) in enumerate(zip(clients, routes, strict=True))
        ]
        for server in self.all:
            server.start()
        for server in self.all:
            wait_for(server.is_listening, what=f"{server.url} listens")

    @property
    def urls(self) -> list[str]:
        return [server.url for server in self.all]

    def close(self) -> None:
        for server in self.all:
            with contextlib.suppress(ProcessLookupError, AssertionError):
                server.send(signal.SIGCONT)
            server.kill()


class Proxy:
    """Between a client and a server: may pass nothing on, in one direction or both, as a broken cable does.

    Args:
        ports: of the servers; a connection goes to the first that takes it.
    """

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = list(ports)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.is_cut = threading.Event()
        self.is_deaf = threading.Event()
        """What the server answers is held back; what the client says arrives."""
        self._is_closed = False
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self._listening.getsockname()[1]}"

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            server = None
            for port in self._ports:
                with contextlib.suppress(OSError):
                    server = socket.create_connection(("127.0.0.1", port), 1)
                    server.settimeout(None)
                    break
            if server is None or self.is_cut.is_set():
                for one in (client, server):
                    if one is not None:
                        one.close()
                continue
            self._open += [client, server]
            for source, target, blocked in (
                (client, server, [self.is_cut]),
                (server, client, [self.is_cut, self.is_deaf]),
            ):
                threading.Thread(target=self._pass_on, args=(source, target, blocked), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, blocked: Sequence[threading.Event]) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                while any(event.is_set() for event in blocked) and not self._is_closed:
                    time.sleep(0.01)  # a network that is broken keeps what was sent and says nothing
                target.sendall(data)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def drop_connections(self) -> None:
        """Forget what was held back, and end every connection."""
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._open.clear()

    def close(self) -> None:
        self._is_closed = True
        self._listening.close()
        self.drop_connections()
