"""Folders that are listed again only after they changed; the names in the folders of all groups."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Generic, TypeVar

from honeybadger_host.files.home import groups_in

T = TypeVar("T")

# Some file systems keep the time stamps of folders to a second or two: a change within that may not show.
_COARSEST_STAMP_SECONDS = 3.0


class Unchanged:
    """A folder as it was listed: while its time stamps are the same it need not be listed again.

    They are trusted once a listing took place well after they were first seen, by the clock of this machine: stamps may
    be coarse, and another machine's. Its owner can set the mtime of a folder back, but not its ctime.
    """

    __slots__ = ("_is_trusted", "_since", "_stamp")

    def __init__(self) -> None:
        self._stamp: tuple[int, int, int] | None = None
        self._since = 0.0
        self._is_trusted = False

    def holds(self, status: os.stat_result) -> bool:
        """Return whether the listing is still complete."""
        return self._is_trusted and _stamp_of(status) == self._stamp

    def listed(self, status: os.stat_result, now: float) -> None:
        """Note that the folder was listed now, in monotonic seconds; `status` is from before the listing."""
        stamp = _stamp_of(status)
        if stamp != self._stamp:
            self._stamp, self._since = stamp, now
        self._is_trusted = now - self._since >= _COARSEST_STAMP_SECONDS

    def forget(self) -> None:
        """List it again next time."""
        self._is_trusted = False


def _stamp_of(status: os.stat_result) -> tuple[int, int, int]:
    return (status.st_ino, status.st_mtime_ns, status.st_ctime_ns)


class Listings(Generic[T]):
    """Results of listing folders; a folder is listed again only when it changed. Any thread.

    Args:
        make: lists a folder. Raises OSError.

    Attributes:
        kept: folder -> its last result.
    """

    def __init__(self, make: Callable[[str], T], clock: Callable[[], float] = time.monotonic) -> None:
        self._make, self._clock = make, clock
        self.kept: dict[str, tuple[Unchanged, T]] = {}

    def of(self, folder: str) -> T:
        """Return the result for a folder as it is now. Raises OSError; a folder that is gone has no result any more."""
        try:
            status = os.stat(folder)
            kept = self.kept.get(folder)
            if kept is None or not kept[0].holds(status):
                kept = Unchanged() if kept is None else kept[0], self._make(folder)
                kept[0].listed(status, self._clock())
                self.kept[folder] = kept
            return kept[1]
        except (FileNotFoundError, NotADirectoryError):
            self.kept.pop(folder, None)
            raise


class GroupFolders:
    """The names in each `groups/<group>`; a folder is listed again only when it changed. Any thread."""

    def __init__(self, home: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._home = home
        self._lock = threading.Lock()
        self._listings = Listings(lambda folder: frozenset(os.listdir(folder)), clock)
        # Group -> names in its folder at the last `refresh`; the same object until the folder is listed again.
        self.current: Mapping[str, frozenset[str]] = {}

    def refresh(self) -> Mapping[str, frozenset[str]]:
        """List the folders that changed; return `current`."""
        with self._lock:
            current: dict[str, frozenset[str]] = {}
            for group in groups_in(self._home):
                with contextlib.suppress(OSError):  # removed meanwhile, or the host may not list it: `doctor` names it
                    current[group] = self._listings.of(f"{self._home}/groups/{group}")
            self.current = current
            return current
