"""Parses the paths of the memory tool: `/memories/<category…>/<name>`. Pure.

A path never reaches a file system: it becomes a category and a name. One that would escape is refused all the same
(docs/decisions/021-memory-tool.md).
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from honeybadger_agent.errors import CommandFailed
from honeybadger_agent.wire import (
    CATEGORY,
    ENTRY_ID,
    GENERAL,
    MAX_CATEGORY_CHARACTERS,
    MAX_NAME_CHARACTERS,
    EntryResult,
    EntryRow,
    is_name,
)

ROOT: Final = "/memories"
NOTES: Final = "MEMORY.md"
_MAX_CHARACTERS: Final = 1024
_MADE_ID: Final = re.compile(r"[0-9a-hjkmnp-tv-z]{12}")  # an id made by the host
_MAX_DECODED: Final = 5  # how often an escape such as `%25252e` is decoded
_MAX_WORDS: Final = 40  # characters of an entry's first words in the name of an entry without one


@dataclass(frozen=True, slots=True)
class MemoryPath:
    """A path below `/memories`, or that folder itself.

    Args:
        parts: below it, without `.` and `..`; NFC.
        is_folder: it ends in a slash.
    """

    parts: tuple[str, ...]
    is_folder: bool

    def __str__(self) -> str:
        return "/".join((ROOT, *self.parts))

    @property
    def is_root(self) -> bool:
        return not self.parts

    @property
    def is_notes(self) -> bool:
        return self.parts == (NOTES,)

    @property
    def name(self) -> str:
        """The last part, the file's name. Not for the root."""
        return self.parts[-1]

    @property
    def category(self) -> str | None:
        """The category of the file; None: its folders are not a category's."""
        return _category(self.parts[:-1]) if len(self.parts) > 1 else GENERAL

    @property
    def as_category(self) -> str | None:
        """The path as a category; None: a category cannot have this name. Not for the root."""
        return _category(self.parts)

    @property
    def entry_id(self) -> str | None:
        """The id at the end of the name of an entry without a name of its own; None: there is none."""
        id_ = self.name.rpartition(".")[2]
        return id_ if ENTRY_ID.fullmatch(id_) else None

    @property
    def made_id(self) -> str | None:
        """The `entry_id` if the host made it."""
        return self.entry_id if self.entry_id is not None and _MADE_ID.fullmatch(self.entry_id) else None

    def shows(self, entry: EntryResult) -> bool:
        """Return whether the path names an entry by its id; its first words may have changed."""
        if entry.category.lower() != (self.category or "").lower():
            return False
        begins = " ".join(entry.content[:400].split())
        return (
            self.name in (entry.id, shown_name(entry.id, entry.title, begins))
            or _MADE_ID.fullmatch(entry.id) is not None
        )


def parse_path(path: object, member: str = "path") -> MemoryPath:
    """Parse a model's path. Raises CommandFailed: `forbidden` when it would escape, `invalid` otherwise.

    Args:
        member: its name in the command.
    """
    if not isinstance(path, str):
        raise CommandFailed("invalid", f"`{member}` must be a path as /memories/notes.md")
    if len(path) > _MAX_CHARACTERS:
        raise CommandFailed("invalid", f"`{member}` has {len(path)} characters, the limit is {_MAX_CHARACTERS}")
    shown = path if path.isprintable() else ascii(path)[1:-1]
    if any(".." in form.split("/") for form in _forms(path)):
        raise CommandFailed("forbidden", f"Path {shown} would escape /memories directory")
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise CommandFailed("forbidden", f"Path must start with /memories, got: {shown}")
    parts = tuple(unicodedata.normalize("NFC", part) for part in path[len(ROOT) :].split("/") if part not in ("", "."))
    for part in parts:
        if not is_name(part):
            raise CommandFailed(
                "invalid",
                f"Path {shown} has a name that a file here cannot have: 1-{MAX_NAME_CHARACTERS} visible characters "
                "without a backslash and without spaces at its ends",
            )
    return MemoryPath(parts, is_folder=path.endswith("/"))


def shown_name(entry_id: str, title: str | None, begins: str) -> str:
    """Return the name to show for an entry without one: its title or first words, and its id."""
    words = re.findall(r"\w+", unicodedata.normalize("NFKC", title or begins).lower())
    about = ""
    for word in words:
        if len(about) + len(word) >= _MAX_WORDS:
            break
        about = f"{about}-{word}".lstrip("-")
    return f"{about}.{entry_id}" if about else entry_id


def name_of(row: EntryRow) -> str:
    return row.name or shown_name(row.id, row.title, row.begins)


def _category(parts: tuple[str, ...]) -> str | None:
    category = "/".join(parts)
    return category if CATEGORY.fullmatch(category) and len(category) <= MAX_CATEGORY_CHARACTERS else None


def _forms(path: str) -> list[str]:
    """Return a path and its other readings: decoded, with look-alikes replaced, with backslashes as slashes."""
    forms = [path]
    for _ in range(_MAX_DECODED):
        decoded = unquote(forms[-1])
        if decoded == forms[-1]:
            break
        forms.append(decoded)
    return [unicodedata.normalize("NFKC", form).replace("\\", "/") for form in forms]
