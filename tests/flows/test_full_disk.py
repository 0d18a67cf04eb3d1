"""A disk that is full: nothing is acknowledged, nothing is lost, and all goes on when there is space again."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from honeybadger_host.home import make_home
from tests.conftest import HostFactory
from tests.hosting import RawSender, request, wait_for

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or shutil.which("mount") is None,
    reason="a disk to fill is a small tmpfs, and only root can mount one",
)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of three MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"this root may not mount: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"\0" * 4096):
            pass


def test_on_a_full_disk_requests_wait_and_are_served_once_when_there_is_space(
    disk: Path, make_host: HostFactory
) -> None:
    home = disk / "home"
    make_home(home)
    host = make_host({"ipc.full_disk_seconds": 0.5}, home=home)
    host.stderr = disk.parent / "host.stderr"  # the log is elsewhere, so that the test can read it
    host.start()
    sender = RawSender(home).make()
    assert sender.ask("before", request("before", content="before"))["ok"] is True

    os.kill(host.pid, signal.SIGSTOP)  # so that the requests lie there before the disk is full
    for name in ("r1", "r2", "r3"):
        sender.drop(name, request(name, content=name))
    _fill(disk / "filler")
    os.kill(host.pid, signal.SIGCONT)

    wait_for(lambda: host.events("door.reply_failed"))
    assert host.events("journal.waiting")
    assert sorted(path.name for path in sender.requests.iterdir()) == ["r1.json", "r2.json", "r3.json"]
    assert "- r1" not in sender.memory_text()
    assert host.is_running

    (disk / "filler").unlink()
    wait_for(lambda: not list(sender.requests.iterdir()), timeout=15)
    for name in ("r1", "r2", "r3"):
        assert sender.reply(name)["ok"] is True
        assert sender.memory_text().count(f"- {name}\n") == 1
    assert host.events("journal.recovered")
    host.stop()
