"""The operator's work on a home of several machines: begin one, let a machine join or leave, look at it, make keys."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from itertools import chain
from pathlib import Path, PurePath
from typing import Any

import nkeys

from honeybadger_agent.mailbox import checked_name
from honeybadger_agent.relay import REPLY_PREFIX, credentials_of
from honeybadger_host.cluster.files import place_files
from honeybadger_host.cluster.joining import load_snapshot
from honeybadger_host.cluster.lease import LEASE_SECONDS, OWNERS, OWNERS_SUBJECT, holder
from honeybadger_host.cluster.log import Log, Names, Purged, logs_of, make_log, newest_epoch, read_place, snapshots_of
from honeybadger_host.cluster.machines import (
    PLACES,
    REMEMBERED_SECONDS,
    TURN_SECONDS,
    Home,
    all_homes,
    choose,
    missing,
    move,
    place_of,
    prefer,
    present,
    spread,
)
from honeybadger_host.cluster.member import Member
from honeybadger_host.cluster.records import (
    CHAIN_HEADER,
    CLEAN,
    LOG_CHAIN,
    LOG_STREAM,
    NODE,
    Position,
    name_of,
    write_position,
)
from honeybadger_host.cluster.servers import Servers, Unreachable
from honeybadger_host.cluster.snapshots import publish_snapshot
from honeybadger_host.errors import HomeError, HostError, JournalError, NotRunning
from honeybadger_host.files.home import JOURNAL_FILE, HomeLock, check_home
from honeybadger_host.files.safe_files import make_folders, replace
from honeybadger_host.journal.journal import Journal
from honeybadger_host.journal.opening import bring_forward, use_wal
from honeybadger_host.journal.schema import FILES_BEHIND, LOG_SEQ, SharedLog, connect, transaction
from honeybadger_host.journal.transfer import is_shared
from honeybadger_host.settings import Cluster, Settings

START = Position(0, "0" * 64)


def begin(home: Path, settings: Cluster, *, is_anew: bool) -> str:
    """Make the log of a home on the servers, with a snapshot for machines that join; return its identity.

    Args:
        is_anew: remove what the servers have of this home from before.
    Raises HostError, Unreachable; then the same call goes on.
    """
    path = home / JOURNAL_FILE
    check_home(home)
    with closing(HomeLock(home)) as lock, closing(Servers(settings.urls, settings.credentials)) as servers:
        is_begun = path.exists() and is_shared(path)
        if is_begun:
            names, _, _ = read_place(path)
        else:
            with closing(Journal.open(path, expected_identity=lock.previous.journal)) as journal:
                names = Names(journal.identity)
        lock.sign(names.identity)
        servers.make_stream(OWNERS, OWNERS_SUBJECT, max_age=LEASE_SECONDS, of_each=1)
        if is_anew and not is_begun:
            for stream in servers.streams("HB", names.subject(">")):
                if stream not in (OWNERS, PLACES):
                    servers.remove_stream(stream)
        if not is_begun and any(end and end[1] for end in map(servers.end_of, logs_of(servers, names))):
            raise HomeError(
                f"the servers have a log of the home {names.identity} already: `cluster join` it; or start again with "
                "--anew, then the other machines have to join again"
            )
        make_log(servers, names)
        servers.make_stream(names.machines, names.subject("machine.*"), max_age=REMEMBERED_SECONDS, of_each=1)
        if not is_begun:
            with closing(connect(path)) as writer, transaction(writer, path) as writing:
                write_position(writing, START)
                writing.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (NODE, name_of(home)))
        if is_begun or not snapshots_of(servers, names):  # an existing one may be damaged
            publish_snapshot(servers, names, path)
        return names.identity


def join(home: Path, settings: Cluster, identity: str) -> None:
    """Make the newest snapshot of a home this machine's journal. Raises HostError, Unreachable."""
    path = home / JOURNAL_FILE
    check_home(home)
    with closing(HomeLock(home)) as lock:
        if path.exists():
            raise HomeError(f"{path} is there already: a machine joins with a home in which no host ever ran")
        with closing(Servers(settings.urls, settings.credentials)) as servers:
            load_snapshot(servers, Names(identity), path)
        lock.sign(identity)


def leave(home: Path) -> None:
    """Detach this machine's home from the servers, with its files as the journal here has them. Raises HostError."""
    path = home / JOURNAL_FILE
    check_home(home)
    with closing(HomeLock(home)):
        read_place(path)
        with closing(connect(path)) as writer:
            use_wal(writer)
            bring_forward(writer, path)
            place_files(home, path)
            with transaction(writer, path) as writing:
                for key in (LOG_SEQ, LOG_CHAIN, LOG_STREAM, CLEAN, FILES_BEHIND, NODE):
                    writing.execute("DELETE FROM meta WHERE key = ?", (key,))


def look(home: Path, settings: Cluster) -> dict[str, Any]:
    """Return the state of a home on the servers and this machine's position. Raises HostError, Unreachable."""
    names, here, node = read_place(home / JOURNAL_FILE)
    with closing(Servers(settings.urls, settings.credentials)) as servers:
        first, last, _ = servers.end_of(names.stream) or (0, 0, 0)
        machines = present(servers, names)
        return {
            "home": names.identity,
            "node": node,
            "owner": holder(servers, names),
            "machines": [asdict(state) for state in machines],
            "missing": missing(servers, names, machines),
            "epoch": newest_epoch(servers, names),
            "log": {"first": first, "last": last},
            "here": here.seq,
            "snapshots": sorted(snapshots_of(servers, names).values()),
            "homes": [_told(one) for one in all_homes(servers)],
        }


def _told(home: Home) -> dict[str, Any]:
    return {
        "home": home.identity,
        "names": sorted({PurePath(place_of(one.node)[1]).name for one in home.machines.values()}),
        "owner": home.owner,
        "machines": sorted(home.machines),
        "order": home.order,
    }


def balance(settings: Cluster) -> list[dict[str, Any]]:
    """Spread all homes of the servers over their machines; return the outcome for each. Raises Unreachable.

    From then on a home whose machine is lost goes to the next one in its list.
    """
    with closing(Servers(settings.urls, settings.credentials)) as servers:
        homes = all_homes(servers)
        orders = spread(homes)
        prefer(servers, orders)
        done = []
        for home in homes:
            told = _told(home) | {"order": orders.get(home.identity, []), "why": ""}
            done.append(told)
            try:
                if home.owner is None:
                    raise NotRunning("no machine owns it")
                if home.owner != told["order"][0]:
                    owner, wanted = home.machines[home.owner], home.machines[told["order"][0]]
                    choose([owner, wanted], owner, wanted.node)
                    move(servers, Names(home.identity), owner, wanted)
                    told["owner"] = told["order"][0]
            except HostError as error:
                told["why"] = str(error)
        return done


def move_to(home: Path, settings: Cluster, name: str | None) -> dict[str, Any]:
    """Let another machine own the home.

    Args:
        name: which; None: any, if this one owns it.
    Raises NotFound, HostError: nothing was moved; Unreachable.
    """
    names, _, node = read_place(home / JOURNAL_FILE)
    with closing(Servers(settings.urls, settings.credentials)) as servers:
        machines = present(servers, names)
        owner = next((machine for machine in machines if machine.serves), None)
        if owner is None:
            raise NotRunning("no machine serves the home just now, so none can hand it over: try again in some seconds")
        target, seconds = owner, 0.0
        if name is not None or owner.node == node:
            target = choose(machines, owner, name)
        if target is not owner:
            seconds = move(servers, names, owner, target)
        return {"owner": target.node, "was": owner.node, "seconds": round(seconds, 2)}


@contextmanager
def owning(home: Path, settings: Settings) -> Iterator[SharedLog]:
    """Own a home whose host does not run here, and give it back to the machine that owned it.

    Raises HomeLocked if a host runs here; HostError: none hands the home over.
    """
    with closing(Member(home, settings, lambda state: None)) as member:
        asking = threading.Thread(target=_ask_for, args=(member, settings.cluster), daemon=True)
        asking.start()
        if not member.own():
            raise HostError("interrupted before the home was this machine's; nothing was changed")
        asking.join()
        yield member.shared


def _ask_for(member: Member, settings: Cluster) -> None:
    """Ask the owner for a home until it is this machine's."""
    with closing(Servers(settings.urls, settings.credentials)) as servers:
        while not (member.state().epoch or member.stopping.is_set()):
            with suppress(Unreachable):  # the loop asks again
                owner = holder(servers, member.names)
                if owner not in (None, member.node):
                    member.following = owner or ""
                    servers.ask(member.names.subject("move"), member.node.encode())
            time.sleep(TURN_SECONDS)


def verify(home: Path, settings: Cluster) -> Position:
    """Check the hashes of the log, and that this machine's journal matches them; return the end of the log.

    Raises JournalError if a record does not follow the record before it, or this journal has another history.
    """
    names, here, _ = read_place(home / JOURNAL_FILE)
    with closing(Servers(settings.urls, settings.credentials)) as servers:
        first, _, _ = servers.end_of(names.stream) or (1, 0, 0)
        if here.seq < first - 1:
            raise JournalError(f"this journal has come to {here.seq}, the log begins at {first}: let the host catch up")
        log = Log(names, Position(first - 1, "", names.first))
        log.servers = servers
        ours = servers.message(names.stream, seq=here.seq) if here.seq else None
        if here.seq >= first and (ours is None or ours.headers[CHAIN_HEADER] != here.chain):
            raise JournalError(f"the journal of this machine is not on the line of the shared log at {here.seq}")
        position = START if first == 1 else None
        try:
            for record in chain.from_iterable(log.read_to_end()):
                if position is not None and position.behind(record.seq, record.data).chain != record.chain:
                    raise JournalError(f"record {record.seq} of the shared log does not follow the one before it")
                position = Position(record.seq, record.chain)
        except Purged:
            raise JournalError("the log was trimmed meanwhile: verify again") from None
        return position or here


def make_key(path: Path) -> str:
    """Write the seed of a new key, readable by its owner alone; return the public half.

    A seed that is there stays as it is. Raises HomeError if the file cannot be written, or holds something else.
    """
    if not os.path.lexists(path):
        try:
            make_folders(path.parent)
            replace(path, nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER))
        except OSError as error:
            raise HomeError(f"cannot write {path}: {error.strerror}") from None
    try:
        seed = credentials_of(str(path)).get("nkeys_seed_str", "")
        return str(nkeys.from_seed(bytearray(seed.encode())).public_key.decode())
    except (OSError, ValueError, nkeys.NkeysError) as error:
        raise HomeError(f"{path} is there, and is no seed that can be used: {error}; name another file") from None


def host_lines(public: str) -> list[str]:
    """Return the lines for this machine's host in `authorization { users: [ … ] }` of nats.conf."""
    return [f"{{ nkey: {public} }}  # the host on {socket.gethostname()}"]


def agent_lines(public: str, identity: str, group: str, sender: str) -> list[str]:
    """Return an agent's lines for nats.conf: it may send as one sender and read its own replies. Raises BadName."""
    checked_name("group", group)
    checked_name("sender", sender)
    return [
        f"{{ nkey: {public}, permissions: {{  # {sender} in {group}",
        f'    publish: [ "{Names(identity).subject("ask")}.{group}.{sender}" ]',
        f'    subscribe: [ "{REPLY_PREFIX}{group}.{sender}.>" ]',
        "} }",
    ]
