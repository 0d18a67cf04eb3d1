"""An answer while it is being written: `replies/<id>.stream`, read as it grows.

The stream is only for watching: the reply has everything. So torn or unknown lines are left out.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from honeybadger_agent.wire import StreamLine

_READ_BYTES: Final = 1 << 16  # read at once


class StreamTail:
    """Follows the stream of one turn across restarts of the host; each restart makes a new file.

    The file stays open, so that the next file cannot get its inode.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None
        self._begun = b""
        """The beginning of a line that is not complete yet."""

    def read(self) -> list[StreamLine]:
        """Return the lines since the last read, oldest first; none while there is no stream."""
        lines = self._drain()
        if self._is_another():
            self.close()
            self._fd = open_regular(self._path)
            self._begun = b""
            lines += self._drain()
        return lines

    def close(self) -> None:
        """Close the file. May be called again."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _drain(self) -> list[StreamLine]:
        lines: list[StreamLine] = []
        if self._fd is not None:
            with contextlib.suppress(OSError):
                while data := os.read(self._fd, _READ_BYTES):
                    *whole, self._begun = (self._begun + data).split(b"\n")
                    lines += [parsed for line in whole if (parsed := _parsed(line)) is not None]
        return lines

    def _is_another(self) -> bool:
        """Return whether the name belongs to another file than the open one."""
        try:
            now = os.stat(self._path, follow_symlinks=False)
        except OSError:
            return False  # gone: the reply is written, or the host begins again
        if self._fd is None:
            return True
        held = os.fstat(self._fd)
        return (now.st_dev, now.st_ino) != (held.st_dev, held.st_ino)


def open_regular(path: Path) -> int | None:
    """Return a descriptor of a regular file, None for anything else: a FIFO would block its reader."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def _parsed(line: bytes) -> StreamLine | None:
    """Return the line, or None if it is torn, or of a kind that this version does not know."""
    try:
        return StreamLine.model_validate_json(line)
    except ValidationError:
        return None
