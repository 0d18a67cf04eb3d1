"""Paths of a group's files: from a home into an export, from there into a home, and the last step of a load.

After a kill the next start of a host moves the files of a loaded group into place.
"""

import os
import shutil
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from honeybadger_host.errors import Damaged, HomeError, HostError
from honeybadger_host.files.home import JOURNAL_FILE, folders_of, single_files_of
from honeybadger_host.files.safe_files import is_utf8, make_folders, sync_folder
from honeybadger_host.journal.transfer import forget_loaded, read_loaded

MAX_PIECE_BYTES = 64 << 20  # size limit of a line, a JSON element or a Markdown file that is read at once
STAGING = ".loading"  # the folder below `groups/` and `data/` for files that are not in place yet


def place_of(file: str, group: str) -> str:
    """Return the place in an export of a group's file below the home. Raises HostError if it is not the group's."""
    for place, path in (*single_files_of(group).items(), *folders_of(group).items()):
        if file == path or file.startswith(f"{path}/"):
            return f"{place}{file[len(path) :]}"
    raise HostError(f"{file} is not a file of {group}: report this")


def file_of(place: str, group: str) -> str:
    """Return the path below the home of a place in an export. Raises Damaged if no group has such a place."""
    first, *rest = place.split("/")
    path = folders_of(group).get(first) if rest else single_files_of(group).get(first)
    if path is None or not is_plain(place):
        raise Damaged(f"{place!a} is not a place of a group's")
    return "/".join((path, *rest))


def is_plain(path: str) -> bool:
    """Return whether each part of a path is a plain name: UTF-8, not hidden, no `..`."""
    return "\0" not in path and is_utf8(path) and all(part and part[0] != "." for part in path.split("/"))


# -------------------------------------------------------------------------------------- moving into place


def finish_loading(home: Path) -> None:
    """Move the staged files of a group into place if the journal has the group; else remove them. Raises HostError."""
    journal = home / JOURNAL_FILE
    staged = [home / part / STAGING for part in ("groups", "data")]
    if not any(map(os.path.lexists, staged)):
        return
    group = read_loaded(journal) if journal.exists() else None
    try:
        if group is not None:
            for file in (*folders_of(group).values(), *single_files_of(group).values()):
                source, target = staged_file(home, file), home / file
                if os.path.lexists(source):
                    _make_way(target)
                    make_folders(target.parent)
                    os.rename(source, target)
                    sync_folder(target.parent)
            make_folders(home / folders_of(group)["group"])
            forget_loaded(journal)
        for folder in staged:
            shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        raise HomeError(
            f"the files of {group} cannot be moved into place: {error.filename}: {error.strerror}. Move away what is "
            "there, then start again"
        ) from None


def _make_way(target: Path) -> None:
    """Empty a folder that has only files of `init`. Raises OSError if it has more.

    The folder itself stays, so that the group exists until another one is renamed over it.
    """
    for file in files_below(target):
        if is_template(file):
            file.unlink()
    for root, folders, _ in os.walk(target, topdown=False):
        for name in folders:
            os.rmdir(os.path.join(root, name))


def staged_file(home: Path, file: str) -> Path:
    part, _, rest = file.partition("/")
    return home / part / STAGING / rest


def files_below(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        for name in (*names, *(name for name in folders if os.path.islink(f"{root}/{name}"))):
            yield Path(root, name)


def is_template(file: Path) -> bool:
    """Return whether a file is unchanged since `init` made it. Raises OSError."""
    template = resources.files("honeybadger_host") / "templates" / "CLAUDE.md"
    return file.name == template.name and not file.is_symlink() and file.read_bytes() == template.read_bytes()
