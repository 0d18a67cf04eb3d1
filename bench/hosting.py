"""A home, a daemon on it, and many requests: what every figure needs."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import orjson

from honeybadger_agent import new_id
from honeybadger_agent.mailbox import Mailbox
from honeybadger_host.files.home import make_home

NOTE = (
    "User prefers dark mode in the editor, and tea without sugar in the afternoon; asked on a call about the release."
)
# An installed package has its byte code: without it, importing numpy takes 0.2 s more.
_AS_INSTALLED = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@contextmanager
def new_home(base: Path) -> Iterator[Path]:
    """Yield a fresh home folder below `base` and remove it afterwards."""
    base.mkdir(parents=True, exist_ok=True)
    home = Path(tempfile.mkdtemp(prefix="home-", dir=base))
    try:
        make_home(home)
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


class Process:
    """A process that was started, and what it takes; killed at the end of a block."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Kill what did not stop."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def cpu_seconds(self) -> float:
        return time.clock_gettime((~self.process.pid << 3) | 2)  # as clock_getcpuclockid(3) makes it

    def resident_mib(self) -> float:
        """Return what it takes."""
        fields = Path(f"/proc/{self.process.pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


class Daemon(Process):
    """The real daemon as a process of its own. Its log goes to a file in the home."""

    def __init__(self, home: Path, settings: Sequence[str] = ()) -> None:
        self.home = home
        address = home / "notify.sock"
        address.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.bind(str(address))
            sock.settimeout(300)  # the first start on 100,000 files keeps a version of each
            flags = [part for setting in settings for part in ("--set", setting)]
            with (home / "daemon.log").open("ab") as log:
                super().__init__(
                    subprocess.Popen(
                        [sys.executable, "-m", "honeybadger_host", "run", "--home", str(home), *flags],
                        env={**_AS_INSTALLED, "NOTIFY_SOCKET": str(address)},
                        stderr=log,
                    )
                )
            while sock.recv(256) != b"READY=1":
                pass

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(60) != 0:
            raise RuntimeError((self.home / "daemon.log").read_text()[-2000:])


@contextmanager
def running(home: Path, settings: Sequence[str] = ()) -> Iterator[Daemon]:
    with Daemon(home, settings) as daemon:
        yield daemon
        daemon.stop()


def request(request_id: str, number: int = 0) -> bytes:
    return orjson.dumps(
        {"v": 1, "id": request_id, "type": "update_memory", "payload": {"content": f"{number}: {NOTE}"}}
    )


def drop(mailbox: Mailbox, request_id: str, data: bytes) -> None:
    """Publish as an agent that does not fsync: the bench measures the host's disk work, not the producer's."""
    temporary = f"{mailbox.root}/tmp/{request_id}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.write(fd, data)
    os.close(fd)
    os.rename(temporary, f"{mailbox.root}/requests/{request_id}.json")


def fill(home: Path, groups: int, count: int) -> list[Path]:
    """Drop `count` notes over `groups` groups; return the path of the last reply of each."""
    last: list[Path] = []
    for group in range(groups):
        mailbox = Mailbox.of(home, f"group{group}", "agent")
        mailbox.create()
        request_id = ""
        for number in range(count // groups):
            request_id = new_id()
            drop(mailbox, request_id, request(request_id, number))
        last.append(mailbox.path("replies", request_id))
    return last


def wait_for(paths: Sequence[Path], seconds: float = 120) -> float:
    """Wait until all paths exist; return the monotonic time then."""
    deadline = time.monotonic() + seconds
    left = list(paths)
    while left:
        left = [path for path in left if not path.exists()]
        if not left:
            break
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(left)} replies did not come")
        time.sleep(0.002)
    return time.perf_counter()
