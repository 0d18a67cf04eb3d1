"""The life of a host: run, start up, serve, shut down; in this order."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.lowlevel
import anyio.to_thread
from anyio.abc import TaskGroup

from honeybadger_host import __version__
from honeybadger_host.compose import build
from honeybadger_host.configuration import check_targets, notify_socket, watchdog_seconds
from honeybadger_host.errors import HostError, SettingsError, WorldFailed
from honeybadger_host.log import log
from honeybadger_host.ops.clock import measured, rest_after
from honeybadger_host.ops.host import Host
from honeybadger_host.ops.maintenance import keep_house
from honeybadger_host.ops.page import keep_page
from honeybadger_host.ops.status import report
from honeybadger_host.settings import Settings
from honeybadger_host.spool.watcher import HAS_INOTIFY, Watcher

if TYPE_CHECKING:  # needs an extra
    from honeybadger_host.cluster.member import Member


# Seconds that a thread computes while others wait for Python's lock; the default of 5 ms is several batches.
SWITCH_SECONDS = 0.001
_FIRST_SWEEP_SECONDS = 0.01  # pause between sweeps until the host is ready
_MAX_LOOK_SECONDS = 10.0  # between two looks of the pipeline: systemd restarts a host without one after 30
# Folders of entries that are watched, over all groups; an edit in any other is found by the next comparison.
_MAX_ENTRY_FOLDERS = 1024
_CLOSING_SECONDS = 1.0  # how long closing the models may take
_MAX_SAVING_SECONDS = 2.0  # how long a stop waits for people's saves in progress
_M_ARENA_MAX, _M_TRIM_THRESHOLD = -8, -1  # see mallopt(3)
_GRACE_OF_TURNS = 0.8  # share of the grace time for turns; the rest is for the remaining requests


def run(home: Path, settings: Settings, *, passed: Callable[[str], None] = lambda point: None) -> None:
    """Serve a home until SIGTERM or SIGINT. Raises HostError."""
    _tune_process()
    check_targets(home, settings)
    if not settings.cluster.urls:
        _run(home, settings, passed, None)
        return
    from honeybadger_host.cluster.member import Member  # needs an extra

    is_moved = True
    while is_moved:  # after a move this machine follows
        with contextlib.closing(Member(home, settings, notify)) as member:
            if not member.own():
                return
            _run(home, settings, partial(member.pass_on, passed=passed), member)
            is_moved = not member.stopping.is_set()


def _run(home: Path, settings: Settings, passed: Callable[[str], None], member: Member | None) -> None:
    with contextlib.closing(build(home, settings, passed=passed, member=member)) as host:
        try:
            anyio.run(_serve, host, member)
        except BaseExceptionGroup as group:
            error: BaseException = group.subgroup(HostError) or group  # the host's own error, else the first one
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            raise error from group
        try:
            host.memory.sessions.write_out_all()
            _take_in_saves(host)
            _settle_all(host)
            if host.ages.moments:
                host.journal.keep_ages(host.ages.dump())
        except WorldFailed as failed:
            log.error("journal.waiting", error=str(failed), now_what="the next start looks at the files again")
    log.info("host.stopped", seconds=round(time.monotonic() - host.started, 1))


def serve_box(
    home: Path, settings: Settings, inbox: Path, *, searched: str | None = None, keeps_house: bool = False
) -> None:
    """Serve the requests in one inbox of a home without a host, then end. Raises HomeLocked, HostError.

    Args:
        searched: a group whose index must be complete.
        keeps_house: whether the request needs the host's background work.
    """
    with contextlib.closing(build(home, settings)) as host:
        if searched is not None:
            host.memory.index.read_all(searched)
        for _ in host.changed_files.sweep_changed():
            pass
        if not host.forgetter.is_interrupted:
            _take_in_saves(host)
        anyio.run(_serve_box, host, inbox, keeps_house)
        _settle_all(host)


def _take_in_saves(host: Host) -> None:
    """Merge people's saves; a save in progress is left to the next start."""
    projections, journal = host.projections, host.journal
    projections.in_use.touch_changed()
    until = time.monotonic() + _MAX_SAVING_SECONDS
    while True:
        edits = projections.saves.take_in(projections.saves.look(), journal.next_seq)
        journal.next_seq += len(edits)
        if not projections.in_use.touched or time.monotonic() > until:
            break
        time.sleep(0.05)
    projections.in_use.keep_marks(journal.committed_seq, now=True)


async def _serve_box(host: Host, inbox: Path, keeps_house: bool) -> None:
    async with anyio.create_task_group() as tasks:
        if keeps_house:
            keep_house(host, tasks)
        await host.pipeline.run_once(str(inbox))
        tasks.cancel_scope.cancel()


def _tune_process() -> None:
    """Let the process open many files, hide its files from others, and answer quickly while threads compute."""
    with contextlib.suppress(ValueError, OSError):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65_536) if hard > 0 else 65_536, hard))
    os.umask(0o077)
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 20, 50)  # a batch makes a few thousand objects without cycles: a search costs 5 %
    with contextlib.suppress(AttributeError):  # a C library without it
        set_limit = ctypes.CDLL(None).mallopt
        set_limit(_M_ARENA_MAX, 1)  # one heap: Python's lock lets one thread allocate at a time
        set_limit(_M_TRIM_THRESHOLD, 1 << 22)  # bytes of free memory that are kept: with fewer, searches take longer


async def _serve(host: Host, member: Member | None) -> None:
    """Start up, serve until a signal comes, shut down.

    Args:
        member: this machine as one of several; if it loses the home, the host ends at once and not in order.
    """
    hints = _Hints(host, asyncio.get_running_loop())
    # closed after the tasks: one of them may be adding watches on a thread
    with contextlib.closing(Watcher(hints)) as watcher:
        host.spool.listen = watcher.listen
        async with anyio.create_task_group() as tasks:
            with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                try:
                    _start_up(host, watcher, hints, tasks, member)
                    stopping = anyio.Event()
                    tasks.start_soon(_stop_at_signal, signals, member, stopping)
                    if member is not None:
                        tasks.start_soon(member.wait_until_over, stopping.set)
                        if member.stopping.is_set():  # a signal came while this machine took over
                            stopping.set()
                    await stopping.wait()
                    host.pipeline.turn_queue.stop()
                    if member is None or member.stopping.is_set():
                        notify("STOPPING=1")
                    await _shut_down(host)
                finally:
                    with anyio.move_on_after(_CLOSING_SECONDS, shield=True):
                        await host.models.aclose()
                    tasks.cancel_scope.cancel()


async def _stop_at_signal(signals: AsyncIterator[signal.Signals], member: Member | None, stopping: anyio.Event) -> None:
    async for number in signals:
        log.info("host.stopping", signal=signal.Signals(number).name)
        if member is not None:
            member.stopping.set()
        stopping.set()


def _start_up(host: Host, watcher: Watcher, hints: _Hints, tasks: TaskGroup, member: Member | None) -> None:
    with contextlib.suppress(WorldFailed):  # the next search says why
        host.memory.index.load_ahead()
    tasks.start_soon(host.forgetter.finish)
    tasks.start_soon(host.pipeline.run)
    tasks.start_soon(_sweep, host, watcher, hints)
    keep_house(host, tasks)
    tasks.start_soon(host.curator.run)
    tasks.start_soon(host.scheduler.run)
    if host.pusher.targets:
        tasks.start_soon(host.pusher.run)
    if host.settings.web.enabled:
        tasks.start_soon(keep_page, host.home, host.settings.web.port, host.counters.note_error)
    tasks.start_soon(report, host, watcher, None if member is None else member.status)
    log.info(
        "host.started",
        version=__version__,
        home=str(host.home),
        pid=os.getpid(),
        mode="closed" if host.settings.ipc.closed else "open",
        seq=host.journal.next_seq - 1,
    )


async def _shut_down(host: Host) -> None:
    """Let open turns, then open requests, end within the grace time; log what did not."""
    turn_queue, seconds = host.pipeline.turn_queue, host.settings.life.grace_seconds
    with anyio.move_on_after(seconds * _GRACE_OF_TURNS) as grace:  # their tools need the pipeline
        await turn_queue.ended.wait()
    if grace.cancelled_caught:
        log.warning("turns.grace_over", turns=len(turn_queue.under_way), now_what="the next start continues them")
        turn_queue.cancel()
    host.pipeline.stop()
    with anyio.move_on_after(seconds * (1 - _GRACE_OF_TURNS)) as grace:
        await host.pipeline.ended.wait()
    if grace.cancelled_caught:
        log.warning("host.grace_over", now_what="the next start answers the requests that are still open")


def _settle_all(host: Host) -> None:
    """Make all written files durable and mark their changes as written."""
    paths, unsettled = host.projections.look()
    host.projections.sync(paths)
    host.journal.mark_projected(host.journal.committed_seq, unsettled)


class _Hints:
    """Passes events of the watcher's thread on to the caches and the pipeline."""

    def __init__(self, host: Host, loop: asyncio.AbstractEventLoop) -> None:
        self._host = host
        self._loop = loop
        self._home = f"{host.home}/"
        self._ipc = f"{host.home}/data/ipc"
        self.has_new = anyio.Event()  # set if there may be a new inbox, which the next sweep finds; event loop

    def __call__(self, folder: str, name: str) -> None:
        """Pass on one event. The watcher's thread."""
        host = self._host
        is_known = not folder or folder in host.spool.inboxes
        if is_known:
            host.spool.mark(folder or None)
        elif not folder.startswith(self._ipc):
            file = f"{folder.removeprefix(self._home)}/{name}"
            host.memory.files.kept.drop(file)
            host.memory.index.touch(file)
            host.projections.in_use.touch(file)
            host.scheduler.touch_file(file)
            if not name or os.path.isdir(f"{folder}/{name}"):  # it was not watched before
                host.memory.index.touch_folder(file)
                host.changed_files.touch_folder(file.rstrip("/"))
                host.scheduler.touch_folder(file.rstrip("/"))
            return
        with contextlib.suppress(RuntimeError):  # the loop is closing: nobody is left to wake
            self._loop.call_soon_threadsafe(self._wake, is_known)

    def _wake(self, is_known: bool) -> None:
        if is_known:
            self._host.pipeline.wake()
        else:
            self.has_new.set()


async def _sweep(host: Host, watcher: Watcher, hints: _Hints) -> None:
    """Sweep all inboxes at intervals, also without events, and keep the watches up."""
    watches = HAS_INOTIFY and host.settings.ipc.watch
    look_at = sweep_at = ping_at = 0.0
    is_ready = False
    pings = watchdog_seconds()
    while True:
        now = time.monotonic()
        if host.senders is not None:
            try:
                if host.senders.refresh():
                    host.spool.senders = host.senders.current
                    sweep_at = now
            except SettingsError as error:
                log.error("senders.refused", error=str(error))
        if is_ready:
            await anyio.to_thread.run_sync(host.memory.agents.refresh)
        if watches and (now >= look_at or not watcher.is_alive()):
            _, cost = await anyio.to_thread.run_sync(measured, partial(_look_around, host, watcher))
            look_at = now + rest_after(cost)
        looks = host.spool.looks
        least = host.settings.ipc.sweep_seconds if is_ready else _FIRST_SWEEP_SECONDS
        has_unfinished = host.spool.has_unfinished
        if now >= sweep_at or has_unfinished or hints.has_new.is_set():
            hints.has_new = anyio.Event()  # clear, then sweep
            host.spool.mark(None)
            pause = least
            if is_ready and watcher.is_alive() and not (watcher.unwatched or has_unfinished):
                pause = max(least, rest_after(host.spool.sweep_cost))
            sweep_at = now + pause
        host.pipeline.wake()
        with anyio.move_on_after(min(sweep_at - time.monotonic(), _MAX_LOOK_SECONDS)):
            await hints.has_new.wait()
        await anyio.sleep(max(0.0, now + least - time.monotonic()))
        if host.spool.looks > looks:  # only a finished look says that the pipeline is alive
            host.counters.swept_at = time.time()
            if not is_ready and host.spool.sweeps:
                is_ready = True
                notify("READY=1")
            elif pings is not None and now >= ping_at:
                ping_at = now + pings / 3
                notify("WATCHDOG=1")


def _look_around(host: Host, watcher: Watcher) -> None:
    """Watch the inboxes and the groups' folders."""
    folders = dict.fromkeys(host.spool.folders, False)
    with contextlib.suppress(OSError), os.scandir(host.home / "groups") as entries:
        folders |= {entry.path: True for entry in entries if entry.is_dir(follow_symlinks=False)}
    of_entries = host.memory.index.folders
    folders |= {str(host.home / folder): True for folder in of_entries[:_MAX_ENTRY_FOLDERS]}
    folders |= {f"{host.home}/{folder}": True for folder in host.scheduler.folders()}
    watcher.ensure(folders)
    groups = (f"{host.home}/groups/{group}" for group in host.group_folders.current)  # not of links
    host.has_events = (
        watcher.is_alive()
        and not watcher.unwatched
        and len(of_entries) <= _MAX_ENTRY_FOLDERS
        and all(group in folders for group in groups)
    )


def notify(state: str) -> None:
    """Tell systemd a state; do nothing if systemd did not start the host (sd_notify: one datagram)."""
    address = notify_socket()
    if address is None:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        sock.connect(address)
        sock.send(state.encode())
