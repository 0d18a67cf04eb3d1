"""How much room the dead letters take, and which give way when it is too much.

A letter is kept until an operator drops it. But an agent that sends garbage day and night must not fill the disk, nor
push out what others left: the oldest letters of the sender that has most make room.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import Final, NamedTuple

import structlog

log = structlog.get_logger()

_BLOCK: Final = 4096
"""What a small file takes of most file systems, whatever its size."""
_KEPT: Final = 0.9
"""How full it is after room was made: so that it is not made for every letter."""
_REASON: Final = ".reason.json"


class _Letter(NamedTuple):
    changed_ns: int
    stem: str
    bytes: int


class DeadRoom:
    """The room of all dead letters. Any thread.

    Args:
        dead: the folder `data/dead`.
        max_bytes: on disk, counted in blocks of 4 KiB.
    """

    def __init__(self, dead: Path, max_bytes: int) -> None:
        self._dead = dead
        self._max_bytes = max_bytes
        self._taken: dict[Path, int] | None = None
        """A sender's folder -> bytes; None: nobody has looked yet."""
        self._lock = threading.Lock()

    def take(self, folder: Path, *sizes: int) -> None:
        """Note files that were just written in a sender's folder, and make room when there are too many."""
        with self._lock:
            if self._taken is None:
                self._taken = self._measure()
            else:
                self._taken[folder] = self._taken.get(folder, 0) + sum(map(_on_disk, sizes))
            if sum(self._taken.values()) <= self._max_bytes:
                return
            self._taken = self._measure()  # an operator may have dropped some
            if sum(self._taken.values()) > self._max_bytes:
                self._make_room(self._taken)

    def _measure(self) -> dict[Path, int]:
        return {folder: sum(letter.bytes for letter in _letters_in(folder)) for folder in self._dead.glob("*/*")}

    def _make_room(self, taken: dict[Path, int]) -> None:
        over = sum(taken.values()) - int(self._max_bytes * _KEPT)
        while over > 0 and taken:
            largest, *others = sorted(taken, key=taken.__getitem__, reverse=True)
            most = min(over, taken[largest] - (taken[others[0]] if others else 0) + self._max_bytes // 100)
            freed, letters = _remove_oldest(largest, most)
            if not letters:
                return  # not ours to remove
            taken[largest] -= freed
            over -= freed
            log.warning(
                "dead.dropped",
                group=largest.parent.name,
                sender=largest.name,
                letters=letters,
                bytes=freed,
                now_what="see what this sender sends; ipc.dead_max_bytes is the limit",
            )


def _letters_in(folder: Path) -> list[_Letter]:
    """Return the letters of a sender, oldest first."""
    found: dict[str, _Letter] = {}
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                stem = entry.name.removesuffix(_REASON).removesuffix(".json")
                before = found.get(stem, _Letter(status.st_mtime_ns, stem, 0))
                oldest = min(before.changed_ns, status.st_mtime_ns)
                found[stem] = _Letter(oldest, stem, before.bytes + _on_disk(status.st_size))
    return sorted(found.values())


def _remove_oldest(folder: Path, most: int) -> tuple[int, int]:
    """Remove letters until `most` bytes are free; return how many bytes and letters went."""
    freed = count = 0
    for letter in _letters_in(folder):
        if freed >= most:
            break
        try:
            (folder / f"{letter.stem}.json").unlink(missing_ok=True)
            (folder / f"{letter.stem}{_REASON}").unlink(missing_ok=True)
        except OSError:
            continue
        freed += letter.bytes
        count += 1
    return freed, count


def _on_disk(size: int) -> int:
    return -(-max(size, 1) // _BLOCK) * _BLOCK
