"""Several homes on the same machines: each machine owns as many as any other, and those of a lost one go to all."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from honeybadger_host.cluster.machines import prefer
from honeybadger_host.cluster.servers import Servers as Connection
from tests.cluster.machines import Cluster
from tests.hosting import wait_for


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
