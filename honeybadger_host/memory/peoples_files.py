"""The documents of a home: their names, groups and authors; those that changed; those that forgetting searches."""

import contextlib
import os
import pwd
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path

from honeybadger_agent.mailbox import GLOBAL_GROUP, HUMAN, NAME
from honeybadger_host.documents.history import revise
from honeybadger_host.documents.in_use import DocumentsInUse
from honeybadger_host.errors import StorageFailed
from honeybadger_host.files.file_cache import signature_of
from honeybadger_host.files.group_folders import GroupFolders
from honeybadger_host.files.home import (
    AGENTS_FOLDER,
    ARCHIVE,
    GROUP_FILES,
    JOURNAL_FILE,
    ROOT_GLOBAL_FILE,
    folders_of,
    groups_in,
    named_folders,
    single_files_of,
)
from honeybadger_host.files.safe_files import is_utf8, names_in
from honeybadger_host.journal.changes import EDIT_UNDONE, Change, FileRemoved, FileWritten, WholeKind
from honeybadger_host.journal.edits import FILES_AT_ONCE, EditReader
from honeybadger_host.memory.entries.entry import memory_folder
from honeybadger_host.memory.entries.store import EntryFiles
from honeybadger_host.memory.markdown.summary_parts import sections_of
from honeybadger_host.memory.session_document import SESSIONS
from honeybadger_host.memory.working_memory import ROOT as WORKING
from honeybadger_host.text.json_values import object_in
from honeybadger_host.text.phrases import FORGOTTEN, is_blank_line

TEXTS = (*GROUP_FILES, "HISTORY.md", "AGENT.md", ARCHIVE)  # the text files of a group


def check_groups(home: Path) -> None:
    """Raise StorageFailed if no group has a folder, though the journal knows files of groups; JournalError."""
    journal = home / JOURNAL_FILE
    if not groups_in(home) and journal.exists() and any(EditReader(journal).names_below("groups/")):
        raise StorageFailed(
            f"{home}/groups is empty, and this home had groups: mount it or bring them back; or, if all of it was "
            "meant to go, make the folder of a group there"
        )


def document_group(file: str) -> str | None:
    """Return the group of a document, or None if the file is no document."""
    match file.split("/"):
        case ["groups", group, "tasks" | "proposals", name] | ["groups", group, "archive", *_, name] if is_json_name(
            name
        ):
            return group if NAME.fullmatch(group) and is_utf8(file) else None
        case ["data", "working", group, _, name] | ["data", "context" | "consolidated", group, name] if is_json_name(
            name.removesuffix(".deleted")
        ):
            return group if NAME.fullmatch(group) and is_utf8(file) else None
        case ["data", "consolidated", name] if is_json_name(name):
            return name.removesuffix(".json").removesuffix(".dream")
        case _:
            return group_of(file)


def is_json_name(name: str) -> bool:
    return name.endswith(".json") and not name.startswith(".")


def group_of(file: str) -> str | None:
    """Return the group whose log shows edits of a file below the home folder, or None if it is not a person's file."""
    match file.split("/"):
        case [name] if name == ROOT_GLOBAL_FILE:
            return GLOBAL_GROUP
        case ["config", "agents", agent, name] if name.endswith(".md") and NAME.fullmatch(agent):
            return GLOBAL_GROUP if is_utf8(file) else None
        case ["groups", group, "memory", *_, name] if is_json_name(name):
            return group if NAME.fullmatch(group) and is_utf8(file) else None
        case ["groups", group, *rest] if "/".join(rest) in TEXTS:
            return group if NAME.fullmatch(group) else None
        case _:
            return None


@lru_cache(maxsize=64)
def name_of(uid: int) -> str:
    """Return the author of a save by the file's owner: `human` for the host's user, else the owner's name."""
    if uid == os.geteuid():
        return HUMAN
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return f"uid-{uid}"


_CONSOLIDATED = "data/consolidated"


class ChangedFiles:
    """Finds documents that changed. One thread at a time; `touch_folder` on any thread.

    Args:
        journal: path of the journal.
    """

    def __init__(
        self, home: Path, journal: Path, in_use: DocumentsInUse, entries: EntryFiles, groups: GroupFolders
    ) -> None:
        self._home = home
        self._groups = groups
        self._reader = EditReader(journal)
        self._in_use = in_use
        self._entries = entries
        self._folders: dict[str, int] = {}  # folder -> its stamp when it was last listed

    def touch_folder(self, folder: str) -> None:
        """Let the next comparison look at every file of a folder below the home: it is watched only from now on."""
        self._folders.pop(folder, None)

    def every(self) -> Iterator[str]:
        """Yield all documents that exist."""
        names = self._groups.refresh()
        folders = self._json_folders(names)
        below = (f"{folder}/{name}" for folder in folders for name in names_in(f"{self._home}/{folder}"))
        for file in chain(self._texts(names), below):
            if self._in_use.covers(file) and os.path.lexists(f"{self._home}/{file}"):
                yield file

    def _texts(self, groups: Iterable[str]) -> list[str]:
        """Return the texts of all groups and agents, there or not."""
        files = [ROOT_GLOBAL_FILE, *(f"groups/{group}/{name}" for group in groups for name in TEXTS)]
        for agent in names_in(f"{self._home}/{AGENTS_FOLDER}"):
            files += (f"{AGENTS_FOLDER}/{agent}/{name}" for name in names_in(f"{self._home}/{AGENTS_FOLDER}/{agent}"))
        return files

    def _json_folders(self, groups: Mapping[str, frozenset[str]]) -> list[str]:
        folders = [_CONSOLIDATED]
        for place in (_CONSOLIDATED, SESSIONS):
            folders += (f"{place}/{group}" for group in named_folders(self._home / place))
        for group in named_folders(self._home / WORKING):
            sessions = filter(is_utf8, names_in(f"{self._home}/{WORKING}/{group}"))
            folders += (f"{WORKING}/{group}/{session}" for session in sessions)
        for group, names in groups.items():
            folders += (f"groups/{group}/{name}" for name in ("proposals", "tasks") if name in names)
            if "archive" in names:
                folders += self._entries.folders(f"groups/{group}/archive/memory")
            if "memory" in names:
                folders += self._entries.folders(memory_folder(group))
        return folders

    def sweep_changed(self) -> Iterator[None]:
        """Touch changed texts and documents in use, and added or removed JSON files; yield now and then."""
        self._in_use.touch_changed()
        names = self._groups.refresh()
        files = self._texts(names)
        for start in range(0, len(files), FILES_AT_ONCE):
            self._compare(files[start : start + FILES_AT_ONCE])
            yield
        for folder in dict.fromkeys([*self._json_folders(names), *self._folders]):
            if self._folders.get(folder) != self._stamp_of(folder):
                yield from self._compare_folder(folder)

    def sweep(self) -> Iterator[None]:
        """Touch every document that changed; yield now and then."""
        self._folders.clear()
        yield from self.sweep_changed()
        for number, file in enumerate(self._reader.names_below("")):
            if number % FILES_AT_ONCE == 0:
                yield
            if not os.path.lexists(f"{self._home}/{file}"):
                self._in_use.touch(file)

    def _compare_folder(self, folder: str) -> Iterator[None]:
        """Touch the files of a folder that changed or are gone since the host last wrote or read them."""
        if (stamp := self._stamp_of(folder)) is None:
            self._folders.pop(folder, None)
        else:
            self._folders[folder] = stamp
        names = names_in(f"{self._home}/{folder}")  # not whole paths: 100,000 would take 17 MiB
        for start in range(0, len(names), FILES_AT_ONCE):
            self._compare([f"{folder}/{name}" for name in names[start : start + FILES_AT_ONCE]])
            yield
        there = set(names)
        loaded = (one.file for one in self._in_use.every() if one.is_there)
        for number, file in enumerate(chain(loaded, self._reader.names_below(f"{folder}/"))):
            if number % FILES_AT_ONCE == 0:
                yield
            below, _, name = file.rpartition("/")
            if below == folder and name not in there:
                self._in_use.touch(file)

    def _stamp_of(self, folder: str) -> int | None:
        """Return a stamp that changes whenever a file is added to a folder or removed."""
        stamp = signature_of(f"{self._home}/{folder}")
        return None if stamp is None else stamp.mtime_ns

    def _compare(self, files: Sequence[str]) -> None:
        """Touch those of the files that changed since the host last wrote or read them."""
        files = [file for file in files if self._in_use.covers(file)]
        loaded = {file: document for file in files if (document := self._in_use.get(file)) is not None}
        stamps = self._reader.stamps([file for file in files if file not in loaded])
        for file in files:
            left = loaded[file].left if file in loaded else stamps.get(file)
            if left != signature_of(f"{self._home}/{file}"):
                self._in_use.touch(file)


_ADDED_TO = ("MEMORY.md", "archive/MEMORY.md", "HISTORY.md")
REPLACED = "data/replaced"  # folder for texts that only one of several machines had
_SET_ASIDE = ", saved over change "
# Kind of a file -> its folder, and the member with its text; a file whose text is empty is removed.
_SAYS: dict[WholeKind, tuple[str, str]] = {
    "entry": ("groups/{}/memory/", "content"),
    "archived": ("groups/{}/archive/memory/", "content"),
    "task": ("groups/{}/tasks/", "description"),
    "working": ("data/working/{}/", "data"),
}


def files_of(home: Path, group: str) -> Iterator[str]:
    """Yield the files of a group, below the home folder: the host's own, and people's files that contexts show.

    Inboxes, other files in the group's folder, names that are not UTF-8, and links, which the host does not read, are
    left out.
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
            if not name.startswith(".") and is_utf8(f"{place}/{name}"):
                yield str((Path(place) / name).relative_to(home))


def tidied(group: str, file: str, held: bytes) -> Change | None:
    """Return the change that removes emptied lines and notes, or an emptied file; None if nothing was emptied."""
    text = without_forgotten(group, file, held)
    if text == held:
        return None
    if text is None:
        kind = next(kind for kind, (folder, _) in _SAYS.items() if file.startswith(folder.format(group)))
        return FileRemoved(group, kind, file, held)
    if file.removeprefix(f"groups/{group}/") not in _ADDED_TO:
        return FileWritten(group, "text", file, text, held)
    return revise(group, file, held, text, EDIT_UNDONE)


def without_forgotten(group: str, file: str, held: bytes) -> bytes | None:
    """Return the content of a file without emptied lines and notes; None if the whole file was emptied."""
    if FORGOTTEN.encode() not in held:
        return held
    for folder, member in _SAYS.values():
        if file.startswith(folder.format(group)):
            return None if _says_nothing(held, member) else held
    if group_of(file) != group or file.endswith(".json"):
        return held
    sections = sections_of(held.decode("utf-8", "surrogateescape"))
    lines = (line for section in sections for line in _kept(section.splitlines(keepends=True)))
    return "".join(lines).encode("utf-8", "surrogateescape")


def _says_nothing(data: bytes, member: str) -> bool:
    text = (object_in(data) or {}).get(member)
    return isinstance(text, str) and not [line for line in text.split("\n") if line.strip() and not is_blank_line(line)]


def _kept(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines of a section that were not emptied; none if nothing is left below its heading."""
    kept = [line for line in lines if not is_blank_line(line)]
    if len(kept) == len(lines) and not (lines and FORGOTTEN in lines[0]):
        return lines
    rest = [line for line in kept if line.strip() and not line.startswith("> Archived ")]
    if not rest or (len(rest) == 1 and rest[0].startswith("## ")):
        return []
    return kept
