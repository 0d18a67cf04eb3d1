"""Files that others may have put there: read without being led astray, written whole or not at all."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from honeybadger_host.errors import WorldFailed
from honeybadger_host.files.safe_files import (
    alone_with,
    append,
    is_open_for_writing,
    open_folder,
    open_plain,
    open_to_append,
    remove_leftovers,
    replace,
    try_lock,
)
from tests.hosting import little_space, make_socket


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    opened = open_folder(tmp_path)
    yield opened
    os.close(opened)


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


@pytest.mark.usefixtures("umask")
def test_new_files_and_folders_are_private(tmp_path: Path) -> None:
    opened = open_to_append(tmp_path / "a" / "b" / "c.md")
    os.close(opened)
    assert mode(tmp_path / "a" / "b" / "c.md") == 0o600
    assert mode(tmp_path / "a" / "b") == mode(tmp_path / "a") == 0o700


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: path.symlink_to("elsewhere"), "is a link where the host needs a file"),
        (Path.mkdir, "is a folder where the host needs a file: put a plain file"),
        (os.mkfifo, "is a FIFO where the host needs a file: put a plain file"),
        (make_socket, "a socket or a device where"),
    ],
    ids=["link", "folder", "fifo", "socket"],
)
@pytest.mark.timeout(60)
def test_an_obstacle_to_an_append_is_explained(tmp_path: Path, make: Callable[[Path], object], says: str) -> None:
    path = tmp_path / "MEMORY.md"
    make(path)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(WorldFailed, match=says) as caught:
        open_to_append(path)
    assert str(path) in str(caught.value)
    assert len(os.listdir("/proc/self/fd")) == before
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("room", [0, 1, 99])
def test_a_partial_append_leaves_nothing(tmp_path: Path, room: int) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"before\n")
    opened = open_to_append(path)
    says = f"the disk took {room} of 100 bytes" if room else "cannot append: "
    with little_space(7 + room), pytest.raises(WorldFailed, match=says):  # a write over it is short, the next one fails
        append(opened, b"x" * 100)
    assert path.read_bytes() == b"before\n"
    append(opened, b"after\n")
    os.close(opened)
    assert path.read_bytes() == b"before\nafter\n"


@pytest.mark.usefixtures("umask")
def test_a_replaced_file_is_private(tmp_path: Path) -> None:
    replace(tmp_path / "a", b"one")
    replace(tmp_path / "a", b"two")
    assert (tmp_path / "a").read_bytes() == b"two"
    assert mode(tmp_path / "a") == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_replace_that_fails_changes_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a"
    replace(path, b"old")
    with little_space(10), pytest.raises(OSError, match="File too large"):
        replace(path, b"new" * 10)
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["a"]
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="Is a directory"):
        replace(tmp_path / "folder", b"x")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a", "folder"]


def test_a_replace_does_not_follow_a_link(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("theirs")
    (tmp_path / "a").symlink_to("theirs")
    replace(tmp_path / "a", b"ours")
    assert (tmp_path / "theirs").read_text() == "theirs"
    assert (tmp_path / "a").read_text() == "ours"
    assert not (tmp_path / "a").is_symlink()


KILLED = """
import os, signal, sys
from pathlib import Path
from honeybadger_host.files import safe_files
os.rename = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
safe_files.replace(Path(sys.argv[1]), b"half a replacement")
"""


def _leave(path: Path) -> Path:
    """Have a process killed in the middle of replacing a file; return what it left."""
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(path)])
    assert process.wait(60) == -signal.SIGKILL
    return path.with_name(f".{path.name}.{process.pid}.tmp")


def test_leftovers_of_a_killed_replacement_go(tmp_path: Path) -> None:
    left = _leave(tmp_path / "a.json")
    assert left.read_bytes() == b"half a replacement"
    of_this_process = left.with_name(f".a.json.{os.getpid()}.tmp")  # in a container every start may have its number
    of_this_process.write_bytes(b"an earlier one")
    dead = left.name.split(".")[-2]
    for name in (f".b.json.{dead}.tmp", ".a.json.tmp", f"a.json.{dead}.tmp", f".a.json.{dead}.tmp~", ".a.json.0.tmp"):
        (tmp_path / name).write_bytes(b"a person's")
    before = {entry.name for entry in tmp_path.iterdir()}
    assert sorted(remove_leftovers(tmp_path, {"a.json"})) == sorted([left.name, of_this_process.name])
    assert {entry.name for entry in tmp_path.iterdir()} == before - {left.name, of_this_process.name}
    left.mkdir()
    of_this_process.symlink_to(tmp_path / "a.json")
    assert remove_leftovers(tmp_path, {"a.json"}) == []
    assert remove_leftovers(tmp_path / "missing", {"a.json"}) == []


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    script = """
import sys, pathlib
from honeybadger_host.files.safe_files import try_lock
assert try_lock(pathlib.Path(sys.argv[1])) is not None
print("held", flush=True)
sys.stdin.read()
"""
    command = [sys.executable, "-c", script, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        assert try_lock(tmp_path / "lock") is None
        process.send_signal(signal.SIGKILL)
    taken = try_lock(tmp_path / "lock")
    assert taken is not None
    os.close(taken)


def test_a_file_open_for_writing_elsewhere_is_known(tmp_path: Path) -> None:
    path = tmp_path / "MEMORY.md"
    assert not is_open_for_writing(path)
    path.write_bytes(b"text")
    with path.open("rb"):
        assert not is_open_for_writing(path)
    for mode in ("r+b", "ab", "wb"):
        with path.open(mode):
            assert is_open_for_writing(path)
    source = f"file = open({str(path)!r}, 'ab'); print(); input()"
    with subprocess.Popen([sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdout.readline()
        assert is_open_for_writing(path)
        other.stdin.close()
    assert not is_open_for_writing(path)


def test_an_opener_waits_for_a_write_and_shares_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "MEMORY.md"
    path.write_bytes(b"text")
    fd = open_to_append(path)
    with ThreadPoolExecutor(2) as threads:
        with alone_with(fd):
            saved = threads.submit(path.write_bytes, b"edited")
            read = threads.submit(open_plain, path)
            time.sleep(0.3)  # as who writes on a busy machine
            assert not saved.done()
            append(fd, b" and more")
            assert path.stat().st_size == len(b"text and more")
        assert saved.result() == 6
        os.close(read.result()[0])
    os.close(fd)
    assert path.read_bytes() == b"edited"
