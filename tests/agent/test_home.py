"""A client looks for a home and never makes one: how it looks, what it says, what stays untouched."""

import os
import time
from pathlib import Path

import pytest

from honeybadger_agent import Client, NoHome, SyncClient
from honeybadger_agent.errors import NoMailbox
from honeybadger_agent.home import default_file, find_home, register_home
from honeybadger_host.files.home import make_home
from tests.hosting import HostProcess, run_agent, run_cli


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Somebody's project, in which the caller stands; the caller has no default home yet."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return folder


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("kind", [Client, SyncClient])
def test_clients_outside_a_home_say_so_at_once(project: Path, tmp_path: Path, kind: type[Client | SyncClient]) -> None:
    began = time.monotonic()
    with pytest.raises(NoHome) as refused:
        kind()
    assert time.monotonic() - began < 9  # who waits for a host waits for ten
    said = str(refused.value)
    for part in ("--home", "HONEYBADGER_HOME", str(project), f"{tmp_path}/config/honeybadger/home", "honeybadger-host"):
        assert part in said
    assert files_below(tmp_path) == ["project"]


def test_a_named_folder_without_a_home_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoHome, match=r"no where' is not .*: there is no such folder.*init '.*/no where'`"):
        SyncClient(tmp_path / "no where")
    with pytest.raises(NoHome, match=r"project' is not a Honeybadger home: config/honeybadger.toml is missing"):
        SyncClient(tmp_path / "project")
    with pytest.raises(NoHome, match=r"'' is not a Honeybadger home: it is empty"):
        SyncClient("")
    monkeypatch.setenv("HONEYBADGER_HOME", str(tmp_path / "no where"))
    with pytest.raises(NoHome, match=r"HONEYBADGER_HOME is .*no where, which is not a Honeybadger home"):
        SyncClient()
    with pytest.raises(NoHome, match=r"null (byte|character)"):
        SyncClient("a\0b")
    assert files_below(tmp_path) == ["project"]


def test_a_home_around_the_folder_beats_a_default(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    make_home(other)
    assert register_home(other) == other
    assert find_home() == other
    monkeypatch.chdir(home / "groups" / "main")
    assert find_home() == home
    monkeypatch.setenv("HONEYBADGER_HOME", str(other))
    assert find_home() == other
    assert find_home(home) == home


def test_an_unserved_home_gives_way_to_a_served_default(
    home: Path, tmp_path: Path, host: HostProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkout that only lies there took the request, and nobody answered."""
    checkout = tmp_path / "checkout"
    make_home(checkout)
    register_home(home)
    monkeypatch.chdir(checkout)
    names_both = f"Using your default home {home}: no host serves {checkout}"
    for said in (run_agent("remember", "Ben prefers tea"), run_cli("status"), run_cli("log", "main")):
        assert (said.returncode, names_both in said.stderr) == (0, True), said
    assert run_agent("remember", "Ada prefers coffee", home=home).stderr == ""
    assert SyncClient().mailbox.root.is_relative_to(home)
    assert not (checkout / "data/journal.db").exists()
    monkeypatch.chdir(checkout / "groups/main")
    assert find_home() == home
    with HostProcess(checkout).start():
        assert find_home() == checkout
        monkeypatch.chdir(checkout)
        assert run_agent("remember", "Ben prefers tea").stderr == ""
    assert find_home() == home
    host.stop()
    assert find_home() == checkout
    assert f"no host serves {checkout}" in run_cli("status").stderr


def test_a_home_above_of_another_user_is_ignored(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may write to a folder above, such as /tmp, could collect what others remember."""
    if os.geteuid() != 0:
        pytest.skip("needs root to give a file away")
    os.chown(home / "config/honeybadger.toml", 12345, -1)
    monkeypatch.chdir(home / "groups")
    with pytest.raises(NoHome, match=r"home is a Honeybadger home of another user \(uid 12345\): name it"):
        find_home()
    assert find_home(home) == home


def test_init_registers_the_first_home_as_the_default(project: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    lost = run_cli("status")
    assert (lost.returncode, "no Honeybadger home was found" in lost.stderr) == (4, True)
    assert f"your default home is {first}, as {default_file()} says" in run_cli("init", first).stdout
    assert f"no host serves {first}" in run_cli("status").stderr
    assert f"your default home is {first}, as" in run_cli("init", second).stdout
    assert find_home() == first
    first.rename(tmp_path / "moved")
    with pytest.raises(NoHome, match=f"names {first}, which is not one"):
        find_home()
    assert f"your default home is {second}, as" in run_cli("init", second).stdout
    assert find_home() == second
    assert files_below(project) == []


def test_who_has_no_folder_has_no_default(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", "")
    with pytest.raises(NoHome, match="the file of your default home names none"):
        find_home()
    with pytest.raises(FileNotFoundError, match="neither XDG_CONFIG_HOME nor HOME is set"):
        register_home(tmp_path)


def test_a_box_must_be_mounted_and_be_one(home: Path, tmp_path: Path, project: Path, host: HostProcess) -> None:
    """In a container the sender's folder is all there is: no home is looked for."""
    (project / "main.py").touch()
    for box, why in ((tmp_path / "gone", "No such file"), (project, "it has other files"), ("", "it is empty")):
        with pytest.raises(NoMailbox, match=f"is not a mailbox: {why}"):
            SyncClient(box=box)
    assert files_below(project) == ["main.py"]
    box = home / "data/ipc/main/cook"
    box.mkdir(parents=True)
    assert SyncClient(box=box).update_memory("Soup").file == "MEMORY.md"
