"""The files that people read, kept up with the journal (docs/decisions/002-projections.md).

An append is *placed* (where it will stand), committed in the journal, *projected* (written), and *settled*: seen in
the file a moment later, when nobody else has changed it since the look before. Until then a program that read the file
before and saves it after does not lose it: what is missing is appended again, and begins to settle anew. Once settled
a person may delete it for good.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import accumulate
from math import inf
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from honeybadger_host.errors import WorldFailed
from honeybadger_host.storage import appended
from honeybadger_host.storage.appended import UNKNOWN, Target, appended_of
from honeybadger_host.storage.atomic_files import WHOLE_KINDS, bring_up, make_room
from honeybadger_host.storage.file_cache import signature_of
from honeybadger_host.storage.files import (
    Signature,
    alone_with,
    append,
    closing_fd,
    open_to_append,
    path_in,
    read_all,
    remove_leftovers,
)
from honeybadger_host.storage.journal_schema import Row
from honeybadger_host.storage.revised import REVISED_KINDS
from honeybadger_host.storage.revised_files import revise, sync_base, take_late_save
from honeybadger_host.storage.unsettled import Unsettled
from honeybadger_host.storage.unsynced import Unsynced

log = structlog.get_logger()

SETTLE_SECONDS = 2.0
"""After an append, until it is looked at again: an editor may have saved an older file."""
_QUIET_SECONDS: Final = 0.5
"""For so long nobody else has changed a file before it is repaired."""
_LOOK_AS_ROWS: Final = 4
"""What a look at a file costs, in rows of it."""


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
    """The changes of one batch: appends are placed, then all is written."""

    def __init__(self, projections: Projections, now: float) -> None:
        self._projections = projections
        self._now = now
        self._targets: dict[str, Target] = {}

    def target(self, file: str) -> Target:
        """Return a file the batch appends to. Raises WorldFailed: something is in the way; nothing was changed."""
        target = self._targets.get(file)
        if target is None:
            target = self._targets[file] = self._projections.target(file, self._now)
        return target

    def make_room(self, file: str) -> None:
        """See that a file can be written as a whole. Raises WorldFailed; nothing was changed but its folders made."""
        self._projections.make_room(file)

    def check_base(self, file: str, base: bytes) -> None:
        """See that notes can be taken out of a file, or put back. Raises WorldFailed; nothing was changed."""
        sync_base(path_in(self._projections.home, file), base)
        target = self.target(file)
        if target.end != target.found.size:
            raise WorldFailed(f"{file} was added to just now")

    def project(self, rows: Sequence[Row], now: float) -> None:
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
        self._projections.written_seq = rows[-1].seq if rows else self._projections.written_seq


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
        self.home = home
        self._settle_seconds = settle_seconds
        self._quiet_seconds = min(_QUIET_SECONDS, settle_seconds)
        self._count_projected = count_projected
        self._changed = changed
        self._unsettled: defaultdict[str, Unsettled] = defaultdict(Unsettled)
        self.written_seq = 0
        """All changes up to it stand in their files, but for those that are behind. Any thread may read it."""
        self._unsynced = Unsynced(home)
        self._looking_at: list[str] = []
        """Files that this round of `look` has still to come to."""
        self._due_until = -inf
        """What was appended by then is due in this round."""

    @property
    def behind(self) -> list[str]:
        """Files that could not be brought up to date; tried again with every `look`."""
        return [
            file
            for file, unsettled in list(self._unsettled.items())
            if unsettled.is_behind and unsettled.saved_since is None
        ]

    def is_behind(self, file: str) -> bool:
        """Return whether a file lacks something that the journal has. Any thread."""
        unsettled = self._unsettled.get(file)
        return unsettled is not None and unsettled.is_behind

    def is_calm(self, file: str, found: Signature | None) -> bool:
        """Return whether nothing is to be put back into a file, as far as is known of this state of it. Any thread."""
        unsettled = self._unsettled.get(file)
        if unsettled is None or not unsettled.rows:
            return True
        if unsettled.is_behind:
            return False
        return unsettled.is_whole or (unsettled.changed_at is None and unsettled.left == found)

    def batch(self, now: float) -> Batch:
        return Batch(self, now)

    def target(self, file: str, now: float) -> Target:
        """Return a file of a batch. Raises WorldFailed."""
        unsettled = self._unsettled.get(file)
        must_wait = unsettled is not None and unsettled.is_behind and not self._look(file, now, is_urgent=True)
        before = signature_of(path_in(self.home, file))
        is_untouched = unsettled is not None and unsettled.left == before and unsettled.changed_at is None
        if not must_wait and not is_untouched:
            must_wait = self._unsettled[file].is_being_saved(path_in(self.home, file), before, now)
        with closing_fd(self._open(file)) as fd:
            found = before or Signature.of(os.fstat(fd))
            lead = appended.lead_of(file, os.pread(fd, 1, max(found.size - 1, 0)))
        return Target(file, found, UNKNOWN if must_wait else found.size + len(lead), lead)

    def write(self, target: Target, now: float) -> None:
        unsettled = self._unsettled[target.file]
        unsettled.add(target.rows, now)
        if unsettled.is_behind:
            return
        try:
            for row in [*unsettled.to_revise]:  # before what is appended: see `NotesRevised`
                self._revise(target.file, unsettled, row, now)
                target.found = unsettled.left or target.found
            if target.end == UNKNOWN:
                unsettled.is_behind = True
            elif (rows := appended_of(target.rows)) and not self._append(target, rows, unsettled, now):
                unsettled.is_behind = True
                self._look(target.file, now, is_urgent=True)
        except WorldFailed as error:
            self._note_failed(target.file, unsettled, error)
        self._changed(target.file)

    def _append(self, target: Target, rows: Sequence[Row], unsettled: Unsettled, now: float) -> bool:
        """Append the rows of a batch; return whether they are in the file. Raises WorldFailed.

        They are not when somebody changed or replaced the file since they were placed.
        """
        with closing_fd(self._open(target.file)) as fd:
            if Signature.of(os.fstat(fd)) != target.found:
                return False
            data = target.lead + b"".join(row.data for row in rows)
            append(fd, data)
            after = Signature.of(os.fstat(fd))
        if unsettled.left is not None:
            unsettled.notice(target.found, now)
        unsettled.note_append(rows[0].seq)
        if after.size == target.found.size + len(data):
            unsettled.left = after
        named = signature_of(path_in(self.home, target.file))
        return named is not None and named.inode == after.inode

    def _revise(self, file: str, unsettled: Unsettled, row: Row, now: float) -> None:
        """Take notes out of a file, or put them back, unless somebody has changed it. Raises WorldFailed."""
        signature = revise(path_in(self.home, file), row)
        unsettled.to_revise.remove(row)
        unsettled.lose_places(row.seq, now)
        if signature is not None:
            unsettled.left = signature

    def _count_settled(self, file: str, unsettled: Unsettled, count: int, now: float) -> int:
        """Return how many of the oldest `count` rows are settled.

        A row that replaced the file is when no program can save into the old text any more. What one did save there
        is put in place, and everything settles anew.
        """
        for number, row in enumerate(unsettled.rows[:count]):
            if row.kind not in REVISED_KINDS:
                continue
            behind = b"".join(later.data for later in appended_of(unsettled.rows[number:]))
            try:
                late = take_late_save(path_in(self.home, file), row, behind)
            except WorldFailed as error:
                self._note_failed(file, unsettled, error)
                return number
            if late == "yes":
                unsettled.notice(signature_of(path_in(self.home, file)), now)
                unsettled.settling_since = [now] * len(unsettled.rows)
                self._changed(file)
                return 0
            if late == "perhaps":
                return number
        return count

    def make_room(self, file: str) -> None:
        """Make the folders of a file that is to be written as a whole. Raises WorldFailed."""
        self._unsynced.add_new_folders(path_in(self.home, file))
        make_room(path_in(self.home, file))

    def write_whole(self, file: str, rows: Sequence[Row], now: float) -> None:
        """Give a file what the last of `rows` says; when that fails it is tried again with every `look`."""
        unsettled = self._unsettled[file]
        unsettled.add(rows, now)
        if unsettled.is_behind:
            return
        try:
            bring_up(path_in(self.home, file), file, unsettled.rows)
        except WorldFailed as error:
            self._note_failed(file, unsettled, error)
        self._unsynced.add(path_in(self.home, file).parent)
        self._changed(file)

    def settle(self, now: float, *, is_final: bool = False) -> Settled:
        """Look at all files at once; see `look`."""
        self._looking_at = []
        self.look(now, is_final=is_final)
        return self.settled

    def look(self, now: float, *, is_final: bool = False, most: float = inf) -> bool:
        """Look at what was appended at least `settle_seconds` ago and append again what an editor's save dropped.

        Each file once: what becomes due meanwhile is for the next round, however much is appended all the time.

        Args:
            most: rows to look at, about.
            is_final: look at what is younger, too. It is not settled by that: an editor that has the file open may save
                it while no host runs, so the next start looks again.
        Returns:
            Whether files are left: the next call goes on with them.
        """
        if not self._looking_at:
            self._looking_at, self._due_until = list(self._unsettled), now - self._settle_seconds
        then = self._due_until
        while self._looking_at and most > 0:
            file = self._looking_at.pop()
            if (unsettled := self._unsettled.get(file)) is None:
                continue
            count = unsettled.count_until(then)
            due = int(min(count, most))
            most -= due + _LOOK_AS_ROWS
            if unsettled.rows and self._look(file, now, due, is_urgent=is_final):
                settled = min(due, unsettled.count_until(then))  # none when something was put back
                if is_final and unsettled.is_whole:
                    settled = len(unsettled.rows)  # an older save is nothing to make good there
                settled = self._count_settled(file, unsettled, settled, now)
                if settled:
                    self._unsynced.add(path_in(self.home, file))
                    unsettled.forget(settled)
                    if settled == due < count:
                        self._looking_at.append(file)
            if not unsettled.rows:  # all are settled, or a batch was placed and not committed
                del self._unsettled[file]
        return bool(self._looking_at)

    @property
    def settled(self) -> Settled:
        """What the looks so far came to."""
        oldest = {file: unsettled.rows[0].seq for file, unsettled in self._unsettled.items() if unsettled.rows}
        return Settled(self._unsynced.paths, oldest)

    def recover(self, rows: Iterable[Row], now: float) -> int:
        """Bring the files up to date with rows of an earlier run; return how many rows were looked at."""
        count = 0
        for row in rows:
            self._unsettled[row.file].add([row], now)
            count += 1
        for file, unsettled in list(self._unsettled.items()):
            unsettled.is_behind = True
            self._unsynced.add_folders(
                path_in(self.home, file)
            )  # the run before may have made them and not come to the fsync
            self._look(file, now, is_urgent=True)
        self._clean_up()
        return count

    def _clean_up(self) -> None:
        """Remove what the run before left of replacing files: whatever it may have been at is unsettled now."""
        names: defaultdict[Path, set[str]] = defaultdict(set)
        for file, unsettled in self._unsettled.items():
            if unsettled.is_whole or len(unsettled.appended) < len(unsettled.rows):
                path = path_in(self.home, file)
                names[path.parent].add(path.name)
        for folder, some in names.items():
            if removed := remove_leftovers(folder, some):
                log.info("projection.cleaned", folder=str(folder.relative_to(self.home)), files=removed)

    def sync(self, paths: Sequence[Path]) -> None:
        """Make files and folders durable; see `Unsynced.sync`. Any thread."""
        self._unsynced.sync(paths)

    def _open(self, file: str) -> int:
        """Open a file to append; when that makes it, its name and its folders' names must become durable, too."""
        path = path_in(self.home, file)
        self._unsynced.add_new_folders(path)
        return open_to_append(path)

    def _look(self, file: str, now: float, due: int = 0, *, is_urgent: bool = False) -> bool:
        """Put back what is missing from a file; return whether it has its oldest `due` rows, or all if it was behind.

        Args:
            is_urgent: do not wait until the file was quiet for a moment.
        """
        unsettled = self._unsettled[file]
        try:
            if unsettled.is_whole:
                # it was written in one step, and whoever saved it since has the last word
                if unsettled.is_behind and bring_up(path_in(self.home, file), file, unsettled.rows):
                    self._unsynced.add(path_in(self.home, file).parent)
                    self._changed(file)
            else:
                for row in [*unsettled.to_revise]:
                    self._revise(file, unsettled, row, now)
                    self._changed(file)
                if unsettled.appended and not self._look_at_appended(file, unsettled, now, due, is_urgent=is_urgent):
                    return False
        except WorldFailed as error:
            self._note_failed(file, unsettled, error)
            return False
        unsettled.is_behind = False
        if unsettled.has_failed:
            unsettled.has_failed = False
            log.info("projection.caught_up", file=file, rows=len(unsettled.rows))
        return True

    def _note_failed(self, file: str, unsettled: Unsettled, error: WorldFailed) -> None:
        if not unsettled.has_failed:
            log.error("projection.failed", file=file, error=str(error), waiting=len(unsettled.rows))
        unsettled.is_behind = unsettled.has_failed = True

    def _look_at_appended(self, file: str, unsettled: Unsettled, now: float, due: int, *, is_urgent: bool) -> bool:
        found = signature_of(path_in(self.home, file))
        unsettled.notice(found, now)
        if not unsettled.is_behind and unsettled.changed_at is None:
            return due > 0 and self._has(file, unsettled, appended_of(unsettled.rows[:due]), now)
        is_quiet = unsettled.changed_at is None or now - unsettled.changed_at >= self._quiet_seconds
        if not (is_quiet or is_urgent or unsettled.is_behind) or unsettled.is_being_saved(
            path_in(self.home, file), found, now
        ):
            return False
        return self._reconcile(file, unsettled, now)

    def _has(self, file: str, unsettled: Unsettled, rows: Sequence[Row], now: float) -> bool:
        """Return whether rows stand where they were written: nobody seems to have changed the file since."""
        with closing_fd(self._open(file)) as fd:
            if appended.not_where_they_belong(fd, rows):
                unsettled.changed_at = now  # within one tick of the file system's clock
        return unsettled.changed_at is None

    def _reconcile(self, file: str, unsettled: Unsettled, now: float) -> bool:
        """Put back what an older text lacks, and forget what a person deleted; return whether that is done.

        It is not when somebody changes the file just now. Raises WorldFailed.
        """
        rows = unsettled.appended
        with closing_fd(self._open(file)) as fd:
            if unsettled.left is None:  # this made it
                unsettled.left = Signature.of(os.fstat(fd))
            missing = appended.not_where_they_belong(fd, rows)
            if not missing:
                unsettled.changed_at, unsettled.is_changed = None, False
                return True
            with alone_with(fd):
                if not self._is_as_left(file, unsettled, now):
                    return False
                is_repaired = appended.complete_torn_tail(fd, rows, missing)
                unsettled.left = Signature.of(os.fstat(fd))
            if is_repaired:
                missing = appended.not_where_they_belong(fd, rows)
            text = read_all(fd, os.fstat(fd).st_size)
            count = partial(self._count_projected, file)
            lacking = appended.not_anywhere(text, unsettled.rows, missing, count)
            wanted = appended.to_put_back(rows, missing, lacking, unsettled.apart)
            places = appended.find_places(text, rows, lacking)
            if wanted:
                kept, rest = appended.to_append(text, wanted, count)
                with alone_with(fd):
                    if not self._is_as_left(file, unsettled, now):
                        return False
                    if kept < len(text):
                        os.ftruncate(fd, kept)
                    append(fd, rest)
                    unsettled.left = Signature.of(os.fstat(fd))
                is_repaired = True
                ends = accumulate((-len(row.data) for row in reversed(wanted)), initial=kept + len(rest))
                places |= {row.seq: start for row, start in zip(reversed(wanted), list(ends)[1:], strict=True)}
                if not unsettled.is_behind:
                    log.warning("projection.repaired", file=file, rows=len(wanted), first_seq=wanted[0].seq)
        unsettled.keep(places, {row.seq for row in lacking} - {row.seq for row in wanted})
        unsettled.changed_at, unsettled.is_changed = None, False
        if is_repaired:
            unsettled.settling_since = [now] * len(unsettled.rows)
        self._changed(file)
        return True

    def _is_as_left(self, file: str, unsettled: Unsettled, now: float) -> bool:
        """Return whether nobody changed or replaced a file since it was looked at: asked just before it is written."""
        before = unsettled.left
        unsettled.notice(signature_of(path_in(self.home, file)), now)
        return unsettled.left == before
