"""A home of one machine becomes one of several and goes back, with every byte of it."""

import shutil
from collections.abc import Callable
from pathlib import Path

from tests.cluster.machines import Cluster
from tests.flows.test_export import exported, life, printed
from tests.hosting import RawSender, wait_for

__all__ = ["life"]


def files_of(home: Path) -> dict[str, bytes]:
    """Return what people and agents have in a home."""
    paths = [path for path in (home / "groups").rglob("*") if path.is_file()]
    return {str(path.relative_to(home)): path.read_bytes() for path in paths}


def test_an_old_home_goes_in_and_out_unchanged(life: Path, made: Callable[..., Cluster], tmp_path: Path) -> None:
    shutil.copytree(life, tmp_path / "a")
    export, files = exported(tmp_path / "a", tmp_path / "before.tar.gz"), files_of(tmp_path / "a")
    cluster = made("a", "b")
    a, b = cluster.begin()
    cluster.settle()
    b.replace(a)
    b.host.stop()
    for machine in (a, b):
        printed(machine.home, "cluster", "leave")
    assert files_of(a.home) == files_of(b.home) == files
    assert a.dump() == b.dump()
    assert exported(a.home, tmp_path / "after.tar.gz") == export


def test_an_import_in_the_log_reaches_all_machines(life: Path, made: Callable[..., Cluster], tmp_path: Path) -> None:
    exported(life, tmp_path / "main.tar.gz")
    cluster = made("a", "b")
    a, b = cluster.machines
    a.own()
    a.box.make().do("n1", content="a note of this home")
    (b.home / "config" / "honeybadger.toml").write_text(f'[cluster]\nservers = "{b.urls[0]}"\n')
    assert "other: has" in printed(b.home, "import", "other", tmp_path / "main.tar.gz")
    wait_for(lambda: a.events("host.started") == 2, what="a owns the home again")
    assert a.events("cluster.moves") == 1
    b.follow()
    cluster.settle()
    assert a.dump() == b.dump()
    assert group_files(a.home, "other") == group_files(b.home, "other") == group_files(life, "main")
    other = RawSender(a.home, "other").make()
    other.do("later", content="a note behind those of years")
    b.replace(a)
    assert other.memory_text() == RawSender(b.home, "other").memory_text()


def group_files(home: Path, group: str) -> dict[str, bytes]:
    """Return what people and agents have in a group, its sessions included."""
    folders = [home / "groups" / group, home / "data" / "sessions" / group]
    files = [(folder, file) for folder in folders for file in folder.rglob("*") if file.is_file()]
    return {str(file.relative_to(folder)): file.read_bytes() for folder, file in files}
