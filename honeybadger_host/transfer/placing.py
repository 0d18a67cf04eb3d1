"""Move the files of a loaded group into place; after a kill the next start of a host finishes that."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Final

from honeybadger_host.errors import HomeError
from honeybadger_host.files.home import JOURNAL_FILE, folders_of, single_files_of
from honeybadger_host.files.safe_files import make_folders, sync_folder
from honeybadger_host.journal.transfer import forget_loaded, read_loaded

STAGING: Final = ".loading"  # the folder below `groups/` and `data/` for files that are not in place yet
PARTS: Final = ("groups", "data")


def finish_loading(home: Path) -> None:
    """Move the staged files of a group into place if the journal has the group; else remove them. Raises HostError."""
    journal = home / JOURNAL_FILE
    staged = [home / part / STAGING for part in PARTS]
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
            if not (home / folders_of(group)["group"]).exists():
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
    """Return whether a file is unchanged since `init` made it."""
    if file.name != "CLAUDE.md" or file.is_symlink():
        return False
    template = (resources.files("honeybadger_host") / "templates" / "CLAUDE.md").read_bytes()
    with suppress(OSError):
        return file.read_bytes() == template
    return False
