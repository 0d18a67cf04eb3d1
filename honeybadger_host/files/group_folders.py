"""The names in the folders of all groups, listed once for all regular looks at them."""

from __future__ import annotations

import contextlib
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
        """Group -> names in its folder at the last `refresh`; the same object until the folder is listed again."""

    def refresh(self) -> Mapping[str, frozenset[str]]:
        """List the folders that changed; return `current`."""
        with self._lock:
            current: dict[str, frozenset[str]] = {}
            kept: dict[str, Unchanged] = {}
            for group in groups_in(self._home):
                folder, unchanged = f"{self._home}/groups/{group}", self._unchanged.get(group, Unchanged())
                with contextlib.suppress(OSError):  # removed meanwhile, or the host may not list it: `doctor` names it
                    status = os.stat(folder)
                    if unchanged.holds(status):
                        current[group] = self.current[group]
                    else:
                        current[group] = frozenset(os.listdir(folder))
                        unchanged.listed(status, self._clock())
                    kept[group] = unchanged
            self.current, self._unchanged = current, kept
            return current
