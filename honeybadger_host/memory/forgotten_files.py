"""The files of a group that forgetting searches, and the removal of lines, notes and files that it leaves empty."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import orjson

from honeybadger_agent.mailbox import GLOBAL_GROUP
from honeybadger_host.agents import AGENTS_FOLDER
from honeybadger_host.documents.history import revise
from honeybadger_host.files.home import ROOT_GLOBAL_FILE, folders_of, single_files_of
from honeybadger_host.journal.changes import EDIT_UNDONE, Change, FileRemoved, FileWritten, WholeKind
from honeybadger_host.memory.peoples_files import document_group, group_of
from honeybadger_host.text.phrases import FORGOTTEN, is_blank_line

_ADDED_TO: Final = ("MEMORY.md", "archive/MEMORY.md", "HISTORY.md")
REPLACED: Final = "data/replaced"  # folder for texts that only one of several machines had
_SET_ASIDE: Final = ", saved over change "
# Kind of a file -> its folder, and the member with its text; a file whose text is empty is removed.
_SAYS: Final[dict[WholeKind, tuple[str, str]]] = {
    "entry": ("groups/{}/memory/", "content"),
    "archived": ("groups/{}/archive/memory/", "content"),
    "task": ("groups/{}/tasks/", "description"),
    "working": ("data/working/{}/", "data"),
}


def files_of(home: Path, group: str) -> Iterator[str]:
    """Yield the files of a group, below the home folder: the host's own, and people's files that contexts show.

    Inboxes, other files in the group's folder, and links, which the host does not read, are left out.
    """
    yield from (file for file in _named_files(home, group) if not (home / file).is_symlink())
    for kept in sorted(home.glob(f"{REPLACED}/*")):
        yield from (str(kept.relative_to(home) / file) for file in files_of(kept, group))


def _named_files(home: Path, group: str) -> Iterator[str]:
    folders = [*folders_of(group).values()]
    if group == GLOBAL_GROUP:
        yield ROOT_GLOBAL_FILE
        folders.append(AGENTS_FOLDER)
    for folder in folders:
        for file in _below(home, folder):
            if folder.startswith("data/") or _SET_ASIDE in file or document_group(file) == group:
                yield file
    yield from single_files_of(group).values()


def _below(home: Path, folder: str) -> Iterator[str]:
    """Yield the files below a folder; only the folder itself may be a link."""
    for place, folders, names in os.walk(home / folder):
        folders.sort()
        for name in sorted(names):
            if not name.startswith("."):
                yield str((Path(place) / name).relative_to(home))


def tidied(group: str, file: str, held: bytes) -> Change | None:
    """Return the change that removes emptied lines and notes, or an emptied file; None if nothing was emptied."""
    if FORGOTTEN.encode() not in held:
        return None
    name = file.removeprefix(f"groups/{group}/")
    for kind, (folder, member) in _SAYS.items():
        if file.startswith(folder.format(group)):
            return FileRemoved(group, kind, file, held) if _says_nothing(held, member) else None
    if group_of(file) != group or file.endswith(".json"):
        return None
    text = without_blanks(held.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    if text == held:
        return None
    if name not in _ADDED_TO:
        return FileWritten(group, "text", file, text, held)
    return revise(group, file, held, text, EDIT_UNDONE)


def _says_nothing(data: bytes, member: str) -> bool:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    text = value.get(member) if isinstance(value, dict) else None
    return isinstance(text, str) and not [line for line in text.split("\n") if line.strip() and not is_blank_line(line)]


def without_blanks(text: str) -> str:
    """Return a text without lines that were emptied, and without headings that have nothing left below them."""
    sections: list[list[str]] = [[]]
    for line in text.splitlines(keepends=True):
        if line.startswith("## "):
            sections.append([])
        sections[-1].append(line)
    return "".join(line for section in sections for line in _kept(section))


def _kept(lines: Sequence[str]) -> Sequence[str]:
    kept = [line for line in lines if not is_blank_line(line)]
    if len(kept) == len(lines) and not (lines and FORGOTTEN in lines[0]):
        return lines
    rest = [line for line in kept if line.strip() and not line.startswith("> Archived ")]
    if not rest or (len(rest) == 1 and rest[0].startswith("## ")):
        return []
    return kept
