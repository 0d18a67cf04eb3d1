"""Paths of a group's files: from a home into an export, and from there into a home."""

from __future__ import annotations

from typing import Final

from honeybadger_host.errors import HostError
from honeybadger_host.files.home import folders_of, single_files_of

_MAX_NAME_BYTES: Final = 255
MAX_PIECE_BYTES: Final = 64 << 20  # size limit of a line, a JSON element or a Markdown file that is read at once


class ExportDamaged(HostError):
    """An export was changed since it was made, or is not one."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the export is damaged, or is not one ({what}); nothing was changed")


def place_of(file: str, group: str) -> str | None:
    """Return the place in an export of a file below the home, or None if the file is not the group's."""
    for place, single in single_files_of(group).items():
        if file == single:
            return place
    for place, folder in folders_of(group).items():
        if file.startswith(f"{folder}/"):
            return f"{place}{file[len(folder) :]}"
    return None


def file_of(place: str, group: str) -> str:
    """Return the path below the home of a place in an export. Raises ExportDamaged if no group has such a place."""
    first, *rest = place.split("/")
    if any(not is_plain(part) for part in (first, *rest)):
        raise ExportDamaged(f"{place!a} is not a name in a group")
    whole = single_files_of(group).get(first) if not rest else None
    if whole is not None:
        return whole
    folder = folders_of(group).get(first)
    if not rest or folder is None:
        raise ExportDamaged(f"{place!a} is not a place of a group's")
    return "/".join((folder, *rest))


def is_plain(part: str) -> bool:
    """Return whether a part of a path is a plain name: not hidden, no `..`, at most 255 bytes."""
    try:
        size = len(part.encode())
    except UnicodeEncodeError:
        return False
    return 0 < size <= _MAX_NAME_BYTES and not part.startswith(".") and "\0" not in part
