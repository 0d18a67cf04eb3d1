"""The file of a backup: a gzipped tar that ends with a manifest. Restoring a home from it.

Every byte is checked before a home is changed: the archive is unpacked into a folder there, then renamed into place.
"""

import contextlib
import gzip
import os
import shutil
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

from pydantic import BaseModel, Field, ValidationError

from honeybadger_host.errors import Damaged, HomeError, HostError, NotFound, WorldFailed
from honeybadger_host.files.home import JOURNAL_FILE, LOCK_FILE, STATUS_FILE, holder_bytes
from honeybadger_host.files.safe_files import (
    FILE_MODE,
    make_folders,
    open_new,
    printable,
    replace,
    sync_all,
    sync_folder,
)
from honeybadger_host.journal.opening import read_position

FORMAT = 1
MAX_RATIO = 250  # of unpacked to packed bytes, in an archive that nobody vouches for
MANIFEST = "manifest.json"
# Honeybadger's own parts of a home folder, in the order of copying. Other files of a project are not packed.
PARTS = ("data", "groups", "AGENT.md", "config")
# Not packed: the next start rebuilds these. The journal is packed separately.
NOT_COPIED = {
    LOCK_FILE,
    STATUS_FILE,
    *(f"data/{name}.db{end}" for name in ("journal", "index", "recalled") for end in ("", "-wal", "-shm", "-journal")),
}


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


class Place(BaseModel):
    """The owner and the mode of the home folder. The owner is the user that the host ran as."""

    mode: int = Field(ge=0, le=0o777)
    uid: int = Field(ge=0)
    gid: int = Field(ge=0)


class Manifest(BaseModel):
    """The manifest: the last member of an archive.

    Args:
        version: version of the host that made it.
        made_at: UTC, RFC 3339.
    """

    format: int
    version: str
    made_at: str
    home: Place


def open_backup(archive: Path, to: Path) -> tuple[Manifest, list[tarfile.TarInfo]]:
    """Unpack a backup into an empty folder; return its manifest and the other members. Raises HostError, OSError."""
    try:
        unpacked = unpack(archive, to, _is_of_home)
        manifest = Manifest.model_validate_json((to / MANIFEST).read_bytes())
        (to / MANIFEST).unlink()
    except FileNotFoundError:
        raise Damaged(f"it has no {MANIFEST}") from None
    except ValidationError:
        raise Damaged(f"its {MANIFEST} cannot be read, or is of a later version") from None
    if manifest.format != FORMAT:
        raise HostError(
            f"{archive} has format {manifest.format}, this version reads {FORMAT}: use version {manifest.version}"
        )
    return manifest, [member for member in unpacked if member.name != MANIFEST]


def unpack(
    archive: Path, to: Path, is_known: Callable[[str], bool], max_bytes: int = sys.maxsize
) -> list[tarfile.TarInfo]:
    """Unpack a gzipped tar into an empty folder, with this user's own files and folders only; return its members.

    Args:
        is_known: whether the archive may have a member of this name.
        max_bytes: that it may unpack to.
    Raises Damaged; HostError if it unpacks to more; OSError.
    """
    unpacked: list[tarfile.TarInfo] = []
    try:
        with _Unzipped(archive, max_bytes) as unzipped:
            with tarfile.open(fileobj=unzipped, mode="r|") as tar:
                for member in tar:
                    name = printable(member.name)
                    if member.type not in (tarfile.REGTYPE, tarfile.DIRTYPE):
                        raise Damaged(f"{name} is neither a file nor a folder")
                    if not is_known(member.name):
                        raise Damaged(f"{name} is not a name of it")
                    _write(tar.extractfile(member), to / member.name)
                    unpacked.append(member)
            while unzipped.read(1 << 20):
                pass  # gzip checks its checksum at the end
    except (FileExistsError, NotADirectoryError):
        raise Damaged(f"{name} is in it twice, or is a file and a folder") from None
    except (gzip.BadGzipFile, tarfile.TarError, EOFError, zlib.error) as error:
        raise Damaged(error) from None
    return unpacked


def _write(content: IO[bytes] | None, target: Path) -> None:
    """Make a folder, or a file with its content."""
    make_folders(target if content is None else target.parent)
    if content is not None:
        with open(open_new(target), "wb") as out:
            shutil.copyfileobj(content, out)


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


def _is_of_home(name: str) -> bool:
    """Return whether a backup may have a member of this name: one of a home, that leads nowhere else."""
    parts = name.split("/")
    is_inside = parts[0] in PARTS and not any(part in ("", ".", "..") or "\0" in part for part in parts)
    return name == MANIFEST or (is_inside and (name not in NOT_COPIED or name == JOURNAL_FILE))


def restore(archive: Path, home: Path) -> tuple[Manifest, int]:
    """Make a home from a backup after checking every byte of it; return the manifest and the number of its files.

    The journal keeps its identity.

    Args:
        home: made if missing; must not have parts of a home.
    Raises:
        NotFound: there is no such archive.
        HomeError: the home has files; nothing was changed.
        HostError: the archive is damaged or is not a backup, or the disk is full; nothing was changed.
    """
    if not archive.exists():
        raise NotFound(f"there is no {archive}")
    taken = [part for part in PARTS if os.path.lexists(home / part)]
    if taken:
        raise HomeError(f"{home} has {', '.join(taken)}: restore into another home, or move that away first")
    is_new = not home.exists()
    try:
        make_folders(home)
        with tempfile.TemporaryDirectory(prefix=".restore-", dir=home, ignore_cleanup_errors=True) as scratch:
            staging = Path(scratch)
            manifest, members = open_backup(archive, staging)
            if is_new:
                _give(home, manifest.home.uid, manifest.home.gid, manifest.home.mode)
            _finish(manifest, members, staging, home.stat())
            for part in os.listdir(staging):
                os.rename(staging / part, home / part)
        sync_folder(home)
    except OSError as error:
        raise HostError(
            f"cannot restore to {home}: {error.filename or 'writing'}: {error.strerror}; nothing was changed"
        ) from None
    finally:
        if is_new:
            with contextlib.suppress(OSError):  # it has files, as it should
                os.rmdir(home)
    return manifest, sum(member.isreg() for member in members)


def _finish(manifest: Manifest, members: Sequence[tarfile.TarInfo], staging: Path, home: os.stat_result) -> None:
    """Give unpacked files their owners, modes and times, and make them durable. Raises OSError.

    Files of the former host's user get the owner of the home.
    """
    if (staging / JOURNAL_FILE).exists():
        replace(staging / LOCK_FILE, holder_bytes(read_position(staging / JOURNAL_FILE).identity))
        _give(staging / LOCK_FILE, home.st_uid, home.st_gid, FILE_MODE)
    for member in reversed(members):  # what is in a folder comes before it
        path = staging / member.name
        if member.uid == manifest.home.uid:
            _give(path, home.st_uid, home.st_gid, member.mode)
        else:
            _give(path, member.uid, member.gid, member.mode)
        os.utime(path, (member.mtime, member.mtime))
    sync_all((staging / member.name for member in members), staging)


def _give(path: Path, uid: int, gid: int, mode: int) -> None:
    """Set the owner, which only root can, and the mode. Raises OSError."""
    if os.geteuid() == 0:
        os.chown(path, uid, gid)
    path.chmod(mode & 0o777)
