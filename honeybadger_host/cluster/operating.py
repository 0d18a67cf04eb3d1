"""What an operator does with a home of several machines: begin one, let a machine join or leave, look at it."""

from __future__ import annotations

from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any, Final

from honeybadger_host.cluster.lease import LEASE_SECONDS, OWNERS, OWNERS_SUBJECT, holder
from honeybadger_host.cluster.log import Log, Names, Purged, newest_epoch
from honeybadger_host.cluster.member import read_place
from honeybadger_host.cluster.placing import place_files
from honeybadger_host.cluster.records import (
    FILES_BEHIND,
    LOG_CHAIN,
    NODE,
    Position,
    name_machine,
    read_home,
    write_position,
)
from honeybadger_host.cluster.servers import Servers
from honeybadger_host.cluster.snapshots import load_snapshot, publish_snapshot
from honeybadger_host.errors import HomeError, JournalError
from honeybadger_host.settings import Cluster
from honeybadger_host.storage.forgetting import read_forgetting
from honeybadger_host.storage.home import JOURNAL_FILE, HomeLock, check_home
from honeybadger_host.storage.journal import Journal
from honeybadger_host.storage.journal_schema import LOG_SEQ, Transaction, connect, reading

START: Final = Position(0, "0" * 64)


def begin(home: Path, settings: Cluster, *, is_anew: bool) -> Names:
    """Make the log of a home on the servers, with a snapshot of its journal for those that join; return its names.

    Args:
        is_anew: remove what the servers have of this home from before.
    Raises HostError, Unreachable; then the same call goes on.
    """
    check_home(home)
    lock, path = HomeLock(home), home / JOURNAL_FILE
    try:
        is_begun = path.exists() and _read(path)[1] is not None
        if not is_begun:
            Journal.open(path, expected_identity=lock.previous.journal).close()
            if (plan := read_forgetting(path)) is not None:
                raise HomeError(
                    f"something of {plan.group} is being forgotten: start the host, which ends that, then again"
                )
        names = _read(path)[0]
        lock.sign(names.identity)
        with closing(Servers(settings.urls, settings.credentials)) as servers:
            servers.make_stream(OWNERS, OWNERS_SUBJECT, max_age=LEASE_SECONDS, of_each=1)
            if is_anew and not is_begun:
                for stream in [names.stream, *servers.streams(names.snapshots)]:
                    servers.remove_stream(stream)
            end = servers.end_of(names.stream)
            if end is not None and end[1] and not is_begun:
                raise HomeError(
                    f"the servers have a log of the home {names.identity} already: `cluster join` it; or begin anew "
                    "with --anew, then the other machines have to join again"
                )
            servers.make_stream(names.stream, names.subject)
            if not is_begun:
                with closing(connect(path)) as writer, Transaction(writer, path) as writing:
                    write_position(writing, START)
                    name_machine(writing, home)
            if not list(servers.streams(names.snapshots)):
                publish_snapshot(servers, names, path)
        return names
    finally:
        lock.release()


def join(home: Path, settings: Cluster, identity: str) -> Names:
    """Give this machine the journal of a home, from the newest snapshot. Raises HostError, Unreachable."""
    check_home(home)
    lock, path = HomeLock(home), home / JOURNAL_FILE
    try:
        if path.exists():
            raise HomeError(f"{path} is there already: a machine joins with a home in which no host ever ran")
        names = Names(identity)
        with closing(Servers(settings.urls, settings.credentials)) as servers:
            load_snapshot(servers, names, path)
        lock.sign(identity)
        return names
    finally:
        lock.release()


def leave(home: Path) -> None:
    """Make the home one of this machine alone, with its files as the journal here has them. Raises HostError."""
    check_home(home)
    lock, path = HomeLock(home), home / JOURNAL_FILE
    try:
        read_place(path)
        place_files(home, path)
        with closing(connect(path)) as writer, Transaction(writer, path) as writing:
            writing.executemany("DELETE FROM meta WHERE key = ?", [(LOG_SEQ,), (LOG_CHAIN,), (FILES_BEHIND,), (NODE,)])
    finally:
        lock.release()


def look(home: Path, settings: Cluster) -> dict[str, Any]:
    """Return what the servers say of a home, and how far this machine has come. Raises HostError, Unreachable."""
    names, here, node = _place_of(home)
    with closing(Servers(settings.urls, settings.credentials)) as servers:
        first, last = servers.end_of(names.stream) or (0, 0)
        return {
            "home": names.identity,
            "node": node,
            "owner": holder(servers, names),
            "epoch": newest_epoch(servers, names),
            "log": {"first": first, "last": last},
            "here": here.seq,
            "snapshots": sorted(int(name.rpartition("_")[2]) for name in servers.streams(names.snapshots)),
        }


def verify(home: Path, settings: Cluster) -> Position:
    """Follow the hashes of the log; return its end, once this machine's journal proved to be on it.

    Raises JournalError: a record is not what follows the one before it, or this journal is on another line.
    """
    names, here, _ = _place_of(home)
    with closing(Servers(settings.urls, settings.credentials)) as servers:
        first, _ = servers.end_of(names.stream) or (1, 0)
        if here.seq < first - 1:
            raise JournalError(f"this journal has come to {here.seq}, the log begins at {first}: let the host catch up")
        log = Log(servers, names, Position(first - 1, ""), lambda why: None)
        position: Position | None = None
        at_here = here.chain if here.seq in (0, first - 1) else ""
        try:
            for record in chain.from_iterable(log.read_to_end()):
                if position is not None and record.before != position.chain:
                    raise JournalError(f"record {record.seq} of the shared log does not follow the one before it")
                position = Position(record.seq, record.before).behind(record.seq, record.data)
                if record.seq == here.seq:
                    at_here = position.chain
        except Purged:
            raise JournalError("the log was trimmed meanwhile: verify again") from None
        if at_here != here.chain:
            raise JournalError(f"the journal of this machine is not on the line of the shared log at {here.seq}")
        return position or here


def _place_of(home: Path) -> tuple[Names, Position, str]:
    """Return what `read_place` does of a home that a host may serve. Raises HostError."""
    names, position, node = _read(home / JOURNAL_FILE)
    if position is None:
        raise HomeError(f"{home} is of one machine: begin with `honeybadger-host cluster init`")
    return names, position, node


def _read(path: Path) -> tuple[Names, Position | None, str]:
    with reading(path) as connection:
        identity, position, node = read_home(connection)
    return Names(identity), position, node
