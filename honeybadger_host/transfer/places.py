"""Where the files of a group lie: below a home, and in an export."""

from __future__ import annotations

from typing import Final

from honeybadger_host.errors import HostError

_FOLDERS: Final = {
    "group": "groups/{}",
    "sessions": "data/sessions/{}",
    "context": "data/context/{}",
    "working": "data/working/{}",
    "consolidated": "data/consolidated/{}",
}
_SINGLE: Final = {
    "tasks.jsonl": "data/tasks/{}.jsonl",
    "feedback.jsonl": "data/feedback/{}.jsonl",
    "messages.jsonl": "data/messages/{}.jsonl",
    "consolidated.json": "data/consolidated/{}.json",
    "consolidated.dream.json": "data/consolidated/{}.dream.json",
}
_LONGEST_NAME: Final = 255


class ExportDamaged(HostError):
    """An export is not what it was when it was made, or never was one."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the export is damaged, or none ({what}); nothing was changed")


def folders_of(group: str) -> dict[str, str]:
    """Return where the folders of a group lie: in an export -> below the home."""
    return {place: folder.format(group) for place, folder in _FOLDERS.items()}


def files_of(group: str) -> dict[str, str]:
    """Return where the files of a group lie that are in no folder of its own: in an export -> below the home."""
    return {place: file.format(group) for place, file in _SINGLE.items()}


def place_of(file: str, group: str) -> str | None:
    """Return where a file below the home lies in an export; None: it is not the group's."""
    for place, single in files_of(group).items():
        if file == single:
            return place
    for place, folder in folders_of(group).items():
        if file.startswith(f"{folder}/"):
            return f"{place}{file[len(folder) :]}"
    return None


def file_of(place: str, group: str) -> str:
    """Return where a file of an export goes, below the home. Raises ExportDamaged: it is no place of a group's."""
    first, *rest = place.split("/")
    if any(not is_plain(part) for part in (first, *rest)):
        raise ExportDamaged(f"{place!a} is not a name in a group")
    if not rest and first in _SINGLE:
        return files_of(group)[first]
    if not rest or first not in _FOLDERS:
        raise ExportDamaged(f"{place!a} is not a place of a group's")
    return "/".join((folders_of(group)[first], *rest))


def is_plain(part: str) -> bool:
    """Return whether a part of a path leads nowhere else and hides nothing."""
    try:
        size = len(part.encode())
    except UnicodeEncodeError:
        return False
    return 0 < size <= _LONGEST_NAME and not part.startswith(".") and "\0" not in part
