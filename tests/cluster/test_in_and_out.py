"""A home of one machine becomes one of several and goes back, with every byte of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from tests.cluster.machines import Cluster
from tests.flows.test_export import exported, life, printed
from tests.hosting import wait_for

__all__ = ["life"]


def files_of(home: Path) -> dict[str, bytes]:
    """Return what people and agents have in a home."""
    paths = [path for path in (home / "groups").rglob("*") if path.is_file()]
    return {str(path.relative_to(home)): path.read_bytes() for path in paths}


def test_a_home_of_years_goes_in_and_out_with_the_same_export_and_files(
    life: Path, made: Callable[..., Cluster], tmp_path: Path
) -> None:
    shutil.copytree(life, tmp_path / "a")
    export, files = exported(tmp_path / "a", tmp_path / "before.tar.gz"), files_of(tmp_path / "a")
    cluster = made("a", "b")
    a, b = cluster.machines
    a.own()
    b.follow()
    cluster.settle()
    a.kill()
    wait_for(lambda: b.events("host.started"), what="b owns the home")
    b.host.stop()
    for machine in (a, b):
        printed(machine.home, "cluster", "leave")
    assert files_of(a.home) == files_of(b.home) == files
    assert a.dump() == b.dump()
    assert exported(a.home, tmp_path / "after.tar.gz") == export
