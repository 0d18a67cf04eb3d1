"""What a folder was seen to hold: whether it must be listed again, and how far a long listing came."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final

from honeybadger_host.storage.files import open_folder

SUFFIX: Final = ".json"
"""Of requests, replies and dead letters."""
_COARSEST_STAMP_SECONDS: Final = 3.0
"""Some file systems keep time stamps to a second or two: a change within that may not show."""


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
        """Return whether what was listed is still all there is."""
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


@dataclass(slots=True)
class Listing:
    """What a folder with many names has, read bit by bit and given out in order.

    Args:
        entries: what was not read yet; None: all was.
        runs: what was read, each run in order; moved into `names` in the end.
        names: all in order, less what was queued.
        left: how many of them there are.
    """

    entries: Iterator[str] | None
    runs: list[list[str]]
    left: int
    names: Iterator[str] = field(default_factory=lambda: iter(()))


def names_of(folder: str) -> Iterator[str]:
    """Open a folder that is not a link and return its names, read as they are asked for. Raises OSError, then, too."""
    fd = open_folder(folder)
    try:
        entries = os.scandir(fd)  # it has a descriptor of its own
    finally:
        os.close(fd)
    return _drain(entries)


def requests_of(names: Iterable[str]) -> list[str]:
    """Return the names that may be requests, in order."""
    return sorted(name for name in names if name.endswith(SUFFIX) and name[0] != ".")


def _stamp_of(status: os.stat_result) -> tuple[int, int, int]:
    return (status.st_ino, status.st_mtime_ns, status.st_ctime_ns)


def _drain(entries: AbstractContextManager[Iterator[os.DirEntry[str]]]) -> Iterator[str]:
    with entries as found:
        for entry in found:
            yield entry.name
