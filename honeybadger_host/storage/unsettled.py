"""What was appended to a file and may still be lost to a program that read the file before."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from honeybadger_host.storage.appended import UNKNOWN
from honeybadger_host.storage.atomic_files import WHOLE_KINDS
from honeybadger_host.storage.files import Signature
from honeybadger_host.storage.journal_schema import Row
from honeybadger_host.storage.revised import REVISED_KINDS


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
        del self.rows[:count], self.settling_since[:count]

    def keep(self, places: Mapping[int, int], deleted: Collection[int]) -> None:
        """Take in where rows stand by now, and drop those that a person deleted; both by their seq."""
        kept = [item for item in zip(self.rows, self.settling_since, strict=True) if item[0].seq not in deleted]
        self.rows = [row._replace(offset=places.get(row.seq, row.offset)) for row, _ in kept]
        self.settling_since = [since for _, since in kept]

    def lose_places(self, before: int, now: float) -> None:
        """Take in that it is not known where rows before the seq `before` stand by now."""
        moved = {row.seq for row in self.appended if row.seq < before}
        if moved:
            self.rows = [row._replace(offset=UNKNOWN) if row.seq in moved else row for row in self.rows]
            self.changed_at = now

    def notice(self, found: Signature | None, now: float) -> None:
        """Take in what the file looks like now."""
        if found != self.left:
            self.left, self.changed_at = found, now


def appended_of(rows: Sequence[Row]) -> list[Row]:
    """Return those of some rows that were appended."""
    return [row for row in rows if row.kind not in REVISED_KINDS]
