"""The machines that keep the homes of the servers: which owns each, which one should, and how an owner hands one over.

Each machine answers who it is. The owner, asked to move, ends in order as if it were stopped, gives its lease to the
next one instead of back, and follows. Only hosts may ask: see the keys in deploy/cluster/nats.conf.

Homes of one machine lie in one folder of it. For each home the servers have a list of its machines, the preferred one
first. When nobody owns a home, a machine waits a second for each one before it in the list: so the homes of a machine
that is lost go to different ones.
"""

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

import nats.errors
import orjson
from nats.aio.msg import Msg
from pydantic import TypeAdapter

from honeybadger_host.cluster.lease import Watched
from honeybadger_host.cluster.log import ALL_LOGS, Names
from honeybadger_host.cluster.records import unique_part
from honeybadger_host.cluster.servers import PAUSE_SECONDS, Servers
from honeybadger_host.errors import HostError, NotFound, StorageFailed
from honeybadger_host.log import log
from honeybadger_host.ops.maintenance import HOUSEKEEPING_SECONDS

EVERYBODY = "hb.who"  # subject on which the machines of all homes are asked
REMEMBERED_SECONDS = 7 * 86_400  # a machine silent for longer is no longer reported as missing
MAX_BEHIND = 1_000  # messages; a machine that must read more first would keep everybody waiting
SETTLE_SECONDS = 60.0  # how long a command waits for other machines to do their part
TURN_SECONDS = 1.0  # the time in which a machine takes a lease that is free, or was given to it


@dataclass(frozen=True, slots=True)
class State:
    """A machine's report about itself.

    Args:
        node: its name; see `records.name_of`.
        seq: how far its journal has come.
        epoch: epoch in which it owns the home; 0: it follows.
        serves: it answers requests; a new owner first brings its files up to date.
        renewed_seconds: time since the lease was renewed; 0 for a follower.
        behind: messages of the log that it does not have.
        clean: the stream of the log (see `Position.stream`) before which no forgotten text is left here.
        left: files in which something is left all the same, and in which form.
        home: the identity of the home.
    """

    node: str
    version: str = ""
    schema: int = 0
    seq: int = 0
    epoch: int = 0
    serves: bool = False
    renewed_seconds: float = 0.0
    behind: int = 0
    clean: int = 0
    left: Sequence[Sequence[str]] = ()
    home: str = ""


_STATE = TypeAdapter(State)  # other members, of another version, are ignored


async def answer_for(
    servers: Servers, names: Names, state: Callable[[], State], hand_over: Callable[[str], None]
) -> None:
    """Answer for this machine until the connection is closed.

    The servers keep its name, so that `status` can say when it is missing.

    Args:
        state: of this machine now.
        hand_over: called with the name of the next owner.
    """

    async def tell(message: Msg) -> None:
        await message.respond(_STATE.dump_json(state()))

    async def move(message: Msg) -> None:
        if state().epoch:
            hand_over(message.data.decode())
            await message.respond(b"")

    for subject in (names.subject("who"), EVERYBODY):
        await servers.client.subscribe(subject, cb=tell)
    await servers.client.subscribe(names.subject("move"), cb=move)
    while True:
        node = state().node
        # a machine that joins again in this folder replaces its old name
        place = hashlib.sha256(":".join(place_of(node)).encode()).hexdigest()[:16]
        try:
            await servers.client.jetstream().publish(f"{names.subject('machine')}.{place}", node.encode())
        except (nats.errors.Error, OSError) as error:
            log.debug("cluster.name_not_kept", error=str(error))
        await asyncio.sleep(HOUSEKEEPING_SECONDS)


def present(servers: Servers, names: Names) -> list[State]:
    """Return the machines that run, the owner first. Raises Unreachable."""
    states = map(_STATE.validate_json, servers.ask_all(names.subject("who")))
    return sorted(states, key=lambda state: (-state.epoch, state.node))


def missing(servers: Servers, names: Names, machines: Sequence[State]) -> list[str]:
    """Return the names of machines that ran lately and do not answer now. Raises Unreachable."""
    known: set[str] = set()
    last = 0
    while servers.end_of(names.machines) and (found := servers.fetch(names.machines, last)):
        known |= {message.data.decode() for message in found}
        last = found[-1].seq
    running = {unique_part(machine.node) for machine in machines}
    return sorted(node for node in known if unique_part(node) not in running)


def place_of(node: str) -> tuple[str, str]:
    """Return the host name and the folder of a machine's home."""
    host, _, rest = node.partition(":")
    return host, rest.rpartition(":")[0]


def machine_of(node: str) -> str:
    """Return the machine of a home: its host name, and the folder of its homes."""
    host, folder = place_of(node)
    return f"{host}:{PurePath(folder).parent}"


def choose(machines: Sequence[State], owner: State, name: str | None) -> State:
    """Return the next owner: the named machine, else the one with the longest journal.

    Args:
        name: its whole name, host name, folder or the folder's last part.
    Raises NotFound: none runs that is called so; HostError: it cannot take over at once.
    """
    others = [machine for machine in machines if machine is not owner]
    if name is None:
        if not others:
            raise NotFound("no other machine follows: start one, or stop this host with systemctl stop")
        found = [max(others, key=lambda machine: (machine.schema == owner.schema, machine.seq))]
    else:
        places = [(machine, *place_of(machine.node)) for machine in machines]
        found = [one for one, host, folder in places if name in (one.node, host, folder, PurePath(folder).name)]
    if not found:
        there = ", ".join(machine.node for machine in machines)
        raise NotFound(f"no machine called {name!r} runs; these do: {there}")
    if len(found) > 1:
        raise HostError(f"{name!r} may be {' or '.join(one.node for one in found)}: name the folder, too, or all of it")
    (next_one,) = found
    behind = owner.seq - next_one.seq
    if next_one.schema != owner.schema or behind > MAX_BEHIND:
        raise HostError(
            f"{next_one.node} cannot take over, nothing was moved: it is {behind} messages behind, and runs version "
            f"{next_one.version} with schema {next_one.schema} of the journal, the owner has {owner.schema}"
        )
    return next_one


def move(servers: Servers, names: Names, owner: State, target: State) -> float:
    """Let another machine own the home; return the seconds until it served. Raises HostError, Unreachable."""
    began = time.monotonic()
    if servers.ask(names.subject("move"), target.node.encode()) is None:
        raise StorageFailed(f"{owner.node} did not answer: nothing was moved, unless `cluster status` says so")
    while time.monotonic() < began + SETTLE_SECONDS:
        data = servers.ask_all(names.subject("who"), until=lambda data: _STATE.validate_json(data).node == target.node)
        if any(state.node == target.node and state.serves for state in map(_STATE.validate_json, data)):
            return time.monotonic() - began
        time.sleep(PAUSE_SECONDS)
    raise HostError(
        f"{owner.node} was asked to hand the home over, and {target.node} does not serve it after "
        f"{SETTLE_SECONDS:g} s: see `honeybadger-host cluster status`"
    )


PLACES = "HB_PLACES"
_PLACES_SUBJECT = "hb.*.places"


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
    identities = {name.split("_")[1] for name in servers.streams("HB_", ALL_LOGS)}
    found = {identity: Home(identity) for identity in sorted(identities)}
    for state in map(_STATE.validate_json, servers.ask_all(EVERYBODY)):
        if state.home in found:
            found[state.home].machines[machine_of(state.node)] = state
    for home in found.values():
        home.order = preferred(servers, Names(home.identity))
    return [*found.values()]


def preferred(servers: Servers, names: Names) -> list[str]:
    """Return the machines of a home, the preferred one first; empty: no `balance` yet. Raises Unreachable."""
    found = servers.message(PLACES, newest=names.subject("places"))
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
    return time.monotonic() >= lease.free_since + before * TURN_SECONDS


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
