"""The shim itself: it counts, strikes and keeps what it says, and leaves everything else alone."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hosting import frozen_environment

ROAD = """
import os, sqlite3, sys
home = sys.argv[1]
fd = os.open(home + "/a.tmp", os.O_WRONLY | os.O_CREAT, 0o600)
os.write(fd, b"0123456789")
os.fsync(fd)
os.write(fd, b"never synced")
os.close(fd)
os.rename(home + "/a.tmp", home + "/a")
folder = os.open(home, os.O_RDONLY)
os.link("a", "b", src_dir_fd=folder, dst_dir_fd=folder)
os.unlink("b", dir_fd=folder)
os.truncate(home + "/a", 15)
open(sys.argv[2] + "/elsewhere", "wb").write(b"not counted")
os.mkdir(home + "/c")
os.rmdir(home + "/c")
"""
CALLS = [
    "create a.tmp",
    "write a.tmp",
    "sync a.tmp",
    "write a.tmp",
    "rename a",
    "link b",
    "unlink b",
    "truncate a",
    "create c",
    "unlink c",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def run(
    shim: Path, folder: Path, source: str = ROAD, **variables: object
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run a program under the shim; return how it ended and the calls that were noted."""
    log = folder.parent / "log"
    log.unlink(missing_ok=True)
    environment = frozen_environment(
        LD_PRELOAD=str(shim),
        HB_FAULT_HOME=str(folder),
        HB_FAULT_LOG=str(log),
        **{f"HB_{name}": str(value) for name, value in variables.items()},
    )
    command = [sys.executable, "-c", source, str(folder), str(folder.parent)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    noted = log.read_text().splitlines() if log.exists() else []
    return ended, noted


def test_every_call_that_changes_the_disk_is_counted_once(shim: Path, folder: Path) -> None:
    ended, noted = run(shim, folder, FAULT_TRACE=1)
    assert ended.returncode == 0, ended.stderr
    assert noted == [f"{number} {call}" for number, call in enumerate(CALLS, 1)]


@pytest.mark.parametrize(("when", "held"), [("before", ""), ("after", "0123456789"), ("torn", "01234")])
def test_a_process_dies_at_the_call_that_was_chosen(shim: Path, folder: Path, when: str, held: str) -> None:
    ended, noted = run(shim, folder, KILL_AT=2, KILL_WHEN=when)
    assert ended.returncode == -signal.SIGKILL
    assert noted == ["2 write a.tmp"]
    assert (folder / "a.tmp").read_text() == held


def test_a_call_fails_once_or_from_then_on(shim: Path, folder: Path) -> None:
    source = """
import os, sys
fd = os.open(sys.argv[1] + "/a", os.O_WRONLY | os.O_CREAT, 0o600)
for number in range(4):
    try:
        print(os.write(fd, b"1234"))
    except OSError as error:
        print(error.errno)
"""
    for variables, printed in (
        ({"FAIL_ERRNO": 28}, "4 28 28 28"),
        ({"FAIL_ERRNO": 28, "FAIL_ONCE": 1}, "4 28 4 4"),
        ({"FAIL_ERRNO": 0, "FAIL_ONCE": 1}, "4 2 4 4"),
        ({"FAIL_ERRNO": 5, "FAIL_PATH": "other"}, "4 4 4 4"),
    ):
        ended, _ = run(shim, folder, source, FAIL_AT=2, FAIL_KIND="write", **variables)
        assert ended.stdout.split() == printed.split(), ended.stderr


def test_the_shadow_holds_what_was_synced(shim: Path, folder: Path) -> None:
    shadow = folder.parent / "shadow"
    shadow.mkdir()
    run(shim, folder, SHADOW=shadow)
    status = (folder / "a").stat()
    assert (folder / "a").read_bytes() == b"0123456789never"
    assert [path.name for path in shadow.iterdir()] == [f"{status.st_dev:x}-{status.st_ino:x}"]
    assert (shadow / f"{status.st_dev:x}-{status.st_ino:x}").read_bytes() == b"0123456789"
    run(shim, folder, "import os, sys; os.unlink(sys.argv[1] + '/a')", SHADOW=shadow)
    assert list(shadow.iterdir()) == []
