"""Which appended rows stand in a file that people edit, and which of the others are to be put back."""

from __future__ import annotations

import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from honeybadger_host.storage.files import append
from honeybadger_host.storage.journal_schema import Row

UNKNOWN: Final = -1
"""The offset of a row of which it is not known where it will stand."""


def to_put_back(rows: Sequence[Row], missing: Sequence[Row], lacking: Sequence[Row]) -> list[Row]:
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
        end = row.offset
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
