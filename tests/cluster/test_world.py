"""Disks that are full, clocks that are set, servers that hear some and not others: nothing is lost or doubled."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from honeybadger_host.files.home import make_home
from tests.cluster.machines import Cluster, Machine
from tests.cluster.servers import Proxy, Servers
from tests.cluster.story import file_systems, full, stale_records
from tests.commands import cli_error, cli_text
from tests.flows.world import needs_mount
from tests.hosting import RawSender, request, wait_for


@pytest.fixture
def on_small_disks(made: Callable[..., Cluster], tmp_path: Path) -> Iterator[Cluster]:
    """Two machines, each with a small disk of its own for its home."""
    with file_systems([tmp_path / name for name in "ab"], "24m"):
        yield made("a", "b")


def counted(machine: Machine, *names: str) -> list[int]:
    text = machine.box.memory_text()
    return [text.count(f"note {name}.\n") for name in names]


def assert_ended_for_want_of_space(machine: Machine) -> None:
    assert machine.host.wait() == 8
    said = machine.host.log_text()
    assert "Traceback" not in said
    assert any(what in said.splitlines()[-1] for what in ("has room", "no space", "check the disk", "doctor")), said


@needs_mount
@pytest.mark.parametrize("has_others", [True, False], ids=["others follow", "alone"])
def test_an_owner_with_a_full_disk_does_requests_once(on_small_disks: Cluster, has_others: bool) -> None:
    a, b = on_small_disks.machines
    a.own()
    if has_others:
        b.follow()
    a.box.make().do("n0", content="note n0.")
    a.host.send_signal(signal.SIGSTOP)
    names = [f"n{number}" for number in range(1, 4)]
    for name in names:
        a.box.note(name, f"note {name}.")
    with full(a.home):
        a.host.send_signal(signal.SIGCONT)
        assert_ended_for_want_of_space(a)
        assert "did not take what the shared log has" in a.host.log_text(), "the log had the record by then"
        if has_others:
            assert b.box.make().ask("b1", request("b1", content="note b1."))["ok"]
    if has_others:
        a.follow()
    else:
        a.own()
    for name in names:
        assert a.box.reply(name)["ok"]
    assert counted(b if has_others else a, "n0", *names) == [1] * 4
    if has_others:
        on_small_disks.settle()
        assert a.dump() == b.dump()


@needs_mount
def test_a_follower_without_space_ends_and_later_continues(on_small_disks: Cluster, tmp_path: Path) -> None:
    a, b = on_small_disks.begin()
    there = RawSender(b.home, sender="scout").make()
    there.do("s0", content="note s0.")
    b.host.send_signal(signal.SIGSTOP)
    there.note("s1", "note s1.")
    with full(b.home):
        b.host.send_signal(signal.SIGCONT)
        assert a.box.make().ask("n1", request("n1", content="note n1."))["ok"]
        assert_ended_for_want_of_space(b)
        assert a.box.ask("n2", request("n2", content="note n2."))["ok"]
    b.follow()
    assert there.reply("s1")["ok"]
    on_small_disks.settle()
    assert a.dump() == b.dump()
    assert counted(a, "s0", "s1", "n1", "n2") == [1] * 4
    late = tmp_path / "b" / "late"
    make_home(late)
    join = ("cluster", "join", on_small_disks.identity, "--set", f"cluster.servers={b.urls[0]}")
    with full(b.home):
        assert "then the same command again" in cli_error(*join, home=late, code=8)
    cli_text(*join, home=late)


@needs_mount
def test_full_servers_take_nothing_until_they_have_space(made: Callable[..., Cluster], tmp_path: Path) -> None:
    folder = tmp_path / "servers"
    with file_systems([folder / f"n{number}" / "store" for number in range(3)], "24m"):
        cluster = made("a", count=3)
        servers, (a,) = cluster.servers, cluster.machines
        a.host.settings |= {"cluster.log.UNCLEAR_SECONDS": 4.0, "cluster.lease.UNCLEAR_SECONDS": 4.0}
        a.own()
        assert a.box.make().ask("n0", request("n0", content="note n0."))["ok"]
        first, *others = servers.all
        with full(first.store):
            assert a.box.ask("n1", request("n1", content="note n1."))["ok"]
            with full(others[0].store), full(others[1].store):
                a.box.note("n2", f"{'x' * 9000} note n2.")
                assert a.host.wait() == 8
                status = ("cluster", "status", "--set", f"cluster.servers={servers.urls[0]}")
                assert "have room on their disks" in cli_error(*status, home=a.home, code=8)
        for server in servers.all:
            server.kill()
            server.start()
        a.own()
        assert a.box.reply("n2")["ok"]
        assert counted(a, "n0", "n1", "n2") == [1] * 3
        assert a.command("verify").startswith("ok: ")


def test_an_isolated_owner_answers_nothing_and_is_replaced(made: Callable[..., Cluster], tmp_path: Path) -> None:
    servers = Servers(tmp_path / "servers", 3, is_divisible=True)
    one, two, _ = servers.urls
    cluster = made("a", "b", servers=servers, urls=[[one] * 3, [two] * 3])
    a, b = cluster.machines
    a.host.settings |= {"cluster.log.UNCLEAR_SECONDS": 4.0, "cluster.lease.UNCLEAR_SECONDS": 4.0}
    a.own()
    b.follow()
    assert a.box.make().ask("n0", request("n0", content="note n0."))["ok"]
    for proxy in servers.around(0):
        proxy.is_cut.set()
    a.box.note("n1", "note n1.")
    assert b.box.make().ask("n2", request("n2", content="note n2."))["ok"]
    assert a.host.wait() == 8
    assert a.box.peek("n1") is None
    a.host.launch()
    wait_for(lambda: a.events("cluster.waiting"), what="a says that its server is of no use")
    for proxy in servers.around(0):
        proxy.is_cut.clear()
    assert a.box.reply("n1")["ok"]
    cluster.settle()
    assert counted(b, "n0", "n1", "n2") == [1] * 3
    assert a.dump() == b.dump()
    assert stale_records(servers, cluster.identity) == []


def test_an_owner_unheard_by_clients_changes_servers(made: Callable[..., Cluster], tmp_path: Path) -> None:
    servers = Servers(tmp_path / "servers", 3)
    proxies = [Proxy([server.client]) for server in servers.all]
    cluster = made("a", "b", servers=servers, urls=[[proxy.url for proxy in proxies], servers.urls])
    a, b = cluster.machines
    try:
        a.own()
        b.follow()
        b.box.make()
        for number, proxy in enumerate(proxies):  # it is connected with one of them
            proxy.is_cut.set()
            assert b.box.ask(f"n{number}", request(f"n{number}", content=f"note n{number}."))["ok"]
            proxy.drop_connections()
            proxy.is_cut.clear()

        def is_level() -> bool:
            if not a.host.is_running:  # b owned the home meanwhile
                assert a.host.process.poll() == 8
                a.host.launch()
            return a.dump() == b.dump()

        wait_for(is_level, what="both have the same journal")
        assert [row[4] for row in a.dump()["changes"] if row[5] == "note"] == ["n0", "n1", "n2"]
        assert stale_records(servers, cluster.identity) == []
    finally:
        for proxy in proxies:
            proxy.close()
