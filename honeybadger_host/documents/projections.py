"""The files as the journal says they are: documents, and logs that only grow.

The journal has the truth; the file of a document is its newest version, rendered. Where it is not as the host left it,
a person saved it: once nobody writes to it any more, what they changed is merged into the newest version and becomes
one.

A change is *placed* before the commit: its file can be written. After the commit it is written, or kept as pending and
tried again with every `look`. Once it is written and synced, the journal's marks are past it, and recovery begins
behind them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from honeybadger_host.documents.in_use import DocumentsInUse, Found
from honeybadger_host.documents.rendering import Renderer
from honeybadger_host.documents.saves import Saves
from honeybadger_host.errors import WorldFailed
from honeybadger_host.files.safe_files import (
    append,
    closing_fd,
    open_to_append,
    read_all,
    remove_leftovers,
)
from honeybadger_host.journal.changes import Change, FileRemoved, FileWritten, NotesRevised, read_whole, row_offset
from honeybadger_host.journal.edits import fingerprint_of
from honeybadger_host.journal.schema import Row
from honeybadger_host.log import log


class Projections:
    """The documents of a home, and its logs.

    What writes (`write`, `take_in`, `render`, `expire`, `look`, `recover`) is called by the thread that writes the
    journal; the others, and `sync`, by any thread.

    Args:
        saves: the class that takes in what people save.
    """

    def __init__(self, in_use: DocumentsInUse, *, saves: type[Saves] = Saves) -> None:
        self.in_use = in_use
        self.saves = saves(in_use)
        self.renderer = self.saves.renderer = Renderer(in_use, self.saves.overtake)
        self._unsynced = in_use.unsynced
        self.sync = self._unsynced.sync
        self._pending: defaultdict[str, list[Row]] = defaultdict(list)  # log -> changes that are not in it
        # All changes up to it are in their files, except those listed as behind. Any thread may read it.
        self.written_seq = 0

    @property
    def behind(self) -> list[str]:
        """Files that could not be brought up to date; tried again with every `look`."""
        return sorted(self.in_use.behind)

    def unwritten(self, file: str) -> list[bytes]:
        """Return the lines that a log lacks because it could not be written. Any thread."""
        return [row.data for row in self._pending.get(file, ())]

    # ------------------------------------------------------------------------------------------------------ documents

    def hash_of(self, file: str) -> hashlib._Hash | None:
        """Return the SHA-256 of the newest version, to go on with, or None if it is empty. Raises WorldFailed."""
        with self.in_use.lock:
            document = self.in_use.load(file)
            if document.hash is None:
                document.hash = hashlib.sha256(document.text)
            return document.hash.copy() if document.text else None

    def read(self, file: str) -> bytes | None:
        """Return the same as `current`, and keep nothing in memory for a file that is as it should be.

        Raises WorldFailed.
        """
        if self.in_use.get(file) is not None:
            return self.saves.current(file)
        data = read_whole(self.in_use.path_of(file))
        return self.saves.current(file) if data is not None and not self.in_use.may_be_version(file, data) else data

    def render(self, file: str) -> None:
        """Write a document whose derived members have changed, unless somebody saves it. In the writer's place.

        Raises WorldFailed.
        """
        with self.in_use.lock:
            document = self.in_use.load(file)
            if document.is_there:
                document.pending_seq = document.pending_seq or document.seq
                self.renderer.render(document, is_durable=False)
        self.in_use.changed(file)

    def expire(self, files: Sequence[str], is_over: Callable[[bytes], bool]) -> int:
        """Remove files whose life is over, and what the journal knows of them; return how many.

        In the writer's place. No change of the journal says so: expired is expired.
        """
        gone: list[str] = []
        with self.in_use.lock:
            for file in files:
                path = self.in_use.path_of(file)
                with contextlib.suppress(OSError, WorldFailed):
                    data, document = read_whole(path), self.in_use.get(file)
                    is_behind = document is not None and document.pending_seq > 0
                    if data is not None and not is_behind and is_over(data):
                        os.unlink(path)
                        self.in_use.discard(file)
                        gone.append(file)
            if gone:
                self.in_use.journal.forget_files(gone)
        for file in gone:
            self.in_use.changed(file)
            with contextlib.suppress(OSError):  # there is something left in it
                os.rmdir(self.in_use.path_of(file).parent)
        return len(gone)

    # ------------------------------------------------------------------------------------------------------ all files

    def end_of(self, file: str) -> int:
        """Return the offset of the next line of a log, which is made if missing. Raises WorldFailed."""
        with closing_fd(self._open(file)) as fd:
            return os.fstat(fd).st_size + len(_lead(fd))

    def write(self, rows: Sequence[Row]) -> None:
        """Write changes that were committed. A full disk raises nothing: the rest is written later."""
        for file, some in _by_file(rows).items():
            if self.in_use.covers(file):
                self.renderer.apply(file, some)
            else:
                self._pending[file] += some
                self._bring_up(file, is_first=len(self._pending[file]) == len(some))
        if rows:
            self.written_seq = rows[-1].seq

    def take_in(self, found: Sequence[Found], first: int) -> list[Row]:
        """Make versions of what people saved, see `Saves.take_in`. The writer's place is held."""
        edits = self.saves.take_in(found, first)
        if edits:
            self.written_seq = edits[-1].seq
        return edits

    def _bring_up(self, file: str, *, is_first: bool) -> None:
        """Append the pending lines of a log.

        Args:
            is_first: nothing of it was tried before.
        """
        rows, path = self._pending[file], self.in_use.path_of(file)
        try:
            with closing_fd(self._open(file)) as fd:
                if is_first:
                    append(fd, _lead(fd) + b"".join(row.data for row in rows))
                else:
                    complete(fd, rows)
            self._unsynced.add(path)
        except WorldFailed as error:
            self.in_use.failed(file, error)
        else:
            self.in_use.caught_up(file)
            del self._pending[file]
        self.in_use.changed(file)

    def look(self) -> tuple[list[Path], dict[str, int]]:
        """Retry failed writes.

        Returns:
            Files and folders to fsync; file -> its oldest change that is not in it. After the fsync the journal may
            forget all others that were written before.
        """
        for file in [*self._pending]:
            self._bring_up(file, is_first=False)
        oldest = {file: rows[0].seq for file, rows in self._pending.items()}
        oldest |= {one.file: one.pending_seq for one in self.in_use.every() if one.pending_seq}
        return self._unsynced.paths, oldest

    def recover(self, rows: Iterable[Row]) -> int:
        """Bring the files up to date with changes of an earlier run; return how many there were."""
        files = _by_file(rows)
        folders: defaultdict[Path, set[str]] = defaultdict(set)
        for file, some in files.items():
            path = self.in_use.path_of(file)
            self._unsynced.add_folders(path)  # the run before may have made them and not come to the fsync
            folders[path.parent].add(path.name)
            if self.in_use.covers(file):
                self.renderer.recover(file, some)
            else:
                self._pending[file] = some
                self._bring_up(file, is_first=False)
        for folder, names in folders.items():
            if removed := remove_leftovers(folder, names):
                log.info("projection.cleaned", folder=str(folder.relative_to(self.in_use.home)), files=removed)
        return sum(map(len, files.values()))

    def _open(self, file: str) -> int:
        """Open a file to append; when that makes it, its name and its folders' names must become durable, too."""
        path = self.in_use.path_of(file)
        if not path.exists():
            self._unsynced.add_folders(path)
        return open_to_append(path)


class Batch:
    """The changes of one batch: placed, then written."""

    def __init__(self, projections: Projections) -> None:
        self._projections = projections
        self._ends: dict[str, int] = {}  # offset of the next line, by log
        self._hashes: dict[str, hashlib._Hash] = {}  # document -> hash of its text after the changes placed so far

    def make_way(self, change: Change) -> None:
        """See that a change can be written. Raises WorldFailed; nothing was changed but folders made."""
        file = change.file
        if isinstance(change, NotesRevised):
            if file in self._hashes:
                raise WorldFailed(f"{file} was changed just now")
            self._projections.renderer.check_base(file, change.base)
        elif self._projections.in_use.covers(file):
            if file not in self._hashes:
                self._projections.renderer.check(file)
        elif file not in self._ends:
            self._ends[file] = self._projections.end_of(file)

    def place(self, change: Change) -> int:
        """Return the place of a change as the journal keeps it, see `Row`."""
        file = change.file
        if isinstance(change, NotesRevised):
            self._hashes[file] = hashlib.sha256(change.text)
        if isinstance(change, FileWritten | FileRemoved | NotesRevised):
            return row_offset(change)
        if self._projections.in_use.covers(file):
            known = self._hashes.get(file) or self._projections.hash_of(file)
            self._hashes[file] = after = known or hashlib.sha256()
            after.update(change.data)
            return 0 if known is None else fingerprint_of(after.digest())
        offset = self._ends[file]
        self._ends[file] += len(change.data)
        return offset


def _by_file(rows: Iterable[Row]) -> Mapping[str, list[Row]]:
    files: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        files[row.file].append(row)
    return files


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
    lines = set(kept.split(b"\n"))
    missing = [row.data for row in rows if row.data.rstrip(b"\n") not in lines]
    if missing:
        if len(kept) < size:
            os.ftruncate(fd, len(kept))
        append(fd, _lead(fd) + b"".join(missing))
