"""The files as the journal says they are: documents, and logs that only grow.

A change is *placed* before the commit: its file can be written. After the commit it is written, or kept as pending and
tried again with every `look`. Once it is written and synced, the journal's marks are past it, and recovery begins
behind them.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import structlog

from honeybadger_host.documents.document import Found
from honeybadger_host.documents.store import Documents
from honeybadger_host.errors import WorldFailed
from honeybadger_host.files.safe_files import append, closing_fd, open_to_append, path_in, read_all, remove_leftovers
from honeybadger_host.files.unsynced import Unsynced
from honeybadger_host.journal.atomic_files import row_offset
from honeybadger_host.journal.changes import Change, FileRemoved, FileWritten, NotesRevised
from honeybadger_host.journal.edits import fingerprint_of
from honeybadger_host.journal.schema import Row

log = structlog.get_logger()


class Settled(NamedTuple):
    """Files to make durable.

    Args:
        paths: files and folders to fsync.
        unsettled: file -> its oldest change that is not in it. After the fsync the journal may forget all others that
            were written before.
    """

    paths: list[Path]
    unsettled: dict[str, int]


class Batch:
    """The changes of one batch: placed, then written."""

    def __init__(self, projections: Projections) -> None:
        self._projections = projections
        self._documents = projections.documents
        self._ends: dict[str, int] = {}
        """Offset of the next line, by log."""
        self._hashes: dict[str, hashlib._Hash] = {}
        """Document -> hash of its text after the changes placed so far."""

    def make_way(self, change: Change) -> None:
        """See that a change can be written. Raises WorldFailed; nothing was changed but folders made."""
        file = change.file
        if isinstance(change, NotesRevised):
            if file in self._hashes:
                raise WorldFailed(f"{file} was changed just now")
            self._documents.renderer.check_base(file, change.base)
        elif self._documents.covers(file):
            if file not in self._hashes:
                self._documents.renderer.check(file)
        elif file not in self._ends:
            self._ends[file] = self._projections.end_of(file)

    def place(self, change: Change) -> int:
        """Return the place of a change as the journal keeps it, see `Row`."""
        file = change.file
        if isinstance(change, NotesRevised):
            self._hashes[file] = hashlib.sha256(change.text)
        if isinstance(change, FileWritten | FileRemoved | NotesRevised):
            return row_offset(change)
        if self._documents.covers(file):
            known = self._hashes.get(file) or self._documents.hash_of(file)
            self._hashes[file] = after = known or hashlib.sha256()
            after.update(change.data)
            return 0 if known is None else fingerprint_of(after.digest())
        offset = self._ends[file]
        self._ends[file] += len(change.data)
        return offset

    def project(self, rows: Sequence[Row]) -> None:
        """Write committed changes. A full disk raises nothing: the rest is written later."""
        self._projections.write(rows)


class Projections:
    """The files as the journal says they are. One thread at a time, but for `sync`.

    Args:
        home: files of rows are below it.
        changed: called with the file after it was written.
    """

    def __init__(
        self,
        home: Path,
        documents: Documents,
        unsynced: Unsynced,
        *,
        changed: Callable[[str], None] = lambda file: None,
    ) -> None:
        self.home = home
        self.documents = documents
        self._unsynced = unsynced
        self._changed = changed
        self._pending: defaultdict[str, list[Row]] = defaultdict(list)
        """Log -> changes that are not in it."""
        self._failed: set[str] = set()
        self.written_seq = 0
        """All changes up to it are in their files, except those listed as behind. Any thread may read it."""

    @property
    def behind(self) -> list[str]:
        """Files that could not be brought up to date; tried again with every `look`."""
        return [*self._failed, *self.documents.behind]

    def is_behind(self, file: str) -> bool:
        """Return whether a file lacks something that the journal has. Any thread."""
        return file in self._pending or self.documents.is_behind(file)

    def batch(self) -> Batch:
        return Batch(self)

    def end_of(self, file: str) -> int:
        """Return the offset of the next line of a log, which is made if missing. Raises WorldFailed."""
        with closing_fd(self._open(file)) as fd:
            return os.fstat(fd).st_size + len(_lead(fd))

    def write(self, rows: Sequence[Row]) -> None:
        """Write changes that were committed."""
        files: dict[str, list[Row]] = {}
        for row in rows:
            files.setdefault(row.file, []).append(row)
        for file, some in files.items():
            if self.documents.covers(file):
                self.documents.renderer.apply(file, some)
            else:
                self._pending[file] += some
                self._bring_up(file, is_first=len(self._pending[file]) == len(some))
        if rows:
            self.written_seq = rows[-1].seq

    def take_in(self, found: Sequence[Found], first: int) -> list[Row]:
        """Make versions of what people saved, see `Saves.take_in`. The writer's place is held."""
        edits = self.documents.saves.take_in(found, first)
        if edits:
            self.written_seq = edits[-1].seq
        return edits

    def _bring_up(self, file: str, *, is_first: bool) -> None:
        """Append the pending lines of a log.

        Args:
            is_first: nothing of it was tried before.
        """
        rows, path = self._pending[file], path_in(self.home, file)
        try:
            with closing_fd(self._open(file)) as fd:
                if is_first:
                    append(fd, _lead(fd) + b"".join(row.data for row in rows))
                else:
                    complete(fd, rows)
            self._unsynced.add(path)
        except WorldFailed as error:
            if file not in self._failed:
                log.error("projection.failed", file=file, error=str(error), waiting=len(rows))
            self._failed.add(file)
        else:
            if file in self._failed:
                self._failed.discard(file)
                log.info("projection.caught_up", file=file, rows=len(rows))
            del self._pending[file]
        self._changed(file)

    def look(self) -> Settled:
        """Retry failed writes; return the files to sync."""
        for file in [*self._pending]:
            self._bring_up(file, is_first=False)
        oldest = {file: rows[0].seq for file, rows in self._pending.items()}
        return Settled(self._unsynced.paths, oldest | self.documents.pending)

    def recover(self, rows: Iterable[Row]) -> int:
        """Bring the files up to date with changes of an earlier run; return how many there were."""
        files: dict[str, list[Row]] = {}
        count = 0
        for row in rows:
            files.setdefault(row.file, []).append(row)
            count += 1
        folders: defaultdict[Path, set[str]] = defaultdict(set)
        for file, some in files.items():
            path = path_in(self.home, file)
            self._unsynced.add_folders(path)  # the run before may have made them and not come to the fsync
            folders[path.parent].add(path.name)
            if self.documents.covers(file):
                self.documents.renderer.recover(file, some)
            else:
                self._pending[file] = some
                self._bring_up(file, is_first=False)
        for folder, names in folders.items():
            if removed := remove_leftovers(folder, names):
                log.info("projection.cleaned", folder=str(folder.relative_to(self.home)), files=removed)
        return count

    def sync(self, paths: Sequence[Path]) -> None:
        """Make files and folders durable; see `Unsynced.sync`. Any thread."""
        self._unsynced.sync(paths)

    def _open(self, file: str) -> int:
        """Open a file to append; when that makes it, its name and its folders' names must become durable, too."""
        path = path_in(self.home, file)
        if not path.exists():
            self._unsynced.add_folders(path)
        return open_to_append(path)


def _lead(fd: int) -> bytes:
    """Return the bytes needed before an append, so that no line is joined to a torn one."""
    size = os.fstat(fd).st_size
    return b"" if not size or os.pread(fd, 1, size - 1) == b"\n" else b"\n"


def complete(fd: int, rows: Sequence[Row]) -> None:
    """Append those lines to a log that are not in it, and the rest of a torn one. Raises WorldFailed.

    Args:
        rows: at least one, oldest first.
    """
    wanted = b"".join(row.data for row in rows)
    size, start = os.fstat(fd).st_size, rows[0].offset
    held = read_all(fd, size)
    rest = held[start:] if 0 <= start <= size else None
    if rest is not None and (start == 0 or held[start - 1 : start] == b"\n") and len(rest) <= len(wanted):
        wrong = next((at for at, (has, needs) in enumerate(zip(rest, wanted, strict=False)) if has != needs), len(rest))
        if not rest[wrong:].strip(b"\0") or all(
            has in (0, needs) for has, needs in zip(rest[wrong:], wanted[wrong:], strict=False)
        ):
            os.ftruncate(fd, start + wrong)
            append(fd, wanted[wrong:])
            return
    kept = held.rstrip(b"\0")
    lines = Counter(kept.split(b"\n"))
    missing: list[bytes] = []
    for row in reversed(rows):  # of those that are just alike the newest are missing
        line = row.data.rstrip(b"\n")
        if lines[line] > 0:
            lines[line] -= 1
        else:
            missing.append(row.data)
    if missing:
        if len(kept) < size:
            os.ftruncate(fd, len(kept))
        append(fd, _lead(fd) + b"".join(reversed(missing)))
