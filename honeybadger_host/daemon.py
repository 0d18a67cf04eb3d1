"""The daemon: the only place where the parts are put together, and its life from start to stop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import anyio.to_thread
import structlog

from honeybadger_host import __version__
from honeybadger_host.agents import Agents
from honeybadger_host.errors import HostError, SettingsError, WorldFailed
from honeybadger_host.handlers import Rooms, build_table
from honeybadger_host.handlers.turns import Desk
from honeybadger_host.memory.compaction import CompactionLimits
from honeybadger_host.memory.entry_store import EntryFiles
from honeybadger_host.memory.group_files import GroupFiles
from honeybadger_host.memory.session_document_store import Sessions
from honeybadger_host.memory.turn_log import Conversations
from honeybadger_host.memory.working_memory_store import Shelves
from honeybadger_host.models import Models, missing_extra
from honeybadger_host.observe import STATUS_FILE, Counters
from honeybadger_host.ops.clock import Ages
from honeybadger_host.ops.host import Host
from honeybadger_host.ops.maintenance import keep_house
from honeybadger_host.ops.status import report
from honeybadger_host.search.index import INDEX_FILE, Index
from honeybadger_host.settings import Metrics as MetricsSettings
from honeybadger_host.settings import Settings, notify_socket, watchdog_seconds
from honeybadger_host.spool.dead_letters import DeadRoom
from honeybadger_host.spool.pipeline import Door, Limits
from honeybadger_host.spool.rate_limits import Limiter, shares_of
from honeybadger_host.spool.replies import ReplyRoom
from honeybadger_host.spool.senders import SenderList
from honeybadger_host.spool.spool import Spool
from honeybadger_host.spool.watcher import Watcher
from honeybadger_host.storage.atomic_files import WholeFiles
from honeybadger_host.storage.files import remove_leftovers
from honeybadger_host.storage.home import CLOCK_GRACE_SECONDS, JOURNAL_FILE, HomeLock, check_home
from honeybadger_host.storage.journal import Journal
from honeybadger_host.storage.projections import Projections
from honeybadger_host.text.neutralise import use_counter
from honeybadger_host.text.tokens import counter_of

if TYPE_CHECKING:  # needs an extra
    from honeybadger_host.ops.metrics import Metrics
    from honeybadger_host.search.embeddings import Embedder

log = structlog.get_logger()

SWITCH_SECONDS = 0.001
"""How long a thread computes while others wait for Python's lock; 5 ms, the default, are several slices of the road."""
_FIRST_SWEEP_SECONDS = 0.01
"""Whoever waits for READY need not wait for the second one."""
_LOOK_EVERY_SECONDS = 1.0
_CLOSE_LOOK_EVERY = 4
"""Looks at the watched folders, of which one is at each of them: with 100 groups that takes 1.5 ms."""
_DAY_SECONDS = 86_400.0
_MOST_ENTRY_FOLDERS = 1024
"""Folders of entries that are watched, over all groups; an edit in any other is found by the next comparison."""
_CLOSING_SECONDS = 1.0
_GRACE_OF_TURNS = 0.8
"""Of the grace time; the rest is for what their answers still have to go through."""


def build(home: Path, settings: Settings, *, passed: Callable[[str], None] = lambda point: None) -> Host:
    """Put a host together on a home folder: lock it, open the journal, bring the files up to date.

    Args:
        passed: see `Door`.
    Raises HostError: what is wrong with the home, its lock or its journal.
    """
    check_home(home)
    lock = HomeLock(home)
    try:
        journal = Journal.open(home / JOURNAL_FILE, expected_identity=lock.previous.journal)
        try:
            lock.sign(journal.identity)
            files = GroupFiles(
                home,
                max_file_bytes=settings.memory.max_group_file_bytes,
                max_cache_bytes=settings.memory.max_cache_bytes,
            )
            use_counter(counter_of(settings.tokens.counter))
            index = Index(
                home,
                home / INDEX_FILE,
                max_memory_bytes=settings.recall.max_memory_bytes,
                embedder=embedder_of(settings),
            )

            def changed(file: str) -> None:
                files.drop(file)
                index.touch(file)

            projections = Projections(
                home,
                settle_seconds=settings.memory.settle_seconds,
                count_projected=journal.count_projected,
                changed=changed,
            )
            _recover(journal, projections)
            remove_leftovers((home / STATUS_FILE).parent, {Path(STATUS_FILE).name})
            conversations = Conversations(
                home,
                window_turns=settings.conversation.window_turns,
                idle_seconds=settings.conversation.idle_seconds,
                max_sessions=settings.conversation.max_sessions,
                clock=time.monotonic,
            )
            shelves = Shelves(home)
            sessions = _open_sessions(home, settings, journal, projections, conversations)
            whole_files = WholeFiles(home, [shelves, sessions])
            senders = SenderList(home) if settings.ipc.closed else None
            agents, models = Agents(home, settings.turns.agent), Models(home, settings.model)
            shares = shares_of(settings.limits.requests_per_second, settings.limits.pending_files)
            spool = Spool(
                home / "data" / "ipc",
                senders=None if senders is None else senders.current,
                agents=lambda: agents.current,
                shares=shares,
                max_request_bytes=settings.ipc.max_request_bytes,
            )
            replies = ReplyRoom(spool, shares, ttl_seconds=settings.ipc.reply_ttl_seconds)
            replies.mend(journal)
            ages = Ages.of(settings.ipc.receipt_days * _DAY_SECONDS, journal.kept_ages())
            _compare_clocks(journal)
            counters = Counters()
            door = Door(
                spool,
                DeadRoom(
                    home / "data" / "dead",
                    settings.ipc.dead_max_bytes,
                    keeps_secrets=settings.security.secrets == "off",
                ),
                journal,
                projections,
                conversations,
                whole_files,
                sessions,
                build_table(
                    settings,
                    Rooms(
                        files=files,
                        conversations=conversations,
                        whole_files=whole_files,
                        entry_files=EntryFiles(home),
                        shelves=shelves,
                        sessions=sessions,
                        index=index,
                        journal=journal.path,
                    ),
                    Desk(
                        home,
                        agents,
                        models.open,
                        is_ours=lambda group, agent: _is_ours(senders, group, agent),
                        look_into=lambda folder: door.look_into(folder),
                        stop=lambda stop: door.lanes.stop_turn(stop),
                    ),
                ),
                Limits(
                    batch_requests=settings.ipc.batch_requests,
                    max_request_bytes=settings.ipc.max_request_bytes,
                    unfinished_seconds=settings.ipc.unfinished_seconds,
                    full_disk_seconds=settings.ipc.full_disk_seconds,
                    queries_at_once=settings.ipc.queries_at_once,
                    turns_at_once=settings.turns.at_once,
                    turn_attempts=settings.turns.attempts,
                    log_requests=settings.log.requests,
                ),
                counters,
                Limiter(shares),
                forbids=agents.forbids,
                passed=passed,
            )
            metrics = _open_metrics(home, settings.metrics.textfile)
        except BaseException:
            journal.close()
            raise
    except BaseException:
        lock.release()
        raise
    return Host(
        home,
        settings,
        lock,
        journal,
        projections,
        files,
        conversations,
        whole_files,
        shelves,
        sessions,
        index,
        spool,
        replies,
        door,
        counters,
        senders,
        agents,
        models,
        metrics,
        ages,
        time.monotonic(),
    )


def embedder_of(settings: Settings) -> Embedder | None:
    """Return the model that gives texts their vectors, if one is asked for. Raises SettingsError."""
    if settings.recall.vectors == "off":
        return None
    from honeybadger_host.search.embeddings import open_embedder  # with numpy

    return open_embedder()


def _is_ours(senders: SenderList | None, group: str, agent: str) -> bool:
    """Return whether the host may write into a sender's box: in closed mode it may be another user's."""
    return senders is None or senders.current.get((group, agent)) in (None, os.geteuid())


def _open_sessions(
    home: Path, settings: Settings, journal: Journal, projections: Projections, conversations: Conversations
) -> Sessions:
    ours = settings.document
    limits = CompactionLimits(
        max_entries=ours.max_entries,
        keep_entries=ours.keep_entries,
        max_tokens=ours.max_tokens,
        max_summary_characters=ours.max_summary_characters,
        finished_task_seconds=ours.finished_task_seconds,
    )
    return Sessions(
        home,
        conversations,
        limits,
        last_written=journal.last_written,
        is_behind=projections.is_behind,
        max_sessions=settings.conversation.max_sessions,
        write_out_seconds=ours.write_out_seconds,
    )


def _open_metrics(home: Path, textfile: str) -> Metrics | None:
    """Return what writes the metrics, if they are asked for. Raises SettingsError."""
    if not textfile:
        return None
    try:
        from honeybadger_host.ops.metrics import Metrics
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "prometheus_client":
            raise
        raise SettingsError(
            "metrics.textfile needs prometheus-client: pip install 'honeybadger-host[metrics]'"
        ) from None
    return Metrics(home, Path(textfile))


def _recover(journal: Journal, projections: Projections) -> None:
    """Bring the files up to date with what was committed and perhaps not written.

    What was looked at settles as if it had been appended now: an editor may have read a file before the last note came
    and save it after this start.
    """
    looked_at = projections.recover(journal.unprojected(), time.monotonic())
    if looked_at:
        log.info("recovery.finished", changes=looked_at, behind=projections.behind)


def _settle_all(journal: Journal, projections: Projections) -> None:
    """Leave the files as they should be; what is younger than the settling time is for the next start to look at."""
    paths, unsettled = projections.settle(time.monotonic(), is_final=True)
    projections.sync(paths)
    journal.mark_projected(journal.committed_seq, unsettled)


def _compare_clocks(journal: Journal) -> None:
    """Say when the wall clock is behind what the journal has seen: its stamps never fall."""
    behind = journal.last_at / 1000 - time.time()
    if behind > CLOCK_GRACE_SECONDS:
        log.warning("clock.behind", seconds=round(behind), now_what="set the clock; see doctor")


def run(home: Path, settings: Settings, *, passed: Callable[[str], None] = lambda point: None) -> None:
    """Serve a home until SIGTERM or SIGINT. Raises HostError."""
    with contextlib.suppress(ValueError, OSError):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65_536) if hard > 0 else 65_536, hard))
    os.umask(0o077)
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 20, 50)  # a slice is a few thousand young objects without cycles: looking costs 5 %
    host = build(home, settings, passed=passed)
    try:
        try:
            anyio.run(_live, host)
        except BaseExceptionGroup as group:
            raise _first(group) from group
        try:
            host.sessions.write_out_all()
            _settle_all(host.journal, host.projections)
            if host.ages.moments:
                host.journal.keep_ages(host.ages.dump())
        except WorldFailed as error:
            log.error("journal.waiting", error=str(error), now_what="the next start looks at the files again")
    finally:
        host.close()
    log.info("host.stopped", seconds=round(time.monotonic() - host.started, 1))


def serve_box(home: Path, settings: Settings, box: Path, *, searched: str | None = None) -> None:
    """Serve what waits in one box of a home that nobody serves, and end. Raises HomeLocked, HostError.

    Args:
        searched: a group of which all is to be found.
    """
    host = build(home, settings.model_copy(update={"metrics": MetricsSettings()}))
    try:
        if searched is not None:
            host.index.read_all(searched)
        anyio.run(host.door.run_once, str(box))
        _settle_all(host.journal, host.projections)
    finally:
        host.close()


async def _live(host: Host) -> None:
    """Start up, serve, stop: in this order."""
    loop = asyncio.get_running_loop()
    wake_scheduled = False
    home = f"{host.home}/"
    ipc = f"{home}data/ipc/"

    def woken() -> None:
        nonlocal wake_scheduled
        wake_scheduled = False
        host.door.wake()

    def hint(folder: str, name: str) -> None:
        """On the watcher's thread. One scheduled wake-up is enough for any number of events."""
        nonlocal wake_scheduled
        if not folder:
            host.files.clear()
            host.door.hint(None)
        elif folder.endswith("/requests"):
            host.door.hint(folder.removesuffix("/requests"))
        elif folder.endswith("/turns") and folder.startswith(ipc):
            host.door.hint(folder)
        else:
            file = f"{folder.removeprefix(home)}/{name}"
            host.files.drop(file)
            host.index.touch(file)
            if not name or os.path.isdir(f"{folder}/{name}"):  # it was not watched before
                host.index.touch_folder(file)
            return
        if not wake_scheduled:
            wake_scheduled = True
            with contextlib.suppress(RuntimeError):  # the loop is closing: nobody is left to wake
                loop.call_soon_threadsafe(woken)

    with contextlib.closing(Watcher(hint)) as watcher:  # closed behind the tasks: one may be adding watches on a thread
        host.spool.listen = watcher.listen
        async with anyio.create_task_group() as tasks:
            signals = anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT)
            with signals as received:
                try:
                    tasks.start_soon(host.door.run)
                    tasks.start_soon(_sweep, host, watcher)
                    keep_house(host, tasks)
                    tasks.start_soon(report, host, watcher)
                    log.info(
                        "host.started",
                        version=__version__,
                        home=str(host.home),
                        pid=os.getpid(),
                        mode="closed" if host.settings.ipc.closed else "open",
                        seq=host.journal.next_seq - 1,
                    )
                    _name_missing_extras(host)
                    async for number in received:
                        host.door.stop_accepting()
                        log.info("host.stopping", signal=signal.Signals(number).name)
                        break
                    notify("STOPPING=1")
                    lanes, seconds = host.door.lanes, host.settings.life.grace_seconds
                    with anyio.move_on_after(seconds * _GRACE_OF_TURNS) as grace:  # their tools need the road
                        await lanes.ended.wait()
                    if grace.cancelled_caught:
                        log.warning(
                            "turns.grace_over", turns=lanes.running, now_what="the next start goes on with them"
                        )
                        lanes.cancel()
                    host.door.stop()
                    with anyio.move_on_after(seconds * (1 - _GRACE_OF_TURNS)) as grace:
                        await host.door.ended.wait()
                    if grace.cancelled_caught:
                        log.warning("host.grace_over", now_what="what was not answered is met again at the next start")
                finally:
                    with anyio.move_on_after(_CLOSING_SECONDS, shield=True):
                        await host.models.aclose()
                    tasks.cancel_scope.cancel()


def _name_missing_extras(host: Host) -> None:
    """Say which models cannot answer for want of a library: otherwise the first message says so."""
    wanted = {host.settings.model.name, *(agent.model or "" for agent in host.agents.current.values())}
    for name in sorted(wanted):
        if (missing := missing_extra(name)) is not None:
            log.warning("model.missing", model=name, now_what=missing)


async def _sweep(host: Host, watcher: Watcher) -> None:
    """Look into all boxes at regular moments, whatever the events say; keep the watches up."""
    look_at = 0.0
    looks = itertools.count()
    is_ready = False
    pings = watchdog_seconds()
    ping_at = 0.0
    while True:
        now = time.monotonic()
        if host.senders is not None:
            try:
                if host.senders.refresh():
                    host.spool.senders = host.senders.current
            except SettingsError as error:
                log.error("senders.refused", error=str(error))
        if now >= look_at or (host.settings.ipc.watch and not watcher.is_alive()):
            look_at = now + _LOOK_EVERY_SECONDS
            is_close = next(looks) % _CLOSE_LOOK_EVERY == 0
            await anyio.to_thread.run_sync(_look_around, host, watcher, now, is_close)
        swept = host.door.sweeps
        host.door.hint(None)
        host.door.wake()
        await anyio.sleep(host.settings.ipc.sweep_seconds if is_ready else _FIRST_SWEEP_SECONDS)
        if host.door.sweeps > swept:  # only a finished sweep says that the road is alive
            host.counters.swept_at = time.time()
            if not is_ready:
                is_ready = True
                notify("READY=1")
            elif pings is not None and now >= ping_at:
                ping_at = now + pings / 3
                notify("WATCHDOG=1")


def _look_around(host: Host, watcher: Watcher, now: float, is_close: bool) -> None:
    """Read agents that changed; watch every box and every group's folder."""
    host.agents.refresh()
    if not host.settings.ipc.watch:
        return
    boxes = list(host.spool.boxes.values())
    folders = dict.fromkeys((one.requests for box in boxes for one in box.both), False)
    with contextlib.suppress(OSError), os.scandir(host.home / "groups") as entries:
        folders |= {entry.path: True for entry in entries if entry.is_dir(follow_symlinks=False)}
    folders |= {str(host.home / folder): True for folder in host.index.folders[:_MOST_ENTRY_FOLDERS]}
    watcher.ensure(folders, now, looks_closely=is_close)


def notify(state: str) -> None:
    """Tell systemd; nothing happens when it did not start us (sd_notify: one datagram)."""
    address = notify_socket()
    if address is None:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        sock.connect(address)
        sock.send(state.encode())


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the host's own error of a group, else the first one."""
    own = group.subgroup(HostError)
    found: BaseException = own or group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found
