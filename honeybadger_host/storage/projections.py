"""The files that people read, kept up with the journal (docs/decisions/002-projections.md).

An append is *placed* (where it will stand), committed in the journal, *projected* (written), and *settled*: seen in
the file a moment later. Until then a program that read the file before and saves it after does not lose it: what is
missing is appended again. Once settled a person may delete it for good.
"""

from __future__ import annotations

import errno
import os
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from math import inf
from pathlib import Path
from typing import NamedTuple

import structlog

from honeybadger_host.errors import StorageFailed, WorldFailed
from honeybadger_host.storage.atomic_files import WHOLE_KINDS, bring_up, make_room
from honeybadger_host.storage.files import append, open_to_append, remove_leftovers
from honeybadger_host.storage.journal_schema import Row

log = structlog.get_logger()

UNKNOWN = -1
_NOT_OURS = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EMLINK, errno.ENXIO)


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
    appended: deque[tuple[float, int]] = field(default_factory=deque)
    """(monotonic seconds, rows) of each append, in the order of `rows`."""
    is_behind: bool = False
    """An append failed: the rows are in the journal and not all in the file."""

    @property
    def is_whole(self) -> bool:
        """Whether the file is written as a whole: then whoever saves it last has the last word."""
        return bool(self.rows) and self.rows[0].kind in WHOLE_KINDS

    def add(self, rows: Sequence[Row], now: float) -> None:
        self.rows += rows
        self.appended.append((now, len(rows)))

    def count_until(self, then: float, most: float = inf) -> int:
        """Return how many of the oldest rows were appended at `then` or before; with `most` of the oldest appends only,
        until they have so many.
        """
        total = 0
        for at, count in self.appended:
            if at > then or total >= most:
                break
            total += count
        return total

    def forget(self, count: int) -> None:
        """Drop the oldest rows, as many as some of the oldest appends brought."""
        del self.rows[:count]
        while count > 0:
            count -= self.appended.popleft()[1]


class Settled(NamedTuple):
    """What a look at the files came to.

    Args:
        paths: files and folders to fsync.
        unsettled: file -> its oldest change that is not settled. After the fsync the journal may forget all others that
            were projected before the look.
    """

    paths: list[Path]
    unsettled: dict[str, int]


class Batch:
    """The changes of one batch: appends are placed, then all is written. Closes its files."""

    def __init__(self, projections: Projections) -> None:
        self._projections = projections
        self._targets: dict[str, Target] = {}

    def open(self, file: str) -> Target:
        """Return a file the batch appends to. Raises WorldFailed: something is in the way; nothing was changed."""
        target = self._targets.get(file)
        if target is None:
            target = self._targets[file] = self._projections.open_target(file)
        return target

    def make_room(self, file: str) -> None:
        """See that a file can be written as a whole. Raises WorldFailed; nothing was changed but its folders made."""
        self._projections.make_room(file)

    def project(self, rows: Iterable[Row], now: float) -> None:
        """Write what was committed. Never raises for a full disk: what is missing is written later."""
        targets = self._targets
        whole: defaultdict[str, list[Row]] = defaultdict(list)
        for row in rows:
            if row.kind in WHOLE_KINDS:
                whole[row.file].append(row)
            else:
                targets[row.file].rows.append(row)
        for target in targets.values():
            if target.rows:
                self._projections.write(target, now)
        for file, changes in whole.items():
            self._projections.write_whole(file, changes, now)

    def close(self) -> None:
        for target in self._targets.values():
            os.close(target.fd)
        self._targets.clear()


class Projections:
    """The files as the journal says they are. One thread at a time, but for `sync`.

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
        count_projected: Callable[[str, Collection[bytes], int], Counter[bytes]],
        changed: Callable[[str], None] = lambda file: None,
    ) -> None:
        self._home = home
        self._settle_seconds = settle_seconds
        self._count_projected = count_projected
        self._changed = changed
        self._unsettled: defaultdict[str, _Unsettled] = defaultdict(_Unsettled)
        self._unsynced: set[Path] = set()
        """Files that are settled and folders with a new name; they stay until `sync` takes them."""

    @property
    def behind(self) -> list[str]:
        """Files that could not be brought up to date; tried again with every `settle`."""
        return [file for file, unsettled in list(self._unsettled.items()) if unsettled.is_behind]

    def is_behind(self, file: str) -> bool:
        """Return whether a file lacks something that the journal has. Any thread."""
        unsettled = self._unsettled.get(file)
        return unsettled is not None and unsettled.is_behind

    def batch(self) -> Batch:
        """Begin the appends of a batch."""
        return Batch(self)

    def open_target(self, file: str) -> Target:
        """Open a file for a batch. Raises WorldFailed."""
        fd = self._open(file)
        if file in self._unsettled and self._unsettled[file].is_behind and not self._catch_up(file):
            return Target(file, fd, UNKNOWN)
        lead = _lead(fd, file)
        return Target(file, fd, os.fstat(fd).st_size + len(lead), lead)

    def write(self, target: Target, now: float) -> None:
        unsettled = self._unsettled[target.file]
        unsettled.add(target.rows, now)
        if unsettled.is_behind:
            return
        try:
            append(target.fd, target.lead + b"".join(row.data for row in target.rows))
            if not self._is_still_there(target):
                self._reconcile(target.file, unsettled.rows, unsettled.rows)
        except WorldFailed as error:
            unsettled.is_behind = True
            log.error("projection.failed", file=target.file, error=str(error), waiting=len(unsettled.rows))
        self._changed(target.file)

    def make_room(self, file: str) -> None:
        """Make the folders of a file that is to be written as a whole. Raises WorldFailed."""
        self._note_new_folders(self._home / file)
        make_room(self._home / file)

    def write_whole(self, file: str, rows: Sequence[Row], now: float) -> None:
        """Give a file what the last of `rows` says; when that fails it is tried again with every `settle`."""
        unsettled = self._unsettled[file]
        unsettled.add(rows, now)
        if unsettled.is_behind:
            return
        try:
            bring_up(self._home / file, file, unsettled.rows)
        except WorldFailed as error:
            unsettled.is_behind = True
            log.error("projection.failed", file=file, error=str(error), waiting=len(unsettled.rows))
        self._unsynced.add((self._home / file).parent)
        self._changed(file)

    def settle(self, now: float, *, is_final: bool = False, most: float = inf) -> Settled:
        """Look at what was appended at least `settle_seconds` ago and append again what an editor's save dropped.

        Args:
            most: rows to look at, about; `is_due` says whether some are left.
            is_final: look at what is younger, too. It is not settled by that: an editor that has the file open may save
                it while no host runs, so the next start looks again.
        """
        for file, unsettled in list(self._unsettled.items()):
            due = unsettled.count_until(now - self._settle_seconds, most)
            most -= due
            if is_final and unsettled.is_whole:
                due = len(unsettled.rows)  # an older save is nothing to make good there
            if (due or is_final or not unsettled.rows) and self._catch_up(file, None if is_final else due):
                self._unsynced.add(self._home / file)
                unsettled.forget(due)
                if not unsettled.rows:
                    del self._unsettled[file]
        oldest = {file: unsettled.rows[0].seq for file, unsettled in self._unsettled.items() if unsettled.rows}
        return Settled(list(self._unsynced), oldest)

    def is_due(self, now: float) -> bool:
        """Return whether `settle` has something to look at that it is not failing on already."""
        then = now - self._settle_seconds
        return any(
            unsettled.appended and unsettled.appended[0][0] <= then and not unsettled.is_behind
            for unsettled in self._unsettled.values()
        )

    def recover(self, rows: Iterable[Row], now: float) -> int:
        """Bring the files up to date with rows of an earlier run; return how many rows were looked at."""
        count = 0
        for row in rows:
            self._unsettled[row.file].add([row], now)
            count += 1
        for file, unsettled in list(self._unsettled.items()):
            unsettled.is_behind = True
            self._note_folders(self._home / file)  # the run before may have made them and not come to the fsync
            self._catch_up(file)
        self._clean_up()
        return count

    def _clean_up(self) -> None:
        """Remove what the run before left of replacing files: whatever it may have been at is unsettled now."""
        names: defaultdict[Path, set[str]] = defaultdict(set)
        for file, unsettled in self._unsettled.items():
            if unsettled.is_whole:
                path = self._home / file
                names[path.parent].add(path.name)
        for folder, some in names.items():
            if removed := remove_leftovers(folder, some):
                log.info("projection.cleaned", folder=str(folder.relative_to(self._home)), files=removed)

    def sync(self, paths: Sequence[Path]) -> None:
        """Make files and folders durable. Any thread.

        Raises:
            StorageFailed: the disk lost something it had taken.
            WorldFailed: one could not be opened (too many open files); the same call may succeed later.
        """
        for path in paths:
            self._unsynced.discard(path)  # before the fsync: what is added meanwhile is not covered by it
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
            except OSError as error:
                if error.errno in _NOT_OURS:
                    continue  # replaced or removed by a person meanwhile: theirs to keep
                self._unsynced.add(path)
                raise WorldFailed(f"cannot open {path} to make it durable: {error.strerror}") from error
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
        self._note_new_folders(path)
        return open_to_append(path)

    def _note_new_folders(self, path: Path) -> None:
        """Remember what must become durable when this makes a file."""
        if not path.exists():
            self._note_folders(path)

    def _note_folders(self, path: Path) -> None:
        folder = path.parent
        while folder != self._home:
            self._unsynced.add(folder)
            folder = folder.parent

    def _is_still_there(self, target: Target) -> bool:
        """Return whether the path still names the file that was written (an editor may have replaced it)."""
        try:
            status = os.stat(self._home / target.file, follow_symlinks=False)
        except OSError:
            return False
        return status.st_ino == os.fstat(target.fd).st_ino

    def _catch_up(self, file: str, due: int | None = None) -> bool:
        """Reconcile one file; return whether its oldest `due` rows (None: all) stand in it."""
        unsettled = self._unsettled[file]
        if unsettled.is_whole and not unsettled.is_behind:
            return True  # it was written in one step, and whoever saved it since has the last word
        if unsettled.is_behind:
            due = None  # in order: nothing is settled before everything that failed stands there
        try:
            self._reconcile(file, unsettled.rows[:due], unsettled.rows)
        except WorldFailed as error:
            if not unsettled.is_behind:
                log.error("projection.failed", file=file, error=str(error), waiting=len(unsettled.rows))
            unsettled.is_behind = True
            return False
        if unsettled.is_behind:
            unsettled.is_behind = False
            log.info("projection.caught_up", file=file, rows=len(unsettled.rows))
        return True

    def _reconcile(self, file: str, rows: Sequence[Row], unsettled: list[Row]) -> None:
        """Append those of `rows` that do not stand in the file, or write it whole. Raises WorldFailed.

        Args:
            unsettled: `rows` and all that came after them; they count when identical ones are counted. What is appended
                here has its new place in it: the next look finds it there.
        """
        if unsettled and unsettled[0].kind in WHOLE_KINDS:
            if bring_up(self._home / file, file, unsettled):
                self._unsynced.add((self._home / file).parent)
                self._changed(file)
            return
        fd = self._open(file)
        try:
            missing = _not_where_they_belong(fd, rows)
            if missing and _complete_torn_tail(fd, rows, missing):
                missing = _not_where_they_belong(fd, rows)
            if not missing:
                return
            text = _read_all(fd)
            missing = self._not_anywhere(text, file, unsettled, missing)
            if missing:
                places = self._append_missing(fd, file, text, missing)
                unsettled[:] = [row._replace(offset=places.get(row.seq, row.offset)) for row in unsettled]
                log.warning("projection.repaired", file=file, rows=len(missing), first_seq=missing[0].seq)
        finally:
            os.close(fd)
        self._changed(file)

    def _append_missing(self, fd: int, file: str, text: bytes, missing: Sequence[Row]) -> dict[int, int]:
        """Append rows to a file that somebody changed; where an earlier try was torn, go on from there.

        Args:
            text: what the file holds.
        Returns:
            Seq of each row -> the offset it has now.
        """
        data = b"".join(row.data for row in missing)
        kept = text.rstrip(b"\0")
        torn = next((size for size in range(len(missing[0].data) - 1, 1, -1) if kept.endswith(data[:size])), 0)
        if torn and self._count_projected(file, [data[:torn].rstrip(b"\n") + b"\n"], missing[0].seq + 1):
            torn = 0  # an entry that this one begins with
        if len(kept) < len(text):
            os.ftruncate(fd, len(kept))
        append(fd, data[torn:] if torn else _lead(fd, file) + data)
        ends = accumulate((len(row.data) for row in missing), initial=os.fstat(fd).st_size - len(data))
        return {row.seq: start for row, start in zip(missing, ends, strict=False)}

    def _not_anywhere(self, text: bytes, file: str, unsettled: Sequence[Row], missing: Sequence[Row]) -> list[Row]:
        """Return those of `missing` that stand nowhere in the file; identical ones are counted.

        A person may have moved an entry, or changed the blank lines around it.
        """
        lines = [line.removesuffix(b"\r") for line in text.split(b"\n")]
        places: defaultdict[bytes, list[int]] = defaultdict(list)
        for number, line in enumerate(lines):
            places[line].append(number)
        there = {data: _count_entry(data, lines, places) for data in {row.data for row in missing}}
        lacking = Counter(row.data for row in unsettled)
        if found_some := {data for data, count in there.items() if count}:
            lacking += self._count_projected(file, found_some, unsettled[0].seq)
        lacking -= Counter(there)
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
    if any(later.offset < row.offset + len(row.data) for row, later in pairwise(rows)):
        return _with_overwritten(rows, missing)
    return missing


def _with_overwritten(rows: Sequence[Row], missing: Sequence[Row]) -> list[Row]:
    """Return `missing` and the rows in whose place a later one was written: the file had been cut between the two.

    The later one may be identical, or begin with the same bytes, so the earlier one looks as if it stood there.
    """
    lacking = {row.seq for row in missing}
    lowest, highest = sys.maxsize, 0
    for row in reversed(rows):
        end = row.offset + len(row.data)
        if row.seq in lacking:
            continue
        if row.offset < highest and end > lowest:
            lacking.add(row.seq)
        else:
            lowest, highest = min(lowest, row.offset), max(highest, end)
    return [row for row in rows if row.seq in lacking]


def _complete_torn_tail(fd: int, rows: Sequence[Row], missing: Sequence[Row]) -> bool:
    """Write the rest of appends that a power cut tore; return whether there was something to do.

    Looked at is the newest append that the end of the file lies in. From its first row that is not there the file must
    hold nothing but what was appended, with zeros that the file system put for what it lost: anything else is
    somebody's and stays.
    """
    size = os.fstat(fd).st_size
    lacking = {row.seq for row in missing}
    at = next((at for at in reversed(range(len(rows))) if UNKNOWN != rows[at].offset < size), -1)
    first = None
    while at >= 0:
        if rows[at].seq in lacking:
            first = at
        at -= 1
        if at >= 0 and rows[at].offset + len(rows[at].data) != rows[at + 1].offset:
            break
    if first is None:
        return False
    parts: list[bytes] = []
    start = end = rows[first].offset
    for row in rows[first:]:
        if row.offset != end:
            break
        end += len(row.data)
        parts.append(row.data)
    if size > end:
        return False
    wanted = b"".join(parts)
    there = os.pread(fd, size - start, start)
    wrong = [at for at, (has, needs) in enumerate(zip(there, wanted, strict=False)) if has != needs]
    if any(there[at] for at in wrong):
        return False
    kept = wrong[0] if wrong else len(there)
    if wrong:
        os.ftruncate(fd, start + kept)
    append(fd, wanted[kept:])
    return True


def _lead(fd: int, file: str) -> bytes:
    """Return what must stand before an append: a log line must not be glued to a torn one.

    A note begins with a line end of its own.
    """
    size = os.fstat(fd).st_size
    return b"\n" if file.endswith(".jsonl") and size > 0 and os.pread(fd, 1, size - 1) != b"\n" else b""


def _count_entry(data: bytes, lines: Sequence[bytes], places: Mapping[bytes, Sequence[int]]) -> int:
    """Return how often an entry stands on its own lines, whatever blank lines stand around it.

    An entry that goes on (an indented line follows) is another one.

    Args:
        places: line -> its numbers; looked at are those of the rarest line, so that thousands of entries in a long
            file take no longer than reading it.
    """
    entry = data.strip(b"\n").split(b"\n")
    if not all(line in places for line in entry):
        return 0
    rarest = min(range(len(entry)), key=lambda number: len(places[entry[number]]))
    count = 0
    for place in places[entry[rarest]]:
        start, end = place - rarest, place - rarest + len(entry)
        if start >= 0 and lines[start:end] == entry and not (end < len(lines) and lines[end].startswith(b"  ")):
            count += 1
    return count


def _read_all(fd: int) -> bytes:
    size = os.fstat(fd).st_size
    parts: list[bytes] = []
    at = 0
    while at < size and (part := os.pread(fd, min(1 << 24, size - at), at)):
        parts.append(part)
        at += len(part)
    return b"".join(parts)
