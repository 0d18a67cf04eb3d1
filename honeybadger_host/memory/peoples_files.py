"""The names of files that are documents, their groups, and the author shown for the owner of a file."""

from __future__ import annotations

import contextlib
import os
import pwd
from functools import lru_cache
from typing import Final

from honeybadger_agent.mailbox import GLOBAL_GROUP, HUMAN, NAME
from honeybadger_host.files.home import ARCHIVE, GROUP_FILES, ROOT_GLOBAL_FILE

TEXTS: Final = (*GROUP_FILES, "HISTORY.md", "AGENT.md", ARCHIVE)  # the text files of a group


def document_group(file: str) -> str | None:
    """Return the group of a document, or None if the file is no document."""
    match file.split("/"):
        case ["groups", group, "tasks" | "proposals", name] | ["groups", group, "archive", *_, name] if is_json_name(
            name
        ):
            return group if NAME.fullmatch(group) and _is_text(file) else None
        case ["data", "working", group, _, name] | ["data", "context" | "consolidated", group, name] if is_json_name(
            name.removesuffix(".deleted")
        ):
            return group if NAME.fullmatch(group) and _is_text(file) else None
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
            return GLOBAL_GROUP if _is_text(file) else None
        case ["config", "moved", name] if name.endswith(".md") and NAME.fullmatch(name[:-3]):
            return GLOBAL_GROUP
        case ["groups", group, "memory", *_, name] if is_json_name(name):
            return group if NAME.fullmatch(group) and _is_text(file) else None
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


def _is_text(file: str) -> bool:
    try:
        file.encode()
    except UnicodeEncodeError:
        return False
    return True
