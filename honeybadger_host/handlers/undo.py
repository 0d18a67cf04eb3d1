"""`undo`: the operator reverses one change of memory by a new one (docs/decisions/015-undo.md).

The reversal of an edit is merged into the present content of its file. Notes move to the archive, or return from there.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

from honeybadger_agent.mailbox import GLOBAL_GROUP, OPERATOR
from honeybadger_agent.wire import Refusal, Undo
from honeybadger_agent.wording import listed
from honeybadger_host.curation.proposal import Operation, parse_proposal
from honeybadger_host.documents.history import (
    around,
    read_past,
    removal_of,
    revise,
    text_before,
)
from honeybadger_host.documents.in_use import is_json
from honeybadger_host.documents.merge import Overlapping, merge_json, merge_lines, notes_in, values_in
from honeybadger_host.files.home import ARCHIVE, HISTORY, MEMORY
from honeybadger_host.handler_kinds import Asked, Outcome
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.handlers.withdrawing import undone_mark
from honeybadger_host.journal.changes import (
    ABSENT,
    EDIT_UNDONE,
    MARKED,
    NOTE_EDITED,
    NOTE_REMOVED,
    REMOVED,
    Added,
    AddedKind,
    Change,
    FileRemoved,
    FileWritten,
    RevisedKind,
    WholeKind,
)
from honeybadger_host.journal.edits import edit_of, edited_lines, hunks_of, is_edit
from honeybadger_host.journal.forgetting import read_emptied
from honeybadger_host.journal.line_hunks import lines_of
from honeybadger_host.journal.reader import (
    ARCHIVED,
    ENTRY,
    NOTE,
    NOTE_ARCHIVED,
    NOTES,
    OF_EDITS,
    archive_of,
    read_change,
    read_request,
    why_never_undone,
)
from honeybadger_host.journal.schema import Row
from honeybadger_host.memory.entries.entry import name_in
from honeybadger_host.memory.markdown.archive import archive_standing, bring_back_notes
from honeybadger_host.memory.markdown.notes import standing_span
from honeybadger_host.text.json_values import object_in
from honeybadger_host.text.phrases import FORGOTTEN

# Files that the host appends to.
APPENDED: Mapping[str, AddedKind] = {MEMORY: "note", HISTORY: "history", ARCHIVE: "note_archived"}


@dataclass(frozen=True, slots=True)
class Undone:
    """A change of a file to undo.

    Args:
        before, after: the content of the file right before and right after it; None: there was no file.
        since: later changes of the file, oldest first.
    """

    row: Row
    before: bytes | None
    after: bytes | None
    since: Sequence[Row]


# A change, and the word for it in the reply.
_Did: TypeAlias = tuple[Change, str]


def undo(deps: Dependencies, asked: Asked[Undo], now: datetime) -> Outcome:
    """Make one more change, by the operator, that has the opposite effect."""
    undone = _undone(deps, asked, now)
    change, did = next((one for one in undone if one[1] == "restored"), undone[0])
    file = change.file.removeprefix(f"groups/{asked.group}/")
    return Outcome({"file": file, "did": did}, tuple(change for change, _ in undone))


def _undone(deps: Dependencies, asked: Asked[Undo], now: datetime) -> Sequence[_Did]:
    """Return the changes that undo one. Raises Refusal, WorldFailed."""
    journal, files = deps.journal.path, deps.whole_files
    row = _row_of(asked, journal)
    if row.kind in MARKED:
        return undone_mark(deps, asked, row, now)
    if row.kind in NOTES:
        return _undone_notes(deps, asked, row, now)
    return [put_back(undone_change(journal, each), files.view(each.file)) for each in undone_with(journal, row)]


# --------------------------------------------------------------------------------------------------------------- files


def undone_change(journal: Path, row: Row) -> Undone:
    """Return a change of a file with the texts around it. Raises Refusal, JournalError."""
    past = read_past(journal, row.file)
    since = past.rows[[each.seq for each in past.rows].index(row.seq) + 1 :]
    if row.kind not in OF_EDITS:
        return Undone(row, content_before(journal, row), None if row.kind.endswith(REMOVED) else row.data, since)
    if is_edit(row) and edit_of(row).hunks is None:
        raise _conflict(f"of edit {row.seq} {edited_lines(edit_of(row))}, only that {row.file} changed", row.file)
    before, after = around(past, row.seq)
    if not (before.is_known and after.is_known):
        raise _conflict(f"how {row.file} was right before or after change {row.seq} is not known", row.file)
    return Undone(row, before.text if before.is_there else None, after.text, since)


def content_before(journal: Path, row: Row, field: str = "payload.seq") -> bytes | None:
    """Return the content of a whole file before a change, or None if there was none.

    Raises Refusal if the journal never had it.
    """
    if row.kind.endswith(REMOVED):
        return row.data
    before = None if row.offset == ABSENT else text_before(journal, row)
    if before is None and row.offset != ABSENT:
        raise Refusal(
            "conflict",
            f"{row.file} held what the journal does not have: a person wrote it, or it is forgotten; nothing changed",
            field=field,
        )
    return before


def put_back(undone: Undone, held: bytes | None) -> _Did:
    """Return the change that undoes a change of a file. Raises Refusal.

    Args:
        held: the content of the file now; None: there is no file.
    """
    row, group, file = undone.row, undone.row.group, undone.row.file
    if held is None and undone.after:
        raise _conflict(f"{file} is gone since{_named(undone)}")
    text = undone.before or b"" if held == undone.after else _text_without(undone, held or b"")
    if text == (held or b""):
        raise _conflict(f"nothing of change {row.seq} is left to be undone in {file}{_named(undone)}", file)
    wanted = text if text or undone.before is not None else None
    kind: WholeKind = "entry" if is_json(file) else "text"
    if row.kind.startswith(ARCHIVED):
        kind = "archived"
    if file.startswith("data/working/"):
        kind = "working"  # it expires
    return change_to(group, file, held, wanted, kind, NOTE_EDITED if row.kind == NOTE_EDITED else EDIT_UNDONE)


def change_to(
    group: str,
    file: str,
    held: bytes | None,
    wanted: bytes | None,
    kind: WholeKind,
    revised: RevisedKind = EDIT_UNDONE,
) -> _Did:
    """Return the change that gives a file an earlier content.

    Args:
        held, wanted: its content now and then; None: there is no file.
        kind: kind of the change of a file that the host writes as a whole.
        revised: kind of the change of a file to which the host appends.
    """
    did = "restored" if held is None else "put_back"
    if wanted is None:
        did = "removed"
    name = file.removeprefix(f"groups/{group}/")
    if name in APPENDED and held is not None:
        return revise(group, file, held, wanted or b"", revised), did
    if name in APPENDED:
        return Added.of(APPENDED[name], group, wanted or b""), did
    if wanted is None:
        return FileRemoved(group, kind, file, held or b""), did
    return FileWritten(group, kind, file, wanted, held), did


def _text_without(undone: Undone, held: bytes) -> bytes:
    """Return the content of a file without a change. Raises Refusal if the same lines changed since."""
    row, before, after = undone.row, undone.before or b"", undone.after or b""
    if is_json(row.file):
        text = merge_json(after, held, before)
        if values_in(text) != values_in(merge_json(after, before, held)):
            raise _conflict(f"{row.file} was changed since in the same members{_named(undone)}", row.file)
        return text
    try:
        return merge_lines(after, held, before)
    except Overlapping as error:
        shown = lines_of(after)[error.line].decode("utf-8", "replace").rstrip()
        raise _conflict(
            f"line {error.line + 1} of {row.file}, which change {row.seq} left as {shown[:60]!r}, was changed "
            f"since{_named(undone)}",
            row.file,
        ) from None


def _named(undone: Undone) -> str:
    """Return the later changes in words."""
    names = [f"{row.seq} by {row.sender}" for row in undone.since]
    return f" (changes since: {listed(names[::-1])})" if names else ", and that is not recorded yet"


def _conflict(why: str, file: str = "") -> Refusal:
    advice = f": edit {file}" if file else ""
    return Refusal("conflict", f"{why}; nothing was changed{advice}", field="payload.seq")


# --------------------------------------------------------------------------------------------------------------- notes


def _undone_notes(deps: Dependencies, asked: Asked[Undo], row: Row, now: datetime) -> list[_Did]:
    """Return the changes that take a change's notes out of MEMORY.md or put them back. Raises Refusal."""
    held = deps.whole_files.view(row.file)
    if row.kind != NOTE_REMOVED:
        changes = archive_standing(asked.group, held, _notes_of(row), f"change {row.seq} was undone", asked.sender, now)
        if not changes:
            raise _conflict(
                f"{MEMORY} no longer has the notes of change {row.seq}: undo the change that took them, see "
                f"`honeybadger-host log {asked.group}`"
            )
        return [(change, "removed") for change in changes]
    removal = removal_of(deps.journal.path, row)
    gone = [note for note in removal.notes if standing_span(held or b"", note) is None]
    if not gone:
        raise _conflict(f"what change {row.seq} took out of {MEMORY} is there already")
    archive = deps.whole_files.view(archive_of(row))
    return [(change, "restored") for change in bring_back_notes(asked.group, held, archive, [removal], gone)]


def _notes_of(row: Row) -> list[bytes]:
    """Return the notes of a change, as they are appended."""
    if row.kind == NOTE:
        return [row.data]
    return [note for hunk in hunks_of(row) for note in notes_in(b"".join(hunk.added))]


# ----------------------------------------------------------------------------------------- what is undone with a change


def _row_of(asked: Asked[Undo], journal: Path) -> Row:
    """Return the change to undo. Raises Refusal."""
    seq = asked.payload.seq
    event = read_change(journal, seq)
    if event is None or event.group not in (asked.group, GLOBAL_GROUP):
        raise Refusal("not_found", f"group {asked.group} has no change {seq}", field="payload.seq")
    if event.kind == NOTE_ARCHIVED:
        event = undone_with(journal, event)[0]
    if event.kind == "session":  # it is written with the mark that withdrew or restored turns, which is undone
        event = next((row for row in read_request(journal, event) if row.kind in MARKED), event)
    is_tidied = event.sender == OPERATOR and FORGOTTEN.encode() in event.data
    if is_tidied or read_emptied(journal, [event.seq]):
        raise _conflict(f"something of change {event.seq} was forgotten, and that is for good")
    if (why := why_never_undone(event)) is not None:
        raise Refusal("invalid", why, field="payload.seq")
    if event.kind == NOTE_ARCHIVED:
        raise _conflict(f"change {event.seq} took no note out of {MEMORY}")
    return event


def undone_with(journal: Path, row: Row) -> Sequence[Row]:
    """Return the changes that are undone together with one, itself included. Raises JournalError."""
    rows = read_request(journal, row)
    if row.kind in (NOTE_REMOVED, NOTE_ARCHIVED):
        return [each for each in rows if each.kind in (NOTE_REMOVED, NOTE_ARCHIVED)]
    return _with_entry(row, rows) if row.kind.removesuffix(REMOVED) in (ENTRY, ARCHIVED) else [row]


def _with_entry(row: Row, rows: Sequence[Row]) -> Sequence[Row]:
    """Return the changes of a request that are undone together with one of an entry.

    An ordinary request is undone as a whole: a move, an entry with those that it superseded, several operations. Of a
    rewind or a pass of curation, only the changes of the same entry or operation are.
    """
    entries = [each for each in rows if each.kind.removesuffix(REMOVED) in (ENTRY, ARCHIVED)]
    proposals = [each for each in rows if each.kind == "proposal"]
    is_move = len(entries) == 2 and entries[0].kind != entries[1].kind
    is_asked = row.sender != OPERATOR or any(each.kind.startswith(ARCHIVED) for each in entries)
    if is_move or (is_asked and not proposals):
        return entries
    operations: list[Operation] = []
    for proposal in proposals:
        with suppress(ValueError):  # something of it was forgotten
            operations += parse_proposal(proposal.data).operations
    wanted = _origin_of(row, operations)
    return [each for each in entries if _origin_of(each, operations) == wanted]


def _origin_of(row: Row, operations: Sequence[Operation]) -> Operation | str:
    """Return the operation of a proposal that changed an entry, or the entry's own name if none did."""
    name, content = name_in(row.file), (object_in(row.data) or {}).get("content", "")
    for operation in operations:
        if operation.result == content or (name in operation.sources and operation.op != "add"):
            return operation
    return name
