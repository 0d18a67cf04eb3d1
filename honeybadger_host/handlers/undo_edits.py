"""Undoing a person's edit of a file: the old lines come back, where the edit's own are still as it left them.

What the file was right after the edit is known from the journal. The difference to what it holds now says where the
lines of the edit stand by now, and whether somebody changed them since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Final

from honeybadger_agent.wire import Refusal
from honeybadger_host.documents.history import around, read_past
from honeybadger_host.storage.changes import (
    EDIT_UNDONE,
    NOTE_EDITED,
    Added,
    AddedKind,
    Change,
    FileRemoved,
    FileWritten,
    WholeKind,
)
from honeybadger_host.storage.edits import edit_of, edited_lines, is_edit
from honeybadger_host.storage.home import ARCHIVE, HISTORY, MEMORY
from honeybadger_host.storage.journal_schema import Row
from honeybadger_host.storage.line_hunks import (
    Hunk,
    Overlapping,
    apply_hunks,
    carried_over,
    hunks_between,
    is_there_again,
    lines_of,
)
from honeybadger_host.storage.revised import put_back_lines

TEXT: Final[WholeKind] = "text"
# Files that the host adds to.
APPENDED: Final[Mapping[str, AddedKind]] = {MEMORY: "note", HISTORY: "history", ARCHIVE: "note_archived"}
_MAX_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class UndoneEdit:
    """An edit that is to be undone, or the undoing of one.

    Args:
        left: the lines of the file as the edit left it.
        hunks: what makes the lines before of those.
        was_there: there was such a file before.
        since: what was done to the file after it, oldest first.
    """

    event: Row
    left: Sequence[bytes]
    hunks: Sequence[Hunk]
    was_there: bool
    since: Sequence[Row]


def undone_edit(journal: Path, event: Row) -> UndoneEdit:
    """Return what is known of an edit, or of its undoing, for `put_back`. Raises Refusal, JournalError."""
    if is_edit(event) and edit_of(event).hunks is None:
        raise _conflict(event, f"of edit {event.seq} {edited_lines(edit_of(event))}, only that {event.file} changed")
    past = read_past(journal, event.file)
    since = [*takewhile(lambda other: other.seq != event.seq, reversed(past.rows))][::-1]
    before, after = around(past, event.seq)
    if not (before.is_known and after.is_known):
        raise _conflict(event, f"how {event.file} was right before or after change {event.seq} is not known")
    return UndoneEdit(event, after.lines, hunks_between(after.lines, before.lines), before.is_there, since)


def put_back(undone: UndoneEdit, held: bytes | None) -> tuple[Change, str]:
    """Return the change that undoes an edit, and what it does. Raises Refusal.

    Args:
        held: what the file holds now; None: there is none.
    """
    event, group, file = undone.event, undone.event.group, undone.event.file
    lines = lines_of(held or b"")
    name = file.removeprefix(f"groups/{group}/")
    if name.endswith(".json") and lines != undone.left:
        raise _conflict(event, f"{file} {'is gone' if held is None else 'was changed'} since{_named(undone)}")
    hunks = _hunks_now(undone, lines)
    text = b"".join(apply_hunks(lines, hunks))
    if held is None and not text:
        raise _conflict(event, f"{file} is gone since")
    if name in APPENDED:
        if held is None:
            return Added.of(APPENDED[name], group, text), "restored"
        try:
            is_edit = event.kind == NOTE_EDITED
            return put_back_lines(group, file, held, hunks, NOTE_EDITED if is_edit else EDIT_UNDONE), "put_back"
        except UnicodeDecodeError:
            raise _conflict(event, f"lines of change {event.seq} are not UTF-8") from None
    kind: WholeKind = "entry" if name.endswith(".json") else TEXT
    if held is not None and not text and not undone.was_there:
        return FileRemoved(group, kind, file, held), "removed"
    return FileWritten(group, kind, file, text, held), "restored" if held is None else "put_back"


def _hunks_now(undone: UndoneEdit, lines: Sequence[bytes]) -> list[Hunk]:
    """Return what undoes an edit in the lines that the file has now. Raises Refusal."""
    left = [*undone.left]
    if left and not left[-1].endswith(b"\n") and lines[len(left) - 1 : len(left)] == [left[-1] + b"\n"]:
        left[-1] += b"\n"  # the host wrote a note below a last line without an end
    since = hunks_between(left, lines)
    missing = [hunk for hunk in undone.hunks if not is_there_again(hunk, since)]
    if undone.hunks and not missing:
        why = f"what change {undone.event.seq} took out of {undone.event.file} is there again"
        raise _conflict(undone.event, f"{why}{_named(undone)}")
    try:
        hunks = carried_over(missing, since)
    except Overlapping as error:
        shown = left[error.line].decode("utf-8", "replace").rstrip() if error.line < len(left) else ""
        why = f"line {error.line + 1} of {undone.event.file}, which change {undone.event.seq} left as {shown[:60]!r}"
        raise _conflict(undone.event, f"{why}, was changed since{_named(undone)}") from None
    return [_ended(hunk, lines) for hunk in hunks]


def _ended(hunk: Hunk, lines: Sequence[bytes]) -> Hunk:
    """Return a hunk for lines as they stand now, in which each line that another follows has an end."""
    end = hunk.at + len(hunk.removed)
    at, added = hunk.at, [*hunk.added]
    if added and end < len(lines) and not added[-1].endswith(b"\n"):
        added[-1] += b"\n"
    if added and at and not lines[at - 1].endswith(b"\n"):
        at, added = at - 1, [lines[at - 1] + b"\n", *added]
    return Hunk(at, lines[at:end], added)


def _named(undone: UndoneEdit) -> str:
    """Return which changes came since, for people."""
    names = [f"{event.seq} by {event.sender}" for event in undone.since]
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return f" (changes since: {', '.join(names[-_MAX_NAMED:])}{more})" if names else ", and that is not recorded yet"


def _conflict(event: Row, why: str) -> Refusal:
    return Refusal("conflict", f"{why}; nothing was changed: edit {event.file}", field="payload.seq")
