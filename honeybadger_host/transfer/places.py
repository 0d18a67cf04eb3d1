"""Paths of a group's files: from a home into an export, and from there into a home."""

from __future__ import annotations

from typing import Final

from honeybadger_host.errors import HostError
from honeybadger_host.storage.group_places import folders_of, single_files_of

_MAX_NAME_LENGTH: Final = 255


class ExportDamaged(HostError):
    """An export is not what it was when it was made, or never was one."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the export is damaged, or is not one ({what}); nothing was changed")


def place_of(file: str, group: str) -> str | None:
    """Return where a file below the home lies in an export; None: it is not the group's."""
    for place, single in single_files_of(group).items():
        if file == single:
            return place
    for place, folder in folders_of(group).items():
        if file.startswith(f"{folder}/"):
            return f"{place}{file[len(folder) :]}"
    return None


def file_of(place: str, group: str) -> str:
    """Return where a file of an export goes, below the home. Raises ExportDamaged: it is not a place of a group's."""
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
    """Return whether a part of a path leads nowhere else and hides nothing."""
    try:
        size = len(part.encode())
    except UnicodeEncodeError:
        return False
    return 0 < size <= _MAX_NAME_LENGTH and not part.startswith(".") and "\0" not in part
