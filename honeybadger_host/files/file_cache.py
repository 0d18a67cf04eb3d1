"""Did a file change since it was read, and is it too young to be trusted: for all who keep what they read."""

from __future__ import annotations

import os
from typing import Final

from honeybadger_host.files.safe_files import Signature

NEVER_SEEN: Final = Signature(-1, -1, -1, -1)  # the signature of no file, so that the file is read again
# Kernels stamp files with a clock of 4-10 ms: two saves within one tick may look the same.
_GRAIN_NS: Final = 20_000_000
# Some file systems keep the time stamps of folders to a second or two: a change within that may not show.
_COARSEST_STAMP_SECONDS: Final = 3.0


def signature_of(path: str | os.PathLike[str]) -> Signature | None:
    """Return a file's signature, None when it cannot be looked at."""
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


def trusted(signature: Signature | None, now_ns: int) -> Signature | None:
    """Return a signature that any later save would change, else one that never matches."""
    return NEVER_SEEN if is_young(signature, now_ns) else signature


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
