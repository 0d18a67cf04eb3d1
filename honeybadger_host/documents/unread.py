"""Notes that a save took out and its author may not have read: an older text saved back, or the newest notes deleted
together with something else. They are reported with the `undo` that brings them back."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

from honeybadger_host.documents.merge import is_note, merge, units_of
from honeybadger_host.journal.changes import read_whole
from honeybadger_host.journal.edits import EditReader, edit_of
from honeybadger_host.journal.line_hunks import lines_of
from honeybadger_host.journal.schema import Row

_TOLD_DAYS: Final = 3  # over a weekend; `log` says it for good


def unread_notes(newest: bytes, merged: bytes, saved: bytes) -> list[bytes]:
    """Return the newest notes that a save lacks and that are gone, newest first; empty when it is only one.

    Args:
        newest: version before the save.
        merged: version after it.
    """
    notes, read, stays = ([*filter(is_note, units_of(text))] for text in (newest, saved, merged))
    has_read, has_stayed = ({note.strip() for note in some} for some in (read, stays))
    headings = Counter(map(_heading, notes))
    headings.subtract(map(_heading, read))
    kept = set(lines_of(saved)) - {b"\n"}
    unread: list[bytes] = []
    for note in reversed(notes):
        is_there = note.strip() in has_read or headings[_heading(note)] <= 0  # perhaps in other words
        if is_there or not kept.isdisjoint(lines_of(note)[1:]):  # who keeps a line of a note has read it
            break
        headings[_heading(note)] -= 1
        if note.strip() not in has_stayed:
            unread.append(note)
    return unread if len(unread) > 1 else []


def with_unread(newest: bytes, merged: bytes, unread: list[bytes]) -> bytes:
    """Return the result of a save if the unread notes had stayed."""
    left = [*units_of(newest)]
    for note in unread:
        at = max(number for number, unit in enumerate(left) if unit == note)
        has_blank = at > 0 and not left[at - 1].strip()
        del left[at - has_blank : at + 1]
    return merge(b"".join(left), newest, merged)


def removed_unread(home: Path, journal: Path, now: float) -> list[Row]:
    """Return the edits of the last days that took unread notes, newest first, but for those whose notes are back.

    Args:
        now: seconds since the epoch.
    Raises:
        JournalError, WorldFailed.
    """
    if not journal.exists():
        return []
    since = round((now - _TOLD_DAYS * 86_400) * 1000)
    return [row for row in EditReader(journal).unread(since) if not _is_back(home, row)]


def _is_back(home: Path, row: Row) -> bool:
    """Return whether all that an edit took out is in its file."""
    there = {unit.strip() for unit in units_of(read_whole(home / row.file) or b"")}
    gone = units_of(b"".join(line for hunk in edit_of(row).hunks or () for line in hunk.removed))
    return all(unit.strip() in there for unit in gone if is_note(unit))


def _heading(unit: bytes) -> bytes:
    return unit.partition(b"\n")[0].replace(b" (pinned)", b"")  # whoever pins a note has read it
