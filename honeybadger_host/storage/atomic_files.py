"""Files that change as a whole: what they hold, what they will hold, and how they get there.

An entry, an entry of working memory, a session document. People may edit them: the host replaces or removes only the
very bytes it has seen (docs/decisions/002-projections.md).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

import structlog

from honeybadger_host.domain import REMOVED, FileWritten, Whole
from honeybadger_host.errors import WorldFailed
from honeybadger_host.storage.files import FILE_MODE, NotRegular, kind_of, make_folders, open_plain, replace
from honeybadger_host.storage.journal_schema import Row

log = structlog.get_logger()

ABSENT: Final = -1
"""The fingerprint of no file."""
WHOLE_KINDS: Final = frozenset(kind + end for kind in ("entry", "working", "session") for end in ("", REMOVED))
"""Kinds of rows whose file changes as a whole; `Row.offset` is the fingerprint of what was there before."""


class Follower(Protocol):
    """Whoever keeps something of its own about whole files while a slice is decided."""

    def foresee(self, change: Whole) -> None:
        """Take in a change that was decided and is not written yet."""

    def settle(self) -> None:
        """End a slice."""


class WholeFiles:
    """What is known of whole files while a slice of requests is decided.

    `load` on the worker thread before, `get` and `foresee` on the event loop, `settle` when the slice is written: the
    road has one slice at a time, so nothing is kept from one to the next.

    Args:
        followers: told of everything that is foreseen and settled.
    """

    def __init__(self, home: Path, followers: Sequence[Follower] = ()) -> None:
        self._home = home
        self._followers = followers
        self._lock = threading.Lock()
        """Held to load and to discard: what a decision has seen is not discarded before it is written."""
        self._held: dict[str, bytes | None] = {}

    def load(self, file: str) -> bytes | None:
        """Read a file; None: there is none. Raises WorldFailed: something that is no file is in its place."""
        with self._lock:
            if file not in self._held:
                self._held[file] = read_whole(self._home / file)
            return self._held[file]

    def get(self, file: str) -> bytes | None:
        """Return what a file holds once everything decided so far is written. It must be loaded."""
        return self._held[file]

    def named(self, folder: str, name: str) -> list[str]:
        """Return the loaded files of a name below a folder that are there once everything decided so far is written."""
        return [
            file
            for file, data in self._held.items()
            if data is not None and file.startswith(f"{folder}/") and file.endswith(f"/{name}")
        ]

    def foresee(self, change: Whole) -> None:
        """Take in a change that was decided and is not written yet."""
        self._held[change.file] = change.data if isinstance(change, FileWritten) else None
        for follower in self._followers:
            follower.foresee(change)

    def foresee_append(self, file: str, data: bytes) -> None:
        """Take in that a loaded file gets more; it is appended by other means."""
        self._held[file] = (self._held[file] or b"") + data

    def settle(self) -> None:
        """End a slice."""
        self._held.clear()
        for follower in self._followers:
            follower.settle()

    def discard(self, file: str, is_due: Callable[[bytes], bool]) -> bool:
        """Remove a file past the journal, as one that has expired; return whether it was removed.

        Only in the writer's place, and never a file that this slice has loaded: its change names what it replaces, and
        would be taken for somebody's edit if that went away. Raises WorldFailed, OSError, and what `is_due` raises.

        Args:
            is_due: asked with what the file holds now.
        """
        with self._lock:
            data = None if file in self._held else read_whole(self._home / file)
            if data is None or not is_due(data):
                return False
            os.unlink(self._home / file)
            return True


def read_whole(path: Path) -> bytes | None:
    """Return what a file holds, None when there is none. Raises WorldFailed."""
    try:
        fd, status = open_plain(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except NotRegular as error:
        raise WorldFailed(f"{path} is {error} where the host needs a file: move it away") from None
    except OSError as error:
        raise WorldFailed(
            f"{path} cannot be read ({os.strerror(error.errno or 0)}): the host needs a plain file there"
        ) from None
    try:
        parts: list[bytes] = []
        while part := os.read(fd, max(status.st_size + 1, 65_536)):
            parts.append(part)
        return b"".join(parts)
    except OSError as error:
        raise WorldFailed(f"{path} cannot be read ({error.strerror})") from error
    finally:
        os.close(fd)


def fingerprint(data: bytes | None) -> int:
    """Return 63 bits that tell what a file held; `ABSENT` for no file."""
    return ABSENT if data is None else int.from_bytes(hashlib.sha256(data).digest()[:8]) >> 1


def row_offset(change: Whole) -> int:
    """Return the fingerprint of what a change replaces or removes."""
    return fingerprint(change.replaces if isinstance(change, FileWritten) else change.data)


def make_room(path: Path) -> None:
    """Make the folders of a file and see that nothing but a file is in its place. Raises WorldFailed."""
    try:
        make_folders(path.parent)
        status = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return
    except OSError as error:
        raise WorldFailed(f"cannot write {path}: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode):
        raise WorldFailed(f"{path} is {kind_of(status.st_mode)} where the host needs a file: move it away")


def bring_up(path: Path, file: str, rows: Sequence[Row]) -> bool:
    """Make a file what the last of `rows` says, unless somebody else has changed it; return whether it was written.

    Args:
        file: its name below the home folder.
        rows: its changes that may not stand in it, oldest first; at least one.
    Raises WorldFailed: it can be neither read nor written; to be tried again.
    """
    held = read_whole(path)
    states = [None if row.kind.endswith(REMOVED) else row.data for row in rows]
    wanted = states[-1]
    if held == wanted:
        return False
    known = {*(row.offset for row in rows), *map(fingerprint, states)}
    if fingerprint(held) not in known and not (held is not None and _is_torn(held, states)):
        log.info("projection.kept", file=file, seq=rows[-1].seq, why="somebody changed it meanwhile")
        return False
    try:
        if wanted is None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        else:
            make_room(path)
            replace(path, wanted, mode=_mode_of(path), is_durable=False)
    except OSError as error:
        raise WorldFailed(f"cannot write {path}: {error.strerror}") from error
    return True


def _is_torn(held: bytes, states: Sequence[bytes | None]) -> bool:
    """Return whether a power cut left a file empty, short, or with zeros at its end."""
    kept = held.rstrip(b"\0")
    return any(state is not None and state.startswith(kept) for state in states)


def _mode_of(path: Path) -> int:
    """Return the mode to write a file with: what its owner gave it stays."""
    try:
        return stat.S_IMODE(os.stat(path, follow_symlinks=False).st_mode) & 0o777
    except OSError:
        return FILE_MODE
