"""Files, safely: read what others put there, append, replace, lock.

Nothing here follows a link in the last component of a path, blocks on a FIFO or opens a device
(docs/decisions/005-opening-files.md).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import signal
import sqlite3
import stat
import time
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from honeybadger_host.errors import JournalError, WorldFailed

MAX_JSON_BYTES = 65_536  # size limit of a JSON file, or part of one, that a person or an agent writes
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC

# The temporary files of `replace`, which only the process that holds the home, or a command, writes.
_TEMPORARY = re.compile(r"\.(?P<name>.+)\.[1-9][0-9]{0,8}\.tmp")
FILE_MODE = 0o600
# Error of `open` -> the kind of thing it says is there.
_NOT_REGULAR: dict[int | None, str] = {
    errno.ELOOP: "a link",
    errno.EMLINK: "a link",
    errno.EISDIR: "a folder",
    errno.ENXIO: "a socket or a device",
}
_KINDS = {"l": "a link", "d": "a folder", "p": "a FIFO", "s": "a socket", "b": "a device", "c": "a device"}


class Signature(NamedTuple):
    """The identity and stamps of a file. Inode numbers are reused at once, so none of these is enough alone."""

    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Signature:
        return cls(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


class NotRegular(OSError):
    """Something that is not a regular file: it was not read. As text it is the kind of thing."""

    def __init__(self, kind: str) -> None:
        super().__init__(errno.EINVAL, kind)

    def __str__(self) -> str:
        return str(self.strerror)


class Changing(Exception):
    """A file was written, linked or unlinked while it was read; its content is void."""


class Incoming(NamedTuple):
    """A regular file as it was at one moment.

    Args:
        data: at most `max_bytes` + 1 bytes; more than `max_bytes` means it is too large. Empty when the file has more
            names than one: it may be somebody else's, and was not read.
        size: as the file system says.
        uid: owner.
        links: names the file has.
        signature: from before it was read.
    """

    data: bytes
    size: int
    uid: int
    links: int
    signature: Signature


def kind_of(mode: int) -> str:
    """Return the ordinary name of this kind of file."""
    return _KINDS.get(stat.filemode(mode)[0], "a regular file")


@contextlib.contextmanager
def closing_fd(fd: int) -> Iterator[int]:
    """Yield an open descriptor, and close it at the end."""
    try:
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def needed(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise WorldFailed instead of an OSError, for a file without which the host cannot go on."""
    try:
        yield
    except NotRegular as error:
        raise WorldFailed(f"{path} is {error} where the host needs a file: put a plain file in its place") from None
    except OSError as error:
        raise WorldFailed(
            f"{path} cannot be opened ({os.strerror(error.errno or 0)}): the host needs a plain file there"
        ) from None


@contextlib.contextmanager
def opened_plain(path: str | os.PathLike[str]) -> Iterator[tuple[int, int] | None]:
    """Yield descriptor and size of a regular file; None if there is none, or something else. Raises OSError."""
    try:
        fd, status = open_plain(path)
    except (FileNotFoundError, NotRegular):
        yield None
        return
    with closing_fd(fd):
        yield fd, status.st_size


def open_plain(
    path: str | os.PathLike[str], *, within: int | None = None, flags: int = _READ
) -> tuple[int, os.stat_result]:
    """Open a regular file, to read unless the flags say otherwise; return its descriptor and its status.

    Args:
        within: descriptor of the folder it is in.
    Raises:
        NotRegular: a link, folder, FIFO, socket or device; the message names the kind.
        OSError: there is none, or the world failed (too many open files, I/O error).
    """
    own = (1.0, 2.0) if within is None else ()  # no sender may delay others this long by a lease on its request
    for seconds in (0.001, 0.01, 0.1, *own, None):
        try:
            fd = os.open(path, flags, FILE_MODE, dir_fd=within)
            break
        except OSError as error:
            if error.errno == errno.EAGAIN and seconds is not None:  # see `alone_with`
                time.sleep(seconds)
                continue
            if error.errno in _NOT_REGULAR:
                raise NotRegular(_NOT_REGULAR[error.errno]) from None
            raise
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        os.close(fd)
        raise NotRegular(kind_of(status.st_mode))
    return fd, status


def read_incoming(folder_fd: int, name: str, max_bytes: int) -> Incoming:
    """Read one file of a folder others write to, once.

    Raises:
        NotRegular: a link, folder, FIFO, socket or device; the message names the kind.
        Changing: look again later.
        FileNotFoundError: it is gone, or its name belongs to another file now.
        OSError: the world failed (too many open files, I/O error).
    """
    fd, status = open_plain(name, within=folder_fd)
    try:
        if status.st_nlink > 1:
            return Incoming(b"", status.st_size, status.st_uid, status.st_nlink, Signature.of(status))
        # one read of what fstat promised; a buffer of the limit's size for every small file costs 15 us
        data = os.read(fd, min(status.st_size, max_bytes) + 1)
        # A link to somebody's file that was taken away behind the open leaves one name as well, and not this one. But a
        # name that stands, and nothing linked, unlinked or written since: then it was the only one all the time. The
        # rename onto itself changes nothing: it waits for an unlink under way, which a look-up does not.
        os.rename(name, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
        named = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
        if (named.st_ino, named.st_dev) != (status.st_ino, status.st_dev):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        if named.st_ctime_ns != status.st_ctime_ns:
            raise Changing
        return Incoming(data, max(status.st_size, len(data)), status.st_uid, status.st_nlink, Signature.of(status))
    finally:
        os.close(fd)


def open_folder(name: str | os.PathLike[str], *, within: int | None = None) -> int:
    """Return a descriptor of a folder that is not a link. Raises OSError."""
    return os.open(name, _FOLDER, dir_fd=within)


def identity_of(path: str | os.PathLike[str]) -> tuple[int, int, int] | None:
    """Return device, inode and kind of what has a name now, following no link, or None if nothing has it.

    The kind, too: a folder made in place of a link gets the link's inode at once.
    """
    try:
        status = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return status.st_dev, status.st_ino, stat.S_IFMT(status.st_mode)


def names_in(folder: str | os.PathLike[str]) -> list[str]:
    """Return the names in a folder, sorted; none if it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def make_file(path: Path) -> None:
    """Make a file (0600) when it is not there. Raises OSError if it is not a plain file, or cannot be made.

    A database only before the first connection: a process that closes the file gives up all its locks on it, and
    without them the next program that opens the database takes its WAL away (SQLite, "How to corrupt", 2.2).
    """
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE))


def open_new(path: str | os.PathLike[str], *, within: int | None = None) -> int:
    """Return a descriptor to write a file that is made by this (0600). Raises FileExistsError, OSError.

    Args:
        within: descriptor of the folder it must be in.
    """
    return os.open(path, _NEW, FILE_MODE, dir_fd=within)


def open_to_append(path: Path) -> int:
    """Return a descriptor to append to a regular file, made (0600) with its folders (0700) when missing.

    Raises WorldFailed if something is in the way; the message says what to do.
    """
    with needed(path):
        try:
            return open_plain(path, flags=_APPEND)[0]
        except FileNotFoundError:
            make_folders(path.parent)
            return open_plain(path, flags=_APPEND)[0]


def is_open_for_writing(path: Path) -> bool:
    """Return whether any descriptor may write to a file: that of a program that saves it in place, or of this process.

    The kernel gives a read lease only while there is none. False where it cannot tell: on other systems, on file
    systems without leases, for files of somebody else.
    """
    try:
        fd = os.open(path, _READ)
    except OSError:
        return False
    with closing_fd(fd):
        return has_writer(fd)


def has_writer(fd: int) -> bool:
    """Return whether any other descriptor may write to a file that is open to read, see `is_open_for_writing`."""
    if not hasattr(fcntl, "F_SETLEASE"):
        return False
    try:
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)  # sent when somebody opens it just now; SIGIO would end us
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    return False


@contextlib.contextmanager
def alone_with(fd: int) -> Iterator[bool]:
    """Let nobody open a file that this process has open, where the kernel can do that: others wait. Yield whether.

    It cannot while another program has the file open, or where there are no leases.
    """
    is_held = False
    with contextlib.suppress(OSError, AttributeError):  # other systems have no leases
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)  # ignored, unlike SIGIO
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        is_held = True
    try:
        yield is_held
    finally:
        if is_held:
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)


def append(fd: int, data: bytes) -> None:
    """Append all of `data` or nothing.

    Raises WorldFailed if the disk took only a part (a full tmpfs reports no error); the part was cut off again.
    """
    before = os.fstat(fd).st_size
    try:
        written = os.write(fd, data)
    except OSError as error:
        raise WorldFailed(f"cannot append: {error.strerror}") from error
    if written == len(data):
        return
    if os.fstat(fd).st_size == before + written:  # else somebody else appended meanwhile: leave theirs alone
        os.ftruncate(fd, before)
    raise WorldFailed(f"the disk took {written} of {len(data)} bytes")


def path_in(home: Path, file: str) -> Path:
    """Return where a file of the home lies that a journal, a snapshot, a backup or an import names.

    Raises JournalError if the name leads out of the home; nothing is read or written there.
    """
    if file.startswith("/") or ".." in file.split("/") or not file:
        raise JournalError(
            f"the journal names a file outside the home, {file[:200]!r}: nothing was written there; no host wrote that "
            "row, so restore a backup, and on several machines look who has the hosts' keys"
        )
    return home / file


def make_folders(path: Path) -> None:
    """Make a folder and its parents with mode 0700, whatever the umask. Raises OSError."""
    if not path.parent.exists():
        make_folders(path.parent)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)


def replace(path: Path, data: bytes, *, mode: int = FILE_MODE, is_durable: bool = True) -> None:
    """Replace a file in one step: a reader sees the old bytes or the new ones. Raises OSError; then nothing changed.

    Args:
        mode: of the new file, whatever the umask.
    """
    temporary = write_beside(path, data, mode=mode, is_durable=is_durable)
    try:
        os.rename(temporary, path)
        if is_durable:
            sync_folder(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def write_beside(path: Path, data: bytes, *, mode: int, is_durable: bool = True) -> Path:
    """Write the replacement of a file to a temporary file; return its name. Raises OSError and leaves none."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with open(fd, "wb") as file:
            os.fchmod(fd, mode)
            file.write(data)
            file.flush()
            if is_durable:
                os.fsync(fd)
    except BaseException as error:
        if isinstance(error, OSError):
            error.filename = str(path)  # a write does not name its file
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    return temporary


def read_all(fd: int, size: int) -> bytes:
    """Return all of an open file, wherever it was read or written last; `size` is what it had. Raises OSError."""
    parts: list[bytes] = []
    at = 0
    while part := os.pread(fd, max(size + 1, 65_536), at):
        parts.append(part)
        at += len(part)
    return b"".join(parts)


def remove_leftovers(folder: Path, names: Collection[str]) -> list[str]:
    """Remove what `replace` of files with these names left when its process was killed; return what went.

    Only what is named just so and is a regular file of ours. For a start: nobody must be replacing any of them.
    """
    removed: list[str] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            left = _TEMPORARY.fullmatch(entry.name)
            if left is None or left["name"] not in names:
                continue
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
                    os.unlink(entry.path)
                    removed.append(entry.name)
    return removed


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable. Raises OSError."""
    with closing_fd(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as fd:
        os.fsync(fd)


def sync_all(files: Iterable[Path], below: Path) -> None:
    """Make files durable, and the folders above them up to `below`, many at once. Raises OSError."""
    paths = {below.resolve()}  # the home itself may be a link
    for file in files:
        paths |= {file, *(folder for folder in file.parents if folder != below and folder.is_relative_to(below))}
    with ThreadPoolExecutor() as pool:
        for _ in pool.map(_sync_one, paths):
            pass


def _sync_one(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError), closing_fd(os.open(path, _READ)) as fd:
        os.fsync(fd)


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Open a database, which a host may have open, to read it."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=5)


def try_lock(path: Path) -> int | None:
    """Return a descriptor that holds an exclusive lock on `path` until it is closed, or None when another has it.

    The kernel drops the lock with the process, however that ends: a lock is never stale.
    On a read-only file system the descriptor is for reading: one can still ask who has the lock. Raises OSError.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def is_locked(path: Path) -> bool:
    """Return whether somebody holds the lock on a file, which is made if it is missing. Raises OSError."""
    fd = try_lock(path)
    if fd is not None:
        os.close(fd)
    return fd is None


def is_utf8(name: str) -> bool:
    """Return whether the bytes of a name are UTF-8: no database, reply or export can hold another."""
    return name == name.encode(errors="ignore").decode()


def printable(name: str) -> str:
    """Return a file name as text that every encoder and every terminal takes."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
