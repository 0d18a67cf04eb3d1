"""The interface of importers: a function from a file of another program to its records, in order."""

import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import IO, TypeAlias

from honeybadger_agent.wire import Role
from honeybadger_host.errors import HostError, NotFound
from honeybadger_host.files.safe_files import kind_of, open_plain, printable
from honeybadger_host.ops.archive import MAX_RATIO
from honeybadger_host.text.time_stamps import time_in


@dataclass(frozen=True, slots=True)
class SaidTurn:
    """One turn of a conversation. The turns of a conversation follow one another.

    Args:
        session: the name of the conversation, the same in each import.
        place: a key of the turn, unique in its conversation and the same in each import.
        where: file and line, for people.
        at: None: the time of the turn before.
        is_copied: its program copies turns into other conversations; the same place there is the same turn.
    """

    session: str
    place: str
    where: str
    role: Role
    content: str
    at: datetime | None
    sender: str | None = None
    is_copied: bool = False


@dataclass(frozen=True, slots=True)
class Fact:
    """A text that becomes an entry.

    Args:
        place: a key of the fact, unique in its format and the same in each import.
        where: its file.
        category: names separated by slashes; any characters.
    """

    place: str
    where: str
    content: str
    category: str = ""
    title: str | None = None
    aliases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, object] = field(default_factory=dict)
    created: datetime | None = None
    updated: datetime | None = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that could not be read, with its place and the reason."""

    where: str
    why: str


Found: TypeAlias = SaidTurn | Fact | Skipped


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to read.

    Args:
        name: relative to the path that was named, with slashes.
        folder: name of the folder that was named, or of that of the file; empty in an archive.
    """

    name: str
    modified: datetime
    open: Callable[[], IO[bytes]]
    folder: str = ""

    @property
    def stem(self) -> str:
        return PurePosixPath(self.name).stem


# Errors of reading a file. `zipfile` raises EOFError for a member that is cut off, and NotImplementedError for one that
# is packed by a method it does not know.
UNREADABLE = (OSError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error)
# Returns the files to read, ordered by name, the same each time.
Source: TypeAlias = Callable[[], Iterator[SourceFile | Skipped]]
# A file -> its records; none if it is not of the format.
Importer: TypeAlias = Callable[[SourceFile], Iterator[Found]]


def read_all(source: Source, importer: Importer) -> Iterator[Found]:
    """Yield the records of all files, and the files that cannot be read."""
    for file in source():
        if isinstance(file, Skipped):
            yield file
        else:
            yield from importer(file)


@contextmanager
def open_source(path: Path) -> Iterator[Source]:
    """Open a folder, a file or a zip archive to read. Raises NotFound, HostError."""
    if path.is_dir():
        yield lambda: _below(path)
    elif zipfile.is_zipfile(path):
        try:
            with zipfile.ZipFile(path) as archive:
                yield lambda: _members(archive)
        except zipfile.BadZipFile as error:
            raise HostError(f"{path} is damaged ({error}): what was read before that is there") from None
    elif _begins_as_zip(path):
        raise HostError(f"{path} is damaged: the end of the zip archive is missing; fetch or copy it again")
    elif path.exists():
        yield lambda: iter([_plain(path, path.parent)])
    else:
        raise NotFound(f"there is no {path}")


def _begins_as_zip(path: Path) -> bool:
    with suppress(OSError), path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"
    return False


def _below(top: Path) -> Iterator[SourceFile | Skipped]:
    failed: list[OSError] = []
    for root, folders, names in os.walk(top, onerror=failed.append):
        names += [name for name in folders if os.path.islink(f"{root}/{name}")]
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if not name.startswith("."):
                yield _plain(Path(root, name), top)
    for error in failed:
        yield Skipped(printable(os.path.relpath(error.filename, top)), error.strerror or str(error))


def _plain(path: Path, top: Path) -> SourceFile | Skipped:
    name = str(path.relative_to(top)).encode("utf-8", "backslashreplace").decode()
    try:
        status = path.lstat()
    except OSError as error:
        return Skipped(name, error.strerror or str(error))
    if not stat.S_ISREG(status.st_mode):
        return Skipped(name, f"{kind_of(status.st_mode)} is not read")
    return SourceFile(
        name, datetime.fromtimestamp(status.st_mtime, UTC), lambda: open(open_plain(path)[0], "rb"), top.absolute().name
    )


def _members(archive: zipfile.ZipFile) -> Iterator[SourceFile | Skipped]:
    for info in sorted(archive.infolist(), key=lambda info: info.filename):
        parts = info.filename.split("/")
        if info.is_dir() or any(part.startswith(".") and part.strip(".") for part in parts):
            continue
        if ".." in parts or info.filename.startswith("/") or "\\" in info.filename:
            yield Skipped(printable(info.filename), "its name leads elsewhere")
        elif (
            stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG)
            or info.flag_bits & 1
            or info.file_size > MAX_RATIO * info.compress_size
        ):
            yield Skipped(printable(info.filename), "it is a link, encrypted, or unpacks to far more than it can hold")
        else:
            year, month, day, hour, minute, second = info.date_time  # some programs write no date
            modified = datetime(year, max(month, 1), max(day, 1), hour, minute, min(second, 59), tzinfo=UTC)
            yield SourceFile(info.filename, modified, lambda info=info: archive.open(info))  # type: ignore[misc]


def time_of(value: object) -> datetime | None:
    """Return the time in a value: RFC 3339 (UTC if without a zone) or seconds since the epoch; None: it is no time."""
    if isinstance(value, str):
        return time_in(value)
    try:
        return datetime.fromtimestamp(value, UTC) if isinstance(value, int | float) and value else None
    except (ValueError, OverflowError, OSError):
        return None
