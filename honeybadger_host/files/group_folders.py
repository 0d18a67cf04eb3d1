"""What lies in the folders of the groups: one listing for all regular looks at every group."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from honeybadger_host.files.file_cache import Unchanged
from honeybadger_host.files.home import groups_in


class GroupFolders:
    """The names in each `groups/<group>`; a folder is listed again only when it changed. Any thread."""

    def __init__(self, home: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._home = home
        self._clock = clock
        self._lock = threading.Lock()
        self._unchanged: dict[str, Unchanged] = {}
        self.current: Mapping[str, frozenset[str]] = {}
        """Group -> names in its folder at the last `refresh`; another object after the folder was listed again."""

    def refresh(self) -> Mapping[str, frozenset[str]]:
        """Return `current` as the folders are now."""
        with self._lock:
            found: dict[str, frozenset[str]] = {}
            groups = f"{self._home}/groups"
            for group in groups_in(self._home):
                folder = f"{groups}/{group}"
                unchanged = self._unchanged.get(group) or Unchanged()
                try:
                    status = os.stat(folder)
                    if group in self.current and unchanged.holds(status):
                        found[group] = self.current[group]
                        continue
                    found[group] = frozenset(os.listdir(folder))
                    unchanged.listed(status, self._clock())
                    self._unchanged[group] = unchanged
                except OSError:  # removed meanwhile, or the host may not list it: `doctor` names it
                    self._unchanged.pop(group, None)
            self.current = found
            return found
