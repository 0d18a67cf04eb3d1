"""Dead letters have a limit; what gives way is the oldest of whoever left most."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from honeybadger_host.ipc.dead_room import DeadRoom

KIB = 1024


@pytest.fixture
def dead(tmp_path: Path) -> Path:
    return tmp_path / "dead"


def bury(dead: Path, sender: str, stem: str, age: int, size: int = 4 * KIB) -> tuple[Path, int, int]:
    """Write one letter, 4 KiB and as much for its reason, `age` seconds old; return what `take` needs."""
    folder = dead / "main" / sender
    folder.mkdir(parents=True, exist_ok=True)
    for name, length in ((f"{stem}.json", size), (f"{stem}.reason.json", 100)):
        (folder / name).write_bytes(b"x" * length)
        os.utime(folder / name, (2_000_000_000 - age,) * 2)
    return folder, size, 100


def stems(dead: Path, sender: str) -> list[str]:
    """Return the letters of a sender; each must be whole."""
    names = sorted(os.listdir(dead / "main" / sender))
    found = [name.removesuffix(".reason.json") for name in names if name.endswith(".reason.json")]
    assert names == sorted(f"{stem}{end}" for stem in found for end in (".json", ".reason.json"))
    return found


def test_below_the_limit_nothing_goes(dead: Path) -> None:
    room = DeadRoom(dead, 80 * KIB)
    with capture_logs() as logs:
        for number in range(10):
            room.take(*bury(dead, "a", f"{number}", 100 - number))
    assert len(stems(dead, "a")) == 10
    assert logs == []


def test_the_oldest_of_who_has_most_make_room_for_a_while_and_the_log_says_so(dead: Path) -> None:
    room = DeadRoom(dead, 80 * KIB)
    room.take(*bury(dead, "quiet", "old", 1000))
    with capture_logs() as logs:
        for number in range(10):
            room.take(*bury(dead, "loud", f"{number}", 100 - number))
    assert stems(dead, "quiet") == ["old"]
    assert stems(dead, "loud") == [f"{number}" for number in range(2, 10)]  # 88 KiB became at most 72
    assert [(line["event"], line["sender"], line["letters"], line["bytes"]) for line in logs] == [
        ("dead.dropped", "loud", 2, 16 * KIB)
    ]


def test_two_who_have_as_much_give_both(dead: Path) -> None:
    room = DeadRoom(dead, 800 * KIB)
    for number in range(51):
        for sender in ("a", "b"):
            room.take(*bury(dead, sender, f"{number:02}", 1000 - number))
    left = [len(stems(dead, sender)) for sender in ("a", "b")]
    assert sum(left) <= 95
    assert min(left) > 35
    assert all("50" in stems(dead, sender) for sender in ("a", "b"))


def test_what_lies_there_from_an_earlier_run_counts_and_what_the_operator_dropped_does_not(dead: Path) -> None:
    for number in range(12):
        bury(dead, "a", f"{number:02}", 100 - number)
    room = DeadRoom(dead, 80 * KIB)
    room.take(*bury(dead, "a", "12", 0))
    assert len(stems(dead, "a")) == 9
    for path in (dead / "main" / "a").iterdir():
        path.unlink()
    for number in range(10):
        room.take(*bury(dead, "a", f"new{number}", 0))
    assert len(stems(dead, "a")) == 10


def test_letters_that_cannot_be_removed_are_no_reason_to_go_on_for_ever(dead: Path) -> None:
    room = DeadRoom(dead, 40 * KIB)
    for number in range(10):
        folder = dead / "main" / "a"
        (folder / f"{number}.json").mkdir(parents=True)
        room.take(folder, 4 * KIB)
    assert len(os.listdir(dead / "main" / "a")) == 10
