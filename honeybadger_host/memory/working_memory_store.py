"""The entries of each session's working memory, read from the folders (RB6).

A folder is listed for every batch of requests and every query, so that a person's changes of its files count at once.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from honeybadger_host.errors import WorldFailed
from honeybadger_host.files.file_cache import KeptFiles
from honeybadger_host.files.safe_files import names_in
from honeybadger_host.journal.changes import Change, FileRemoved, FileWritten, read_whole
from honeybadger_host.log import log
from honeybadger_host.memory.peoples_files import is_json_name
from honeybadger_host.memory.working_memory import (
    ROOT,
    WorkingEntry,
    inventory,
    own_entry,
    parse_own,
    parse_working,
    session_folder,
    working_file,
)


class WorkingMemoryStore:
    """The entries of all sessions.

    `look`, `read` and `inventory` may run on any thread; for a batch see `journal.changes`.

    Args:
        read: returns the newest version of a file, see `Projections.read`.
        kept: keeps the entries of files.
    """

    def __init__(
        self, home: Path, read: Callable[[str], bytes | None] | None = None, kept: KeptFiles | None = None
    ) -> None:
        self._home = home
        self._read = read or (lambda file: read_whole(f"{home}/{file}"))
        self._kept = kept or KeptFiles(home)
        # Session's folder -> file -> entry, with all changes decided in this batch.
        self._views: dict[str, dict[str, WorkingEntry]] = {}

    # ----------------------------------------------------------------------------------------------- one batch

    def view(self, group: str, session: str) -> Mapping[str, WorkingEntry]:
        """Return file -> entry, also expired ones, with all changes decided so far. Raises WorldFailed."""
        folder = session_folder(group, session)
        if folder not in self._views:
            self._views[folder] = {file: one for file, one in self._entries(group, session) if one is not None}
        return self._views[folder]

    def apply(self, change: Change) -> None:
        entries = self._views.get(change.file.rpartition("/")[0])
        if entries is None:
            return
        if isinstance(change, FileWritten):
            entries[change.file] = parse_working(change.data)
        elif isinstance(change, FileRemoved):
            entries.pop(change.file, None)

    def end_batch(self, written: Sequence[Change]) -> None:
        """Drop everything: the folders have the written entries."""
        self._views.clear()

    # ------------------------------------------------------------------------------------------------- reading

    def look(self, group: str, session: str) -> tuple[list[WorkingEntry], int]:
        """Return the entries in a session's folder, also expired ones, and how many files are no entries.

        An unknown session has none. Raises WorldFailed.
        """
        entries = [entry for _, entry in self._entries(group, session)]
        found = [entry for entry in entries if entry is not None]
        return found, len(entries) - len(found)

    def read(self, group: str, session: str, key: str) -> WorkingEntry | None:
        """Return one entry, expired or not, or None if there is none. Raises WorldFailed if its file is no entry."""
        file = working_file(group, session, key)
        data = self._read(file)
        return None if data is None else own_entry(data, group, session, file)

    def inventory(self, group: str, session: str, now: datetime) -> Sequence[str] | None:
        """Return a session's entries as the context lists them; None: the folder cannot be read, which is logged."""
        try:
            return inventory(self.look(group, session)[0], now)
        except WorldFailed as error:
            log.warning("working.refused", file=f"{session_folder(group, session)}/", why=str(error))
            return None

    def _entries(self, group: str, session: str) -> Iterator[tuple[str, WorkingEntry | None]]:
        """Yield the files of a session, each with its entry; None if it is not one. Raises WorldFailed."""
        folder = session_folder(group, session)
        try:
            names = os.listdir(f"{self._home}/{folder}")
        except FileNotFoundError:
            return
        except OSError as error:
            raise WorldFailed(f"{self._home / folder} cannot be read ({error.strerror})") from error
        for file in (f"{folder}/{name}" for name in names if is_json_name(name)):
            try:
                yield file, self._kept.value(file, partial(self._entry_in, group, session, file))
            except WorldFailed as error:
                log.warning("working.skipped", file=file, why=str(error))
                yield file, None

    def _entry_in(self, group: str, session: str, file: str, _: WorkingEntry | None) -> WorkingEntry | None:
        """Return the entry in a file, or None if the file is gone or no entry (logged). Raises WorldFailed."""
        data = self._read(file)
        try:
            return None if data is None else parse_own(data, group, session, file)
        except ValueError as error:
            log.warning("working.skipped", file=file, why=str(error))
            return None

    def over(self, is_over: Callable[[bytes], bool]) -> list[str]:
        """Return the files of all sessions for whose content `is_over` is true."""
        found: list[str] = []
        for folder in self._home.glob(f"{ROOT}/*/*"):
            for name in filter(is_json_name, names_in(folder)):
                with contextlib.suppress(WorldFailed):
                    data = read_whole(folder / name)
                    if data is not None and is_over(data):
                        found.append(f"{folder.relative_to(self._home)}/{name}")
        return found
