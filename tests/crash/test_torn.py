"""Whatever a crash or a power cut left half written is completed: of documents and of logs."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from honeybadger_host.compose import build
from honeybadger_host.configuration import load_settings
from honeybadger_host.files.home import make_home
from tests.crash.conftest import IS_LONG
from tests.host.documents.world import MEMORY, World, note

LOG = "data/sessions/main/main.jsonl"


def turn(number: int, text: str = "hello") -> bytes:
    return b'{"turn":%d,"content":"%s"}\n' % (number, text.encode())


@pytest.fixture
def home(tmp_path: Path) -> Path:
    make_home(tmp_path / "home")
    return tmp_path / "home"


def commit(home: Path, file: str, before: bytes, entries: list[bytes]) -> None:
    """Commit entries behind what a file holds, and end before they are written."""
    path = home / file
    path.parent.mkdir(parents=True, exist_ok=True)
    if before:
        path.write_bytes(before)
    world = World(home)
    world.commit_data(file, *entries)
    world.journal.close()


def recover(home: Path) -> None:
    """Start a host as far as it is built, which brings the files up to date, and end it."""
    build(home, load_settings(home).settings).close()


Recovered = Callable[[str, bytes], bytes]


@pytest.fixture
def recovered(home: Path, tmp_path: Path) -> Iterator[Recovered]:
    """Recover copies of `home` in which a file has other bytes: what it has then."""
    count = 0

    def run(file: str, text: bytes) -> bytes:
        nonlocal count
        count += 1
        copy = tmp_path / f"copy{count}"
        shutil.copytree(home, copy)
        (copy / file).write_bytes(text)
        recover(copy)
        after = (copy / file).read_bytes()
        if count % 16 == 1:
            recover(copy)
            assert (copy / file).read_bytes() == after
        shutil.rmtree(copy)
        return after

    yield run
    assert count, "nothing was recovered"


@pytest.mark.parametrize(
    ("file", "before", "entries"),
    [
        (MEMORY, note("Older."), [note("Likes tea."), note("Two lines:\n  here.")]),
        (MEMORY, b"# Memory\n\nWritten by hand", [note("Likes tea.")]),
        (MEMORY, b"", [note("The same."), note("The same.")]),
        (LOG, turn(1), [turn(2, "Yes."), turn(3, "Yes.")]),
    ],
    ids=["notes", "first note in a file of somebody", "identical notes", "turns"],
)
def test_what_was_torn_at_any_byte_is_completed(
    home: Path, recovered: Recovered, file: str, before: bytes, entries: list[bytes]
) -> None:
    commit(home, file, before, entries)
    whole = b"".join(entries)
    for cut in range(0, len(whole) + 1, 1 if IS_LONG else 37):
        for zeros in sorted({0, (len(whole) - cut) // (1 + cut % 3)}):
            assert recovered(file, before + whole[:cut] + bytes(zeros)) == before + whole, (cut, zeros)


@pytest.mark.parametrize(("file", "entry"), [(MEMORY, note("Likes tea.")), (LOG, turn(1))], ids=["note", "turn"])
def test_blocks_of_zeros_in_the_middle_are_filled(home: Path, recovered: Recovered, file: str, entry: bytes) -> None:
    entries = [entry, entry.replace(b"1", b"2"), entry.replace(b"1", b"3")]
    commit(home, file, b"", entries)
    whole = b"".join(entries)
    for start in range(0, len(whole), 1 if IS_LONG else 83):
        for length in (1, 16, len(entry)):
            torn = whole[:start] + bytes(length) + whole[start + length :]
            assert recovered(file, torn[: len(whole)]) == whole, (start, length)


def test_a_turn_does_not_stick_to_an_unfinished_line(home: Path, recovered: Recovered) -> None:
    commit(home, LOG, turn(1), [turn(2), turn(3)])
    assert recovered(LOG, turn(1) + b"theirs") == turn(1) + b"theirs\n" + turn(2) + turn(3)
    assert recovered(LOG, turn(1) + b"theirs\n" + turn(2)) == turn(1) + b"theirs\n" + turn(2) + turn(3)
