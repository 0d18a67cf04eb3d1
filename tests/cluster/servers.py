"""Real NATS servers on loopback, each a process that can be killed, frozen and cut off."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from honeybadger_host.cluster.servers import Servers as Connection
from honeybadger_host.cluster.servers import Unreachable
from tests.hosting import wait_for

T = TypeVar("T")
# Not the numbers that pytest-randomly gives every test alike, also those that run at the same time.
_DRAWN = random.SystemRandom()
_PROGRAM = Path(sys.executable).with_name("nats-server")
# Nobody is where it advertises itself: the servers reach each other by their routes alone, as through a proxy.
_CONFIG = """
server_name: {name}
listen: 127.0.0.1:{client}
jetstream {{ store_dir: "{store}", sync_interval: always, max_file_store: 2GB }}
cluster {{
  name: test
  listen: 127.0.0.1:{route}
  advertise: "127.0.0.1:1"
  routes: [{routes}]
}}
"""
ALONE = """
server_name: {name}
listen: 127.0.0.1:{client}
jetstream {{ store_dir: "{store}", sync_interval: always, max_file_store: 2GB }}
"""


# The first line of a server that wants a key and offers no TLS.
PLAIN_INFO = b'INFO {"server_id":"x","version":"2.15.1","max_payload":1048576,"auth_required":true,"nonce":"abc"}\r\n'


@contextlib.contextmanager
def in_memory() -> Iterator[Path]:
    """Yield a folder in memory where that is possible: three servers that sync each message cost a disk much."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="cluster-", dir=memory if os.access(memory, os.W_OK) else None, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


def reached(act: Callable[[], T]) -> T:
    """Return what an act gives that needs the servers: they may not have chosen a leader yet."""
    found: list[T] = []

    def is_done() -> bool:
        with contextlib.suppress(Unreachable):
            found.append(act())
        return bool(found)

    wait_for(is_done, 90, what="the servers answer")
    return found[0]


def free_ports(count: int) -> list[int]:
    """Return ports of loopback that nobody listens on, and that nobody gets who asks for any port."""
    with contextlib.ExitStack() as opened:
        ports: list[int] = []
        while len(ports) < count:
            port = _DRAWN.randrange(10_000, 32_000)
            with contextlib.suppress(OSError):
                opened.enter_context(socket.create_server(("127.0.0.1", port)))
                ports.append(port)
        return ports


class Server:
    """One server; what it stored stays from one start to the next."""

    def __init__(self, folder: Path, name: str, client: int, config: str, more: str = "") -> None:
        self.folder, self.client = folder / name, client
        self.folder.mkdir(parents=True, exist_ok=True)
        self._config = self.folder / "server.conf"
        self.write(config)
        self._base = self._config.read_text()
        self._config.write_text(self._base + more)
        self._process: subprocess.Popen[bytes] | None = None

    def write(self, config: str) -> None:
        """Give it another configuration for its next start."""
        self._config.write_text(config.format(name=self.folder.name, client=self.client, store=self.store))

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.client}"

    @property
    def store(self) -> Path:
        return self.folder / "store"

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen([str(_PROGRAM), "-c", str(self._config)], stdout=log, stderr=log)

    def reload(self, more: str) -> None:
        """Let the server read its settings anew, with more at their end than it began with."""
        log, said = self.folder / "log", b"Reloaded server configuration"
        before = log.read_bytes().count(said)
        self._config.write_text(self._base + more)
        self.send(signal.SIGHUP)
        wait_for(lambda: log.read_bytes().count(said) > before, what="the settings are read")

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


def certificate_in(folder: Path) -> tuple[str, str]:
    """Make a certificate of loopback; return the files of its key and of itself."""
    key, certificate = str(folder / "key.pem"), str(folder / "certificate.pem")
    about = ("-days", "2", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1")
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, *about]
    subprocess.run(made, check=True, capture_output=True)
    return key, certificate


@contextlib.contextmanager
def one(folder: Path, name: str, config: str) -> Iterator[Server]:
    """Run one server that stands alone."""
    (port,) = free_ports(1)
    server = Server(folder, name, port, config)
    server.start()
    try:
        wait_for(server.is_listening, what=f"{server.url} listens")
        yield server
    finally:
        server.kill()


class Servers:
    """Some servers that are one cluster, or one that stands alone.

    Args:
        more: for the configuration of each.
        is_divisible: each reaches each other one through a proxy.
        credentials: the file of the key that they let in with all permissions; empty: they let in everybody.
        scheme: of their addresses.
    """

    def __init__(
        self,
        folder: Path,
        count: int,
        more: str = "",
        *,
        is_divisible: bool = False,
        credentials: str = "",
        scheme: str = "nats",
    ) -> None:
        self.credentials, self.scheme = credentials, scheme
        ports = free_ports(2 * count)
        clients, routes = ports[:count], ports[count:]
        self.between: dict[tuple[int, int], Proxy] = {}  # from which server to which, if they are divisible
        if is_divisible:
            pairs = itertools.permutations(range(count), 2)
            self.between = {pair: Proxy([routes[pair[1]]]) for pair in pairs}
        self.all: list[Server] = []
        for number, client in enumerate(clients):
            others = [
                self.between[number, other].url if is_divisible else f"nats://127.0.0.1:{routes[other]}"
                for other in range(count)
                if other != number
            ]
            config = _CONFIG.replace("{route}", str(routes[number])).replace("{routes}", ", ".join(others))
            self.all.append(Server(folder, f"n{number}", client, ALONE if count == 1 else config, more))
        for server in self.all:
            server.start()
        for server in self.all:
            wait_for(server.is_listening, what=f"{server.url} listens")

    def around(self, number: int) -> list[Proxy]:
        """Return what connects one server with the others."""
        return [proxy for pair, proxy in self.between.items() if number in pair]

    @property
    def urls(self) -> list[str]:
        return [server.url.replace("nats", self.scheme, 1) for server in self.all]

    def connect(self) -> Connection:
        """Return a connection that may do everything. Raises Unreachable."""
        return Connection(self.urls, self.credentials)

    def close(self) -> None:
        for server in self.all:
            with contextlib.suppress(ProcessLookupError, AssertionError):
                server.send(signal.SIGCONT)
            server.kill()
        for proxy in self.between.values():
            proxy.close()


class Proxy:
    """Between a client and a server: may pass nothing on, in one direction or both, as a broken cable does.

    Args:
        ports: of the servers; a connection goes to the first that takes it.
        scheme: of its address.
    """

    def __init__(self, ports: Sequence[int], scheme: str = "nats") -> None:
        self._ports, self._scheme = list(ports), scheme
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.is_cut = threading.Event()
        self.is_deaf = threading.Event()  # what the server answers is held back; what the client says arrives
        self.is_lying = threading.Event()  # who connects is told by this proxy, in plain text, to send a key
        self.heard = bytearray()  # what was said to it then
        self._is_closed = False
        self._open: list[socket.socket] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._listening.getsockname()[1]}"

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            if self.is_lying.is_set():
                threading.Thread(target=self._lie, args=(client,), daemon=True).start()
                continue
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

    def _lie(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            client.settimeout(5)
            client.sendall(PLAIN_INFO)
            while data := client.recv(4096):
                self.heard.extend(data)

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
        self._listening.shutdown(socket.SHUT_RDWR)
        self._accepting.join(5)
        self._listening.close()
        self.drop_connections()
