"""This machine as one of several that keep a home: it follows the owner, and owns the home when nobody else does."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import closing, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from honeybadger_agent.wording import MAX_NAMED
from honeybadger_host import __version__
from honeybadger_host.cluster.files import ended_streams, look_for, place_files, remove_derived, take_out
from honeybadger_host.cluster.forwarding import Answering, Forwarding
from honeybadger_host.cluster.joining import load_snapshot
from honeybadger_host.cluster.lease import Renewing, Watched, put_lease
from honeybadger_host.cluster.log import UNCLEAR_SECONDS, Committing, Log, Purged, read_place
from honeybadger_host.cluster.machines import SETTLE_SECONDS, State, answer_for, is_turn, missing, present
from honeybadger_host.cluster.records import (
    CLEAN,
    SCHEMA_HEADER,
    Record,
    apply_record,
    foreign_schema,
    read_kept,
    write_position,
)
from honeybadger_host.cluster.servers import FETCH_SECONDS, PAUSE_SECONDS, Servers, Unreachable
from honeybadger_host.cluster.snapshots import is_snapshot_current, publish_snapshot
from honeybadger_host.configuration import watchdog_seconds
from honeybadger_host.errors import StorageFailed, WorldFailed
from honeybadger_host.files.home import JOURNAL_FILE, HomeLock, check_home
from honeybadger_host.journal.forgetting import Forgetting, begun_in
from honeybadger_host.journal.opening import bring_forward, use_wal
from honeybadger_host.journal.schema import FILES_BEHIND, SCHEMA_VERSION, connect, transaction, translating, vacuum
from honeybadger_host.log import log
from honeybadger_host.observe import Counters, recent_events, resident_bytes, write_status
from honeybadger_host.ops.host import FOLLOWS
from honeybadger_host.ops.maintenance import HOUSEKEEPING_SECONDS
from honeybadger_host.ops.residue import Residue
from honeybadger_host.ops.status import STATUS_SECONDS, write_metrics
from honeybadger_host.settings import Settings
from honeybadger_host.spool.senders import SenderList

# The owner publishes a snapshot, and removes the log before it, when the log's bytes exceed this share of the journal's
# bytes: so all snapshots together never cost more than the log itself.
TRIM_SHARE = 1.0
_UNKNOWN = "nobody knows whom: the servers do not answer"
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Member:
    """This machine: it follows until it owns the home, and then gives the host what it needs to write.

    Args:
        notify: tells systemd.
    """

    def __init__(self, home: Path, settings: Settings, notify: Callable[[str], None]) -> None:
        """Lock the home and read how far its journal has come. Raises HostError."""
        check_home(home)
        self.home = home
        self._settings, self._notify = settings, notify
        self._path = home / JOURNAL_FILE
        self.lock = HomeLock(home)
        self._writer: sqlite3.Connection | None = None  # to the journal, while this machine follows
        self._servers: Servers | None = None
        self._asked: Servers | None = None  # for requests alone, so that they do not delay the lease
        self._renewing: Renewing | None = None
        self._forwarding: Future[None] | None = None
        self.stopping = threading.Event()
        self._handlers: dict[int, Any] = {}  # of signals, from before this machine followed
        self._over = Future[None]()  # done when this machine no longer owns the home, or should not
        self._serves = False
        self.following = ""  # the next owner, if the operator asked to move the home
        self._begun_at = time.monotonic()
        self._counters = Counters()
        self._owner = ""  # the machine that this one follows
        self._lease = Watched()
        self._lost_plans: list[Forgetting] | None = None  # texts forgotten since the journal that a snapshot replaced
        self._shortening = threading.Lock()
        self._clean, self._left = 0, list[tuple[str, str]]()  # see `State`
        try:
            self.names, position, self.node = read_place(self._path)
            self.log = Log(self.names, position, self._note_lost)
            self.lock.sign(self.names.identity)
        except BaseException:
            self.lock.close()
            raise

    # ---------------------------------------------------------------------------------------------------- following

    def own(self) -> bool:
        """Follow until this machine owns the home; False: it was told to end. Raises HostError.

        Until `close` a signal only sets `stopping`, unless the host, once it serves, takes it.
        """
        for number in _SIGNALS:
            self._handlers[number] = signal.signal(number, lambda *_: self.stopping.set())
        try:
            with translating(self._path):
                self._follow()
        except WorldFailed as error:
            raise StorageFailed(f"{error}; this machine goes on following at its next start") from error
        finally:
            if self._writer is not None:
                self._writer.close()
        if self.stopping.is_set():
            self.lock.close()
            log.info("host.stopped")
        return not self.stopping.is_set()

    def _follow(self) -> None:
        """Follow until this machine owns the home, or must stop."""
        self._notify("READY=1")
        pings, pinged_at = watchdog_seconds(), 0.0
        reached_at, is_purged = time.monotonic(), False
        threading.Thread(target=self._report, name="report", daemon=True).start()
        while not self.stopping.is_set():
            if pings is not None and time.monotonic() > pinged_at + pings / 3:
                self._notify("WATCHDOG=1")
                pinged_at = time.monotonic()
            try:
                if self._servers is None:
                    self._servers = Servers(self._settings.cluster.urls, self._settings.cluster.credentials)
                    self.log.servers = self._servers
                    self._servers.start(answer_for(self._servers, self.names, self.state, self._hand_over))
                    if not self._settings.ipc.closed:
                        forwarding = Forwarding(self.home, self._servers, self.names, watches=self._settings.ipc.watch)
                        self._forwarding = self._servers.start(forwarding.run())
                if is_purged:
                    self._begin_with_snapshot(self._servers)
                    is_purged = False
                if self._writer is None:
                    self._writer = self._open_journal(self._servers)
                owner = self._lease.holder(self._servers, self.names)
                is_ours = owner == self.node or (
                    owner is None and is_turn(self._servers, self.names, self.node, self._lease)
                )
                if is_ours and self._take_over(self._servers, self._writer):
                    return
                if owner not in (None, self._owner):
                    self._owner = owner or ""
                    log.info("cluster.follows", home=self.names.identity, owner=owner, seq=self.log.position.seq)
                self._apply(self._writer, self.log.read())
                reached_at = time.monotonic()
            except Purged:
                is_purged = True
            except Unreachable as error:
                if time.monotonic() - reached_at > UNCLEAR_SECONDS:
                    self._disconnect()
                if self._owner != _UNKNOWN:
                    self._owner = _UNKNOWN
                    log.warning("cluster.waiting", error=str(error), now_what="look at the servers of the cluster")
                self.stopping.wait(PAUSE_SECONDS)

    def _open_journal(self, servers: Servers) -> sqlite3.Connection:
        """Open the journal, and bring it forward to the schema of this version.

        Raises JournalError, and nothing is changed: the log goes on with records of another one.
        """
        newest = servers.message(self.log.names.stream, newest=self.log.names.subjects)
        if newest is not None:
            schema = int(newest.headers[SCHEMA_HEADER])
            is_over = newest.seq == self.log.position.seq and self._lease.holder(servers, self.names) is None
            if schema > SCHEMA_VERSION or (schema < SCHEMA_VERSION and not is_over):
                raise foreign_schema(schema)
        writer = connect(self._path, is_shared=True)
        use_wal(writer)
        writer.execute("PRAGMA wal_autocheckpoint = 1000")
        bring_forward(writer, self._path)
        self._clean = read_kept(writer).clean
        if self._clean != self.log.position.stream:  # the host ended before its scan, and knows no texts to look for
            self._begin_clean(writer, self.log.position.stream, self._lost_plans)
        return writer

    def _report(self) -> None:
        """Write the status of a machine that follows, and its metrics, each second."""
        while self._renewing is None and not self.stopping.is_set():
            status = {
                "version": __version__,
                "pid": os.getpid(),
                "started_at": self._counters.started_at,
                "uptime_seconds": round(time.monotonic() - self._begun_at, 1),
                "written_at": time.time(),
                "mode": FOLLOWS,
                "settings": self._settings.model_dump(mode="json"),
                "cluster": {"owner": self._owner, **asdict(self.state())},
                "resident_bytes": resident_bytes(),
                "log": list(recent_events),
            }
            try:
                write_status(self.home, status)
                write_metrics(self.home, self._settings, status, self._counters)
            except OSError as error:
                log.debug("status.failed", error=str(error))  # a full disk stops nobody who follows
            self.stopping.wait(STATUS_SECONDS)

    def _disconnect(self) -> None:
        """Close the connections, so that the next round makes others: these may be broken."""
        for servers in (self._asked, self._servers):
            if servers is not None:
                servers.close()
        self._forwarding = self._asked = self._servers = None

    def _take_over(self, servers: Servers, writer: sqlite3.Connection) -> bool:
        """Try to own the home; return whether this machine does. Raises Unreachable, Purged, HostError."""
        asked = self._asked = self._asked or Servers(self._settings.cluster.urls, self._settings.cluster.credentials)
        self._catch_up(writer)  # before the claim keeps other machines from asking; it also shows that there is a log
        if not put_lease(servers, self.names, self.node, self.node, self._lease.lapsed):
            return False
        self._catch_up(writer)
        now = time.monotonic()
        if not put_lease(servers, self.names, self.node, self.node):  # reading may have taken longer than the lease
            return False
        if not self.log.own(self.node):
            put_lease(servers, self.names, self.node, "")
            return False
        self._renewing = Renewing(self.log, self.node, now)
        self._apply(writer, [])
        self.shared = Committing(self.log, partial(self._settle, servers, asked))
        placed = place_files(self.home, self._path)
        threading.Thread(target=self._trim, args=(servers,), name="trim", daemon=True).start()
        if self._forwarding is not None:
            servers.cancel(self._forwarding)
        senders = SenderList(self.home) if self._settings.ipc.closed else None
        asked.start(Answering(self.home, asked, self.names, senders, self._settings.limits.requests_per_second).run())
        log.info("cluster.owns", home=self.names.identity, epoch=self.log.epoch, placed=placed, node=self.node)
        return True

    def _catch_up(self, writer: sqlite3.Connection) -> None:
        for records in self.log.read_to_end():
            self._apply(writer, records)

    def _apply(self, writer: sqlite3.Connection, records: Sequence[Record]) -> None:
        """Apply records to the journal, and note the position."""
        position, plans = self.log.position, list[Forgetting]()
        with transaction(writer, self._path) as writing:
            for record in records:
                if record.following and (plan := begun_in(writing)) is not None:
                    take_out(self.home, plan)  # the journal here loses these texts with this record
                    plans.append(plan)
                position, owner = apply_record(writing, record, position)
                if owner not in (None, self.node):
                    writing.execute("INSERT OR REPLACE INTO meta VALUES (?, 1)", (FILES_BEHIND,))
            if records or self.log.epoch:  # we do not read our own epoch record
                write_position(writing, position)
        if position.stream != self.log.position.stream:
            self._begin_clean(writer, position.stream, plans)
        self.log.position = position

    def _begin_clean(self, writer: sqlite3.Connection, stream: int, plans: Sequence[Forgetting] | None) -> None:
        """Remove deleted texts from this machine; then scan for leftovers on a thread.

        Args:
            plans: the forgotten texts; None: no longer known.
        """
        remove_derived(self.home)
        vacuum(writer, self._path)
        threading.Thread(target=self._look, args=(stream, plans), name="look", daemon=True).start()

    def _look(self, stream: int, plans: Sequence[Forgetting] | None) -> None:
        left = [Residue(".", "not looked through: a host that ended knew what to look for, this one does not")]
        try:
            if plans is not None:
                left = look_for(self.home, plans)
            with closing(connect(self._path)) as writer, transaction(writer, self._path) as writing:
                writing.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (CLEAN, stream))
        except WorldFailed as error:
            left = [Residue(".", f"not looked through: {error}")]
        self._clean, self._left = stream, [(one.file, one.form) for one in left[:MAX_NAMED]]
        log.info("cluster.forgot", home=self.names.identity, left=len(left))

    def _begin_with_snapshot(self, servers: Servers) -> None:
        log.info("cluster.begins_anew", home=self.names.identity, seq=self.log.position.seq)
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._lost_plans = load_snapshot(servers, self.names, self._path)
        self.names, position, self.node = read_place(self._path)
        self.log = Log(self.names, position, self._note_lost)
        self.log.servers = servers

    # ------------------------------------------------------------------------------------------------------- owning

    def pass_on(self, point: str, passed: Callable[[str], None]) -> None:
        """Hold back answers until it is sure that no other machine owns the home. Raises StorageFailed."""
        if point == "answering" and self._renewing is not None:
            self._renewing.wait_until_sure()
        passed(point)

    async def wait_until_over(self, then: Callable[[], object]) -> None:
        """Call `then` when another machine should own the home. Raises StorageFailed when this one has lost it."""
        self._serves = True
        await asyncio.wrap_future(self._over)
        then()

    def status(self) -> dict[str, Any]:
        """Return the machines as the status of an owner shows them."""
        return {"owner": self.node, **asdict(self.state())}

    def _hand_over(self, following: str) -> None:
        log.info("cluster.moves", home=self.names.identity, following=following)
        self.following = following
        with suppress(InvalidStateError):  # it is over already
            self._over.set_result(None)

    def state(self) -> State:
        """Return the state of this machine. Any thread."""
        renewing = self._renewing
        return State(
            self.node,
            __version__,
            SCHEMA_VERSION,
            self.log.position.seq,
            0 if renewing is None else self.log.epoch,
            self._serves,
            0.0 if renewing is None else round(time.monotonic() - renewing.renewed_at, 2),
            max(0, self.log.end - self.log.last) if renewing is None else 0,
            self._clean,
            self._left,
            self.names.identity,
        )

    def _note_lost(self, why: str) -> None:
        log.error("cluster.lost", home=self.names.identity, why=why)
        with suppress(InvalidStateError):  # it is over already
            self._over.set_exception(StorageFailed(why))

    def _trim(self, servers: Servers) -> None:
        """Publish snapshots and shorten the log, until this machine stops. Runs in its own thread."""
        while not (self.stopping.is_set() or self.log.failed):
            try:
                self._shorten(servers)
            except Exception as error:  # noqa: BLE001  a long log stops nobody
                log.warning("cluster.not_trimmed", error=str(error), now_what="it is tried again")
            self.stopping.wait(HOUSEKEEPING_SECONDS)

    def _shorten(self, servers: Servers) -> None:
        """Publish a snapshot if one is needed, and remove the log before it. Raises Unreachable, HostError."""
        with self._shortening:
            here, names = self.log.position, self.names
            names = names._replace(first=here.stream)
            journal_bytes = sum(path.stat().st_size for path in self._path.parent.glob(f"{self._path.name}*"))
            _, _, log_bytes = servers.end_of(names.stream) or (0, 0, 0)
            is_long = log_bytes > TRIM_SHARE * journal_bytes
            if not is_long and is_snapshot_current(servers, names) and not ended_streams(servers, names, here):
                return
            position = publish_snapshot(servers, names, self._path)
            for stream in ended_streams(servers, names, position):
                servers.remove_stream(stream)
                log.info("cluster.removed", home=names.identity, stream=stream)
            if is_long and position.stream == here.stream:
                servers.purge(names.stream, position.seq - 1)  # the last message stays: the next append names it
                log.info("cluster.trimmed", home=names.identity, seq=position.seq)

    def _settle(self, servers: Servers, asked: Servers) -> list[tuple[str, str]]:
        """See `SharedLog.settle`. Raises StorageFailed."""
        until, waiting = time.monotonic() + SETTLE_SECONDS, list[str]()
        self._look(self.log.position.stream, [])  # `forget` has scanned the owner's files before
        self.stopping.wait(3 * FETCH_SECONDS)  # a follower that reads the end of the stream later needs the snapshot
        while True:
            try:
                self._shorten(servers)
                machines = present(asked, self.names)
                waiting = missing(asked, self.names, machines)
                waiting += (one.node for one in machines if not one.epoch and one.clean < self.log.position.stream)
                if not waiting:
                    return [(f"{one.node}: {file}", form) for one in machines for file, form in one.left]
            except Unreachable as error:
                waiting = [f"the servers, which do not answer: {error}"]
            if self.log.failed or time.monotonic() > until:
                return [(node, "it has not said that nothing is left there") for node in waiting]
            time.sleep(PAUSE_SECONDS)

    def close(self) -> None:
        self.stopping.set()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        if self._renewing is not None:
            self._renewing.close(self.following)
        self._disconnect()
