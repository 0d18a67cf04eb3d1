"""This machine as one of several that keep a home: it follows the owner, and owns the home when nobody else does."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Final

import structlog

from honeybadger_host.cluster.committing import Committing
from honeybadger_host.cluster.forwarding import Answering, Forwarding
from honeybadger_host.cluster.lease import Renewing, claim, holder, release
from honeybadger_host.cluster.log import UNCLEAR_SECONDS, Log, Names, Purged
from honeybadger_host.cluster.placing import place_files
from honeybadger_host.cluster.records import (
    FILES_BEHIND,
    Epoch,
    Position,
    Record,
    apply_record,
    read_home,
    write_position,
)
from honeybadger_host.cluster.servers import Servers, Unreachable
from honeybadger_host.cluster.snapshots import load_snapshot, publish_snapshot
from honeybadger_host.configuration import watchdog_seconds
from honeybadger_host.errors import SettingsError, StorageFailed, WorldFailed
from honeybadger_host.settings import Settings
from honeybadger_host.storage.home import JOURNAL_FILE, HomeLock, check_home
from honeybadger_host.storage.journal_schema import (
    SCHEMA_VERSION,
    Transaction,
    bring_forward,
    connect,
    reading,
    use_wal,
)

log = structlog.get_logger()

LONGEST_LOG = 50_000
"""Messages, after which the owner publishes a snapshot and lets go of those before it."""
LOOK_SECONDS = 10.0
_FOLD_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.2
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Member:
    """Follows until this machine owns the home; then what the host needs to write to it.

    Args:
        notify: tells systemd.
    """

    def __init__(self, home: Path, settings: Settings, notify: Callable[[str], None]) -> None:
        """Lock the home and read how far its journal has come. Raises HostError."""
        check_home(home)
        self.home = home
        self._settings, self._notify = settings.cluster, notify
        self._forwards = not settings.ipc.closed
        self._path = home / JOURNAL_FILE
        self.lock = HomeLock(home)
        self._servers: Servers | None = None
        self._renewing: Renewing | None = None
        self._forwarding: Forwarding | None = None
        self._answering: Answering | None = None
        self._stopping = threading.Event()
        self._lost: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._folded_at = time.monotonic()
        self._trimming = threading.Thread(target=self._trim, name="trim", daemon=True)
        try:
            self.names, self._position, self.node = read_place(self._path)
            self.lock.sign(self.names.identity)
        except BaseException:
            self.lock.release()
            raise

    # ---------------------------------------------------------------------------------------------------- following

    def own(self) -> bool:
        """Follow until this machine owns the home; False: it was told to end. Raises HostError."""
        before = {number: signal.signal(number, lambda *_: self._stopping.set()) for number in _SIGNALS}
        try:
            self._follow()
            if self._stopping.is_set():
                self.lock.release()
                log.info("host.stopped")
            return not self._stopping.is_set()
        except WorldFailed as error:
            raise StorageFailed(f"{error}; this machine goes on following at its next start") from error
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _follow(self) -> None:
        """Return when this machine owns the home, or is to stop."""
        self._notify("READY=1")
        pings, pinged_at = watchdog_seconds(), 0.0
        said, reached_at, is_purged = "", time.monotonic(), False
        while not self._stopping.is_set():
            if pings is not None and time.monotonic() > pinged_at + pings / 3:
                self._notify("WATCHDOG=1")
                pinged_at = time.monotonic()
            try:
                if self._servers is None:
                    self._servers = Servers(self._settings.urls, self._settings.credentials)
                    self.log = Log(self._servers, self.names, self._position, self._note_lost)
                    if self._forwards:
                        self._forwarding = Forwarding(self.home, self._servers, self.names)
                if is_purged:
                    self._begin_with_snapshot(self._servers)
                    is_purged = False
                owner = holder(self._servers, self.names)
                if owner in (None, self.node) and self._take_over():
                    return
                if owner not in (None, said):
                    said = owner
                    log.info("cluster.follows", home=self.names.identity, owner=owner, seq=self.log.position.seq)
                self._apply(self.log.read())
                reached_at = time.monotonic()
            except Purged:
                is_purged = True
            except Unreachable as error:
                if time.monotonic() - reached_at > UNCLEAR_SECONDS:
                    self._disconnect()
                if said != "?":
                    said = "?"
                    log.warning("cluster.waiting", error=str(error), now_what="look at the servers of the cluster")
                self._stopping.wait(_PAUSE_SECONDS)

    def _disconnect(self) -> None:
        """Begin with a new connection: the old one may be of no use any more."""
        if self._forwarding is not None:
            self._forwarding.close()
        if self._servers is not None:
            self._servers.close()
        self._forwarding = self._servers = None

    def _take_over(self) -> bool:
        """Own the home, if nobody else does; return whether it is so. Raises Unreachable, Purged, HostError."""
        if self._servers is None:
            return False
        if not claim(self._servers, self.names, self.node):
            return False
        for records in self.log.read_to_end():
            self._apply(records)
        now = time.monotonic()
        if not claim(self._servers, self.names, self.node):  # to read all may have taken longer than the lease
            return False
        if not self.log.own(Epoch(self.node, SCHEMA_VERSION)):
            release(self._servers, self.names, self.node)
            return False
        self._renewing = Renewing(self.log, self.node, now)
        self._apply([])
        self.shared = Committing(self.log)
        placed = place_files(self.home, self._path)
        self._trimming.start()
        if self._forwarding is not None:
            self._forwarding.close()
            self._answering = Answering(self.home, self._servers, self.names)
        log.info("cluster.owns", home=self.names.identity, epoch=self.log.epoch, placed=placed, node=self.node)
        return True

    def _apply(self, records: Iterable[Record]) -> None:
        """Take records into the journal, and how far it has come."""
        position = self._position
        with closing(connect(self._path)) as connection:
            with Transaction(connection, self._path) as writing:
                for record in records:
                    position, epoch = apply_record(writing, record, position)
                    if epoch is not None and epoch.node != self.node:
                        writing.execute("INSERT OR REPLACE INTO meta VALUES (?, 1)", (FILES_BEHIND,))
                if self.log.epoch:
                    position = self.log.position  # behind our own epoch, which nobody reads to us
                if position != self._position:
                    write_position(writing, position)
            if time.monotonic() > self._folded_at + _FOLD_SECONDS:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                self._folded_at = time.monotonic()
        self._position = self.log.position = position

    def _begin_with_snapshot(self, servers: Servers) -> None:
        log.info("cluster.begins_anew", home=self.names.identity, seq=self._position.seq)
        load_snapshot(servers, self.names, self._path)
        _, self._position, self.node = read_place(self._path)
        self.log = Log(servers, self.names, self._position, self._note_lost)

    # ------------------------------------------------------------------------------------------------------- owning

    def pass_on(self, point: str, passed: Callable[[str], None]) -> None:
        """Let nothing be answered before it is sure that no other machine owns the home. Raises StorageFailed."""
        if point == "answering" and self._renewing is not None:
            self._renewing.wait_until_sure()
        passed(point)

    async def raise_when_lost(self) -> None:
        """Raise StorageFailed when this machine may write to the home no more."""
        self._lost = asyncio.get_running_loop(), asyncio.Event()
        if not self.log.failed:
            await self._lost[1].wait()
        raise StorageFailed(self.log.failed)

    def _note_lost(self, why: str) -> None:
        log.error("cluster.lost", home=self.names.identity, why=why)
        if self._lost is not None:
            loop, event = self._lost
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    def _trim(self) -> None:
        """Publish a snapshot when the log is long, and let go of what is before it."""
        while not self._stopping.wait(LOOK_SECONDS) and self._servers is not None and not self.log.failed:
            try:
                end = self._servers.end_of(self.names.stream)
                if end is not None and end[1] - end[0] >= LONGEST_LOG:
                    position = publish_snapshot(self._servers, self.names, self._path)
                    self._servers.purge(self.names.stream, position.seq)
                    log.info("cluster.trimmed", home=self.names.identity, seq=position.seq)
            except Exception as error:  # noqa: BLE001  a long log stops nobody
                log.warning("cluster.not_trimmed", error=str(error), now_what="it is tried again")

    def close(self) -> None:
        self._stopping.set()
        for work in (self._forwarding, self._answering):
            if work is not None:
                work.close()
        if self._renewing is not None:
            self._renewing.close()
        if self._servers is not None:
            self._servers.close()


def read_place(path: Path) -> tuple[Names, Position, str]:
    """Return which home a journal is of, how far it has come, and what this machine is called among those that keep it.

    Raises SettingsError: it is of one machine.
    """
    if path.exists():
        with closing(connect(path)) as connection:
            use_wal(connection)
            bring_forward(connection, path)
        with reading(path) as connection:
            identity, position, node = read_home(connection)
        if position is not None:
            return Names(identity), position, node
    raise SettingsError(
        "setting cluster.servers is set and this home is of one machine: run `honeybadger-host cluster init` here, or "
        "`honeybadger-host cluster join` with the identity that `init` printed on another machine"
    )
