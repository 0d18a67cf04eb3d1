"""Written files that are not durable yet, and folders with a new name in them."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from honeybadger_host.errors import StorageFailed, WorldFailed

_NOT_OURS = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EMLINK, errno.ENXIO)


class Unsynced:
    """Paths to fsync; each stays until `sync` takes it.

    Args:
        home: all are below it.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._paths: set[Path] = set()

    @property
    def paths(self) -> list[Path]:
        return list(self._paths)

    def add(self, path: Path) -> None:
        self._paths.add(path)

    def add_folders(self, path: Path) -> None:
        """Remember all folders that a file is in."""
        self._paths.update(folder for folder in path.parents if self._home in folder.parents)

    def sync(self, paths: Sequence[Path]) -> None:
        """Make files and folders durable. Any thread.

        Raises:
            StorageFailed: the disk lost something it had taken.
            WorldFailed: one could not be opened (too many open files); the same call may succeed later.
        """
        for path in paths:
            self._paths.discard(path)  # before the fsync, which does not cover later writes
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
            except OSError as error:
                if error.errno in _NOT_OURS:
                    continue  # replaced or removed by a person meanwhile: theirs to keep
                self._paths.add(path)
                raise WorldFailed(f"cannot open {path} to make it durable: {error.strerror}") from error
            try:
                os.fsync(fd)
            except OSError as error:
                raise StorageFailed(
                    f"fsync of {path} failed: {error.strerror}; stopping, a restart recovers"
                ) from error
            finally:
                os.close(fd)
