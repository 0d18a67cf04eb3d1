"""Undoing a person's edit: its reversal is merged into the current text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Final

from honeybadger_agent.wire import Refusal
from honeybadger_agent.wording import listed
from honeybadger_host.documents.document import is_json
from honeybadger_host.documents.history import around, read_past
from honeybadger_host.documents.merge import Overlapping, merge_lines
from honeybadger_host.documents.merge_json import merge_json, values_in
from honeybadger_host.documents.revising import revise
from honeybadger_host.files.home import ARCHIVE, HISTORY, MEMORY
from honeybadger_host.journal.changes import (
    EDIT_UNDONE,
    NOTE_EDITED,
    Added,
    AddedKind,
    Change,
    FileRemoved,
    FileWritten,
    RevisedKind,
    WholeKind,
)
from honeybadger_host.journal.edits import edit_of, edited_lines, is_edit
from honeybadger_host.journal.line_hunks import lines_of
from honeybadger_host.journal.schema import Row

TEXT: Final[WholeKind] = "text"
# Files that the host appends to.
APPENDED: Final[Mapping[str, AddedKind]] = {MEMORY: "note", HISTORY: "history", ARCHIVE: "note_archived"}


@dataclass(frozen=True, slots=True)
class UndoneEdit:
    """An edit to undo, or the undoing of one.

    Args:
        before, after: the content of the file right before and right after the edit.
        was_there: the file existed before.
        since: later changes of the file, oldest first.
    """

    event: Row
    before: bytes
    after: bytes
    was_there: bool
    since: Sequence[Row]


def undone_edit(journal: Path, event: Row) -> UndoneEdit:
    """Return an edit, or its undoing, with the texts around it. Raises Refusal, JournalError."""
    if is_edit(event) and edit_of(event).hunks is None:
        raise _conflict(event, f"of edit {event.seq} {edited_lines(edit_of(event))}, only that {event.file} changed")
    past = read_past(journal, event.file)
    since = [*takewhile(lambda other: other.seq != event.seq, reversed(past.rows))][::-1]
    before, after = around(past, event.seq)
    if not (before.is_known and after.is_known):
        raise _conflict(event, f"how {event.file} was right before or after change {event.seq} is not known")
    return UndoneEdit(event, before.text, after.text, before.is_there, since)


def put_back(undone: UndoneEdit, held: bytes | None) -> tuple[Change, str]:
    """Return the change that undoes an edit, and the word for it in the reply. Raises Refusal.

    Args:
        held: the content of the file now; None: there is no file.
    """
    event, group, file = undone.event, undone.event.group, undone.event.file
    name = file.removeprefix(f"groups/{group}/")
    if held is None and undone.after:
        raise _conflict(event, f"{file} is gone since{_named(undone)}")
    text = _text_without(undone, held or b"")
    if text == (held or b""):
        raise _conflict(event, f"nothing of change {event.seq} is left to be undone in {file}{_named(undone)}")
    if name in APPENDED:
        if held is None:
            return Added.of(APPENDED[name], group, text), "restored"
        kind: RevisedKind = NOTE_EDITED if event.kind == NOTE_EDITED else EDIT_UNDONE
        return revise(group, file, held, text, kind), "put_back"
    whole: WholeKind = "entry" if is_json(file) else TEXT
    if file.startswith("data/working/"):
        whole = "working"  # it expires
    if held is not None and not text and not undone.was_there:
        return FileRemoved(group, whole, file, held), "removed"
    return FileWritten(group, whole, file, text, held), "restored" if held is None else "put_back"


def _text_without(undone: UndoneEdit, held: bytes) -> bytes:
    """Return the content of a file without an edit. Raises Refusal if the same lines changed since."""
    event, before, after = undone.event, undone.before, undone.after
    if is_json(event.file):
        text = merge_json(after, held, before)
        if held != after and values_in(text) != values_in(merge_json(after, before, held)):
            raise _conflict(event, f"{event.file} was changed since in the same members{_named(undone)}")
        return text
    try:
        return merge_lines(after, held, before)
    except Overlapping as error:
        shown = lines_of(after)[error.line].decode("utf-8", "replace").rstrip()
        why = f"line {error.line + 1} of {event.file}, which change {event.seq} left as {shown[:60]!r}"
        raise _conflict(event, f"{why}, was changed since{_named(undone)}") from None


def _named(undone: UndoneEdit) -> str:
    """Return the later changes in words."""
    names = [f"{event.seq} by {event.sender}" for event in undone.since]
    return f" (changes since: {listed(names[::-1])})" if names else ", and that is not recorded yet"


def _conflict(event: Row, why: str) -> Refusal:
    return Refusal("conflict", f"{why}; nothing was changed: edit {event.file}", field="payload.seq")
