"""The files of a home that are searched: entries, MEMORY.md, HISTORY.md, the logs and the documents of sessions."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from honeybadger_agent.mailbox import NAME
from honeybadger_host.files.home import HISTORY, MEMORY
from honeybadger_host.files.safe_files import NotRegular, Signature, closing_fd, is_utf8, open_plain
from honeybadger_host.search.documents import Kind

# Levels of folders that are scanned: one more than a category has, so that files too deep are reported.
_MAX_LEVELS = 9


class Source(NamedTuple):
    """A file that is searched.

    Args:
        file: below the home folder.
    """

    file: str
    kind: Kind
    group: str


class Unsearchable(Exception):
    """A file whose content is malformed; the message says how."""


def source_of(file: str) -> Source | None:
    """Return the source for a file below the home folder, or None if it is not searched."""
    if not is_utf8(file):
        return None  # neither the database nor a reply can hold the name; `doctor` reports it
    match file.split("/"):
        case ["groups", group, "memory", *_, name] if name.endswith(".json") and not name.startswith("."):
            return Source(file, "entry", group)
        case ["groups", group, "archive", "memory", *_, name] if name.endswith(".json") and not name.startswith("."):
            return Source(file, "entry", archive_of(group))
        case ["groups", group, "archive", name] if name == MEMORY:
            return Source(file, "note", archive_of(group))
        case ["groups", group, name] if name == MEMORY:
            return Source(file, "note", group)
        case ["groups", group, name] if name == HISTORY:
            return Source(file, "history", group)
        case ["data", "sessions", group, name] if name.endswith(".jsonl") and not name.startswith("."):
            return Source(file, "turn", group)
        case ["data", "context", group, name] if name.endswith(".json") and not name.startswith("."):
            return Source(file, "session", group)
        case _:
            return None


def archive_of(group: str) -> str:
    """Return the index's name for the archive of a group, which is indexed as a separate group."""
    return f"{group}/archive"


def is_archive(group: str) -> bool:
    """Return whether a group of the index is the archive of one."""
    return "/" in group


def files_called(group: str, name: str) -> list[str]:
    """Return the files whose parts are called `name#key`; the name is a file's, or the session of a log."""
    files = [f"groups/{group}/{name}", f"data/context/{group}/{name}", f"data/sessions/{group}/{name}.jsonl"]
    return [file for file in files if source_of(file) is not None]


def sources(home: Path, group: str, folders: set[str] | None) -> Iterator[tuple[Source, Signature]]:
    """Yield every searched file of a group with its signature. Folders that cannot be listed are skipped.

    Args:
        folders: filled with the folders of entries, below the home folder; None leaves out the entries.
    """
    for folder in (f"groups/{group}", f"data/sessions/{group}", f"data/context/{group}"):
        yield from _walk(home, folder, None)
    if folders is not None:
        yield from _walk(home, f"groups/{group}/memory", folders)


def groups_of(home: Path) -> list[str]:
    """Return the groups that have anything to search, sorted; their archives behind them."""
    found: set[str] = set()
    for folder in ("groups", "data/sessions", "data/context"):
        try:
            with os.scandir(home / folder) as entries:
                found |= {entry.name for entry in entries if entry.is_dir(follow_symlinks=False)}
        except OSError:
            continue
    names = sorted(name for name in found if NAME.fullmatch(name))
    return [*names, *(archive_of(name) for name in names if os.path.isdir(f"{home}/groups/{name}/archive"))]


def _walk(
    home: Path, folder: str, folders: set[str] | None, levels: int = _MAX_LEVELS
) -> Iterator[tuple[Source, Signature]]:
    """Yield the files of a folder; also those below it, when `folders` is given to collect the folders' names."""
    try:
        entries = os.scandir(f"{home}/{folder}")  # a Path for each of 40,000 folders takes 0.4 s
    except OSError:
        return
    if folders is not None:
        folders.add(folder)
    with entries:
        for entry in entries:
            file = f"{folder}/{entry.name}"
            try:
                if entry.is_dir(follow_symlinks=False):
                    if folders is not None and levels and not entry.name.startswith("."):
                        yield from _walk(home, file, folders, levels - 1)
                elif (source := source_of(file)) is not None:
                    yield source, Signature.of(entry.stat(follow_symlinks=False))
            except OSError:
                continue  # removed meanwhile


def read_source(
    home: Path | str, file: str, *, most_bytes: int, start: int = 0, is_cut: bool = False
) -> tuple[bytes, Signature] | None:
    """Return a file's bytes from `start` and its signature, or None if the file does not exist.

    Args:
        is_cut: return only the first `most_bytes` of a larger file.
    Raises:
        Unsearchable: it is not a plain file, or it is larger than `most_bytes`.
        OSError: the world failed.
    """
    try:
        fd, status = open_plain(f"{home}/{file}")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except NotRegular as error:
        raise Unsearchable(f"is {error}, and the host reads plain files only") from None
    with closing_fd(fd):
        size = max(0, status.st_size - start)
        if size > most_bytes and not is_cut:
            raise Unsearchable(f"has {status.st_size} bytes, the limit is {most_bytes}")
        return os.pread(fd, min(size, most_bytes), start), Signature.of(status)
