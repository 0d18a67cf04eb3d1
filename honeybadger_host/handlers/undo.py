"""`undo`: the operator reverses a change of long-term memory (docs/decisions/015-undo.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final, TypeAlias

from honeybadger_agent.mailbox import GLOBAL_GROUP, OPERATOR
from honeybadger_agent.wire import Refusal, Undo
from honeybadger_host.curation.proposal import RETIRED, parse_proposal
from honeybadger_host.documents.history import text_before
from honeybadger_host.documents.revising import Removal, notes_in, removal_of
from honeybadger_host.files.home import MEMORY
from honeybadger_host.handler_kinds import Asked, ChangeHandler, Outcome
from honeybadger_host.handlers.undo_edits import UndoneEdit, put_back, undone_edit
from honeybadger_host.handlers.withdrawing import UndoneMark, Withdrawing
from honeybadger_host.journal.atomic_files import ABSENT, WholeFiles
from honeybadger_host.journal.changes import (
    NOTE_REMOVED,
    REMOVED,
    Added,
    Change,
    FileRemoved,
    FileWritten,
    WholeKind,
)
from honeybadger_host.journal.edits import hunks_of
from honeybadger_host.journal.forgetting import read_emptied
from honeybadger_host.journal.reader import read_change, read_request
from honeybadger_host.journal.schema import Row
from honeybadger_host.journal.undoable import (
    ARCHIVED,
    ENTRY,
    MARKED,
    NOTE,
    NOTE_ARCHIVED,
    NOTES,
    OF_EDITS,
    archive_of,
    why_never_undone,
)
from honeybadger_host.memory.markdown.archive import archive_standing, bring_back_notes, standing_span
from honeybadger_host.text.phrases import FORGOTTEN

PROPOSAL: Final = "proposal"
# A change to undo, and the earlier content of its file; None: there was none.
_Undone: TypeAlias = tuple[Row, bytes | None]
# A change of notes to undo, and the notes it took out; None: none.
_UndoneNotes: TypeAlias = tuple[Row, Removal | None]
_Found: TypeAlias = list[_Undone] | _UndoneNotes | UndoneEdit | UndoneMark


def undo(journal: Path, files: WholeFiles, withdrawing: Withdrawing) -> ChangeHandler[_Found]:
    """Return the handler of `undo`: one more change, by the operator, that has the opposite effect."""

    def prepare(asked: Asked) -> _Found:
        row = _row_of(asked, journal)
        if row.kind in MARKED:
            return withdrawing.to_undo(row)
        if row.kind in OF_EDITS:
            files.load(row.file)
            return undone_edit(journal, row)
        if row.kind in NOTES:
            files.load(row.file)
            files.load(archive_of(row))
            return row, removal_of(journal, row) if row.kind == NOTE_REMOVED else None
        rows = _with_entry(row, read_request(journal, row))
        for row in rows:
            files.load(row.file)
        befores = [_before(row, journal) if row.kind in (ENTRY, ARCHIVED) else None for row in rows]
        return list(zip(rows, befores, strict=True))

    def decide(asked: Asked, found: _Found, now: datetime) -> Outcome:
        undone: list[tuple[Change, str]]
        if isinstance(found, UndoneMark):
            did = "restored" if found.mark.is_withdrawal else "removed"
            return Outcome({"file": found.row.file, "did": did}, withdrawing.undone(asked, found, now))
        if isinstance(found, UndoneEdit):
            undone = [put_back(found, files.view(found.event.file))]
        elif isinstance(found, tuple):
            undone = _undone_notes(asked, *found, now)
        else:
            undone = [_undone(asked, row, before) for row, before in found]
        change, did = next((one for one in undone if one[1] == "restored"), undone[0])
        file = change.file.removeprefix(f"groups/{asked.group}/")
        return Outcome({"file": file, "did": did}, tuple(change for change, _ in undone))

    def _undone_notes(asked: Asked, row: Row, removal: Removal | None, now: datetime) -> list[tuple[Change, str]]:
        """Return the changes that take a change's notes out of MEMORY.md or put them back. Raises Refusal."""
        held = files.view(row.file)
        if removal is not None:
            gone = [note for note in removal.notes if not _stands(note, held)]
            if not gone:
                raise _conflict(f"what change {row.seq} took out of {MEMORY} stands there")
            changes = bring_back_notes(asked.group, held, files.view(archive_of(row)), [removal], gone)
            return [(change, "restored") for change in changes]
        changes = archive_standing(asked.group, held, _notes_of(row), f"change {row.seq} was undone", asked.sender, now)
        if changes:
            return [(change, "removed") for change in changes]
        if row.kind == NOTE and not _stands(row.data, held):
            return [(Added.of("note", asked.group, row.data), "restored")]
        raise _conflict(f"the notes of change {row.seq} were changed or deleted: edit {MEMORY}")

    def _undone(asked: Asked, row: Row, before: bytes | None) -> tuple[Change, str]:
        """Return the change that undoes a change, and the word for it in the reply. Raises Refusal."""
        held = files.view(row.file)
        kind: WholeKind = "archived" if row.kind.startswith(ARCHIVED) else ENTRY
        if row.kind.endswith(REMOVED):
            if held is not None:
                raise _conflict(f"{row.file} is there again, and nothing is written over it: move it away first")
            return FileWritten(asked.group, kind, row.file, row.data, None), "restored"
        if held != row.data:
            raise _conflict(f"{row.file} {'is gone' if held is None else 'was changed'} since change {row.seq}")
        if before is None:
            return FileRemoved(asked.group, kind, row.file, row.data), "removed"
        return FileWritten(asked.group, kind, row.file, before, row.data), "put_back"

    return ChangeHandler(decide, prepare)


def _row_of(asked: Asked, journal: Path) -> Row:
    """Return the change to undo. Raises Refusal."""
    payload: Undo = asked.payload
    event = read_change(journal, payload.seq)
    if event is None or event.group not in (asked.group, GLOBAL_GROUP):
        raise Refusal("not_found", f"group {asked.group} has no change {payload.seq}", field="payload.seq")
    if event.kind == NOTE_ARCHIVED:  # the last change of a request that archived notes
        event = next((row for row in read_request(journal, event) if row.kind == NOTE_REMOVED), event)
    is_tidied = event.sender == OPERATOR and FORGOTTEN.encode() in event.data
    if is_tidied or read_emptied(journal, [event.seq]):
        raise _conflict(f"something of change {event.seq} was forgotten, and that is for good")
    if (why := why_never_undone(event)) is not None:
        raise Refusal("invalid", why, field="payload.seq")
    if event.kind == NOTE_ARCHIVED:
        raise _conflict(f"change {event.seq} took no note out of {MEMORY}")
    return event


def _with_entry(row: Row, rows: Sequence[Row]) -> Sequence[Row]:
    """Return the changes of a request that are undone together with one of an entry.

    An ordinary request is undone as a whole: a move, an entry with those that it superseded, several operations. Of a
    rewind or a pass of curation, only the changes of the same entry or operation are.
    """
    entries = [each for each in rows if each.kind.removesuffix(REMOVED) in (ENTRY, ARCHIVED)]
    is_move = len(entries) == 2 and entries[0].kind != entries[1].kind
    is_asked = row.sender != OPERATOR or any(each.kind.startswith(ARCHIVED) for each in entries)
    is_of_one = is_asked and all(each.kind != PROPOSAL for each in rows)
    if is_move or is_of_one:
        return entries
    alone = _retired_alone(rows)
    runs: list[dict[Row, str]] = []
    operation = 0  # of the last run, if that writes no entry
    for each in entries:
        name = each.file.rpartition("/")[2]
        run = next((run for run in runs if name in run.values()), None)
        if run is None and not (each.kind == ARCHIVED and runs and alone.get(name, 0) == operation):
            operation = alone.get(name, 0)
            runs.append({})
        (runs[-1] if run is None else run)[each] = name
    return [*next(run for run in runs if row in run)]


def _retired_alone(rows: Sequence[Row]) -> Mapping[str, int]:
    """Return file name -> number of the operation that retired the entry and wrote no other in its place."""
    names: dict[str, int] = {}
    for row in rows:
        with suppress(ValueError):
            for one in parse_proposal(row.data).operations if row.kind == PROPOSAL else ():
                if one.state == "applied" and one.op in RETIRED and (one.result is None or one.category is None):
                    names |= {f"{source}.json": one.n for source in one.sources}
    return names


def _stands(note: bytes, held: bytes | None) -> bool:
    """Return whether a file's content has a note."""
    return held is not None and standing_span(held, note) is not None


def _notes_of(row: Row) -> list[bytes]:
    """Return the notes of a change, as they are appended."""
    return [row.data] if row.kind == NOTE else [note for hunk in hunks_of(row) for note in notes_in(hunk.added)]


def _before(row: Row, journal: Path) -> bytes | None:
    """Return the earlier content of a file, or None if there was none. Raises Refusal if the journal never had it."""
    if row.offset == ABSENT:
        return None
    before = text_before(journal, row)
    if before is None:
        raise _conflict(f"{row.file} held what a person had written, which the journal does not have")
    return before


def _conflict(why: str) -> Refusal:
    return Refusal("conflict", f"{why}; nothing was changed", field="payload.seq")
