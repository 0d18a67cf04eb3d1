"""What is appended to a file that people edit: where it will stand, whether it does, and what is to be put back."""

from __future__ import annotations

import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, TypeAlias

from honeybadger_agent.mailbox import OPERATOR
from honeybadger_host.storage.files import Signature, append
from honeybadger_host.storage.journal_schema import Row
from honeybadger_host.storage.revised import REVISED_KINDS, count_notes

UNKNOWN: Final = -1
"""The offset of a row of which it is not known where it will stand."""
CountProjected: TypeAlias = Callable[[Collection[bytes], int], Counter[bytes]]
"""Entries, and a seq before which they are counted; see `Journal.count_projected`."""


@dataclass(slots=True)
class Target:
    """A file that a batch appends to.

    Args:
        found: the file when the batch was placed.
        end: where the next append will stand, `UNKNOWN` while somebody else is saving the file.
    """

    file: str
    found: Signature
    end: int
    lead: bytes
    rows: list[Row] = field(default_factory=list)

    def place(self, length: int) -> int:
        """Return the offset at which the next `length` bytes will stand, `UNKNOWN` when that is not known."""
        offset = self.end
        if offset != UNKNOWN:
            self.end += length
        return offset


def lead_of(file: str, last: bytes) -> bytes:
    """Return what must stand before an append: a log line must not be glued to a torn one.

    A note begins with a line end of its own.

    Args:
        last: the last byte of the file; empty when there is none.
    """
    return b"\n" if file.endswith(".jsonl") and last not in (b"", b"\n") else b""


def to_put_back(
    rows: Sequence[Row], missing: Sequence[Row], lacking: Sequence[Row], apart: Collection[int] = ()
) -> list[Row]:
    """Return those of the lacking rows that are to be appended again; the others were deleted by a person.

    Whoever saves a text that has a later row had read the earlier ones, too, and took them out. What lacks the newest
    rows, as a run, is an older text. A later row proves nothing where it stands in its old place (then something was
    written over the earlier ones), when the file was changed between the two appends (it may have come behind an older
    text), or when one just like it is lacking (it may be either). Of rows with the same bytes the newest counts as
    lacking; it is appended again as well when it may be an earlier one that an older text lacks.

    Args:
        rows: what was appended to the file since it settled, oldest first.
        missing: those that do not stand in their places.
        lacking: those of them that stand nowhere.
        apart: seqs of those before which somebody changed the file.
    """
    gone, alike = {row.seq for row in lacking}, {row.data for row in lacking}
    moved = {row.seq for row in missing if row.data not in alike}
    wanted: list[Row] = []
    read: list[Row] = []
    unread: dict[bytes, int] = {}
    end: int | None = None
    was_read = False
    for row in reversed(rows):
        was_read &= row.offset + len(row.data) == end
        end = None if row.seq in apart else row.offset
        if row.seq in gone:
            (read if was_read else wanted).append(row)
            continue
        if not was_read:
            unread[row.data] = row.seq  # the oldest of those alike in the end
        was_read |= row.seq in moved
    wanted += (row for row in read if unread.get(row.data, row.seq) < row.seq)
    return sorted(wanted)


def find_places(text: bytes, rows: Sequence[Row], lacking: Sequence[Row]) -> dict[int, int]:
    """Return seq -> offset of those rows that are not lacking, as far as they stand in their order."""
    gone = {row.seq for row in lacking}
    places: dict[int, int] = {}
    end = 0
    for row in rows:
        if row.seq not in gone:
            at = text.find(row.data, end)
            if at < 0:
                break
            places[row.seq] = at
            end = at + len(row.data)
    return places


def not_where_they_belong(fd: int, rows: Sequence[Row]) -> list[Row]:
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


def complete_torn_tail(fd: int, rows: Sequence[Row], missing: Sequence[Row]) -> bool:
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
    if there == b"\n" and start and os.pread(fd, 1, start - 1) != b"\n":
        return False  # an older text that ends there, by chance: the blank line before a note is not lost
    wrong = [at for at, (has, needs) in enumerate(zip(there, wanted, strict=False)) if has != needs]
    if any(there[at] for at in wrong):
        return False
    kept = wrong[0] if wrong else len(there)
    if wrong:
        os.ftruncate(fd, start + kept)
    append(fd, wanted[kept:])
    return True


def count_entries(text: bytes, entries: Iterable[bytes]) -> Counter[bytes]:
    """Return how often each entry stands in a text on its own lines, whatever blank lines stand around it."""
    lines = [line.removesuffix(b"\r") for line in text.split(b"\n")]
    places: defaultdict[bytes, list[int]] = defaultdict(list)
    for number, line in enumerate(lines):
        places[line].append(number)
    return Counter({data: _count_entry(data, lines, places) for data in entries})


def _count_entry(data: bytes, lines: Sequence[bytes], places: Mapping[bytes, Sequence[int]]) -> int:
    """Return how often an entry stands there; one that goes on (an indented line follows) is another one.

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


def to_append(text: bytes, missing: Sequence[Row], count: CountProjected) -> tuple[int, bytes]:
    """Return how much of a file to keep, and what to append so that it has `missing`, too.

    Where an earlier try was torn it goes on from there. Zeros that a power cut left at the end go. A save in place may
    pause just before or behind a line end: what is put back stands where the rest of the save puts it, too.
    """
    data = b"".join(row.data for row in missing)
    kept = text.rstrip(b"\0")
    torn = next((size for size in range(len(missing[0].data) - 1, 1, -1) if kept.endswith(data[:size])), 0)
    if torn and count([data[:torn].rstrip(b"\n") + b"\n"], missing[0].seq + 1):
        torn = 0  # an entry that this one begins with
    if torn:
        return len(kept), data[torn:]
    if kept.endswith(b"\n\n"):
        return len(kept), data.removeprefix(b"\n")
    return len(kept), data if kept.endswith(b"\n") or not kept else b"\n" + data


def not_anywhere(text: bytes, unsettled: Sequence[Row], missing: Sequence[Row], count: CountProjected) -> list[Row]:
    """Return those of `missing` that stand nowhere in the file; identical ones are counted.

    A person may have moved an entry, or changed the blank lines around it.

    Args:
        unsettled: what was done to the file since it settled.
    """
    there = count_entries(text, {row.data for row in missing})
    rows = appended_of(unsettled)
    lacking = Counter(row.data for row in rows)
    if found_some := {data for data, times in there.items() if times}:
        lacking += count(found_some, rows[0].seq)
        lacking -= Counter(row.data for row in rows if row.sender == OPERATOR and row.data in found_some)
    for row in unsettled:
        if row.kind in REVISED_KINDS and row.seq > rows[0].seq:
            lacking.update({data: n for data, n in count_notes(row.kind, row.data).items() if data in there})
    lacking -= there
    found: list[Row] = []
    for row in reversed(missing):
        if lacking[row.data] > 0:
            lacking[row.data] -= 1
            found.append(row)
    return found[::-1]


def appended_of(rows: Sequence[Row]) -> list[Row]:
    """Return those of some rows that were appended."""
    return [row for row in rows if row.kind not in REVISED_KINDS]
