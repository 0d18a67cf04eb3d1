"""The paths of everything that belongs to one group."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from honeybadger_agent.mailbox import NAME
from honeybadger_host.files.home import MESSAGES_FOLDER

_FOLDERS: Final = {
    "group": "groups/{}",
    "sessions": "data/sessions/{}",
    "context": "data/context/{}",
    "working": "data/working/{}",
    "consolidated": "data/consolidated/{}",
}
_FILES: Final = {
    "tasks.jsonl": "data/tasks/{}.jsonl",
    "feedback.jsonl": "data/feedback/{}.jsonl",
    "messages.jsonl": f"{MESSAGES_FOLDER}/{{}}.jsonl",
    "consolidated.json": "data/consolidated/{}.json",
    "consolidated.dream.json": "data/consolidated/{}.dream.json",
}


def groups_in(home: Path) -> list[str]:
    """Return the groups that have a folder for people's files, in the order of names."""
    return named_folders(home / "groups")


def named_folders(folder: Path) -> list[str]:
    """Return the folders in a folder, or links to some, that are called as groups and senders may be, in order."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir() and NAME.fullmatch(entry.name))
    return []


def folders_of(group: str) -> dict[str, str]:
    """Return the folders of a group: what an export calls them -> below the home."""
    return {place: folder.format(group) for place, folder in _FOLDERS.items()}


def single_files_of(group: str) -> dict[str, str]:
    """Return the group's files outside its folder: their path below the home, by their name in an export."""
    return {place: file.format(group) for place, file in _FILES.items()}
