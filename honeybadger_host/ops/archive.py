"""The file of a backup: a gzipped tar that ends with a manifest. Restoring a home from it.

Every byte is checked before a home is changed: the archive is unpacked next to it and renamed into place.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import shutil
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import IO, Final

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from honeybadger_host.errors import HomeError, HostError, NotFound, WorldFailed
from honeybadger_host.files.home import JOURNAL_FILE, LOCK_FILE, STATUS_FILE, HomeLock, holder_bytes
from honeybadger_host.files.safe_files import closing_fd, open_new, printable, replace, sync_folder

FORMAT: Final = 1
MAX_DEPTH: Final = 64  # folders within each other
_MAX_RATIO: Final = 250  # of unpacked to packed bytes; see `most_unpacked`
_ALWAYS_ALLOWED_BYTES: Final = 64 << 20
MANIFEST: Final = "manifest.json"
# Honeybadger's own parts of a home folder, in the order of copying. Other files of a project are not packed.
PARTS: Final = ("data", "groups", "AGENT.md", "config")
# Not packed: the next start rebuilds these. The journal is packed separately.
NOT_COPIED: Final = {
    LOCK_FILE,
    STATUS_FILE,
    *(f"data/{name}.db{end}" for name in ("journal", "index", "recalled") for end in ("", "-wal", "-shm", "-journal")),
}
# Errors that reading a damaged archive raises.
BROKEN: Final = (gzip.BadGzipFile, tarfile.TarError, EOFError, zlib.error)


class ArchiveDamaged(HostError):
    """An archive was changed since it was made, or is not a backup."""

    def __init__(self, archive: Path, what: str) -> None:
        super().__init__(f"{archive} is damaged, or is not a backup ({what}); nothing was changed")


@contextlib.contextmanager
def appearing(target: Path, what: str) -> Iterator[Path]:
    """Yield a temporary path at which to make a file or a folder; it is renamed to `target` at the end.

    Args:
        what: its name in error messages.
    Raises HostError if it cannot be made; then nothing is left.
    """
    if os.path.lexists(target):
        raise HostError(f"{target} exists and is not replaced: choose another name, or remove it")
    if not target.parent.is_dir():
        raise HostError(f"{target.parent} is not a folder: make it first")
    try:
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as scratch:
            made = Path(scratch) / "made"
            yield made
            os.rename(made, target)
        sync_folder(target.parent)
    except (OSError, WorldFailed) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise HostError(f"cannot write {target}: {why}; there is no {what}") from None


@contextlib.contextmanager
def packing(archive: Path) -> Iterator[tarfile.TarFile]:
    """Yield a gzipped tar to fill; it is durable at the end. The same members give the same bytes. Raises OSError."""
    with open(open_new(archive), "wb") as file:
        with (
            gzip.GzipFile("", "wb", 4, file, mtime=0) as zipped,
            tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar,
        ):
            yield tar
        file.flush()
        os.fsync(file.fileno())


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Place(_Model):
    """A file or folder of a home, with its owner and mode.

    Args:
        name: relative to the home folder; "." is the home folder itself.
    """

    name: str
    mode: int = Field(ge=0, le=0o777)
    uid: int = Field(ge=0)
    gid: int = Field(ge=0)


class StoredFile(Place):
    size: int = Field(ge=0)
    sha256: str
    mtime_ns: int


class StoredJournal(_Model):
    """The identity of a journal, and its last change."""

    identity: str
    seq: int


class Manifest(_Model):
    """The manifest: the last member of an archive.

    Args:
        version: version of the host that made it.
        made_at: UTC, RFC 3339.
        home: its owner is the user that the host ran as.
        journal: None if the home had none yet.
        folders: parents first.
    """

    format: int
    version: str
    made_at: str
    home: Place
    journal: StoredJournal | None
    folders: tuple[Place, ...]
    files: tuple[StoredFile, ...]


def unpack(archive: Path, to: Path) -> Manifest:
    """Unpack an archive into an empty folder; return its manifest after comparing every byte with it.

    Raises HostError, OSError.
    """
    seen: dict[str, tuple[int, str] | None] = {}
    data = b""
    try:
        for name, content in members(archive):
            if name in seen or MANIFEST in seen:
                raise ArchiveDamaged(archive, f"{printable(name)} is in it twice, or comes after the end")
            if name == MANIFEST and content is not None:
                data, seen[name] = content.read(), None
                continue
            if not _is_of_home(name, seen):
                raise ArchiveDamaged(archive, f"{printable(name)} is not a name of a home")
            seen[name] = _unpacked(content, to / name)
    except BROKEN as error:
        raise ArchiveDamaged(archive, str(error)) from None
    if MANIFEST not in seen:
        raise ArchiveDamaged(archive, f"it has no {MANIFEST} at its end")
    try:
        manifest = Manifest.model_validate(orjson.loads(data))
    except (orjson.JSONDecodeError, ValidationError):
        raise ArchiveDamaged(archive, f"its {MANIFEST} cannot be read, or is of a later version") from None
    if manifest.format != FORMAT:
        raise HostError(
            f"{archive} has format {manifest.format}, this version reads {FORMAT}: use version {manifest.version}"
        )
    expected: dict[str, tuple[int, str] | None] = {MANIFEST: None}
    expected |= {folder.name: None for folder in manifest.folders}
    expected |= {file.name: (file.size, file.sha256) for file in manifest.files}
    for name in sorted(expected.keys() | seen.keys()):
        if name not in seen or name not in expected or seen[name] != expected[name]:
            raise ArchiveDamaged(archive, f"{printable(name)} is not what its {MANIFEST} says")
    if manifest.journal is not None and JOURNAL_FILE not in seen:
        raise ArchiveDamaged(archive, f"{JOURNAL_FILE} is missing")
    return manifest


def most_unpacked(packed: int) -> int:
    """Return the number of bytes that an archive of this size, which nobody vouches for, may unpack to."""
    return max(_ALWAYS_ALLOWED_BYTES, packed * _MAX_RATIO)


def members(archive: Path, max_bytes: int = sys.maxsize) -> Iterator[tuple[str, IO[bytes] | None]]:
    """Yield the name and the content of each member; a folder has no content.

    Args:
        max_bytes: that it may unpack to.
    Raises HostError if it unpacks to more. Raises OSError, `BROKEN`.
    """
    with _Unzipped(archive, max_bytes) as unzipped:
        with tarfile.open(fileobj=unzipped, mode="r|") as tar:
            for member in tar:
                if member.type not in (tarfile.REGTYPE, tarfile.DIRTYPE):
                    raise tarfile.TarError(f"{printable(member.name)} is neither a file nor a folder")
                yield member.name, tar.extractfile(member)
        while unzipped.read(1 << 20):
            pass  # gzip checks its checksum at the end


class _Unzipped(gzip.GzipFile):
    """A gzip file of which at most a number of bytes is read."""

    def __init__(self, archive: Path, max_bytes: int) -> None:
        super().__init__(archive)
        self._left = max_bytes

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self._left -= len(data)
        if self._left < 0:
            raise HostError(
                f"{self.name} unpacks to far more than it can hold: nothing was changed. If you trust it, unpack it "
                "yourself and name the folder"
            )
        return data


def _is_of_home(name: str, seen: Mapping[str, object]) -> bool:
    """Return whether a backup may have this name: it is in a folder that came before, and leads nowhere else."""
    parts = name.split("/")
    parent = "/".join(parts[:-1])
    is_inside = parts[0] in PARTS and not any(part in ("", ".", "..") or "\0" in part for part in parts)
    has_parent = not parent or (parent in seen and seen[parent] is None)
    return is_inside and has_parent and (name not in NOT_COPIED or name == JOURNAL_FILE)


def _unpacked(content: IO[bytes] | None, target: Path) -> tuple[int, str] | None:
    """Write a member to `target`; return its size and its digest, None of a folder."""
    if content is None:
        target.mkdir(mode=0o700)
        return None
    with open(open_new(target), "wb") as out:
        return size_and_digest(content, out.write)


def size_and_digest(content: IO[bytes], write: Callable[[bytes], object]) -> tuple[int, str]:
    """Return the size and the SHA-256 of a content, passing its bytes to `write`."""
    digest = hashlib.sha256()
    size = 0
    while data := content.read(1 << 20):
        digest.update(data)
        size += len(data)
        write(data)
    return size, digest.hexdigest()


def restore(archive: Path, home: Path, *, now: datetime, is_forced: bool = False) -> tuple[Manifest, Path | None]:
    """Make a home from a backup after checking every byte of it. The journal keeps its identity.

    Args:
        home: made if missing; must not have files of a home.
        is_forced: move existing files into a folder next to them.
    Returns:
        The manifest, and the folder that the home's earlier files were moved to; None: there were none.
    Raises:
        NotFound: there is no such archive.
        HomeError: the home has files; nothing was changed.
        HomeLocked: the home is served; nothing was changed.
        HostError: the archive is damaged or is not a backup, or the disk is full; nothing was changed.
    """
    if not archive.exists():
        raise NotFound(f"there is no {archive}")
    taken = [part for part in PARTS if _holds_files(home / part)]
    if taken and not is_forced:
        raise HomeError(
            f"{home} has {', '.join(taken)}: restore into another home, or say --force to have that moved aside"
        )
    aside = home / f"before-restore-{now:%Y%m%dT%H%M%SZ}"
    with contextlib.ExitStack() as stack:
        try:
            is_new = not home.exists()
            if is_new:
                home.mkdir(parents=True)
                stack.callback(_remove_if_empty, home)
            if taken and (home / "data").is_dir():
                stack.callback(HomeLock(home).release)
            staging = home / f".restore-{os.getpid()}"
            staging.mkdir(mode=0o700)
            stack.callback(shutil.rmtree, staging, ignore_errors=True)
            manifest = unpack(archive, staging)
            if is_new:
                _give(home, manifest.home)
            _finish(manifest, staging, home.stat())
            _exchange(home, staging, aside)
            sync_folder(home)
        except OSError as error:
            raise HostError(
                f"cannot restore to {home}: {error.filename or 'writing'}: {error.strerror}; nothing was changed"
            ) from None
    if taken:
        return manifest, aside
    shutil.rmtree(aside)  # it has empty folders at most
    return manifest, None


def _finish(manifest: Manifest, staging: Path, home: os.stat_result) -> None:
    """Give unpacked files their owners, modes and times, and make them durable. Raises OSError.

    Files of the former host's user get the owner of the home.
    """
    if manifest.journal is not None:
        replace(staging / LOCK_FILE, holder_bytes(manifest.journal.identity))
        _give(staging / LOCK_FILE, Place(name=LOCK_FILE, mode=0o600, uid=home.st_uid, gid=home.st_gid))
    for place in (*manifest.files, *reversed(manifest.folders)):
        path = staging / place.name
        is_host = place.uid == manifest.home.uid
        _give(path, place.model_copy(update={"uid": home.st_uid, "gid": home.st_gid}) if is_host else place)
        if isinstance(place, StoredFile):
            os.utime(path, ns=(place.mtime_ns, place.mtime_ns))
        with closing_fd(os.open(path, os.O_RDONLY | os.O_CLOEXEC)) as fd:
            os.fsync(fd)


def _give(path: Path, place: Place) -> None:
    """Set the owner, which only root can, and the mode. Raises OSError."""
    if os.geteuid() == 0:
        os.chown(path, place.uid, place.gid)
    path.chmod(place.mode)


def _exchange(home: Path, staging: Path, aside: Path) -> None:
    """Move the old parts aside and the new ones into their place; an error undoes all moves. Raises OSError."""
    with contextlib.ExitStack() as undo:

        def move(source: Path, target: Path) -> None:
            os.rename(source, target)
            undo.callback(os.rename, target, source)

        aside.mkdir(mode=0o700)
        undo.callback(aside.rmdir)
        for part in PARTS:
            if os.path.lexists(home / part):
                move(home / part, aside / part)
        for part in PARTS:
            if (staging / part).exists():
                move(staging / part, home / part)
        undo.pop_all()


def _holds_files(path: Path) -> bool:
    """Return whether a path is or has anything other than empty folders."""
    if not path.is_dir() or path.is_symlink():
        return os.path.lexists(path)
    return any(not found.is_dir() or found.is_symlink() for found in path.rglob("*"))


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        os.rmdir(folder)
