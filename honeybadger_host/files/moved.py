"""Groups that went into another home: `config/moved/<group>.md` says where (docs/scaling.md).

Such a file is a document of the home, so every machine that keeps the home has it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from honeybadger_agent.mailbox import NAME
from honeybadger_host.files.safe_files import names_in, opened_plain

MOVED_FOLDER: Final = "config/moved"
_MAX_BYTES: Final = 1000  # of a file that are read: what it says goes into each refusal


class Moved:
    """The groups that went, read again with each `refresh`: on one thread at a time, the rest on any."""

    def __init__(self, home: Path) -> None:
        self._folder = home / MOVED_FOLDER
        self.current: Mapping[str, str] = {}
        """Group -> where it went."""
        self.refresh()

    def why(self, group: str) -> str | None:
        """Return why a group is not served, or None if it is."""
        where = self.current.get(group)
        return None if where is None else f"the group {group} went to another home: {where}"

    def refresh(self) -> None:
        found: dict[str, str] = {}
        for name in names_in(self._folder):
            if name.endswith(".md") and NAME.fullmatch(name[:-3]):
                found[name[:-3]] = self._read(name)
        self.current = found

    def _read(self, name: str) -> str:
        with opened_plain(self._folder / name) as opened:
            data = b"" if opened is None else os.read(opened[0], _MAX_BYTES)
        return " ".join(data.decode("utf-8", "replace").split()) or f"{MOVED_FOLDER}/{name} does not say where"
