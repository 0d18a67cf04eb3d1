"""The journal for a page: its newest changes, and the lines that one of them removed and added.

A journal has no index by file or group and may have millions of changes. So a page reads a limited number of changes
and says how far back it read.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from honeybadger_host.errors import NotFound
from honeybadger_host.files.home import MEMORY
from honeybadger_host.journal.changes import ABSENT, NOTE_EDITED, WHOLE_KINDS, fingerprint
from honeybadger_host.journal.edits import LINE_KINDS, edit_of, hunks_of
from honeybadger_host.journal.line_hunks import hunks_between, lines_of, signed_lines
from honeybadger_host.journal.opening import read_position
from honeybadger_host.journal.reader import LogFilter, read_change, read_last, read_log
from honeybadger_host.journal.schema import Row
from honeybadger_host.search.notes import notes_of
from honeybadger_host.web.visits import PER_PAGE, Home

_MAX_LOOKED_AT = 20_000  # changes that one page reads, in 20 ms


class Looked(NamedTuple):
    """The changes of a page.

    Args:
        down_to: number of the oldest change looked at; the next page has those before it. 0: all were.
    """

    lines: Sequence[Row]
    down_to: int


def newest_seq(journal: Path) -> int:
    """Return the number of the newest change; 0: there is none. Raises JournalError."""
    return read_position(journal).committed_seq if journal.exists() else 0


def look_back(journal: Path, wanted: LogFilter) -> Looked:
    """Return the newest changes that match a filter, newest first, of those looked at. Raises JournalError."""
    if not journal.exists():
        return Looked((), 0)
    top = newest_seq(journal) + 1 if wanted.before is None else wanted.before
    after = max(0, top - 1 - _MAX_LOOKED_AT)
    rows = read_log(journal, replace(wanted, after=after, before=top), PER_PAGE + 1)
    if len(rows) > PER_PAGE:
        return Looked(rows[:PER_PAGE], rows[PER_PAGE - 1].seq)
    return Looked(rows, after and after + 1)


def note_history(journal: Path, group: str, note: str) -> list[Row]:
    """Return the changes that wrote or edited a note, newest first, of those looked at.

    Args:
        note: its text in the file.
    """
    found: list[Row] = []
    text = note.encode().strip(b"\n")
    for row, before, after in _changes_of_notes(journal, group):
        if after == text:
            found.append(row)
            text = before
    return found


def note_now(journal: Path, group: str, id_: str) -> str:
    """Return the id that a note has since it was edited; the same if none of the edits looked at was of it."""
    for _, before, after in reversed(_changes_of_notes(journal, group)):
        if before and id_ in notes_of(group, before):
            id_ = next(iter(notes_of(group, after)), id_)
    return id_


def _changes_of_notes(journal: Path, group: str) -> list[tuple[Row, bytes, bytes]]:
    """Return changes of MEMORY.md, newest first: each with the text that it removed and the one that it wrote."""
    after = max(0, newest_seq(journal) - _MAX_LOOKED_AT)
    found: list[tuple[Row, bytes, bytes]] = []
    for row in read_log(journal, LogFilter(group, file=f"groups/{group}/{MEMORY}", after=after), _MAX_LOOKED_AT):
        hunks = hunks_of(row) if row.kind == NOTE_EDITED else ()
        removed = b"".join(line for hunk in hunks for line in hunk.removed)
        added = b"".join(line for hunk in hunks for line in hunk.added) if hunks else row.data
        found.append((row, removed.strip(b"\n"), added.strip(b"\n")))
    return found


class Difference(NamedTuple):
    """The lines that a change removed and added.

    Args:
        lines: sign and text of each line.
        unknown: why lines are missing; empty: none is.
    """

    row: Row
    lines: Sequence[tuple[str, str]]
    unknown: str


def difference_of(home: Home, seq: int) -> Difference:
    """Return the difference that one change made. Raises NotFound, JournalError."""
    row = read_change(home.journal, seq) if home.journal.exists() else None
    if row is None:
        raise NotFound(f"there is no change {seq}")
    signed, unknown = _signed_lines_of(home.journal, row)
    return Difference(row, [(sign, text.decode("utf-8", "replace").rstrip("\r\n")) for sign, text in signed], unknown)


def _signed_lines_of(journal: Path, row: Row) -> tuple[Sequence[tuple[str, bytes]], str]:
    """Return sign and text of each line that a change removed or added, and why lines are missing."""
    if row.kind in LINE_KINDS:
        hunks = edit_of(row).hunks
        return signed_lines(hunks or ()), "The text of this edit was not kept." if hunks is None else ""
    lines = lines_of(row.data)
    if row.kind not in WHOLE_KINDS or row.kind.endswith("_removed"):
        return [("-" if row.kind in WHOLE_KINDS else "+", line) for line in lines], ""
    before = None if row.offset == ABSENT else read_last(journal, row.file, row.seq - 1)
    if fingerprint(before) != row.offset:
        return [(" ", line) for line in lines], "The earlier text is not in the change before; this is the new text."
    return signed_lines(hunks_between(lines_of(before or b""), lines)), ""
