"""The host's own errors; the errors in replies are `wire.Refusal`.

HostError                exit 1
├── SettingsError        exit 3   a setting is unknown or wrong
├── HomeError            exit 4   the home folder is missing or cannot be used
├── HomeLocked           exit 5   another host serves this home
├── JournalError         exit 6   the journal is damaged, missing or of another version
├── NotRunning           exit 7   no host serves this home
├── StorageFailed        exit 8   a disk error that may clear without help; nothing more may be acknowledged
├── NotFound             exit 9   the thing that a command names does not exist
├── Damaged              exit 1   a backup or an export is not as it was made
└── WorldFailed          (never ends the process) disk full, folder in the way: nothing was changed
FileProblem              a group file that exists and cannot be served

Exit 0 is success, 2 wrong usage of the command line; 130 an interrupted command.
"""

import errno
from typing import ClassVar

_MAY_CLEAR = frozenset(
    {
        *(errno.EROFS, errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.ESTALE),  # of the disk
        *(errno.EMFILE, errno.ENFILE, errno.ENOMEM),  # of the machine
    }
)
# SQLite's codes for such faults: NOMEM, READONLY, IOERR, FULL, CANTOPEN.
_SQLITE_MAY_CLEAR = frozenset({7, 8, 10, 13, 14})


class HostError(Exception):
    """Base of the errors that the host raises on purpose. Its text says what is wrong, where, and what to do."""

    exit_code: ClassVar[int] = 1


class SettingsError(HostError):
    exit_code = 3


class HomeError(HostError):
    exit_code = 4


class HomeLocked(HostError):
    exit_code = 5


class JournalError(HostError):
    exit_code = 6


class NotRunning(HostError):
    exit_code = 7


class StorageFailed(HostError):
    exit_code = 8


class NotFound(HostError):
    exit_code = 9


class Damaged(HostError):
    """A backup or an export was changed since it was made, or is neither."""

    def __init__(self, what: object) -> None:
        super().__init__(f"the backup or export is damaged, or is neither ({what}); nothing was changed")


class WorldFailed(HostError):
    """Disk, memory or network failed before anything was changed; a later attempt may succeed."""


def may_clear(error: BaseException | None) -> bool:
    """Return whether an error or its cause is a fault of the disk or the machine that may pass."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _MAY_CLEAR:
            return True
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _SQLITE_MAY_CLEAR:
            return True
        error = error.__cause__ or error.__context__
    return False


class FileProblem(HostError):
    """A file that people write cannot be served; other files are not affected."""

    def __init__(self, file: str, message: str) -> None:
        super().__init__(f"{file} {message}")
        self.file = file
        self.message = message
