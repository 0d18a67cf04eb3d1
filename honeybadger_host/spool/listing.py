"""How far the listing of a folder with many names came."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final

from honeybadger_host.storage.files import closing_fd, open_folder

SUFFIX: Final = ".json"  # file name of a request, a reply or a dead letter


@dataclass(slots=True)
class Listing:
    """The names of a large folder, read in pieces and given out in order.

    Args:
        entries: what was not read yet; None: all was.
        runs: what was read, each run in order; moved into `names` in the end.
        names: all in order, less what was queued.
        left: how many of them there are.
    """

    entries: Iterator[str] | None
    runs: list[list[str]]
    left: int
    names: Iterator[str] = field(default_factory=lambda: iter(()))


def names_of(folder: str) -> Iterator[str]:
    """Open a folder that is not a link and return its names, read as they are asked for. Raises OSError, then, too."""
    with closing_fd(open_folder(folder)) as fd:
        entries = os.scandir(fd)  # it has a descriptor of its own
    return _drain(entries)


def requests_of(names: Iterable[str]) -> list[str]:
    """Return the names that may be requests, in order."""
    return sorted(name for name in names if name.endswith(SUFFIX) and name[0] != ".")


def _drain(entries: AbstractContextManager[Iterator[os.DirEntry[str]]]) -> Iterator[str]:
    with entries as found:
        for entry in found:
            yield entry.name
