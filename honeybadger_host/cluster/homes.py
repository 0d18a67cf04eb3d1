"""All homes that the servers keep: which machine owns each, and which one should.

Homes of one machine lie in one folder of it. For each home the servers have a list of its machines, the preferred one
first. When nobody owns a home, a machine waits a second for each one before it in the list: so the homes of a machine
that is lost go to different ones.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import orjson

from honeybadger_host.cluster.lease import Watched
from honeybadger_host.cluster.log import ALL_LOGS, Names
from honeybadger_host.cluster.moving import EVERYBODY, State, machine_of
from honeybadger_host.cluster.servers import Servers

PLACES: Final = "HB_PLACES"
_PLACES_SUBJECT: Final = "hb.*.places"
_TURN_SECONDS: Final = 1.0


@dataclass(slots=True)
class Home:
    """A home on the servers.

    Args:
        machines: that run now, by name, see `machine_of`.
        order: the names of its machines, the preferred one first; empty: nobody has balanced it.
    """

    identity: str
    machines: dict[str, State] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)

    @property
    def owner(self) -> str | None:
        """Return the name of the machine that owns it; None: none that runs."""
        owners = [name for name, machine in self.machines.items() if machine.epoch]
        return max(owners, key=lambda name: self.machines[name].epoch, default=None)


def all_homes(servers: Servers) -> list[Home]:
    """Return the homes that have a log on the servers, by their identities. Raises Unreachable."""
    found = {identity: Home(identity) for identity in sorted(_identities(servers))}
    for state in map(State.load, servers.ask_all(EVERYBODY)):
        if state.home in found:
            found[state.home].machines[machine_of(state.node)] = state
    for home in found.values():
        home.order = preferred(servers, Names(home.identity))
    return [*found.values()]


def _identities(servers: Servers) -> set[str]:
    return {name.split("_")[1] for name in servers.streams("HB_", ALL_LOGS)}


def preferred(servers: Servers, names: Names) -> list[str]:
    """Return the machines of a home, the preferred one first; empty: no `balance` yet. Raises Unreachable."""
    found = servers.newest(PLACES, names.subject("places"))
    return orjson.loads(found.data) if found is not None else []


def prefer(servers: Servers, orders: Mapping[str, Sequence[str]]) -> None:
    """Keep on the servers which machines should own homes: identity -> machines. Raises Unreachable."""
    servers.make_stream(PLACES, _PLACES_SUBJECT, of_each=1)
    for identity, order in orders.items():
        servers.publish(Names(identity).subject("places"), orjson.dumps(order), {})


def is_turn(servers: Servers, names: Names, node: str, lease: Watched) -> bool:
    """Return whether a machine may ask for a free lease: each machine before it in the list has had its second.

    The last holder of the lease is not waited for: it is lost, or gave the lease back. Raises Unreachable.
    """
    if lease.free_since is None:
        return True  # it was given to this machine
    order, here = [one for one in preferred(servers, names) if one != machine_of(lease.last)], machine_of(node)
    before = order.index(here) if here in order else len(order)
    return time.monotonic() >= lease.free_since + before * _TURN_SECONDS


def spread(homes: Sequence[Home]) -> dict[str, list[str]]:
    """Return the machines of each running home, the preferred one first: homes are spread evenly.

    A home stays with its owner if that machine has no more than its share. If one machine is lost, its homes are spread
    evenly, too: as second in the list comes each other machine equally often.
    """
    running = [home for home in homes if home.machines]
    share, rest = divmod(len(running), len({name for home in running for name in home.machines}) or 1)
    first, owned = dict[str, str](), Counter[str]()
    for home in running:
        owner = home.owner
        if owner is not None and owned[owner] < share + (rest > 0):
            rest -= owned[owner] == share
            owned[owner] += 1
            first[home.identity] = owner
    orders, second = dict[str, list[str]](), Counter[tuple[str, str]]()
    for home in running:
        chosen = first.get(home.identity) or min(sorted(home.machines), key=lambda name: owned[name])
        owned[chosen] += home.identity not in first
        others = sorted(home.machines.keys() - {chosen}, key=lambda name: (second[chosen, name], name))
        second.update((chosen, name) for name in others[:1])
        orders[home.identity] = [chosen, *others]
    return orders
