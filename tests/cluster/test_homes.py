"""Several homes on the same machines: each machine owns as many as any other, and those of a lost one go to all."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.cluster.machines import Home, State, prefer, spread
from honeybadger_host.cluster.servers import Servers as Connection
from tests.cluster.machines import Cluster
from tests.hosting import wait_for

MACHINES = ("red", "green", "blue", "grey")


@st.composite
def homes(draw: st.DrawFn) -> list[Home]:
    """Return homes that all of some machines keep, each owned by one of them or by none."""
    names = MACHINES[: draw(st.integers(1, 4))]
    owners = draw(st.lists(st.sampled_from([*names, ""]), max_size=12))
    found = []
    for number, owner in enumerate(owners):
        machines = {name: State(f"{name}:/srv/h{number}:01", epoch=int(name == owner)) for name in names}
        found.append(Home(f"h{number}", machines))
    return found


def counts(names: list[str], machines: int) -> list[int]:
    return sorted([*Counter(names).values(), *[0] * (machines - len(set(names)))])


@given(homes())
def test_homes_are_spread_evenly_and_stay_where_they_may(found: list[Home]) -> None:
    orders = spread(found)
    assert [sorted(orders[home.identity]) for home in found] == [sorted(home.machines) for home in found]
    if found:
        machines = [*found[0].machines]
        owned = counts([order[0] for order in orders.values()], len(machines))
        assert owned[-1] - owned[0] <= 1
        for name in machines:
            had = [home.identity for home in found if home.owner == name]
            if len(had) <= len(found) // len(machines):
                assert [orders[home][0] for home in had] == [name] * len(had), "it has no more than its share"
            after = [order[1] for order in orders.values() if order[0] == name and order[1:]]
            seconds = counts(after, len(machines) - 1) or [0]
            assert seconds[-1] - seconds[0] <= 1, "the homes of a lost machine go to all others"
    places = dict(zip(orders, (order[0] for order in orders.values()), strict=True))
    balanced = [Home(one.identity, one.machines, orders[one.identity]) for one in found]
    if all(home.owner == places[home.identity] for home in balanced):
        assert spread(balanced) == orders, "what is balanced stays as it is"


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
