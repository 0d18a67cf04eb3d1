"""The cache of CLAUDE.md, MEMORY.md and summary.md: never stale, never torn, clear about what it cannot serve."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from honeybadger_host.errors import FileProblem
from honeybadger_host.files.file_cache import KeptFiles
from honeybadger_host.memory.markdown.group_files import GroupFiles, GroupText
from tests.hosting import at_once, make_socket

MIB = 1_048_576
MEMORY = "groups/main/MEMORY.md"


class Wall:
    """The wall clock, some seconds ahead: files that were just written look old."""

    def __init__(self, ahead_seconds: float = 60.0) -> None:
        self.ahead_ns = int(ahead_seconds * 1e9)
        self.looks = 0

    def __call__(self) -> int:
        self.looks += 1
        return time.time_ns() + self.ahead_ns


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    group = tmp_path / "groups" / "main"
    group.mkdir(parents=True)
    return group


def files_of(folder: Path, wall_ns: Callable[[], int] | None = None, max_bytes: int = 32 * MIB) -> GroupFiles:
    home = folder.parent.parent
    return GroupFiles(home, KeptFiles(home, max_bytes, wall_ns or Wall()))


@pytest.fixture
def files(folder: Path) -> GroupFiles:
    return files_of(folder)


def text_of(text: GroupText | None) -> str | None:
    return None if text is None else text.text


def test_hierarchical_memory_store_loads_group_agent_memory_and_summary(files: GroupFiles, folder: Path) -> None:
    (folder / "MEMORY.md").write_text("## Notes (a, 2026-11-21 06:05)\n- likes tea\n")
    assert text_of(files.read("groups/main/MEMORY.md")) == "## Notes (a, 2026-11-21 06:05)\n- likes tea\n"
    assert files.read("groups/main/summary.md") is None
    (folder / "summary.md").write_text("We met in spring.\n")
    (folder / "CLAUDE.md").write_text("You are a badger.\n")
    assert text_of(files.read("groups/main/summary.md")) == "We met in spring.\n"
    assert text_of(files.read("groups/main/CLAUDE.md")) == "You are a badger.\n"
    assert text_of(files.read("groups/main/MEMORY.md")) == "## Notes (a, 2026-11-21 06:05)\n- likes tea\n"


def test_a_read_that_drop_overtakes_is_not_cached(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "MEMORY.md").write_text("x")
    files = files_of(folder)
    read = os.read

    def read_and_be_overtaken(fd: int, length: int) -> bytes:
        data = read(fd, length)
        files.kept.drop(MEMORY)
        return data

    with monkeypatch.context() as patch:
        patch.setattr(os, "read", read_and_be_overtaken)
        overtaken = files.read("groups/main/MEMORY.md")
    assert text_of(overtaken) == "x"
    kept = files.read("groups/main/MEMORY.md")
    assert kept is not overtaken
    assert files.read("groups/main/MEMORY.md") is kept


def test_the_files_that_were_read_first_leave_first(folder: Path) -> None:
    files = files_of(folder, max_bytes=3 * 10_500 + 100)
    for name in "abcd":
        (folder.parent / name).mkdir()
        (folder.parent / name / "MEMORY.md").write_text(name * 10_000)
    first = {name: files.read(f"groups/{name}/MEMORY.md") for name in "abc"}
    files.read("groups/d/MEMORY.md")
    assert files.read("groups/b/MEMORY.md") is first["b"]
    assert files.read("groups/c/MEMORY.md") is first["c"]
    assert files.read("groups/a/MEMORY.md") is not first["a"]


def save_in_place(path: Path, data: bytes) -> None:
    """As a program that keeps the inode and, here, the size."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.pwrite(fd, data, 0)
        os.ftruncate(fd, len(data))
    finally:
        os.close(fd)


def save_by_rename(path: Path, data: bytes) -> None:
    """As most editors."""
    temporary = path.with_name("new.tmp")
    temporary.write_bytes(data)
    temporary.rename(path)


def save_and_set_the_time_back(path: Path, data: bytes) -> None:
    """As a synchroniser that keeps times."""
    save_in_place(path, data)
    os.utime(path, (1_000_000_000, 1_000_000_000))


def remove_and_make_again(path: Path, data: bytes) -> None:
    """Inode numbers are reused at once."""
    path.unlink(missing_ok=True)
    path.write_bytes(data)


def save_and_touch(path: Path, data: bytes) -> None:
    save_in_place(path, data)
    path.touch()


SAVES = [save_in_place, save_by_rename, save_and_set_the_time_back, remove_and_make_again, save_and_touch]


@pytest.mark.parametrize("save", SAVES)
def test_each_save_shows_without_a_watcher(folder: Path, save: Callable[[Path, bytes], None]) -> None:
    files = files_of(folder, time.time_ns)
    for number in range(400):
        save(folder / "MEMORY.md", b"%06d" % number)
        assert text_of(files.read("groups/main/MEMORY.md")) == f"{number:06}"
        assert text_of(files.read("groups/main/MEMORY.md")) == f"{number:06}"


class Writer(threading.Thread):
    """Saves numbered versions one after another, and says which was begun and which was finished."""

    def __init__(self, path: Path, saves: Sequence[Callable[[Path, bytes], None]], size: int) -> None:
        super().__init__()
        self.path, self.saves, self.size = path, saves, size
        self.begun = self.finished = 0
        self.stop = threading.Event()

    def version(self, number: int) -> bytes:
        return b"%08d\n" % number * (self.size // 9)

    def run(self) -> None:
        while not self.stop.is_set():
            self.begun = number = self.begun + 1
            self.saves[number % len(self.saves)](self.path, self.version(number))
            self.finished = number
            if number % 7 == 0:  # leave the file alone for longer than a tick of the clock now and then
                self.stop.wait(0.025)


@pytest.fixture
def writing() -> Iterator[Callable[[Writer], Writer]]:
    writers: list[Writer] = []

    def start(writer: Writer) -> Writer:
        writers.append(writer)
        writer.start()
        return writer

    yield start
    for writer in writers:
        writer.stop.set()
        writer.join()


def is_enough(reads: int, writer: Writer) -> bool:
    """Counted, not timed: the machine may be busy."""
    return reads >= 200 and writer.finished >= 50


def test_no_read_under_load_is_stale_or_torn(folder: Path, writing: Callable[[Writer], Writer]) -> None:
    writer = writing(Writer(folder / "MEMORY.md", [save_by_rename], 90_000))
    files = files_of(folder, time.time_ns)
    wrong: list[str] = []

    def read_all_the_time() -> None:
        reads = 0
        while not is_enough(reads, writer) and not wrong:
            reads += 1
            finished = writer.finished
            text = files.read("groups/main/MEMORY.md")
            begun = writer.begun
            if text is None:
                if finished:
                    wrong.append(f"absent after {finished}")
                continue
            if text.text != text.text[:9] * 10_000:
                wrong.append(f"torn: {len(set(text.text.splitlines()))} versions in {len(text.text)} characters")
            elif not finished <= int(text.text[:8]) <= begun:
                wrong.append(f"read {text.text[:8]} with {finished} written")

    at_once(*[read_all_the_time] * 2)
    assert wrong == []


def make_link_out(path: Path) -> None:
    (path.parent.parent.parent / "secret.md").write_text("secret")
    path.symlink_to(path.parent.parent.parent / "secret.md")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (make_link_out, "is a link, and the host reads plain files only: copy what it points to into its place"),
        (lambda path: path.symlink_to("nowhere"), "is a link"),
        (lambda path: path.symlink_to(path), "is a link"),
        (Path.mkdir, "is a folder, and the host reads plain files only: move it away"),
        (os.mkfifo, "is a FIFO"),
        (make_socket, "is a socket"),
        (lambda path: path.write_bytes(b"good\nb\xe4d\n"), "is not UTF-8 (line 2): save it as UTF-8"),
        (lambda path: path.write_bytes("text".encode("utf-16")), "is not UTF-8 (line 1)"),
    ],
    ids=["link out", "dangling link", "link to itself", "folder", "fifo", "socket", "latin-1", "utf-16"],
)
def test_an_unreadable_text_is_named_and_leaves_others(
    files: GroupFiles, folder: Path, make: Callable[[Path], object], said: str
) -> None:
    path = folder / "MEMORY.md"
    (folder / "CLAUDE.md").write_text("You are a badger.")
    make(path)
    for _ in range(3):
        with pytest.raises(FileProblem) as caught:
            files.read("groups/main/MEMORY.md")
        assert caught.value.file == MEMORY
        assert caught.value.message.startswith(said)
        assert str(caught.value).startswith(MEMORY + " ")
    assert text_of(files.read("groups/main/CLAUDE.md")) == "You are a badger."

    path.rename(folder / "aside")
    assert files.read("groups/main/MEMORY.md") is None
    path.write_text("well again")
    assert text_of(files.read("groups/main/MEMORY.md")) == "well again"


def test_a_summary_over_the_limit_is_named(files: GroupFiles, folder: Path) -> None:
    (folder / "summary.md").write_bytes(b"x" * (MIB + 1))
    with pytest.raises(FileProblem, match=f"has {MIB + 1} bytes, the limit is {MIB}: shorten it"):
        files.read("groups/main/summary.md")


def test_a_byte_order_mark_is_no_text(files: GroupFiles, folder: Path) -> None:
    (folder / "MEMORY.md").write_bytes(b"\xef\xbb\xbf## Notes\r\n")
    text = files.read("groups/main/MEMORY.md")
    assert text is not None
    assert text.text == "## Notes\r\n"
    assert text.clean == "## Notes\n"
