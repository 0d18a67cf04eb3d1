"""Reports of several machines: by the doctor, by the status, and by commands on one that follows."""

import json
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from honeybadger_host.cluster import servers as connecting
from honeybadger_host.cluster.checks import cluster, compared
from honeybadger_host.cluster.machines import MAX_BEHIND, State
from honeybadger_host.cluster.servers import Servers as Connection
from honeybadger_host.cluster.servers import Unreachable
from honeybadger_host.ops.findings import Finding
from tests.cluster.machines import Cluster, Machine
from tests.commands import cli_error
from tests.hosting import run_cli, wait_for


@pytest.fixture
def pair(made: Callable[..., Cluster]) -> Cluster:
    cluster = made("a", "b", count=3)
    for machine in cluster.machines:
        settings = machine.home / "config" / "honeybadger.toml"
        servers = ",".join(machine.urls)
        settings.write_text(settings.read_text().replace('#cluster.servers = ""', f'cluster.servers = "{servers}"'))
        machine.host.settings |= {"metrics.textfile": f"{machine.home}/cluster.prom"}
    cluster.begin()
    return cluster


def found(machine: Machine) -> dict[str, list[Finding]]:
    """Return what the checks of the cluster find, by level."""
    levels: dict[str, list[Finding]] = {"ok": [], "warning": [], "problem": []}
    for finding in cluster(machine.home):
        levels[finding.level].append(finding)
    return levels


def test_doctor_reports_servers_log_and_machines(pair: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "ANSWER_SECONDS", 0.5)
    a, b = pair.machines
    parts = (*b.urls, "3 replicas, all current", "2 hosts run", "the newest is at 0")

    def is_healthy() -> bool:
        healthy = found(b)
        said = " ".join(finding.message for finding in healthy["ok"])
        return not healthy["problem"] and not healthy["warning"] and all(part in said for part in parts)

    wait_for(is_healthy, what="all replicas are current")
    stream = f"HB_{pair.identity}"
    (b.home / "data/replaced/x").mkdir(parents=True)
    (b.home / "data/replaced/x/MEMORY.md").write_text("only here")
    a.kill()
    pair.servers.all[2].kill()
    wait_for(lambda: b.events("host.started"), what="b owns the home")

    def is_all_said() -> bool:
        with suppress(Unreachable), closing(Connection(a.urls)) as servers:  # they may have no leader yet
            for name in list(servers.streams("HBS_")):  # b looked for one when it began
                servers.remove_stream(name)
        levels = found(b)
        told = "\n".join(f"{one.level} {one.message}" for one in [*levels["problem"], *levels["warning"]])
        parts = (
            f"problem {b.urls[2]} cannot be used",
            f"problem {stream}: n2 is ",
            "problem there is none from which the log goes on",
            "warning 1 host runs",
            "warning data/replaced/x/MEMORY.md was only on this machine",
        )
        return all(part in told for part in parts)

    wait_for(is_all_said, what="the doctor says it")
    assert run_cli("doctor", home=b.home).returncode == 1


def test_a_dead_machine_is_named_by_doctor_and_status(pair: Cluster) -> None:
    a, b = pair.machines

    def missed() -> list[str]:
        told: list[str] = json.loads(a.command("status", "--json"))["missing"]
        return told

    with closing(Connection(a.urls)) as servers:
        wait_for(lambda: (servers.end_of(f"HBM_{pair.identity}") or (0, 0))[1] >= 2, what="both have said their names")
    assert missed() == []
    b.kill()
    (node,) = wait_for(missed, what="b is missed")
    assert str(b.home) in node
    assert f"{node} does not answer" in a.command("status")
    wait_for(lambda: [one for one in found(a)["warning"] if node in one.message], what="the doctor misses it")
    b.follow()
    wait_for(lambda: not missed(), what="b is back")


def test_a_machine_whose_home_moved_is_named_where_it_is(pair: Cluster, tmp_path: Path) -> None:
    a, b = pair.machines
    with closing(Connection(a.urls)) as servers:
        wait_for(lambda: (servers.end_of(f"HBM_{pair.identity}") or (0, 0))[1] >= 2, what="both have said their names")
    b.host.stop()
    b.home.rename(tmp_path / "elsewhere")
    with closing(Machine(tmp_path, "elsewhere", b.urls)) as moved:
        moved.follow()
        told = json.loads(a.command("status", "--json"))
    assert ([one["node"] for one in told["machines"]], told["missing"]) == ([a.node(), moved.node()], [])
    assert f":{tmp_path}/elsewhere:" in moved.node()


def test_a_follower_says_whom_it_follows_and_how_far(pair: Cluster) -> None:
    a, b = pair.machines
    a.box.make().do("n1", content="a note about tea")
    pair.settle()
    wait_for(lambda: str(a.home) in status_of(b)["cluster"]["owner"], what="the status says whom it follows")
    assert status_of(b)["mode"] == "follows"
    wait_for(lambda: metric(b, "cluster_log_position") == b.position()[0], what="the metrics are written")
    assert metric(b, "cluster_epoch") == metric(b, "cluster_behind_messages") == 0
    wait_for(lambda: metric(a, "cluster_epoch") == a.lines("cluster.owns")[0]["epoch"], what="the owner's, too")
    assert "follows   " in run_cli("status", home=b.home).stdout
    assert "owns the home" in run_cli("status", home=a.home).stdout
    checked = run_cli("doctor", home=b.home)
    assert (checked.stderr, "damaged" in checked.stdout) == ("", False)
    assert "owns the home; 2 hosts run" in checked.stdout
    archive = str(b.home.parent / "b.tar.gz")
    for command in (
        ("backup", archive),
        ("export", "main", "--to", archive),
        ("blame", "main", "MEMORY.md"),
        ("groups",),
    ):
        assert "another machine owns the home" in cli_error(*command, home=b.home, code=4)
        assert not Path(archive).exists()
    shown = run_cli("log", "main", home=b.home)
    assert "about tea" in shown.stdout
    assert "as far as this machine" in shown.stderr
    (b.home / "groups" / "main").rename(b.home / "groups" / "elsewhere")
    assert "about tea" in run_cli("context", "main", home=b.home).stdout
    assert run_cli("context", "nobody", home=b.home).returncode == 9
    for server in pair.servers.all:
        server.kill()
    wait_for(lambda: "do not answer" in run_cli("status", home=b.home).stdout, what="the status says it")
    done = run_cli("cluster", "status", home=b.home)
    assert (done.returncode, done.stderr.count("\n")) == (8, 1), done.stderr
    assert "most of them must run" in done.stderr


def status_of(machine: Machine) -> dict[str, Any]:
    status = json.loads(run_cli("status", "--json", home=machine.home).stdout)
    return status if "cluster" in status else {"cluster": {"owner": ""}}


def metric(machine: Machine, name: str) -> float:
    """Return a number of the metrics of a machine; -1: there is none yet."""
    path = machine.home / "cluster.prom"
    lines = path.read_text().splitlines() if path.exists() else []
    return next((float(line.split()[1]) for line in lines if line.startswith(f"honeybadger_{name} ")), -1.0)


def test_machines_that_do_not_fit_together_are_told() -> None:
    one = State("red:/srv:01", "1.0", 7, 50, 3, True)
    for other, level, part in (
        (State("blue:/srv:02", "1.1", 7, 50), "warning", "different versions"),
        (State("blue:/srv:02", "1.1", 8, 50), "problem", "different schemas"),
        (State("blue:/srv:02", "1.0", 7, 50, behind=MAX_BEHIND + 1), "warning", "messages behind"),
    ):
        told = list(compared([one, other], one.node, 50))
        assert any(finding.level == level and part in finding.message for finding in told)
    (good,) = compared([one, State("blue:/srv:02", "1.0", 7, 50)], one.node, 50)
    assert good.level == "ok"
    assert any(finding.level == "problem" for finding in compared([one], None, 50))
