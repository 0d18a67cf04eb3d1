"""What was appended to a file and may still be lost to a program that read the file before."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Final

from honeybadger_host.storage.appended import UNKNOWN, appended_of
from honeybadger_host.storage.atomic_files import WHOLE_KINDS
from honeybadger_host.storage.files import Signature, is_open_for_writing
from honeybadger_host.storage.journal_schema import Row
from honeybadger_host.storage.revised import REVISED_KINDS

_LONGEST_PAUSE_SECONDS: Final = 5.0
"""Whoever has a file open for writing and has not changed it for longer is not in the middle of saving it."""
_LONGEST_SAVE_SECONDS: Final = 30.0
"""A program that writes for longer, as `tee -a` may for days, keeps no notes waiting."""


@dataclass(slots=True)
class Unsettled:
    """What was appended to one file since it was last seen settled, oldest first; see `Projections`."""

    rows: list[Row] = field(default_factory=list)
    settling_since: list[float] = field(default_factory=list)
    """Monotonic seconds, one for each of `rows`."""
    to_revise: list[Row] = field(default_factory=list)
    """Those of `rows` that take notes out of the file or put them back and have not been tried."""
    is_behind: bool = False
    """The rows are in the journal and not all in the file: an append failed, or somebody was saving the file."""
    has_failed: bool = False
    """It could not be written, and the log says so."""
    apart: set[int] = field(default_factory=set)
    """Seqs of rows that were appended to a file that somebody had changed since the row before."""
    is_changed: bool = False
    """Somebody changed the file since the last append, and its rows were not compared since."""
    left: Signature | None = None
    """The file as the host wrote it or a look found it last; None: it was not there, or not looked at."""
    changed_at: float | None = None
    """When it was last found changed by somebody else; None: its rows were compared since."""
    saved_since: float | None = None
    """When it was first found being saved by somebody else; None: it is not."""

    @property
    def is_whole(self) -> bool:
        """Whether the file is written as a whole: then whoever saves it last has the last word."""
        return bool(self.rows) and self.rows[0].kind in WHOLE_KINDS

    @property
    def appended(self) -> list[Row]:
        """What was appended, without what was taken out or put back."""
        return appended_of(self.rows)

    def add(self, rows: Sequence[Row], now: float) -> None:
        self.rows += rows
        self.to_revise += (row for row in rows if row.kind in REVISED_KINDS)
        self.settling_since += [now] * len(rows)

    def count_until(self, then: float) -> int:
        """Return how many of the oldest rows settle since `then` or before."""
        return bisect_right(self.settling_since, then)

    def forget(self, count: int) -> None:
        """Drop the oldest rows."""
        self.apart.difference_update(row.seq for row in self.rows[:count])
        del self.rows[:count], self.settling_since[:count]

    def keep(self, places: Mapping[int, int], deleted: Collection[int]) -> None:
        """Take in where rows stand by now, and drop those that a person deleted; both by their seq."""
        kept = [item for item in zip(self.rows, self.settling_since, strict=True) if item[0].seq not in deleted]
        self.rows = [row._replace(offset=places.get(row.seq, row.offset)) for row, _ in kept]
        self.settling_since = [since for _, since in kept]

    def is_being_saved(self, path: Path, found: Signature | None, now: float) -> bool:
        """Return whether another program is in the middle of writing the file: an append now may be overwritten.

        Args:
            found: the file as it was before this.
        """
        pause = abs(time.time() - found.mtime_ns / 1e9) if found is not None else inf
        if pause > _LONGEST_PAUSE_SECONDS or not is_open_for_writing(path):
            self.saved_since = None
            return False
        if self.saved_since is None:
            self.saved_since = now
        return now - self.saved_since < _LONGEST_SAVE_SECONDS

    def lose_places(self, before: int, now: float) -> None:
        """Take in that it is not known where rows before the seq `before` stand by now."""
        moved = {row.seq for row in self.appended if row.seq < before}
        if moved:
            self.rows = [row._replace(offset=UNKNOWN) if row.seq in moved else row for row in self.rows]
            self.changed_at = now

    def notice(self, found: Signature | None, now: float) -> None:
        """Take in what the file looks like now."""
        if found != self.left:
            self.left, self.changed_at, self.is_changed = found, now, True

    def note_append(self, seq: int) -> None:
        """Take in that rows were appended, of which `seq` is the first."""
        if self.is_changed:
            self.apart.add(seq)
            self.is_changed = False
