"""Did a file change since it was read, and is it too young to be trusted: for all who keep what they read."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from honeybadger_host.files.safe_files import Changing, Signature

NEVER_SEEN = Signature(-1, -1, -1, -1)  # the signature of no file, so that the file is read again
_GRAIN_NS = 20_000_000  # two saves within a tick of the kernel's clock, 4-10 ms, may look the same
MAX_KEPT_BYTES = 32 << 20  # of files whose values are kept in memory
MAX_ATTEMPTS = 5  # reads of a file that is being written
Value = TypeVar("Value")


def signature_of(path: str | os.PathLike[str]) -> Signature | None:
    """Return a file's signature, or None if it cannot be looked at."""
    try:
        return Signature.of(os.stat(path, follow_symlinks=False))
    except OSError:
        return None


def is_young(signature: Signature | None, now_ns: int) -> bool:
    """Return whether a file with this signature may be saved again without a sign of it.

    Args:
        now_ns: the wall clock, from before the signature was taken.
    """
    # both times: a program may set the first one back after it wrote
    return signature is not None and now_ns - max(signature.mtime_ns, signature.ctime_ns) < _GRAIN_NS


class KeptFiles:
    """Values that stores made of files, kept while the files are as they were. Any thread.

    Every read compares the file's signature, so nothing is ever stale; `drop` only says it early.

    Args:
        max_bytes: the values that were made first go first; a value counts as its file.
        wall_ns: nanoseconds since the epoch, the clock of the file system.

    Attributes:
        size: bytes of the files whose values are kept.
    """

    def __init__(self, home: Path, max_bytes: int = MAX_KEPT_BYTES, wall_ns: Callable[[], int] = time.time_ns) -> None:
        self.home = home
        self._max_bytes = max_bytes
        self._wall_ns = wall_ns
        self._lock = threading.Lock()
        self._values: dict[str, tuple[Signature | None, Any]] = {}
        # File -> the newest read of it that is under way and was not overtaken by `drop`.
        self._reads: dict[str, object] = {}
        self.size = 0

    def value(self, file: str, make: Callable[[Value | None], Value]) -> Value:
        """Return the result of `make` for a file, called again only after it changed. Raises Changing, and as `make`.

        Args:
            file: below the home folder, or a whole path.
            make: reads the file; it gets the value of an earlier read, or None.
        """
        path = os.path.join(self.home, file)
        for _ in range(MAX_ATTEMPTS):
            seen_ns = self._wall_ns()
            signature = signature_of(path)
            held = self._values.get(file)
            if held is not None and held[0] == signature:
                value: Value = held[1]
                return value
            this_read = self._reads[file] = object()
            try:
                value = make(None if held is None else held[1])
            except Changing:
                continue
            if is_young(signature, seen_ns):
                self._reads.pop(file, None)
            else:
                self._keep(file, this_read, signature, value)
            return value
        raise Changing

    def drop(self, file: str) -> None:
        """Read a file again next time, and do not keep what a read that is under way now will find."""
        with self._lock:
            self._reads.pop(file, None)
            signature, value = self._values.get(file, (None, None))
            if signature is not None:
                self._values[file] = signature._replace(inode=NEVER_SEEN.inode), value
            else:
                self._remove(file)

    def _keep(self, file: str, this_read: object, signature: Signature | None, value: object) -> None:
        with self._lock:
            if self._reads.get(file) is not this_read:
                return
            del self._reads[file]
            self._remove(file)
            self._values[file] = signature, value
            self.size += self._weight(signature)
            while self.size > self._max_bytes and len(self._values) > 1:
                self._remove(next(iter(self._values)))

    def _remove(self, file: str) -> None:
        held = self._values.pop(file, None)
        if held is not None:
            self.size -= self._weight(held[0])

    def _weight(self, signature: Signature | None) -> int:
        return min(0 if signature is None else signature.size, self._max_bytes // 2) + 500  # the value itself
