"""The changes that `undo` takes back, by their kind."""

from __future__ import annotations

from typing import Final, get_args

from honeybadger_host.files.home import ARCHIVE, MEMORY
from honeybadger_host.journal.changes import (
    EDIT_UNDONE,
    NOTE_EDITED,
    NOTE_REMOVED,
    NOTE_RESTORED,
    REMOVED,
    MarkedKind,
)
from honeybadger_host.journal.schema import EDIT_KINDS, Row

NOTE: Final = "note"
NOTE_ARCHIVED: Final = "note_archived"
ENTRY: Final = "entry"
ARCHIVED: Final = "archived"
MARKED: Final = get_args(MarkedKind)
NOTES: Final = (NOTE, NOTE_REMOVED, NOTE_RESTORED)
OF_EDITS: Final = (*EDIT_KINDS, EDIT_UNDONE, NOTE_EDITED, "text", f"text{REMOVED}")
_OF_ENTRIES: Final = tuple(f"{kind}{end}" for kind in (ENTRY, ARCHIVED) for end in ("", REMOVED))


def why_never_undone(row: Row) -> str | None:
    """Return why a change is of a kind that is never undone, or None if it is of one that can be."""
    if row.kind in (*OF_EDITS, *MARKED, *_OF_ENTRIES, NOTE_ARCHIVED):
        return None
    if row.kind in NOTES and row.file != archive_of(row):
        return None
    why = "only notes, entries, withdrawn turns and people's edits are"
    if row.file == archive_of(row):
        why = f"undo the change of {MEMORY} that came with it"
    return f"change {row.seq} ({row.kind}) cannot be undone: {why}"


def archive_of(row: Row) -> str:
    """Return the file of the archived notes of a change's group."""
    return f"groups/{row.group}/{ARCHIVE}"
