"""The home is handed over on purpose: to the machine that is named, or to any other."""

import json
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from honeybadger_host.cluster.log import Names
from honeybadger_host.cluster.machines import MAX_BEHIND, State, choose, prefer
from honeybadger_host.cluster.servers import Servers as Connection
from honeybadger_host.errors import HostError, NotFound
from honeybadger_host.journal.schema import SCHEMA_VERSION
from tests.cluster.machines import Cluster, Machine
from tests.cluster.story import Client
from tests.hosting import run_cli, wait_for


@pytest.fixture
def three(made: Callable[..., Cluster]) -> Cluster:
    cluster = made("a", "b", "c")
    cluster.begin()
    return cluster


def refused(machine: Machine, *arguments: str) -> tuple[int, str]:
    done = run_cli("cluster", *arguments, "--set", f"cluster.servers={machine.urls[0]}", home=machine.home)
    return done.returncode, done.stderr


def is_answered(client: Client, count: int) -> bool:
    return len(client.acknowledged) > count


def test_a_home_moves_to_the_named_machine_without_loss(three: Cluster) -> None:
    a, b, c = three.machines
    clients = [Client(three, f"c{number}", number) for number in range(3)]
    for client in clients:
        client.start()
    wait_for(lambda: all(len(client.acknowledged) > 5 for client in clients), what="all are answered")
    for machine in (b, c, a):
        moved = json.loads(a.command("move", machine.home.name, "--json"))
        assert json.loads(c.command("status", "--json"))["owner"] == machine.node()
        assert moved["owner"].split(":")[1] == str(machine.home)
        for client in clients:
            count = len(client.acknowledged) + 2
            wait_for(partial(is_answered, client, count), what="all are answered again")
    for client in clients:
        client.ending.set()
        client.join(30)
    assert [client.failed for client in clients] == [""] * 3
    three.settle()
    text = a.box.memory_text()
    assert {text.count(f"note {stem}.") for client in clients for _, stem in client.acknowledged} == {1}
    assert a.dump() == b.dump() == c.dump()
    assert [machine.events("host.started") for machine in three.machines] == [2, 1, 1]


def test_a_host_stopped_during_takeover_ends_in_order(made: Callable[..., Cluster]) -> None:
    (machine,) = made("a").machines
    for _ in range(3):
        before = machine.events("cluster.owns")
        machine.begin("cluster.owns", "owns the home")
        machine.host.stop()
        assert machine.events("host.stopped") > before


def test_a_machine_that_cannot_take_over_is_named(three: Cluster) -> None:
    a, b, c = three.machines
    c.host.stop()
    for name, why in (("c", "no machine called 'c' runs"), ("nowhere", str(b.home))):
        code, said = refused(b, "move", name)
        assert code == 9
        assert why in said
    b.host.stop()
    code, said = refused(a, "drain")
    assert code == 9
    assert "no other machine follows" in said
    assert json.loads(a.command("status", "--json"))["owner"] == a.node()
    a.kill()
    code, said = refused(a, "move", "b")
    assert code == 7
    assert "no machine serves" in said
    assert a.events("cluster.moves") == 0


def test_a_drained_and_stopped_machine_is_succeeded(three: Cluster) -> None:
    a, b, c = three.machines
    a.box.make().do("n1", content="a note")
    assert a.command("drain").split()[0] == json.loads(a.command("status", "--json"))["owner"] != a.node()
    a.box.do("n2", content="a note of an agent whose machine follows now")
    assert "already" in a.command("drain")
    a.host.stop()
    next_one = b if b.events("host.started") else c
    assert [next_one.box.memory_text().count(text) for text in ("- a note\n", "follows now")] == [1, 1]


STATES = (
    State("red:/srv/a:01", "1", 5, 9_000, 7, True),
    State("blue:/srv/b:02", "1", 5, 8_990),
    State("green:/srv/b:03", "1", 5, 9_000 - MAX_BEHIND - 1),
    State("grey:/srv/d:04", "2", 6, 8_999),
)


@pytest.mark.parametrize(
    ("name", "chosen"), [("blue", 1), ("blue:/srv/b:02", 1), (None, 1), ("red", 0), ("/srv/a", 0), ("a", 0)]
)
def test_a_machine_goes_by_host_name_or_folder(name: str | None, chosen: int) -> None:
    assert choose(STATES, STATES[0], name) is STATES[chosen]


@pytest.mark.parametrize(
    ("name", "why"),
    [("b", "may be"), ("green", "behind"), ("grey", "schema 6"), ("lue", "no machine called"), ("", "no machine")],
)
def test_an_unfit_machine_is_not_chosen(name: str, why: str) -> None:
    with pytest.raises(HostError, match=why):
        choose(STATES, STATES[0], name)


def test_without_another_machine_none_is_chosen() -> None:
    with pytest.raises(NotFound, match="no other machine"):
        choose(STATES[:1], STATES[0], None)


def test_a_home_moves_between_machines_of_two_versions(three: Cluster) -> None:
    a, b, _ = three.machines
    b.host.stop()
    b.host.source = "from honeybadger_host.cluster import member; member.__version__ = '0.9'"
    b.follow()
    a.box.make().do("n1", content="a note of one version")
    assert "0.9" in a.command("move", "b") + a.command("status")
    b.box.make().do("n2", content="a note of the other")
    a.command("move", "a")
    three.settle()
    assert a.dump() == b.dump()


@pytest.mark.parametrize("left", [None, 1], ids=["whole log", "its end"])
def test_a_host_of_another_schema_leaves_the_journal_alone(three: Cluster, tmp_path: Path, left: int | None) -> None:
    a, b, c = three.machines
    a.box.make().do("n1", content="a note")
    three.settle()
    if left is not None:  # the message with which a began to own the home is gone, as when the log was trimmed
        with closing(Connection(a.urls)) as servers:
            all_have = min(machine.position()[0] for machine in three.machines)
            servers.purge(Names(three.identity).stream, all_have - left)
    b.host.stop()
    before = b.journal.read_bytes()
    newer = {f"cluster.{name}.SCHEMA_VERSION": SCHEMA_VERSION + 1 for name in ("log", "member", "records", "snapshots")}
    older = dict(b.host.settings)
    b.host.settings |= newer
    b.host.launch()
    assert b.host.wait() == 6
    assert "see Upgrades in docs/machines.md" in b.host.log_text()
    assert b.journal.read_bytes() == before
    b.host.settings = older
    b.follow()
    c.host.stop()
    a.host.stop()
    wait_for(lambda: b.events("host.started"), what="b owns the home, and nobody is level with it")
    b.host.stop()
    b.host.settings = older | newer
    b.own()
    assert b.box.memory_text().count("a note") == 1
    c.host.launch()
    assert c.host.wait() == 6
    with closing(Machine(tmp_path, "late", a.urls)) as late:
        wait_for(lambda: json.loads(b.command("status", "--json"))["snapshots"] != [0], what="a snapshot of b")
        late.command("join", three.identity)
        late.host.settings |= newer
        late.follow()
        wait_for(lambda: late.position() == b.position(), what="the new machine has come as far")
        assert late.dump() == b.dump()


def test_homes_of_a_lost_machine_go_to_different_ones(made: Callable[..., Cluster], tmp_path: Path) -> None:
    red = made("m1/red", "m2/red", "m3/red")
    blue = made("m1/blue", "m2/blue", "m3/blue", servers=red.servers)
    for cluster in (red, blue):
        cluster.begin()
    host = red.machines[0].node().partition(":")[0]
    one, two, three = (f"{host}:{tmp_path}/m{number}" for number in (1, 2, 3))
    with closing(Connection(red.servers.urls)) as servers:
        prefer(servers, {red.identity: [one, three, two], blue.identity: [one, two, three]})
    for cluster in (red, blue):
        cluster.machines[0].host.kill()  # its leases are not given back
    for machine in (red.machines[2], blue.machines[1]):
        wait_for(lambda machine=machine: machine.events("host.started"), what=f"{machine.home} is served")  # type: ignore[misc]
    assert red.machines[1].events("cluster.owns") == blue.machines[2].events("cluster.owns") == 0

    blue.machines[1].command("move", str(blue.machines[2].home))
    done = {home["home"]: home for home in json.loads(red.machines[1].command("balance", "--json"))}
    assert sorted(home["order"][0] for home in done.values()) == [two, three]
    assert [home["why"] for home in done.values()] == ["", ""]
    said = red.machines[1].command("status")
    assert all(f"({home['home']}): {home['order'][0]}, on 2 machines" in said for home in done.values()), said
