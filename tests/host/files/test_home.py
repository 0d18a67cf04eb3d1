"""The home folder: made, checked, held by one."""

import os
import stat
import threading
from pathlib import Path

import pytest

from honeybadger_host.errors import HomeError
from honeybadger_host.files.home import HomeLock, check_home, is_served, make_home, read_holder


def test_a_new_home_is_servable_and_private(tmp_path: Path) -> None:
    made = make_home(tmp_path / "deep" / "home", "garden")
    home = tmp_path / "deep" / "home"
    check_home(home)
    assert set(made) == {home / "config" / "honeybadger.toml", home / "groups" / "garden" / "CLAUDE.md"}
    for path in home.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_making_a_home_again_touches_nothing(home: Path) -> None:
    persona = home / "groups" / "main" / "CLAUDE.md"
    persona.write_text("mine")
    assert make_home(home) == []
    assert persona.read_text() == "mine"


@pytest.mark.parametrize("group", ["", "..", "a/b", "a b", "é"])
def test_a_group_that_is_no_name_is_refused(tmp_path: Path, group: str) -> None:
    with pytest.raises(HomeError, match="is not a name"):
        make_home(tmp_path / "home", group)
    assert os.listdir(tmp_path) == []


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("x")
    with pytest.raises(HomeError, match=r"cannot make .*home"):
        make_home(tmp_path / "home")


def test_a_home_that_cannot_be_served_is_refused(home: Path) -> None:
    (home / "data" / "ipc").rmdir()
    (home / "data" / "ipc").touch()
    with pytest.raises(HomeError, match="data/ipc is not a folder"):
        check_home(home)
    long = home.joinpath(*["x" * 200] * 3)
    long.mkdir(parents=True)
    with pytest.raises(HomeError, match="move the home to a shorter one"):
        check_home(long)


def test_asking_whether_a_home_is_served_blocks_nobody(home: Path) -> None:
    HomeLock(home).close()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            is_served(home)

    lookers = [threading.Thread(target=look) for _ in range(2)]
    for looker in lookers:
        looker.start()
    try:
        for _ in range(100):
            HomeLock(home).close()
    finally:
        done.set()
        for looker in lookers:
            looker.join()


@pytest.mark.parametrize("damage", [b"", b"[]", b"\0\0", b'{"pid": 1'])
def test_a_damaged_lock_file_says_nothing_and_stops_nobody(home: Path, damage: bytes) -> None:
    (home / "data" / "host.lock").write_bytes(damage)
    assert read_holder(home).pid is None
    lock = HomeLock(home)
    lock.sign("abc")
    assert read_holder(home).pid == os.getpid()
    lock.close()


def test_a_linked_lock_file_is_not_followed(home: Path, tmp_path: Path) -> None:
    (home / "data" / "host.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HomeError, match="cannot lock"):
        HomeLock(home)
    assert not (tmp_path / "elsewhere").exists()
