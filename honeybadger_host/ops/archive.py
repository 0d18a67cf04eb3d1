"""The file of a backup: a gzipped tar that ends with a manifest. Every byte is checked before it is used."""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from honeybadger_host.errors import HostError, NotFound, WorldFailed
from honeybadger_host.files.home import JOURNAL_FILE, LOCK_FILE, STATUS_FILE
from honeybadger_host.files.safe_files import open_new, sync_folder

FORMAT: Final = 1
MAX_DEPTH: Final = 64  # folders within each other
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


@contextmanager
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


@contextmanager
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


def read_archive(archive: Path) -> Manifest:
    """Return the manifest of an archive after comparing every byte with it. Raises NotFound, HostError."""
    seen: dict[str, tuple[int, str] | None] = {}
    data = b""
    try:
        for name, content in members(archive):
            if name in seen or MANIFEST in seen:
                raise ArchiveDamaged(archive, f"{shown(name)} is in it twice, or comes after the end")
            if name == MANIFEST:
                data = b"" if content is None else content.read()
                seen[name] = None
            else:
                seen[name] = None if content is None else size_and_digest(content)
    except FileNotFoundError:
        raise NotFound(f"there is no {archive}") from None
    except BROKEN as error:
        raise ArchiveDamaged(archive, str(error)) from None
    except OSError as error:
        raise HostError(f"cannot read {archive}: {error.strerror}") from None
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
    _check_names(archive, manifest)
    expected: dict[str, tuple[int, str] | None] = {MANIFEST: None}
    expected |= {folder.name: None for folder in manifest.folders}
    expected |= {file.name: (file.size, file.sha256) for file in manifest.files}
    for name in sorted(expected.keys() | seen.keys()):
        if name not in seen or name not in expected or seen[name] != expected[name]:
            raise ArchiveDamaged(archive, f"{shown(name)} is not what its {MANIFEST} says")
    if manifest.journal is not None and JOURNAL_FILE not in seen:
        raise ArchiveDamaged(archive, f"{JOURNAL_FILE} is missing")
    return manifest


def members(archive: Path) -> Iterator[tuple[str, IO[bytes] | None]]:
    """Yield the name and the content of each member; a folder has no content. Raises HostError, OSError, `BROKEN`."""
    with gzip.open(archive) as unzipped:
        with tarfile.open(fileobj=unzipped, mode="r|") as tar:
            for member in tar:
                if member.type not in (tarfile.REGTYPE, tarfile.DIRTYPE):
                    raise ArchiveDamaged(archive, f"{shown(member.name)} is neither a file nor a folder")
                yield member.name, tar.extractfile(member)
        while unzipped.read(1 << 20):
            pass  # gzip checks its checksum at the end


def _check_names(archive: Path, manifest: Manifest) -> None:
    """Raise ArchiveDamaged for a name that leads out of a home, or that no backup has."""
    folders = {"."}
    for place in (*manifest.folders, *manifest.files):
        parts = place.name.split("/")
        parent = "/".join(parts[:-1]) or "."
        is_inside = parts[0] in PARTS and not any(part in ("", ".", "..") or "\0" in part for part in parts)
        if not is_inside or parent not in folders or (place.name in NOT_COPIED and place.name != JOURNAL_FILE):
            raise ArchiveDamaged(archive, f"{shown(place.name)} is not a name of a home")
        if not isinstance(place, StoredFile):
            folders.add(place.name)


def size_and_digest(content: IO[bytes], write: Callable[[bytes], object] = lambda data: None) -> tuple[int, str]:
    """Return the size and the SHA-256 of a content, passing its bytes to `write`."""
    digest = hashlib.sha256()
    size = 0
    while data := content.read(1 << 20):
        digest.update(data)
        size += len(data)
        write(data)
    return size, digest.hexdigest()


def shown(name: str) -> str:
    """Return a file name that is safe to print on a terminal."""
    return ascii(name)[1:-1]
