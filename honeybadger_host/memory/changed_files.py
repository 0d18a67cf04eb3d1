"""Finds the documents of a home, and those that changed without a file event."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from honeybadger_host.agents import AGENTS_FOLDER
from honeybadger_host.documents.projections import Documents
from honeybadger_host.files.file_cache import signature_of
from honeybadger_host.files.home import MOVED_FOLDER, ROOT_GLOBAL_FILE, groups_in
from honeybadger_host.files.safe_files import names_in
from honeybadger_host.journal.edits import EditReader
from honeybadger_host.memory.entries.store import EntryFiles
from honeybadger_host.memory.peoples_files import TEXTS
from honeybadger_host.memory.session_document import SESSIONS
from honeybadger_host.memory.working_memory import ROOT as WORKING

_FILES_AT_ONCE: Final = 256  # files compared at once, between two pauses
_CONSOLIDATED: Final = "data/consolidated"
_JSON_FOLDERS: Final = ("tasks", "proposals")


class ChangedFiles:
    """Finds documents that changed. One thread at a time; `touch_folder` on any thread.

    Args:
        journal: path of the journal.
    """

    def __init__(self, home: Path, journal: Path, documents: Documents, entries: EntryFiles) -> None:
        self._home = home
        self._reader = EditReader(journal)
        self._documents = documents
        self._entries = entries
        self._folders: dict[str, int | None] = {}
        """Folder -> its stamp when it was last listed."""

    def touch_folder(self, folder: str) -> None:
        """Let the next comparison look at every file of a folder below the home: it is watched only from now on."""
        self._folders.pop(folder, None)

    def every(self) -> list[str]:
        """Return all documents that exist."""
        folders = self._json_folders()
        files = [f"{folder}/{name}" for folder in folders for name in names_in(f"{self._home}/{folder}")]
        every = [*self._texts(), *files]
        return [file for file in every if self._documents.covers(file) and os.path.lexists(f"{self._home}/{file}")]

    def _texts(self) -> list[str]:
        files = [
            ROOT_GLOBAL_FILE,
            *(f"groups/{group}/{name}" for group in groups_in(self._home) for name in TEXTS),
        ]
        for agent in names_in(f"{self._home}/{AGENTS_FOLDER}"):
            files += (f"{AGENTS_FOLDER}/{agent}/{name}" for name in names_in(f"{self._home}/{AGENTS_FOLDER}/{agent}"))
        files += (f"{MOVED_FOLDER}/{name}" for name in names_in(f"{self._home}/{MOVED_FOLDER}"))
        return files

    def _json_folders(self) -> list[str]:
        folders = [_CONSOLIDATED]
        for group in groups_in(self._home):
            folders.append(f"{_CONSOLIDATED}/{group}")
            folders += [f"groups/{group}/{name}" for name in _JSON_FOLDERS]
            folders += self._entries.folders(group)
            folders += self._entries.folders(f"{group}/archive")
            folders.append(f"{SESSIONS}/{group}")
            folders += (f"{WORKING}/{group}/{name}" for name in names_in(f"{self._home}/{WORKING}/{group}"))
        return folders

    def sweep_changed(self) -> Iterator[None]:
        """Touch changed texts and documents in use, and added or removed JSON files; yield now and then."""
        self._documents.touch_changed()
        files = self._texts()
        for start in range(0, len(files), _FILES_AT_ONCE):
            self._compare(files[start : start + _FILES_AT_ONCE])
        yield
        for folder in self._json_folders():
            if self._folders.get(folder) != self._stamp_of(folder):
                yield from self._compare_folder(folder)

    def sweep(self) -> Iterator[None]:
        """Touch every document that changed; yield now and then."""
        self._folders.clear()
        yield from self.sweep_changed()
        last = ""
        while names := self._reader.names(last, _FILES_AT_ONCE):
            for file in names:
                if not os.path.lexists(f"{self._home}/{file}"):
                    self._documents.touch(file)
            last = names[-1]
            yield

    def _compare_folder(self, folder: str) -> Iterator[None]:
        """Touch the files of a folder that changed or are gone since the host last wrote or read them."""
        self._folders[folder] = self._stamp_of(folder)
        names = names_in(f"{self._home}/{folder}")  # not whole paths: 100,000 would take 17 MiB
        for start in range(0, len(names), _FILES_AT_ONCE):
            self._compare([f"{folder}/{name}" for name in names[start : start + _FILES_AT_ONCE]])
            yield
        there = set(names)
        in_use = (one.file for one in self._documents.in_use.every() if one.is_there)
        for file in chain(in_use, self._reader.names_below(f"{folder}/")):
            below, _, name = file.rpartition("/")
            if below == folder and name not in there:
                self._documents.touch(file)

    def _stamp_of(self, folder: str) -> int | None:
        """Return a stamp that changes whenever a file is added to a folder or removed."""
        stamp = signature_of(f"{self._home}/{folder}")
        return None if stamp is None else stamp.mtime_ns

    def _compare(self, files: Sequence[str]) -> None:
        """Touch those of the files that changed since the host last wrote or read them."""
        files = [file for file in files if self._documents.covers(file)]
        in_use = {file: document for file in files if (document := self._documents.in_use.get(file)) is not None}
        stamps = self._reader.stamps([file for file in files if file not in in_use])
        for file in files:
            left = in_use[file].left if file in in_use else stamps.get(file)
            if left != signature_of(f"{self._home}/{file}"):
                self._documents.touch(file)
