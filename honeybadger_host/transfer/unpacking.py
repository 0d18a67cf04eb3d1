"""Unpack archives that nobody vouches for: no links, devices, paths that lead out, or decompression bombs."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path
from typing import IO, Final

from honeybadger_host.errors import HostError
from honeybadger_host.files.safe_files import make_folders, open_new
from honeybadger_host.ops.archive import BROKEN, MAX_DEPTH
from honeybadger_host.transfer.exported import CONTENT, LISTS, MANIFEST
from honeybadger_host.transfer.places import ExportDamaged, is_plain

_MAX_RATIO: Final = 250  # of unpacked to packed bytes
_ALWAYS_ALLOWED_BYTES: Final = 64 << 20


def unpack_export(archive: Path, to: Path) -> None:
    """Unpack an archive that an export made into an empty folder. Raises HostError."""
    try:
        room = _Room(archive)
        with open(archive, "rb") as file, tarfile.open(fileobj=file, mode="r|gz") as tar:
            for member in tar:
                _unpack(tar, member, to, room)
    except FileNotFoundError:
        raise HostError(f"there is no {archive}") from None
    except BROKEN as error:
        raise ExportDamaged(str(error)) from None
    except OSError as error:
        raise HostError(f"cannot unpack {archive}: {error.strerror}; nothing was changed") from None


def _unpack(tar: tarfile.TarFile, member: tarfile.TarInfo, to: Path, room: _Room) -> None:
    shown = ascii(member.name)
    first, *rest = member.name.split("/")
    is_known = (first in (MANIFEST, *LISTS) and not rest) or first == CONTENT
    if not is_known or len(rest) > MAX_DEPTH or not all(map(is_plain, rest)):
        raise ExportDamaged(f"{shown} is not a name of an export")
    room.take(tarfile.BLOCKSIZE)  # its header, so that many empty files are a bomb, too
    target = to / member.name
    if member.isdir():
        make_folders(target)
        return
    if member.type != tarfile.REGTYPE or (content := tar.extractfile(member)) is None:
        raise ExportDamaged(f"{shown} is neither a file nor a folder")
    make_folders(target.parent)
    if os.path.lexists(target):
        raise ExportDamaged(f"{shown} is in it twice")
    with open(open_new(target), "wb") as out:
        _copy(content, out, room)


def _copy(content: IO[bytes], out: IO[bytes], room: _Room) -> None:
    while data := content.read(1 << 20):
        room.take(len(data))
        out.write(data)


def most_unpacked(packed: int) -> int:
    """Return the number of bytes that an archive of this size may unpack to."""
    return max(_ALWAYS_ALLOWED_BYTES, packed * _MAX_RATIO)


class _Room:
    """The number of bytes that an archive may still unpack to."""

    def __init__(self, archive: Path) -> None:
        self._archive = archive
        self._left = most_unpacked(archive.stat().st_size)

    def take(self, size: int) -> None:
        """Subtract bytes that are unpacked. Raises HostError."""
        self._left -= size
        if self._left < 0:
            raise HostError(
                f"{self._archive} unpacks to far more than it can hold: nothing was changed. If you trust it, unpack "
                "it yourself and name the folder"
            )
