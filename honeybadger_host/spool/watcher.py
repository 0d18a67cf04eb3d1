"""File events as wake-ups: a hint where to look, never the truth.

The spool scans; an event only makes it scan sooner. Every folder has its own flat watch: a recursive one dies
after three system calls of anybody who may write below it (docs/decisions/003-watching.md). An inbox reports only the
first arrival until it is listed: so a flood costs one event for each listing, not one for each file.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from honeybadger_host.files.safe_files import identity_of
from honeybadger_host.log import log
from honeybadger_host.observe import Throttle

try:
    from watchdog.observers.inotify_c import (
        CallbackId,
        InotifyConstants,
        InotifyEvent,
        InotifyFD,
        Mask,
        WatchDescriptor,
    )

    _ARRIVALS = (
        InotifyConstants.IN_MOVED_TO
        | InotifyConstants.IN_CREATE
        | InotifyConstants.IN_CLOSE_WRITE
        | InotifyConstants.IN_ONLYDIR
        | InotifyConstants.IN_DONT_FOLLOW
    )
    _REMOVALS = InotifyConstants.IN_DELETE | InotifyConstants.IN_MOVED_FROM
    HAS_INOTIFY = True
except ImportError:  # macOS; or a watchdog that moved it: the sweep finds everything
    HAS_INOTIFY = False


@dataclass(slots=True, eq=False)
class _Watch:
    """The watch of one folder. InotifyFD calls it; an exception in here would end its thread.

    Args:
        hint: see `Watcher`.
        identity: of the folder, see `identity_of`.
        every: report all files that come, change or go; else at least the first arrival after each `listen`.
        wd: its number in the kernel; -1 while it begins.
        is_spent: the kernel reported an arrival, or may have, and ends the watch.
        is_dropped: the kernel ended it.
    """

    folder: str
    hint: Callable[[str, str], None]
    identity: tuple[int, int, int]
    every: bool
    wd: WatchDescriptor | Literal[-1] = -1
    is_spent: bool = False
    is_dropped: bool = False

    def on_event(self, event: InotifyEvent) -> None:
        if self.every:
            self.hint(self.folder, os.fsdecode(event.name) if event.name else "")
        else:
            self.is_spent = True  # before the hint: the thread that it wakes listens again
            self.hint(self.folder, "")

    def on_watch_deleted(self, wd: WatchDescriptor) -> None:
        if wd == self.wd and not self.is_spent:
            self.is_dropped = True

    def on_queue_overflow(self) -> None:
        if not self.every:
            self.is_spent = True  # the lost event may have been its only one
        self.hint("", "")


class Watcher:
    """Watches folders, each by a flat watch, and starts again when its thread has died.

    It uses watchdog's inotify reader without its event grouper, emitters and dispatcher. Those hold an unpaired rename
    for 0.5 s, need a thread for every watch, and hold up the pipeline in a burst (10,700 requests/s with them, 16,400
    without). It works only where there is inotify (`HAS_INOTIFY`).

    `ensure` is called with every sweep, by one thread at a time, `listen` by another. Hints arrive on a thread of
    watchdog's.

    Args:
        hint: called with the watched folder and the file's name; both are empty when events were lost. Never raises.
    """

    def __init__(self, hint: Callable[[str, str], None]) -> None:
        self._hint = hint
        self._reader: InotifyFD | None = None
        self._watches: dict[str, _Watch] = {}
        self._lock = threading.RLock()  # held to begin or end a watch
        self._throttle = Throttle()
        self.rebuilds = 0
        self.unwatched = 0  # folders that only the sweep finds

    def ensure(self, folders: Mapping[str, bool]) -> None:
        """Watch exactly these folders: a replaced folder is watched again, a dead thread is replaced.

        Args:
            folders: path -> whether to report every file in it; else only the first arrival after each `listen`.
        """
        if self._reader is not None and not self._reader.is_alive():
            self.rebuilds += 1
            log.warning("watch.rebuilt", reason="the watcher's thread died", rebuilds=self.rebuilds)
            self.close()
            self._hint("", "")
        if self._reader is None:
            try:
                reader = InotifyFD()
            except OSError as error:
                self.unwatched = len(folders)
                self._complain("", error)
                return
            reader.daemon = True
            reader.start()
            self._reader = reader
        for folder in list(self._watches):  # in one step: `listen` adds some meanwhile
            if folder not in folders:
                self._remove(folder)
        self.unwatched = sum(not self._watch(folder, every) for folder, every in folders.items())

    def _watch(self, folder: str, every: bool) -> bool:
        """Watch a folder unless it is watched; return False if it exists and cannot be watched.

        The kernel reports a removed folder; only the comparison (5 us) finds one that was moved away and replaced.
        """
        with self._lock:
            watch, identity = self._watches.get(folder), identity_of(folder)
            if watch is not None:
                if watch.identity == identity and not watch.is_dropped:
                    return True
                self._remove(folder)
            if identity is None:
                return True
            watch = _Watch(folder, self._hint, identity, every)
            try:
                self._begin(watch)
            except OSError as error:
                self._complain(folder, error)
                return False
            self._watches[folder] = watch
        self._hint(folder, "")  # files may have come before the watch
        return True

    def _begin(self, watch: _Watch) -> None:
        """Begin a watch. Raises OSError."""
        watch.wd, watch.is_spent = -1, False  # before it begins: its event may come at once
        mask = _ARRIVALS | _REMOVALS if watch.every else _ARRIVALS | InotifyConstants.IN_ONESHOT
        assert self._reader is not None  # noqa: S101  `ensure` made it
        wd = self._reader.add_callback(os.fsencode(watch.folder), Mask(mask), watch, CallbackId(id(watch)))
        if wd == -1:  # watchdog swallows EACCES
            raise PermissionError(f"cannot watch {watch.folder}")
        watch.wd = wd

    def _complain(self, folder: str, error: OSError) -> None:
        if self._throttle.passes(error.errno) is not None:
            log.error(
                "watch.failed",
                folder=folder,
                error=str(error),
                now_what="the sweep finds all; if a limit is reached: fs.inotify.max_user_watches and "
                "max_user_instances",
            )

    def listen(self, folder: str) -> None:
        """Report the next arrival in a folder. Call it before listing the folder, which finds earlier arrivals.

        A folder that is not watched yet is watched from now on, until `ensure` is called without it.
        """
        with self._lock:
            if self._reader is None:
                return
            watch = self._watches.get(folder)
            if watch is None:
                self._watch(folder, False)
            elif watch.is_spent:
                try:
                    self._end(watch)  # the kernel reports an arrival a moment before it ends the watch
                    self._begin(watch)
                except OSError:
                    watch.is_dropped = True  # `ensure` watches it again, or logs why it cannot

    def _remove(self, folder: str) -> None:
        with self._lock:
            watch = self._watches.pop(folder)
            if self._reader is not None and not watch.is_dropped:
                with contextlib.suppress(OSError, KeyError):
                    self._end(watch)

    def _end(self, watch: _Watch) -> None:
        assert self._reader is not None  # noqa: S101  `ensure` made it
        self._reader.remove_callbacks([(WatchDescriptor(watch.wd), CallbackId(id(watch)))])

    def is_alive(self) -> bool:
        return self._reader is not None and self._reader.is_alive()

    def close(self) -> None:
        with self._lock:
            reader, self._reader = self._reader, None
            self._watches.clear()
        if reader is not None:
            reader.stop()
            reader.join(2)
