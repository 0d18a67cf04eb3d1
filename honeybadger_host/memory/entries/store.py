"""The folders of long-term entries: find an entry, spell a category.

Folders are listed on demand, so changes by people need no event. Links are not followed.
"""

import os
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from honeybadger_agent.wire import CATEGORY
from honeybadger_host.errors import WorldFailed
from honeybadger_host.files.group_folders import Listings
from honeybadger_host.files.safe_files import kind_of
from honeybadger_host.journal.changes import WholeFiles, read_whole
from honeybadger_host.log import log
from honeybadger_host.memory.entries.entry import Entry, memory_folder, parse_entry


class EntryFiles:
    """The folders of the entries of all groups. Any thread.

    Args:
        home: home folder.
        read: returns the newest version of a file, see `Projections.read`.
    """

    def __init__(self, home: Path, read: Callable[[str], bytes | None] | None = None) -> None:
        self.home = home
        self.read = read or (lambda file: read_whole(home / file))
        self._lock = threading.Lock()  # held to spell a category
        self._listings = Listings(self._list_categories)
        # (group, category in lower case) -> its spelling, of those that were placed before they had a folder.
        self._spelled: dict[tuple[str, str], str] = {}

    # ------------------------------------------------------------------------------------------------------ finding

    def find(self, group: str, entry_id: str) -> list[str]:
        """Return the files of an id: none, one, or several if a person copied it to another category."""
        files = [f"{folder}/{entry_id}.json" for folder in self.folders(memory_folder(group))]
        return [file for file in files if os.path.lexists(f"{self.home}/{file}")]

    def standing(self, files: WholeFiles, group: str, entry_id: str) -> list[str]:
        """Return the files of an id as they are after all that a batch has decided so far. Raises WorldFailed."""
        for file in self.find(group, entry_id):
            files.view(file)
        return files.named(memory_folder(group), f"{entry_id}.json")

    def place(self, group: str, category: str, *, is_new: bool = True) -> str:
        """Return a category as it is spelled on disk; spellings that differ only in case are the same category.

        Args:
            is_new: the category will be made if it is missing, and this spelling is remembered.
        Raises WorldFailed if something else has the name of one of its folders.
        """
        placed = ""
        with self._lock:
            self._is_folder(group, "")
            for name in category.split("/"):
                wanted = f"{placed}/{name}".lstrip("/")
                if not self._is_folder(group, wanted):
                    wanted = self._spelling(group, wanted)
                    if is_new:
                        self._spelled[group, wanted.lower()] = wanted
                    self._is_folder(group, wanted)
                placed = wanted
        return placed

    def _spelling(self, group: str, wanted: str) -> str:
        """Return the spelling of a category that has no folder of this spelling."""
        root = memory_folder(group)
        there = (folder.removeprefix(f"{root}/") for folder in self.folders(root))
        known = next((category for category in there if category.lower() == wanted.lower()), wanted)
        return self._spelled.get((group, wanted.lower()), wanted) if known == wanted else known

    def _is_folder(self, group: str, category: str) -> bool:
        """Return whether a category has a folder. Raises WorldFailed."""
        file = f"{memory_folder(group)}/{category}".rstrip("/")
        try:
            mode = os.stat(self.home / file, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return False
        except OSError as error:
            raise WorldFailed(f"{file} cannot be looked at: {error.strerror}") from error
        if not stat.S_ISDIR(mode):
            raise WorldFailed(f"{file} is {kind_of(mode)} where the host needs a folder: move it away")
        return True

    def folders(self, folder: str) -> Iterator[str]:
        """Yield a folder of entries and those below it. Only folders that changed are listed again.

        Args:
            folder: below the home, such as that of a group; there or not.
        """
        try:
            below = self._listings.of(f"{self.home}/{folder}")
        except OSError:  # it was removed, or the host may not list it: `doctor` names it
            return
        yield folder
        for each in below:
            yield from self.folders(each)

    def _list_categories(self, path: str) -> Sequence[str]:
        """Return the folders of the categories right below one. Raises OSError, also if it is a link."""
        if os.path.islink(path):
            raise NotADirectoryError
        folder = path.removeprefix(f"{self.home}/")
        with os.scandir(path) as entries:
            found = sorted(f"{folder}/{entry.name}" for entry in entries if entry.is_dir(follow_symlinks=False))
        return [each for each in found if CATEGORY.fullmatch(each.split("/", 3)[3])]

    # ------------------------------------------------------------------------------------------------------ reading

    def parse(self, file: str, data: bytes) -> Entry:
        """Return the entry in a file. Raises ValueError, which is logged."""
        try:
            return parse_entry(data, file)
        except ValueError as error:
            log.warning("entry.skipped", file=file, why=str(error))
            raise
