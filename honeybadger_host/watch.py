"""File events as wake-ups: a hint where to look, never the truth.

The door scans; an event only makes it scan sooner. Every folder has a flat watch of its own: a recursive one dies
with three system calls of whoever may write below it (docs/decisions/003-watching.md).
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeAlias

import structlog
from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer

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
except ImportError:  # macOS; or a watchdog that moved it: the observer serves
    HAS_INOTIFY = False

log = structlog.get_logger()

_RETRY_SECONDS: Final = 60.0
_LIMITS: Final = (errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""What the kernel has no more of; any other error is one folder's own."""

_Identity: TypeAlias = tuple[int, int, int]
"""Device, inode and kind: a folder made in place of a link gets the link's inode at once."""


class _Backend(Protocol):
    """One way to get events; two exist.

    Attributes:
        dropped: folders whose watch ended by itself.
    """

    dropped: set[str]

    def add(self, path: str, hint: Callable[[str], None], *, removals: bool) -> Any:
        """Watch one folder, flat; `hint` gets the name of the file, or an empty string. Raises OSError.

        Args:
            removals: tell of files that go, too.
        """

    def remove(self, path: str, token: Any) -> None: ...

    def is_alive(self) -> bool: ...

    def close(self) -> None: ...


class Watcher:
    """Watches folders, each by a flat watch, and comes back when its threads died.

    `ensure` is called with every sweep, by one thread at a time. Hints arrive on a thread of watchdog's.

    Args:
        hint: called with the watched folder and the file's name; both are empty when events were lost. Never raises.
    """

    def __init__(self, hint: Callable[[str, str], None]) -> None:
        self._hint = hint
        self._backend: _Backend | None = None
        self._watched: dict[str, tuple[_Identity, Any]] = {}
        self._failed_until = 0.0
        self._refused: dict[str, tuple[_Identity, float]] = {}
        self.rebuilds = 0
        self.unwatched = 0
        """Folders that only the sweep finds."""

    def ensure(self, folders: Mapping[str, bool], now: float) -> None:
        """Watch exactly these folders; one that was replaced is watched anew, dead threads are replaced.

        Args:
            folders: path -> whether to tell of files that go, too (the door need not hear of its own unlinks).
            now: monotonic seconds.
        """
        if self._backend is not None and not self._backend.is_alive():
            self.rebuilds += 1
            log.warning("watch.rebuilt", reason="the watcher's thread died", rebuilds=self.rebuilds)
            self.close()
            self._hint("", "")
        if self._backend is None:
            if now < self._failed_until:
                return
            try:
                self._backend = _InotifyBackend(self._hint) if HAS_INOTIFY else _ObserverBackend()
            except OSError as error:
                self._failed_until = now + _RETRY_SECONDS
                self.unwatched = len(folders)
                log.error("watch.failed", error=str(error), now_what="the sweep finds every request; see doctor")
                return
        for folder in [known for known in self._watched if known not in folders]:
            self._remove(folder)
        for folder in [known for known in self._refused if known not in folders]:
            del self._refused[folder]
        dropped = self._backend.dropped
        failed = 0
        for folder, removals in folders.items():
            identity = _identity(folder)
            watched = self._watched.get(folder)
            if watched is not None and watched[0] == identity and folder not in dropped:
                continue
            if watched is not None:
                self._remove(folder)
            if identity is None:
                continue
            refused = self._refused.get(folder)
            if now < self._failed_until or (refused is not None and refused[0] == identity and now < refused[1]):
                failed += 1
                continue
            try:
                token = self._backend.add(folder, functools.partial(self._hint, folder), removals=removals)
            except OSError as error:
                failed += 1
                if error.errno in _LIMITS:
                    self._failed_until = now + _RETRY_SECONDS
                elif error.errno != errno.ENOENT:  # an agent put a link there: that concerns nobody else
                    self._refused[folder] = (identity, now + _RETRY_SECONDS)
                log.error("watch.failed", folder=folder, error=str(error), now_what="the sweep finds it; see doctor")
                continue
            self._refused.pop(folder, None)
            self._watched[folder] = (identity, token)
            self._hint(folder, "")  # what came before the watch
        self.unwatched = failed

    def is_alive(self) -> bool:
        return self._backend is not None and self._backend.is_alive()

    def close(self) -> None:
        if self._backend is not None:
            self._backend.close()
            self._backend = None
        self._watched.clear()

    def _remove(self, folder: str) -> None:
        _, token = self._watched.pop(folder)
        if self._backend is not None:
            with contextlib.suppress(OSError, KeyError):
                self._backend.remove(folder, token)


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
        """What InotifyFD calls for one folder; an exception in here would end its thread."""

        def __init__(self, backend: _InotifyBackend, path: str, hint: Callable[[str], None]) -> None:
            self._backend = backend
            self._path = path
            self._hint = hint

        def on_event(self, event: InotifyEvent) -> None:
            self._hint(os.fsdecode(event.name) if event.name else "")

        def on_watch_deleted(self, wd: WatchDescriptor) -> None:
            self._backend.dropped.add(self._path)

        def on_queue_overflow(self) -> None:
            self._backend.overflowed()

    class _InotifyBackend:
        """watchdog's inotify reader without its event grouper, emitters and dispatcher.

        Those hold an unpaired rename for 0.5 s, need a thread for every watch, and take the interpreter from the road
        in a burst (10,700 requests/s with them, 16,400 without).
        """

        def __init__(self, hint: Callable[[str, str], None]) -> None:
            self._hint = hint
            self.dropped: set[str] = set()
            self._reader = InotifyFD()
            self._reader.daemon = True
            self._reader.start()

        def add(self, path: str, hint: Callable[[str], None], *, removals: bool) -> Any:
            callback = _Callback(self, path, hint)
            self.dropped.discard(path)
            mask = Mask(_ARRIVALS | _REMOVALS if removals else _ARRIVALS)
            wd = self._reader.add_callback(os.fsencode(path), mask, callback, CallbackId(id(callback)))
            if wd == -1:  # watchdog swallows EACCES
                raise PermissionError(f"cannot watch {path}")
            return (wd, callback)

        def remove(self, path: str, token: Any) -> None:
            wd, callback = token
            if path in self.dropped:
                self.dropped.discard(path)
                return
            self._reader.remove_callbacks([(wd, CallbackId(id(callback)))])

        def is_alive(self) -> bool:
            return self._reader.is_alive()

        def overflowed(self) -> None:
            self._hint("", "")

        def close(self) -> None:
            self._reader.stop()
            self._reader.join(2)


class _ObserverBackend:
    """watchdog's observer, where there is no inotify."""

    def __init__(self) -> None:
        self.dropped: set[str] = set()
        self._observer = Observer()
        self._observer.daemon = True
        self._observer.start()

    def add(self, path: str, hint: Callable[[str], None], *, removals: bool) -> Any:
        class Handler(FileSystemEventHandler):
            def on_any_event(self, event: FileSystemEvent) -> None:
                hint(os.path.basename(os.fsdecode(event.dest_path or event.src_path)))

        return self._observer.schedule(Handler(), path, recursive=False)

    def remove(self, path: str, token: Any) -> None:
        self._observer.unschedule(token)

    def is_alive(self) -> bool:
        return self._observer.is_alive() and all(emitter.is_alive() for emitter in self._observer.emitters)

    def close(self) -> None:
        self._observer.stop()
        self._observer.join(2)


def _identity(folder: str) -> _Identity | None:
    try:
        status = os.stat(folder, follow_symlinks=False)
    except OSError:
        return None
    return (status.st_dev, status.st_ino, stat.S_IFMT(status.st_mode))
