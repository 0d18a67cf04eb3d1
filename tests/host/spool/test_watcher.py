"""Watching real folders. The sweep is elsewhere: nothing here may be needed for truth."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from honeybadger_host.spool import watcher
from honeybadger_host.spool.watcher import Watcher
from tests.hosting import wait_for


class Watched:
    """A watcher and what it hinted."""

    def __init__(self) -> None:
        self.hints: list[tuple[str, str]] = []
        self.watcher = Watcher(lambda folder, name: self.hints.append((folder, name)))

    def ensure(self, *folders: Path, every: bool = True) -> None:
        """Watch these folders."""
        self.watcher.ensure({str(folder): every for folder in folders})

    def count(self, folder: Path) -> int:
        return sum(where == str(folder) for where, _ in self.hints)

    def has(self, folder: Path, name: str) -> bool:
        return (str(folder), name) in self.hints

    def sees(self, folder: Path, name: str) -> None:
        """Make a file by renaming and wait for its hint."""
        temporary = folder.parent / f"{name}.tmp"
        temporary.write_text("x")
        temporary.rename(folder / name)
        wait_for(lambda: self.has(folder, name), what=f"hint for {folder / name}")


@pytest.fixture
def watched() -> Iterator[Watched]:
    if not watcher.HAS_INOTIFY:
        pytest.skip("no inotify here")
    made = Watched()
    yield made
    made.watcher.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "requests"
    made.mkdir()
    return made


def test_a_file_written_in_place_is_hinted(watched: Watched, folder: Path) -> None:
    watched.ensure(folder)
    (folder / "a.json").write_text("x")
    wait_for(lambda: watched.has(folder, "a.json"))


def test_a_new_folder_is_reported_as_a_whole(watched: Watched, folder: Path) -> None:
    (folder / "early.json").write_text("x")
    watched.ensure(folder)
    assert watched.has(folder, "")


def test_an_unwanted_folder_is_not_watched(watched: Watched, tmp_path: Path) -> None:
    kept, left = tmp_path / "kept", tmp_path / "left"
    kept.mkdir()
    left.mkdir()
    watched.ensure(kept, left)
    watched.sees(left, "a.json")
    watched.ensure(kept)
    (left / "b.json").write_text("x")
    watched.sees(kept, "after.json")
    assert not watched.has(left, "b.json")


def test_a_box_reports_once_until_looked_into(watched: Watched, tmp_path: Path) -> None:
    box, other = tmp_path / "box", tmp_path / "other"
    for folder in (box, other):
        folder.mkdir()
    watched.watcher.ensure({str(box): False, str(other): True})
    for round_ in range(3):
        before = watched.count(box)
        for number in range(20):
            (box / f"{round_}-{number}.json").write_text("x")
        watched.sees(other, f"{round_}.json")  # what came before it was told before it
        assert watched.count(box) == before + 1
        (box / f"{round_}-0.json").unlink()
        watched.watcher.listen(str(box))


def test_a_folder_is_watched_once_it_is_listened_to(watched: Watched, tmp_path: Path, folder: Path) -> None:
    new = tmp_path / "new"
    watched.ensure(folder)
    watched.watcher.listen(str(new))
    new.mkdir()
    (new / "a.json").write_text("x")
    watched.watcher.listen(str(new))
    before = watched.count(new)
    (new / "b.json").write_text("x")
    wait_for(lambda: watched.count(new) > before)


def test_a_box_is_watched_again_after_lost_events(watched: Watched, folder: Path) -> None:
    watched.ensure(folder, every=False)
    for was_told in (True, False):
        before = watched.count(folder)
        if was_told:
            (folder / "a.json").write_text("x")
            wait_for(lambda before=before: watched.count(folder) > before)  # type: ignore[misc]
        watched.watcher._watches[str(folder)].on_queue_overflow()
        assert watched.hints[-1] == ("", "")
        watched.watcher.listen(str(folder))
        before = watched.count(folder)
        (folder / f"{was_told}.json").write_text("x")
        wait_for(lambda before=before: watched.count(folder) > before)  # type: ignore[misc]


def test_closing_ends_the_threads_and_leaves_no_descriptor_open(watched: Watched, folder: Path) -> None:
    before = set(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else set()
    for number in range(3):
        watched.ensure(folder)
        watched.sees(folder, f"{number}.json")
        watched.watcher.close()
        assert not watched.watcher.is_alive()
    if before:
        wait_for(lambda: len(os.listdir("/proc/self/fd")) <= len(before))
