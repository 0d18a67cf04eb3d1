"""The files that people read, kept up with the journal (docs/decisions/002-projections.md).

An append is *placed* (where it will stand), committed in the journal, *projected* (written), and *settled*: seen in
the file a moment later. Until then a program that read the file before and saves it after does not lose it: what is
missing is appended again. Once settled a person may delete it for good.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from honeybadger_host.errors import StorageFailed, WorldFailed
from honeybadger_host.files import append, open_to_append
from honeybadger_host.memory.journal import Row

log = structlog.get_logger()

UNKNOWN = -1


@dataclass(slots=True)
class Target:
    """A file that a batch appends to, open."""

    file: str
    fd: int
    end: int
    lead: bytes = b""
    rows: list[Row] = field(default_factory=list)

    def place(self, length: int) -> int:
        """Return the offset at which the next `length` bytes will stand, `UNKNOWN` when that is not known."""
        offset = self.end
        if offset != UNKNOWN:
            self.end += length
        return offset


@dataclass(slots=True)
class _Unsettled:
    """What was appended to one file since it was last seen settled, oldest first."""

    rows: list[Row] = field(default_factory=list)
    since: float = 0.0
    """Monotonic seconds of the newest append."""
    is_behind: bool = False
    """An append failed: the rows are in the journal and not all in the file."""


class Batch:
    """The appends of one batch: placed, then written. Closes its files."""

    def __init__(self, projections: Projections) -> None:
        self._projections = projections
        self._targets: dict[str, Target] = {}

    def open(self, file: str) -> Target:
        """Return a file the batch appends to. Raises WorldFailed: something is in the way; nothing was changed."""
        target = self._targets.get(file)
        if target is None:
            target = self._targets[file] = self._projections.open_target(file)
        return target

    def project(self, rows: Iterable[Row], now: float) -> None:
        """Write what was committed. Never raises for a full disk: what is missing is written later."""
        targets = self._targets
        for row in rows:
            targets[row.file].rows.append(row)
        for target in targets.values():
            if target.rows:
                self._projections.write(target, now)

    def close(self) -> None:
        for target in self._targets.values():
            os.close(target.fd)
        self._targets.clear()


class Projections:
    """The append-only side of the files. One thread at a time, but for `sync`.

    Args:
        home: files of rows are below it.
        settle_seconds: how long after an append the file is looked at again.
        count_projected: see `Journal.count_projected`.
        changed: called with the file after it was written.
    """

    def __init__(
        self,
        home: Path,
        *,
        settle_seconds: float,
        count_projected: Callable[[str, bytes], int],
        changed: Callable[[str], None] = lambda file: None,
    ) -> None:
        self._home = home
        self._settle_seconds = settle_seconds
        self._count_projected = count_projected
        self._changed = changed
        self._unsettled: defaultdict[str, _Unsettled] = defaultdict(_Unsettled)
        self._created: set[Path] = set()

    @property
    def behind(self) -> list[str]:
        """Files that could not be brought up to date; tried again with every `settle`."""
        return [file for file, unsettled in self._unsettled.items() if unsettled.is_behind]

    def batch(self) -> Batch:
        """Begin the appends of a batch."""
        return Batch(self)

    def open_target(self, file: str) -> Target:
        """Open a file for a batch. Raises WorldFailed."""
        fd = self._open(file)
        if self._unsettled[file].is_behind and not self._catch_up(file):
            return Target(file, fd, UNKNOWN)
        size = os.fstat(fd).st_size
        # a log line must not be glued to a torn one; a note begins with a line end of its own
        is_torn = file.endswith(".jsonl") and size > 0 and os.pread(fd, 1, size - 1) != b"\n"
        return Target(file, fd, size + is_torn, b"\n" if is_torn else b"")

    def write(self, target: Target, now: float) -> None:
        unsettled = self._unsettled[target.file]
        unsettled.rows += target.rows
        unsettled.since = now
        if unsettled.is_behind:
            return
        try:
            append(target.fd, target.lead + b"".join(row.data for row in target.rows))
            if not self._is_still_there(target):
                self._reconcile(target.file, unsettled.rows)
        except WorldFailed as error:
            unsettled.is_behind = True
            log.error("projection.failed", file=target.file, error=str(error), waiting=len(unsettled.rows))
        self._changed(target.file)

    def settle(self, now: float, *, is_final: bool = False) -> tuple[list[Path], int | None]:
        """Look at what was appended at least `settle_seconds` ago and append again what an editor's save dropped.

        Returns:
            The files and folders to fsync, and the lowest seq that is not settled (None: all are). After the fsync the
            journal may forget everything below it.
        """
        paths: list[Path] = []
        for file, unsettled in list(self._unsettled.items()):
            if not is_final and now - unsettled.since < self._settle_seconds and len(unsettled.rows) < 20_000:
                continue
            if self._catch_up(file):
                paths.append(self._home / file)
                del self._unsettled[file]
        paths += self._created
        self._created.clear()
        lowest = min((unsettled.rows[0].seq for unsettled in self._unsettled.values() if unsettled.rows), default=None)
        return paths, lowest

    def recover(self, rows: Iterable[Row], now: float) -> int:
        """Bring the files up to date with rows of an earlier run; return how many rows were looked at."""
        count = 0
        for row in rows:
            self._unsettled[row.file].rows.append(row)
            count += 1
        for file, unsettled in list(self._unsettled.items()):
            unsettled.since = now - self._settle_seconds
            unsettled.is_behind = True
            self._catch_up(file)
        return count

    @staticmethod
    def sync(paths: Sequence[Path]) -> None:
        """Make files and folders durable. Any thread. Raises StorageFailed: the disk lost something it had taken."""
        for path in paths:
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
            except OSError:
                continue  # replaced or removed by a person meanwhile: theirs to keep
            try:
                os.fsync(fd)
            except OSError as error:
                raise StorageFailed(
                    f"fsync of {path} failed: {error.strerror}; stopping, a restart recovers"
                ) from error
            finally:
                os.close(fd)

    def _open(self, file: str) -> int:
        """Open a file to append; when that makes it, its name and its folders' names must become durable, too."""
        path = self._home / file
        if not path.exists():
            folder = path.parent
            while folder != self._home:
                self._created.add(folder)
                folder = folder.parent
        return open_to_append(path)

    def _is_still_there(self, target: Target) -> bool:
        """Return whether the path still names the file that was written (an editor may have replaced it)."""
        try:
            status = os.stat(self._home / target.file, follow_symlinks=False)
        except OSError:
            return False
        return status.st_ino == os.fstat(target.fd).st_ino

    def _catch_up(self, file: str) -> bool:
        """Reconcile one file; return whether all its rows stand in it."""
        unsettled = self._unsettled[file]
        try:
            self._reconcile(file, unsettled.rows)
        except WorldFailed as error:
            if not unsettled.is_behind:
                log.error("projection.failed", file=file, error=str(error), waiting=len(unsettled.rows))
            unsettled.is_behind = True
            return False
        if unsettled.is_behind:
            unsettled.is_behind = False
            log.info("projection.caught_up", file=file, rows=len(unsettled.rows))
        return True

    def _reconcile(self, file: str, rows: Sequence[Row]) -> None:
        """Append those of `rows` that do not stand in the file. Raises WorldFailed."""
        fd = self._open(file)
        try:
            missing = _not_where_they_belong(fd, rows)
            if not missing:
                return
            missing = _complete_torn_tail(fd, missing)
            if missing:
                missing = self._not_anywhere(fd, file, rows, missing)
            if missing:
                append(fd, b"".join(row.data for row in missing))
                log.warning("projection.repaired", file=file, rows=len(missing), first_seq=missing[0].seq)
        finally:
            os.close(fd)
        self._changed(file)

    def _not_anywhere(self, fd: int, file: str, rows: Sequence[Row], missing: Sequence[Row]) -> list[Row]:
        """Return those of `missing` that stand nowhere in the file; identical ones are counted.

        A person may have moved an entry, or changed the blank lines around it.
        """
        text = _read_all(fd)
        wanted = Counter(row.data for row in rows)
        lacking: Counter[bytes] = Counter()
        for data in {row.data for row in missing}:
            there = len(_entry_pattern(data).findall(text))
            lacking[data] = max(0, self._count_projected(file, data) + wanted[data] - there)
        found: list[Row] = []
        for row in reversed(missing):
            if lacking[row.data] > 0:
                lacking[row.data] -= 1
                found.append(row)
        return found[::-1]


def _not_where_they_belong(fd: int, rows: Sequence[Row]) -> list[Row]:
    """Return the rows whose bytes are not at their offset."""
    missing: list[Row] = []
    start = 0
    while start < len(rows):
        end, size = start, 0
        while end < len(rows) and (end == start or rows[end].offset == rows[start].offset + size) and size < 1 << 22:
            size += len(rows[end].data)
            end += 1
        run = rows[start:end]
        if rows[start].offset == UNKNOWN:
            missing += run
        else:
            there = os.pread(fd, size, rows[start].offset)
            at = 0
            for row in run:
                if there[at : at + len(row.data)] != row.data:
                    missing.append(row)
                at += len(row.data)
        start = end
    return missing


def _complete_torn_tail(fd: int, missing: Sequence[Row]) -> list[Row]:
    """Write the rest of an append that a power cut tore; return what is still missing.

    The file ends inside the first missing row, perhaps followed by zeros that the file system put for what it lost.
    """
    first = missing[0]
    size = os.fstat(fd).st_size
    if first.offset == UNKNOWN or size < first.offset:
        return list(missing)
    end = first.offset
    run: list[Row] = []
    for row in missing:
        if row.offset != end:
            break
        end += len(row.data)
        run.append(row)
    wanted = b"".join(row.data for row in run)
    if size - first.offset > len(wanted):
        return list(missing)
    there = os.pread(fd, size - first.offset, first.offset)
    kept = there.rstrip(b"\0")
    if not wanted.startswith(kept):
        return list(missing)
    if len(kept) < len(there):
        os.ftruncate(fd, first.offset + len(kept))
    append(fd, wanted[len(kept) :])
    return list(missing[len(run) :])


def _entry_pattern(data: bytes) -> re.Pattern[bytes]:
    """Return a pattern for an entry on its own lines, whatever blank lines stand around it.

    An entry that goes on (an indented line follows) is another one.
    """
    lines = [re.escape(line) for line in data.strip(b"\n").split(b"\n")]
    return re.compile(rb"(?:\A|(?<=\n))" + rb"\r?\n".join(lines) + rb"(?=\r?\n(?!  )|\r?\n?\Z)")


def _read_all(fd: int) -> bytes:
    size = os.fstat(fd).st_size
    parts: list[bytes] = []
    at = 0
    while at < size and (part := os.pread(fd, min(1 << 24, size - at), at)):
        parts.append(part)
        at += len(part)
    return b"".join(parts)
