"""The labels of each session's working memory, read from the folders, without the data (RB6).

A folder is listed for every batch of requests and every query, so what a person adds, edits or deletes counts at once;
a file is read again only when it changed.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import structlog

from honeybadger_host.errors import WorldFailed
from honeybadger_host.memory.working_memory import (
    ROOT,
    Inventory,
    Label,
    WorkingEntry,
    inventory,
    parse_own,
    parse_working,
    session_folder,
    working_file,
)
from honeybadger_host.storage.atomic_files import WholeFiles, read_whole
from honeybadger_host.storage.changes import Change, FileRemoved, FileWritten
from honeybadger_host.storage.file_cache import is_young
from honeybadger_host.storage.files import Signature, kind_of

log = structlog.get_logger()

# Sessions whose labels stay in memory; the least recently used leave first and are read again when needed.
_MAX_SESSIONS: Final = 256
_MAX_FILE_BYTES: Final = 33_554_432  # twice the largest request


@dataclass(frozen=True, slots=True)
class _Seen:
    """A file as of the last look.

    Args:
        problem: why it is not an entry; None: it is one.
    """

    signature: Signature
    label: Label | None
    problem: str | None


@dataclass(frozen=True, slots=True)
class SessionLabels:
    """The labels of one session.

    Args:
        labels: file -> label, expired ones as long as their files are there.
        skipped: files that are not entries.
    """

    labels: Mapping[str, Label]
    skipped: int = 0


class WorkingMemoryStore:
    """The labels of all sessions.

    `look` and the readings may run on any thread; for a batch see `unit_of_work`.

    Args:
        wall_ns: nanoseconds since the epoch, the clock of the file system.
    """

    def __init__(self, home: Path, *, wall_ns: Callable[[], int] = time.time_ns) -> None:
        self._home = home
        self._wall_ns = wall_ns
        self._lock = threading.Lock()
        self._seen: OrderedDict[tuple[str, str], dict[str, _Seen]] = OrderedDict()
        self._views: dict[str, dict[str, Label]] = {}
        """Session's folder -> file -> label, as after everything decided in this batch."""

    # ----------------------------------------------------------------------------------------------- one batch

    def load(self, group: str, session: str) -> None:
        """Load a session's labels for a batch. Raises WorldFailed."""
        folder = session_folder(group, session)
        if folder not in self._views:
            self._views[folder] = dict(self.look(group, session).labels)

    def view(self, group: str, session: str) -> Mapping[str, Label]:
        """Return file -> label once everything decided so far is written. The session must be loaded."""
        return self._views[session_folder(group, session)]

    def apply(self, change: Change) -> None:
        labels = self._views.get(change.file.rpartition("/")[0])
        if labels is None:
            return
        if isinstance(change, FileWritten):
            labels[change.file] = parse_working(change.data)[0].label
        elif isinstance(change, FileRemoved):
            labels.pop(change.file, None)

    def end_batch(self, written: Sequence[Change]) -> None:
        """Forget everything: the folders say what was written."""
        self._views.clear()

    # ------------------------------------------------------------------------------------------------- reading

    def look(self, group: str, session: str) -> SessionLabels:
        """Return what a session's folder holds now; an unknown session is empty. Raises WorldFailed."""
        folder = session_folder(group, session)
        key = (group, session)
        with self._lock:
            before = self._seen.get(key, {})
            now = self._scan(folder, group, session, before)
            if now:
                self._seen[key] = now
                self._seen.move_to_end(key)
                while len(self._seen) > _MAX_SESSIONS:
                    self._seen.popitem(last=False)
            else:
                self._seen.pop(key, None)
        labels = {file: seen.label for file, seen in now.items() if seen.label is not None}
        return SessionLabels(labels, len(now) - len(labels))

    def read(self, group: str, session: str, key: str) -> WorkingEntry | None:
        """Return one entry, expired or not; None: there is none. Raises WorldFailed: its file is not an entry."""
        file = working_file(group, session, key)
        data = read_whole(f"{self._home}/{file}")
        return None if data is None else checked(data, group, session, file)

    def read_all(self, group: str, session: str, now: datetime) -> list[WorkingEntry]:
        """Return the entries that have not expired, with their data. Raises WorldFailed."""
        entries: list[WorkingEntry] = []
        for file, label in self.look(group, session).labels.items():
            if label.is_expired(now):
                continue
            data = read_whole(f"{self._home}/{file}")
            with contextlib.suppress(ValueError):  # written meanwhile by somebody else
                if data is not None:
                    entries.append(parse_own(data, group, session, file))
        return entries

    def inventory(self, group: str, session: str, now: datetime) -> Inventory:
        """Return what the context tells of a session; a folder that cannot be read is part of the answer."""
        source = f"{session_folder(group, session)}/"
        try:
            return inventory(source, self.look(group, session).labels.values(), now)
        except WorldFailed as error:
            log.warning("working.refused", file=source, why=str(error))
            return Inventory(source, problem="cannot be read: the host needs a folder there")

    def _scan(self, folder: str, group: str, session: str, before: Mapping[str, _Seen]) -> dict[str, _Seen]:
        found: dict[str, _Seen] = {}
        now_ns = self._wall_ns()
        try:
            with os.scandir(f"{self._home}/{folder}") as entries:
                for entry in entries:
                    if entry.name.startswith(".") or not entry.name.endswith(".json"):
                        continue
                    file = f"{folder}/{entry.name}"
                    with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                        signature = Signature.of(status := entry.stat(follow_symlinks=False))
                        old = before.get(file)
                        if old is not None and old.signature == signature and not is_young(signature, now_ns):
                            found[file] = old
                            continue
                        found[file] = seen = self._see(file, group, session, status)
                        if seen.problem is not None and (old is None or old.signature != signature):
                            log.warning("working.skipped", file=file, why=seen.problem)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise WorldFailed(f"{self._home / folder} cannot be read ({error.strerror})") from error
        return found

    def _see(self, file: str, group: str, session: str, status: os.stat_result) -> _Seen:
        signature = Signature.of(status)
        if not stat.S_ISREG(status.st_mode):
            return _Seen(signature, None, f"it is {kind_of(status.st_mode)}")
        if status.st_size > _MAX_FILE_BYTES:
            return _Seen(signature, None, f"it has {status.st_size} bytes")
        try:
            data = read_whole(f"{self._home}/{file}")
            if data is None:
                raise FileNotFoundError(file)
            return _Seen(signature, parse_own(data, group, session, file).label, None)
        except (WorldFailed, ValueError) as error:
            return _Seen(signature, None, str(error))

    # ------------------------------------------------------------------------------------------------ sweeping

    def expired(self, now: datetime, was_watched_for: Callable[[float], bool]) -> list[str]:
        """Return the files of entries whose life is over, over all sessions, and what killed hosts left half written.

        Args:
            was_watched_for: whether nobody set the clock in the last so many seconds; see `_is_due`.
        """
        found: list[str] = []
        for folder in self._folders():
            with contextlib.suppress(OSError), os.scandir(f"{self._home}/{folder}") as entries:
                for entry in entries:
                    file = f"{folder}/{entry.name}"
                    if _is_temporary(entry.name):
                        found.append(file)
                    elif entry.name.endswith(".json"):
                        with contextlib.suppress(ValueError, WorldFailed):
                            data = read_whole(f"{self._home}/{file}")
                            if data is not None and _is_due(data, now, was_watched_for):
                                found.append(file)
        return found

    def sweep(
        self,
        files: Collection[str],
        whole_files: WholeFiles,
        behind: Collection[str],
        now: datetime,
        was_watched_for: Callable[[float], bool],
    ) -> int:
        """Remove the files of entries that have expired; return how many. In the place of whoever writes projections.

        No change of the journal: expired is expired, and one that came back would be so, too.

        Args:
            files: see `expired`, as is `was_watched_for`; each is looked at again.
            behind: files that are not what the journal says; they stay.
        """
        count = 0
        for file in files:
            if _is_temporary(file.rpartition("/")[2]):
                with contextlib.suppress(OSError):
                    os.unlink(self._home / file)
            elif file not in behind:
                with contextlib.suppress(OSError, ValueError, WorldFailed):
                    count += whole_files.discard(file, lambda data: _is_due(data, now, was_watched_for))
        for folder in {file.rpartition("/")[0] for file in files}:
            with contextlib.suppress(OSError):  # there is something left in it
                os.rmdir(self._home / folder)
        return count

    def _folders(self) -> list[str]:
        folders: list[str] = []
        with contextlib.suppress(OSError), os.scandir(self._home / ROOT) as groups:
            for group in groups:
                with contextlib.suppress(OSError), os.scandir(group.path) as sessions:
                    folders += [f"{ROOT}/{group.name}/{session.name}" for session in sessions]
        return folders


def checked(data: bytes, group: str, session: str, file: str) -> WorkingEntry:
    """Return the entry of a file. Raises WorldFailed: it is none; to be mended or moved away by a person."""
    try:
        return parse_own(data, group, session, file)
    except ValueError as error:
        raise WorldFailed(f"{file} is not an entry of working memory ({error}): use another key meanwhile") from None


def _is_due(data: bytes, now: datetime, was_watched_for: Callable[[float], bool]) -> bool:
    """Return whether a file's entry has certainly lived. Raises ValueError.

    What only seems to have expired, or to be from the future, because somebody set the clock, stays on the disk until
    nobody did for as long as it was to live: then its life is over by any clock.
    """
    label = parse_working(data)[0].label
    return label.is_expired(now) and was_watched_for((label.expires_at - label.stored_at).total_seconds())


def _is_temporary(name: str) -> bool:
    return name.startswith(".") and name.endswith(".tmp")
