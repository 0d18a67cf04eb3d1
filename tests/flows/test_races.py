"""Files change under the host's eyes: a file of somebody else's is never read.

Every race has a control: without the one line that is there against it, the racer wins.
"""

import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from honeybadger_host.files.safe_files import Changing, NotRegular, open_folder, read_incoming
from tests.conftest import HostFactory
from tests.crash.story import read
from tests.hosting import HostProcess, RawSender, wait_for

WAYS = ("link", "hard", "fifo", "unlink")
SECRET = b"the secret of somebody else: " + b"do not read " * 20
_SECONDS = float(os.environ.get("HB_RACE_SECONDS", "0.25"))


@pytest.fixture(scope="session")
def racer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled `racer.c`."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if sys.platform != "linux" or compiler is None:
        pytest.skip("a race is run by a C program with a system call of Linux: needs both")
    program = tmp_path_factory.mktemp("racer") / "racer"
    source = Path(__file__).with_name("racer.c")
    made = subprocess.run([compiler, "-O2", "-o", program, source], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"the racer needs renameat2 in the C library: {made.stderr[-300:]}")
    return program


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file beside the home, on its file system, so that there can be hard links to it."""
    path = tmp_path / "secret"
    path.write_bytes(SECRET)
    return path


@contextmanager
def racing(racer: Path, way: str, sender: RawSender, foreign: Path, names: int) -> Iterator[None]:
    """Let the racer run in a sender's inbox."""
    command = [str(part) for part in (racer, way, sender.requests, sender.root / "tmp", foreign, names)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield
            assert process.poll() is None, process.stderr and process.stderr.read()
        finally:
            process.kill()


def _read_often(
    sender: RawSender, read: Callable[[int], bytes], is_over: Callable[[bytes], bool], *to_meet: str
) -> Counter[str]:
    """Read `x0.json` often, until the time is over and all was met that there is, or until `is_over` says so of what
    was read; return what was met."""
    met: Counter[str] = Counter()
    until = time.monotonic() + _SECONDS
    with opened_folder(sender.requests) as folder:
        while time.monotonic() < until or met.total() <= 1000 or not all(met[each] for each in to_meet):
            try:
                data = read(folder)
            except NotRegular as kind:
                met[str(kind)] += 1
            except (FileNotFoundError, Changing):
                met["gone"] += 1
            else:
                met["foreign" if data.startswith(SECRET[:20]) else "its own" if data == b"[]" else "nothing"] += 1
                if is_over(data):
                    break
    return met


@contextmanager
def opened_folder(path: Path) -> Iterator[int]:
    """Give a descriptor of a folder for a while."""
    fd = open_folder(path)
    try:
        yield fd
    finally:
        os.close(fd)


@pytest.mark.parametrize("way", WAYS)
def test_under_races_only_the_senders_own_file_is_read(home: Path, racer: Path, secret: Path, way: str) -> None:
    mallory = RawSender(home, "main", "mallory").make()
    other = {"link": "a link", "fifo": "a FIFO", "hard": "nothing", "unlink": "nothing"}[way]
    own = "gone" if way == "unlink" else "its own"
    with racing(racer, way, mallory, secret, 1):
        met = _read_often(mallory, lambda fd: read_incoming(fd, "x0.json", 4096).data, lambda _: False, other, own)
    assert met["foreign"] == 0, met


def _follows(fd: int) -> bytes:
    """Read as one would without the flag against links."""
    file = os.open("x0.json", os.O_RDONLY | os.O_NONBLOCK, dir_fd=fd)
    try:
        return os.read(file, 4096)
    finally:
        os.close(file)


def _looks_first(fd: int) -> bytes:
    """Read as one would who looks at the name, and then opens it."""
    if not os.path.isfile(f"/proc/self/fd/{fd}/x0.json") or os.path.islink(f"/proc/self/fd/{fd}/x0.json"):
        return b""
    return _follows(fd)


def _counts_names_once(fd: int) -> bytes:
    """Read as one would who counts the names of the open file, and does not ask whether this one is left."""
    file = os.open("x0.json", os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW, dir_fd=fd)
    try:
        return os.read(file, 4096) if os.fstat(file).st_nlink == 1 else b""
    finally:
        os.close(file)


def _counts_names_twice(fd: int) -> bytes:
    """Read as one would who asks whether the name is left, too: a look-up takes the name and then counts."""
    file = os.open("x0.json", os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW, dir_fd=fd)
    try:
        status, named = os.fstat(file), os.stat("x0.json", dir_fd=fd, follow_symlinks=False)
        is_alone = status.st_ino == named.st_ino and status.st_nlink == named.st_nlink == 1
        return os.read(file, 4096) if is_alone else b""
    finally:
        os.close(file)


@pytest.mark.parametrize(
    ("way", "read"),
    [
        *(("link", _follows), ("link", _looks_first), ("hard", _follows), ("unlink", _counts_names_once)),
        ("unlink", _counts_names_twice),
    ],
)
def test_the_racer_wins_where_one_look_is_left_out(
    home: Path, racer: Path, secret: Path, way: str, read: Callable[[int], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of the test above."""
    monkeypatch.setattr(sys.modules[__name__], "_SECONDS", 100.0)
    mallory = RawSender(home, "main", "mallory").make()
    with racing(racer, way, mallory, secret, 1):
        met = _read_often(mallory, read, lambda data: data.startswith(SECRET[:20]))
    assert met["foreign"] == 1, met


def _written_by(host: HostProcess, mallory: RawSender) -> list[Path]:
    """Return every file that holds the secret, beside the racer's own."""
    own = (mallory.requests, mallory.root / "tmp")
    return [
        path
        for path in host.home.rglob("*")
        if path.parent not in own and path.is_file() and not path.is_symlink() and SECRET[:20] in read(path)
    ]


@pytest.mark.parametrize("way", ["link", "unlink"])  # a host reads as the test of all ways does
def test_a_raced_host_writes_nothing_of_foreign_files(
    make_host: HostFactory, home: Path, racer: Path, secret: Path, way: str
) -> None:
    host = make_host().start()
    mallory, honest = (RawSender(home, "main", name).make() for name in ("mallory", "honest"))
    until = time.monotonic() + _SECONDS
    asked = 0
    with racing(racer, way, mallory, secret, 16):
        # what the racer shows is looked at; of "unlink" it is mostly gone again
        while time.monotonic() < until or asked < 3 or not (way == "unlink" or mallory.dead.is_dir()):
            stem = f"honest-{asked:05}"
            honest.do(stem, content=f"note {asked}")
            asked += 1
    assert [line for line in honest.memory_text().splitlines() if line.startswith("- ")] == [
        f"- note {number}" for number in range(asked)
    ]
    host.stop()
    assert _written_by(host, mallory) == []
    assert secret.read_bytes() == SECRET


NAIVE = """
import os
from honeybadger_host.files.safe_files import Incoming, Signature
from honeybadger_host.spool import request
def read(folder, name, most):
    file = os.open(name, os.O_RDONLY | os.O_NONBLOCK, dir_fd=folder)
    data, status = os.read(file, most), os.fstat(file)
    os.close(file)
    return Incoming(data, len(data), 0, 1, Signature.of(status))
request.read_incoming = read
"""


def test_a_host_that_follows_links_is_caught(make_host: HostFactory, home: Path, racer: Path, secret: Path) -> None:
    """The control of the test above."""
    host = make_host(source=NAIVE).start()
    mallory = RawSender(home, "main", "mallory").make()
    with racing(racer, "link", mallory, secret, 16):
        wait_for(lambda: _written_by(host, mallory), what="the racer to win")
