"""Restore a home from a backup: check it, unpack it next to the target, and rename it into place."""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from honeybadger_host.errors import HomeError, HostError
from honeybadger_host.files.home import LOCK_FILE, HomeLock, holder_bytes
from honeybadger_host.files.safe_files import closing_fd, open_folder, open_new, sync_folder
from honeybadger_host.ops.archive import (
    BROKEN,
    MANIFEST,
    PARTS,
    ArchiveDamaged,
    Manifest,
    Place,
    members,
    read_archive,
    size_and_digest,
)


@dataclass(frozen=True, slots=True)
class Restored:
    """The report of a restore.

    Args:
        aside: the folder that the home's earlier files were moved to; None: there were none.
        foreign_uids: owners that only root could have restored.
    """

    manifest: Manifest
    aside: Path | None
    foreign_uids: tuple[int, ...]


def restore(archive: Path, home: Path, *, now: datetime, is_forced: bool = False) -> Restored:
    """Make a home from a backup after checking every byte of it. The journal keeps its identity.

    Args:
        home: made if missing; must not have files of a home.
        is_forced: move existing files into a folder next to them.
    Raises:
        NotFound: there is no such archive.
        HomeError: the home has files; nothing was changed.
        HomeLocked: the home is served; nothing was changed.
        HostError: the archive is damaged or is not a backup, or the disk is full; nothing was changed.
    """
    manifest = read_archive(archive)
    taken = [part for part in PARTS if _holds_files(home / part)]
    if taken and not is_forced:
        raise HomeError(
            f"{home} has {', '.join(taken)}: restore into another home, or say --force to have that moved aside"
        )
    aside = home / f"before-restore-{now:%Y%m%dT%H%M%SZ}" if taken else None
    with contextlib.ExitStack() as stack:
        try:
            if not home.exists():
                _make_home(home, manifest.home)
                stack.callback(_remove_if_empty, home)
            if taken and (home / "data").is_dir():
                stack.callback(HomeLock(home).release)
            staging = home / f".restore-{os.getpid()}"
            staging.mkdir(mode=0o700)
            stack.callback(shutil.rmtree, staging, ignore_errors=True)
            status = home.stat()
            foreign = _unpack(archive, manifest, staging, _Owners(manifest.home.uid, status.st_uid, status.st_gid))
            _exchange(home, staging, aside)
            sync_folder(home)
        except OSError as error:
            raise HostError(
                f"cannot restore to {home}: {error.filename or 'writing'}: {error.strerror}; nothing was changed"
            ) from None
    return Restored(manifest, aside, foreign)


@dataclass(frozen=True, slots=True)
class _Owners:
    """The owners of restored files: files of the former host's user get the user of the host that will serve the home.

    Args:
        then: uid of the host when the backup was made.
        uid, gid: ids of the host that will serve the home.
    """

    then: int
    uid: int
    gid: int

    def give(self, fd: int, place: Place) -> None:
        """Set owner and mode; only root can set the owner. Raises OSError."""
        if os.geteuid() == 0:
            is_host = place.uid == self.then
            os.fchown(fd, self.uid if is_host else place.uid, self.gid if is_host else place.gid)
        os.fchmod(fd, place.mode)


def _make_home(home: Path, place: Place) -> None:
    home.mkdir(parents=True)
    if os.geteuid() == 0:
        os.chown(home, place.uid, place.gid)
    home.chmod(place.mode)


def _unpack(archive: Path, manifest: Manifest, to: Path, owners: _Owners) -> tuple[int, ...]:
    """Write the files of a checked archive durably into an empty folder; return owners that only root could set."""
    for folder in manifest.folders:
        os.mkdir(to / folder.name, 0o700)
    files = {file.name: file for file in manifest.files}
    try:
        for name, content in members(archive):
            if content is None or name == MANIFEST:
                continue
            file = files.pop(name, None)
            if file is None:
                raise ArchiveDamaged(archive, "it changed while it was read")
            with open(open_new(to / name), "wb") as out:
                if size_and_digest(content, out.write) != (file.size, file.sha256):
                    raise ArchiveDamaged(archive, "it changed while it was read")
                out.flush()
                owners.give(out.fileno(), file)
                os.utime(out.fileno(), ns=(file.mtime_ns, file.mtime_ns))
                os.fsync(out.fileno())
    except BROKEN as error:
        raise ArchiveDamaged(archive, str(error)) from None
    if files:
        raise ArchiveDamaged(archive, "it changed while it was read")
    if manifest.journal is not None:
        with open(open_new(to / LOCK_FILE), "wb") as out:
            out.write(holder_bytes(manifest.journal.identity))
            out.flush()
            owners.give(out.fileno(), manifest.home.model_copy(update={"mode": 0o600}))
            os.fsync(out.fileno())
    for folder in reversed(manifest.folders):
        with closing_fd(open_folder(to / folder.name)) as fd:
            owners.give(fd, folder)
            os.fsync(fd)
    if os.geteuid() == 0:
        return ()
    return tuple(sorted({place.uid for place in (*manifest.folders, *manifest.files)} - {owners.then}))


def _exchange(home: Path, staging: Path, aside: Path | None) -> None:
    """Move the old parts aside and the new ones into their place; an error undoes all moves. Raises OSError."""
    with contextlib.ExitStack() as undo:

        def move(source: Path, target: Path) -> None:
            os.rename(source, target)
            undo.callback(os.rename, target, source)

        if aside is not None:
            aside.mkdir(mode=0o700)
            undo.callback(aside.rmdir)
        for part in PARTS:
            if aside is not None and _holds_files(home / part):
                move(home / part, aside / part)
            elif (home / part).is_dir():
                _remove_empty(home / part)
        for part in PARTS:
            if (staging / part).exists():
                move(staging / part, home / part)
        undo.pop_all()


def _holds_files(path: Path) -> bool:
    """Return whether a path is or has anything other than empty folders."""
    if not path.is_dir() or path.is_symlink():
        return os.path.lexists(path)
    return any(
        names or any(os.path.islink(f"{root}/{name}") for name in folders) for root, folders, names in os.walk(path)
    )


def _remove_empty(path: Path) -> None:
    """Remove a folder that has only empty folders."""
    for root, _, _ in os.walk(path, topdown=False):
        _remove_if_empty(Path(root))


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        os.rmdir(folder)
