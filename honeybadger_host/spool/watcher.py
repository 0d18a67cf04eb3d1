"""File events as wake-ups: a hint where to look, never the truth.

The spool scans; an event only makes it scan sooner. Every folder has its own flat watch: a recursive one dies
after three system calls of anybody who may write below it (docs/decisions/003-watching.md). An inbox reports only the
first arrival until it is listed: so a flood costs one event for each listing, not one for each file.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import structlog

from honeybadger_host.files.safe_files import identity_of
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

    HAS_INOTIFY = True
except ImportError:  # macOS; or a watchdog that moved it: the sweep finds everything
    HAS_INOTIFY = False

log = structlog.get_logger()

_RETRY_SECONDS: Final = 60.0  # seconds without new watches after the kernel refused one for its limits
# Errors of exhausted kernel limits; any other error concerns one folder only.
_ADVICE: Final = "; raise fs.inotify.max_user_instances or max_user_watches if a limit was reached"
_LIMITS: Final = (errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.ENOMEM)

_Identity: TypeAlias = tuple[int, int, int]  # see `identity_of`


class Watcher:
    """Watches folders, each by a flat watch, and starts again when its thread has died.

    `ensure` is called with every sweep, by one thread at a time, `listen` by another. Hints arrive on a thread of
    watchdog's. It works only where there is inotify (`HAS_INOTIFY`).

    Args:
        hint: called with the watched folder and the file's name; both are empty when events were lost. Never raises.
    """

    def __init__(self, hint: Callable[[str, str], None]) -> None:
        self._hint = hint
        self._backend: _InotifyBackend | None = None
        self._watched: dict[str, tuple[_Identity, _Callback]] = {}
        self._lock = threading.RLock()
        """Held to begin or end a watch."""
        self._failed_until = 0.0
        self._throttle = Throttle()
        self.rebuilds = 0
        self.unwatched = 0
        """Folders that only the sweep finds."""

    def ensure(self, folders: Mapping[str, bool], now: float, *, looks_closely: bool = True) -> None:
        """Watch exactly these folders: a replaced folder is watched again, a dead thread is replaced.

        Args:
            folders: path -> whether to report every file in it; else only the first arrival after each `listen`.
            now: monotonic seconds.
            looks_closely: check the identity of each folder, 5 us each. Only this finds a folder that was moved away
                and replaced by another; the kernel reports a removed folder.
        """
        if self._backend is not None and not self._backend.is_alive():
            self.rebuilds += 1
            log.warning("watch.rebuilt", reason="the watcher's thread died", rebuilds=self.rebuilds)
            self.close()
            self._hint("", "")
        if self._backend is None and not self._begin(len(folders), now):
            return
        for folder in [known for known in self._watched if known not in folders]:
            self._remove(folder)
        assert self._backend is not None  # noqa: S101  it has begun
        wanted = folders.keys() if looks_closely else self._backend.dropped | (folders.keys() - self._watched.keys())
        unwatched = 0
        for folder, every in folders.items():
            if folder in wanted:
                with self._lock:
                    unwatched += not self._watch(folder, every, now, looks_closely=looks_closely)
        self.unwatched = unwatched

    def _begin(self, many: int, now: float) -> bool:
        """Start the backend; return whether there is one."""
        if now < self._failed_until:
            return False
        try:
            self._backend = _InotifyBackend(self._hint)
        except OSError as error:
            self._failed_until = now + _RETRY_SECONDS
            self.unwatched = many
            log.error("watch.failed", error=str(error), now_what=f"the sweep finds every request{_ADVICE}")
            return False
        return True

    def _watch(self, folder: str, every: bool, now: float, *, looks_closely: bool) -> bool:
        """Watch a folder unless it is watched; return False if it exists and cannot be watched. Locked."""
        assert self._backend is not None  # noqa: S101  `ensure` began it
        watched = self._watched.get(folder)
        is_watched = watched is not None and folder not in self._backend.dropped
        if is_watched and not looks_closely:
            return True
        identity = identity_of(folder)
        if is_watched and watched is not None and watched[0] == identity:
            return True
        if watched is not None:
            self._remove(folder)
        if identity is None:
            return True
        if now < self._failed_until:
            return False
        try:
            callback = self._backend.add(folder, functools.partial(self._hint, folder), every=every)
            self._watched[folder] = (identity, callback)
        except OSError as error:
            if error.errno in _LIMITS:  # else only this folder is concerned: an agent put a link there
                self._failed_until = now + _RETRY_SECONDS
            if self._throttle.passes(folder) is not None:
                log.error("watch.failed", folder=folder, error=str(error), now_what=f"the sweep finds it{_ADVICE}")
            return False
        self._hint(folder, "")  # files may have come before the watch
        return True

    def listen(self, folder: str) -> None:
        """Report the next arrival in a folder. Call it before listing the folder, which finds earlier arrivals.

        A folder that is not watched yet is watched from now on, until `ensure` is called without it.
        """
        with self._lock:
            if self._backend is None:
                return
            watched = self._watched.get(folder)
            if watched is None:
                self._watch(folder, False, time.monotonic(), looks_closely=False)
                return
            try:
                self._backend.listen(watched[1])
            except OSError:
                self._backend.dropped.add(folder)  # `ensure` watches it again, or logs why it cannot

    def is_alive(self) -> bool:
        return self._backend is not None and self._backend.is_alive()

    def close(self) -> None:
        with self._lock:
            backend, self._backend = self._backend, None
            self._watched.clear()
        if backend is not None:
            backend.close()

    def _remove(self, folder: str) -> None:
        with self._lock:
            _, callback = self._watched.pop(folder)
            if self._backend is not None:
                with contextlib.suppress(OSError, KeyError):
                    self._backend.remove(callback)


if HAS_INOTIFY:
    _ARRIVALS: Final = (
        InotifyConstants.IN_MOVED_TO
        | InotifyConstants.IN_CREATE
        | InotifyConstants.IN_CLOSE_WRITE
        | InotifyConstants.IN_ONLYDIR
        | InotifyConstants.IN_DONT_FOLLOW
    )
    _REMOVALS: Final = InotifyConstants.IN_DELETE | InotifyConstants.IN_MOVED_FROM

    class _Callback:
        """Called by InotifyFD for one folder; an exception in here would end its thread.

        Attributes:
            wd: of the watch; -1 while another begins.
            is_spent: the kernel reported an arrival, or may have, and ends the watch.
        """

        def __init__(self, backend: _InotifyBackend, path: str, hint: Callable[[str], None], *, every: bool) -> None:
            self._backend = backend
            self.path = path
            self._hint = hint
            self.every = every
            self.wd: WatchDescriptor = WatchDescriptor(-1)
            self.is_spent = not every

        @property
        def mask(self) -> Mask:
            return Mask(_ARRIVALS | _REMOVALS if self.every else _ARRIVALS | InotifyConstants.IN_ONESHOT)

        def on_event(self, event: InotifyEvent) -> None:
            if self.every:
                self._hint(os.fsdecode(event.name) if event.name else "")
            else:
                self.is_spent = True  # before the hint: the thread that it wakes listens again
                self._hint("")

        def on_watch_deleted(self, wd: WatchDescriptor) -> None:
            if wd == self.wd and not self.is_spent:
                self._backend.dropped.add(self.path)

        def on_queue_overflow(self) -> None:
            if not self.every:
                self.is_spent = True  # the lost event may have been its only one
            self._backend.hint("", "")

    class _InotifyBackend:
        """watchdog's inotify reader without its event grouper, emitters and dispatcher.

        Those hold an unpaired rename for 0.5 s, need a thread for every watch, and hold up the pipeline
        in a burst (10,700 requests/s with them, 16,400 without).

        Attributes:
            hint: see `Watcher`.
            dropped: folders whose watch the kernel ended.
        """

        def __init__(self, hint: Callable[[str, str], None]) -> None:
            self.hint = hint
            self.dropped: set[str] = set()
            self._reader = InotifyFD()
            self._reader.daemon = True
            self._reader.start()

        def add(self, path: str, hint: Callable[[str], None], *, every: bool) -> _Callback:
            """Watch one folder, flat; `hint` gets the name of the file, or an empty string. Raises OSError.

            Args:
                every: report all files that come, change or go; else at least the first arrival after each `listen`.
            """
            callback = _Callback(self, path, hint, every=every)
            self.dropped.discard(path)
            self._begin(callback)
            return callback

        def listen(self, callback: _Callback) -> None:
            """Report the next arrival again. Raises OSError."""
            if not callback.is_spent:
                return
            self._end(callback)  # the kernel reports an arrival a moment before it ends the watch
            self._begin(callback)

        def remove(self, callback: _Callback) -> None:
            if callback.path in self.dropped:
                self.dropped.discard(callback.path)
                return
            self._end(callback)

        def _begin(self, callback: _Callback) -> None:
            callback.wd = WatchDescriptor(-1)
            callback.is_spent = False  # before the watch begins: its event may come at once
            name = os.fsencode(callback.path)
            wd = self._reader.add_callback(name, callback.mask, callback, CallbackId(id(callback)))
            if wd == -1:  # watchdog swallows EACCES
                raise PermissionError(f"cannot watch {callback.path}")
            callback.wd = wd

        def _end(self, callback: _Callback) -> None:
            self._reader.remove_callbacks([(callback.wd, CallbackId(id(callback)))])

        def is_alive(self) -> bool:
            return self._reader.is_alive()

        def close(self) -> None:
            self._reader.stop()
            self._reader.join(2)
