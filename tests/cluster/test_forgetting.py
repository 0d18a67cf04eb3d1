"""A forgotten text goes from every machine and every server, whoever fails meanwhile."""

import itertools
import json
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from honeybadger_host.cluster.log import read_place
from honeybadger_host.cluster.servers import Servers as Connection
from honeybadger_host.ops.residue import scan
from honeybadger_host.text.phrases import Phrases
from tests.cluster.machines import Cluster, Machine
from tests.cluster.story import residue
from tests.cluster.test_kill_points import IS_LONG, KILL, wait_until_dead
from tests.hosting import RawSender, request, run_cli, wait_for

OWNER = {
    "before what is forgotten is in the log": """
around(log.Log, 'append', before=die, when=lambda self, data: b'forgetting' in data)
""",
    "between the next stream and the end of this one": "around(log, 'make_log', after=die)",
    "between the end of a stream and the commit": """
append = log.Log.append

def ending(self, data, *, is_last=False):
    done = append(self, data, is_last=is_last)
    if is_last:
        die()
    return done

log.Log.append = ending
""",
    "behind the commit": "around(journal, 'vacuum', before=die)",
    "between the snapshot and the old stream": """
around(member, 'publish_snapshot', after=die, when=lambda servers, names, path: names.first > FIRST)
""",
    "while others look": "around(member, 'missing', after=die)",
}
FOLLOWER = {
    "before its files": "around(member, 'take_out', before=die)",
    "between its files and the commit": "around(member, 'take_out', after=die)",
    "behind the commit": "around(member, 'vacuum', before=die)",
    "before it looked": "around(member, 'look_for', before=die)",
}
POINTS = KILL.replace("def has_it", "from honeybadger_host.journal import journal\n\ndef has_it")
SURVIVORS = ("the same machine", "another")
ENDS = list(itertools.product(OWNER, SURVIVORS) if IS_LONG else zip(OWNER, SURVIVORS * 3, strict=True))
SECRETS = [f"the cellar key hangs behind barrel {number:02}" for number in range(len(ENDS))]
SECRET = SECRETS[0]


def wait_until_gone(cluster: Cluster, secret: str) -> None:
    """See that a secret is left nowhere, and that all machines have the same journal."""
    cluster.settle()
    folders = [server.store for server in cluster.servers.all] + [machine.home for machine in cluster.machines]

    def left() -> list[str]:
        found = [path for folder in folders for path in residue(folder, [secret])]
        homes = [] if found else [machine.home for machine in cluster.machines]
        return found + [f"{home}/{place}" for home in homes for place in scan(home, Phrases([secret]), ())]

    try:
        wait_for(lambda: not left(), 90, what=f"nothing is left of {secret}")
    except AssertionError as error:
        error.add_note("\n".join(left()))
        raise
    first, *others = [machine.dump() for machine in cluster.machines]
    assert all(other == first for other in others)


def check_forgotten(cluster: Cluster) -> None:
    wait_until_gone(cluster, SECRET)
    verify(cluster)


def verify(cluster: Cluster) -> None:
    for machine in cluster.machines:
        machine.command("verify")


def tell(machine: Machine) -> None:
    box = machine.box.make()
    for number, secret in enumerate(SECRETS):
        content = f"note {number}: {secret}"
        box.do(f"n{number}", content=content)
        box.do(f"e{number}", "save_memory", content=content, category="home")
        box.do(f"t{number}", "append_turn", role="user", content=content)


def ask(machine: Machine, secret: str = SECRET) -> tuple[RawSender, str]:
    """Ask for a secret to be forgotten; return who asks, and the request's id."""
    operator, stem = RawSender(machine.home, sender="operator").make(), f"f{SECRETS.index(secret)}"
    operator.drop(stem, request(stem, "forget", payload={"text": secret}))
    return operator, stem


def forget(machine: Machine) -> dict[str, Any]:
    done = run_cli("forget", "main", "--text", SECRET.upper(), "--json", home=machine.home)
    assert done.stdout, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.fixture
def told(made: Callable[..., Cluster]) -> Cluster:
    """Three machines, of which each has owned the home, so that it has files; the first one owns it."""
    cluster = made("a", "b", "c", lease_seconds=10.0)
    a, b, c = cluster.machines
    a.own()
    tell(a)
    for machine in (b, c):
        machine.follow()
    for machine in (b, c, a):
        cluster.settle()
        a.command("move", machine.home.name)
    return cluster


def test_what_is_forgotten_goes_from_all_machines_and_servers(told: Cluster) -> None:
    a = told.machines[0]
    assert [bool(residue(machine.home, [SECRET])) for machine in told.machines] == [True] * 3
    assert residue(told.servers.all[0].store, [SECRET])
    result = forget(a)
    assert result["left"] == []
    a.box.do("after", content="a note behind it")
    check_forgotten(told)
    a.kill()
    b, c = told.machines[1:]
    wait_for(lambda: b.events("host.started") + c.events("host.started") > 2, what="another owns the home")
    b.box.make().do("later", content="a note of the next owner")
    a.follow()
    check_forgotten(told)


def test_a_server_that_was_down_forgets_too(made: Callable[..., Cluster]) -> None:
    cluster = made("a", "b", count=3)
    a, _ = cluster.begin()
    tell(a)
    cluster.settle()
    *_, down = cluster.servers.all
    down.kill()
    box, stem = ask(a)

    def is_answered() -> bool:
        for machine in cluster.machines:  # as systemd does: the owner may lose its lease with the server
            if not machine.host.is_running:
                machine.host.launch()
        return box.peek(stem) is not None

    wait_for(is_answered, 90, what="it is forgotten")
    assert residue(down.store, [SECRET])
    down.start()
    check_forgotten(cluster)


def test_an_absent_machine_is_named_and_forgets_on_return(told: Cluster) -> None:
    a, _, c = told.machines
    c.host.kill()
    a.host.settings |= {"cluster.member.SETTLE_SECONDS": 15.0}
    a.host.stop()
    wait_for(lambda: told.machines[1].events("host.started") > 1, what="b owns the home")
    a.follow()
    with c.box.memory.open("a") as file:
        file.write(f"A person wrote that {SECRET}.\nA person wrote something else.\n")
    told.machines[1].command("move", "a")
    result = forget(a)
    assert [one["file"] for one in result["left"]] == [read_place(c.journal)[2]]
    with closing(Connection(a.urls)) as servers:
        assert len(servers.streams(f"HB_{told.identity}")) == 1
    c.follow()
    check_forgotten(told)
    a.command("move", "c")
    (kept,) = (c.home / "data" / "replaced").glob("*/groups/main/MEMORY.md")
    assert kept.read_text().endswith("[forgotten]\nA person wrote something else.\n")
    assert "note 1" in c.box.memory_text()


def die_forgetting(cluster: Cluster, secret: str, point: str, survivor: str) -> None:
    """Let the first machine, which owns the home, die at a point while it forgets a secret; see that this is done."""
    a, b, c = cluster.machines
    a.host.source = f"FIRST = {read_place(a.journal)[0].first}\n" + POINTS + OWNER[point]
    for machine in (b, c, a):
        machine.host.stop()
    cluster.begin()
    cluster.settle()
    begun = b.events("host.started") + c.events("host.started")
    box, stem = ask(a, secret)
    if survivor == "the same machine":
        for machine in (b, c):
            machine.host.stop()
        wait_until_dead(a)
        cluster.begin()
    else:
        wait_until_dead(a)
        wait_for(lambda: b.events("host.started") + c.events("host.started") > begun, what="another owns the home")
        a.follow()
    assert box.reply(stem, timeout=90)["ok"], point
    b.box.make().do(f"after-{stem}", content="a note behind it")
    wait_until_gone(cluster, secret)


@pytest.mark.timeout(600)
def test_a_killed_forgetting_owner_is_succeeded_by_another(told: Cluster) -> None:
    a = told.machines[0]
    a.host.settings |= {"cluster.member.HOUSEKEEPING_SECONDS": 600.0}
    for secret, end in zip(SECRETS, ENDS, strict=True):
        told.settle()
        a.command("move", "a")
        die_forgetting(told, secret, *end)
    verify(told)


@pytest.mark.timeout(600)
def test_a_killed_follower_forgets_when_it_is_back(told: Cluster) -> None:
    a, b, _ = told.machines
    for secret, point in zip(SECRETS, FOLLOWER.values(), strict=False):
        b.host.stop()
        b.host.source = POINTS + point
        b.follow()
        told.settle()
        box, stem = ask(a, secret)
        wait_until_dead(b)
        b.follow()
        assert box.reply(stem, timeout=90)["ok"], point
        wait_until_gone(told, secret)
    verify(told)
