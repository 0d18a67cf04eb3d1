"""Unpack archives that nobody vouches for: no links, devices, paths that lead out, or decompression bombs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import IO, Final

from honeybadger_host.errors import HostError
from honeybadger_host.files.safe_files import make_folders, open_new
from honeybadger_host.ops.archive import BROKEN, MAX_DEPTH, members
from honeybadger_host.transfer.exported import CONTENT, LISTS, MANIFEST
from honeybadger_host.transfer.places import ExportDamaged, is_plain

_MAX_RATIO: Final = 250  # of unpacked to packed bytes
_ALWAYS_ALLOWED_BYTES: Final = 64 << 20


def unpack_export(archive: Path, to: Path) -> None:
    """Unpack an archive that an export made into an empty folder. Raises HostError."""
    try:
        for name, content in members(archive, most_unpacked(archive.stat().st_size)):
            _unpack(name, content, to)
    except FileNotFoundError:
        raise HostError(f"there is no {archive}") from None
    except BROKEN as error:
        raise ExportDamaged(str(error)) from None
    except OSError as error:
        raise HostError(f"cannot unpack {archive}: {error.strerror}; nothing was changed") from None


def _unpack(name: str, content: IO[bytes] | None, to: Path) -> None:
    first, *rest = name.split("/")
    is_known = (first in (MANIFEST, *LISTS) and not rest) or first == CONTENT
    if not is_known or len(rest) > MAX_DEPTH or not all(map(is_plain, rest)):
        raise ExportDamaged(f"{name!a} is not a name of an export")
    target = to / name
    if content is None:
        make_folders(target)
        return
    make_folders(target.parent)
    if os.path.lexists(target):
        raise ExportDamaged(f"{name!a} is in it twice")
    with open(open_new(target), "wb") as out:
        shutil.copyfileobj(content, out)


def most_unpacked(packed: int) -> int:
    """Return the number of bytes that an archive of this size may unpack to."""
    return max(_ALWAYS_ALLOWED_BYTES, packed * _MAX_RATIO)
