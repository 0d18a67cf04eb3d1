"""`undo` and `rewind`: the operator takes back changes by new ones (docs/decisions/015-undo.md).

`undo` reverses one change of long-term memory; the reversal of a person's edit is merged into the current text.
`rewind` brings a group's files back to what they held at an earlier moment. All of it is one request, so one commit: a
kill leaves all or nothing. If the journal cannot bring back one of the files, the request is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, TypeAlias

from honeybadger_agent.mailbox import GLOBAL_GROUP, OPERATOR
from honeybadger_agent.wire import MAX_NUMBER, Refusal, Rewind, Undo
from honeybadger_agent.wording import listed
from honeybadger_host.curation.proposal import RETIRED, parse_proposal
from honeybadger_host.documents.history import (
    Removal,
    around,
    notes_in,
    read_past,
    removal_of,
    revise,
    text_before,
    version_at,
)
from honeybadger_host.documents.in_use import is_json
from honeybadger_host.documents.merge import Overlapping, merge_json, merge_lines, values_in
from honeybadger_host.errors import JournalError, NotFound, WorldFailed
from honeybadger_host.files.home import ARCHIVE, HISTORY, MEMORY
from honeybadger_host.handler_kinds import Asked, ChangeHandler, Outcome
from honeybadger_host.handlers.withdrawing import UndoneMark, Withdrawing
from honeybadger_host.journal.changes import (
    ABSENT,
    EDIT_UNDONE,
    NOTE_EDITED,
    NOTE_REMOVED,
    REMOVED,
    Added,
    AddedKind,
    Change,
    FileRemoved,
    FileWritten,
    RevisedKind,
    WholeFiles,
    WholeKind,
)
from honeybadger_host.journal.edits import edit_of, edited_lines, hunks_of, is_edit
from honeybadger_host.journal.forgetting import read_emptied
from honeybadger_host.journal.line_hunks import hunks_between, lines_of
from honeybadger_host.journal.reader import (
    ARCHIVED,
    ENTRY,
    MARKED,
    NOTE,
    NOTE_ARCHIVED,
    NOTES,
    OF_EDITS,
    archive_of,
    read_change,
    read_changed_files,
    read_first,
    read_last,
    read_request,
    why_never_undone,
)
from honeybadger_host.journal.schema import LAST_SEQ, Row
from honeybadger_host.memory.injection_ledger import InjectionLedger
from honeybadger_host.memory.markdown.archive import archive_standing, bring_back_notes, standing_span
from honeybadger_host.memory.moments import moment_of
from honeybadger_host.memory.peoples_files import group_of
from honeybadger_host.memory.turn_log_store import watermark_file
from honeybadger_host.text.phrases import FORGOTTEN
from honeybadger_host.text.time_stamps import time_stamp

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
        raise _conflict(
            f"of edit {event.seq} {edited_lines(edit_of(event))}, only that {event.file} changed", event.file
        )
    past = read_past(journal, event.file)
    since = [*takewhile(lambda other: other.seq != event.seq, reversed(past.rows))][::-1]
    before, after = around(past, event.seq)
    if not (before.is_known and after.is_known):
        raise _conflict(f"how {event.file} was right before or after change {event.seq} is not known", event.file)
    return UndoneEdit(event, before.text, after.text, before.is_there, since)


def put_back(undone: UndoneEdit, held: bytes | None) -> tuple[Change, str]:
    """Return the change that undoes an edit, and the word for it in the reply. Raises Refusal.

    Args:
        held: the content of the file now; None: there is no file.
    """
    event, group, file = undone.event, undone.event.group, undone.event.file
    if held is None and undone.after:
        raise _conflict(f"{file} is gone since{_named(undone)}", event.file)
    text = _text_without(undone, held or b"")
    if text == (held or b""):
        raise _conflict(f"nothing of change {event.seq} is left to be undone in {file}{_named(undone)}", event.file)
    kind: WholeKind = "entry" if is_json(file) else TEXT
    if file.startswith("data/working/"):
        kind = "working"  # it expires
    wanted = text if text or undone.was_there else None
    return change_to(group, file, held, wanted, kind, NOTE_EDITED if event.kind == NOTE_EDITED else EDIT_UNDONE)


def change_to(
    group: str,
    file: str,
    held: bytes | None,
    wanted: bytes | None,
    kind: WholeKind,
    revised: RevisedKind = EDIT_UNDONE,
) -> tuple[Change, str]:
    """Return the change that gives a file an earlier content, and the word for it in the reply.

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


def _text_without(undone: UndoneEdit, held: bytes) -> bytes:
    """Return the content of a file without an edit. Raises Refusal if the same lines changed since."""
    event, before, after = undone.event, undone.before, undone.after
    if is_json(event.file):
        text = merge_json(after, held, before)
        if held != after and values_in(text) != values_in(merge_json(after, before, held)):
            raise _conflict(f"{event.file} was changed since in the same members{_named(undone)}", event.file)
        return text
    try:
        return merge_lines(after, held, before)
    except Overlapping as error:
        shown = lines_of(after)[error.line].decode("utf-8", "replace").rstrip()
        why = f"line {error.line + 1} of {event.file}, which change {event.seq} left as {shown[:60]!r}"
        raise _conflict(f"{why}, was changed since{_named(undone)}", event.file) from None


def _named(undone: UndoneEdit) -> str:
    """Return the later changes in words."""
    names = [f"{event.seq} by {event.sender}" for event in undone.since]
    return f" (changes since: {listed(names[::-1])})" if names else ", and that is not recorded yet"


PROPOSAL: Final = "proposal"
# A change to undo, and the earlier content of its file; None: there was none.
_Undone: TypeAlias = tuple[Row, bytes | None]
# A change of notes to undo, and the notes it took out; None: none.
_UndoneNotes: TypeAlias = tuple[Row, Removal | None]
_Found: TypeAlias = list[_Undone] | _UndoneNotes | UndoneEdit | UndoneMark


@dataclass(frozen=True, slots=True)
class _Undoing:
    """`undo`: one more change, by the operator, that has the opposite effect."""

    journal: Path
    files: WholeFiles
    withdrawing: Withdrawing

    def prepare(self, asked: Asked) -> _Found:
        row = _row_of(asked, self.journal)
        if row.kind in MARKED:
            return self.withdrawing.to_undo(row)
        if row.kind in OF_EDITS:
            self.files.load(row.file)
            return undone_edit(self.journal, row)
        if row.kind in NOTES:
            self.files.load(row.file)
            self.files.load(archive_of(row))
            return row, removal_of(self.journal, row) if row.kind == NOTE_REMOVED else None
        rows = _with_entry(row, read_request(self.journal, row))
        for row in rows:
            self.files.load(row.file)
        return [(row, content_before(self.journal, row)) for row in rows]

    def decide(self, asked: Asked, found: _Found, now: datetime) -> Outcome:
        undone: list[tuple[Change, str]]
        if isinstance(found, UndoneMark):
            did = "restored" if found.mark.is_withdrawal else "removed"
            return Outcome({"file": found.row.file, "did": did}, self.withdrawing.undone(asked, found, now))
        if isinstance(found, UndoneEdit):
            undone = [put_back(found, self.files.view(found.event.file))]
        elif isinstance(found, tuple):
            undone = self._undone_notes(asked, *found, now)
        else:
            undone = [self._undone(asked, row, before) for row, before in found]
        change, did = next((one for one in undone if one[1] == "restored"), undone[0])
        file = change.file.removeprefix(f"groups/{asked.group}/")
        return Outcome({"file": file, "did": did}, tuple(change for change, _ in undone))

    def _undone_notes(self, asked: Asked, row: Row, removal: Removal | None, now: datetime) -> list[tuple[Change, str]]:
        """Return the changes that take a change's notes out of MEMORY.md or put them back. Raises Refusal."""
        held = self.files.view(row.file)
        if removal is not None:
            gone = [note for note in removal.notes if not _stands(note, held)]
            if not gone:
                raise _conflict(f"what change {row.seq} took out of {MEMORY} stands there")
            changes = bring_back_notes(asked.group, held, self.files.view(archive_of(row)), [removal], gone)
            return [(change, "restored") for change in changes]
        changes = archive_standing(asked.group, held, _notes_of(row), f"change {row.seq} was undone", asked.sender, now)
        if changes:
            return [(change, "removed") for change in changes]
        if row.kind == NOTE and _stands(row.data, self.files.view(archive_of(row))):
            back = f"undo the change in `honeybadger-host log {asked.group}` that archived it to bring it back"
            raise _conflict(f"change {row.seq} is undone already: its note is in {ARCHIVE}; {back}")
        if row.kind == NOTE:
            return [(Added.of("note", asked.group, row.data), "restored")]
        raise _conflict(f"the notes of change {row.seq} were changed or deleted: edit {MEMORY}")

    def _undone(self, asked: Asked, row: Row, before: bytes | None) -> tuple[Change, str]:
        """Return the change that undoes a change, and the word for it in the reply. Raises Refusal."""
        held = self.files.view(row.file)
        kind: WholeKind = "archived" if row.kind.startswith(ARCHIVED) else ENTRY
        if held != (None if row.kind.endswith(REMOVED) else row.data):
            raise _conflict(f"{row.file} was changed since change {row.seq}")
        return change_to(asked.group, row.file, held, before, kind)


def undo(journal: Path, files: WholeFiles, withdrawing: Withdrawing) -> ChangeHandler[_Found]:
    """Return the handler of `undo`."""
    undoing = _Undoing(journal, files, withdrawing)
    return ChangeHandler(undoing.decide, undoing.prepare)


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
    operation = 0
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


def content_before(journal: Path, row: Row, field: str = "payload.seq") -> bytes | None:
    """Return the content of a whole file before a change, or None if there was none.

    Raises Refusal if the journal never had it.
    """
    if row.kind.endswith(REMOVED):
        return row.data
    before = None if row.offset == ABSENT else text_before(journal, row)
    if before is None and row.offset != ABSENT:
        why = f"{row.file} held what a person had written, which the journal does not have; nothing was changed"
        raise Refusal("conflict", why, field=field)
    return before


def _conflict(why: str, file: str = "") -> Refusal:
    advice = f": edit {file}" if file else ""
    return Refusal("conflict", f"{why}; nothing was changed{advice}", field="payload.seq")


@dataclass(frozen=True, slots=True)
class Back:
    """A file that goes back.

    Args:
        held, wanted: its content now and after the rewind; None: there is no file.
    """

    file: str
    kind: WholeKind
    held: bytes | None
    wanted: bytes | None


def rewind(journal: Path, ledger: InjectionLedger, files: WholeFiles) -> ChangeHandler[tuple[int, list[Back]]]:
    def prepare(asked: Asked) -> tuple[int, list[Back]]:
        payload: Rewind = asked.payload
        try:
            seq = moment_of(payload.to, journal, ledger, asked.group, datetime.now(UTC)).seq
            _check_began(journal, asked.group, seq, payload.to)
            return seq, _found(journal, files, asked.group, seq)
        except NotFound as error:
            raise Refusal("not_found", f"payload.to: {error}", field="payload.to") from None
        except ValueError as error:
            raise Refusal("invalid", f"payload.to: {error}", field="payload.to") from None
        except JournalError as error:
            raise WorldFailed(str(error)) from error

    def decide(asked: Asked, prepared: tuple[int, list[Back]], now: datetime) -> Outcome:
        payload: Rewind = asked.payload
        seq, backs = prepared
        if late := [back.file for back in backs if files.view(back.file) != back.held]:
            raise _refused([f"{file} was changed just now: ask again" for file in late])
        done = [change_to(asked.group, back.file, back.held, back.wanted, back.kind) for back in backs]
        told = [_told(back, did) for back, (_, did) in zip(backs, done, strict=True)]
        changes = () if payload.dry_run else tuple(change for change, _ in done)
        return Outcome({"to": min(seq, MAX_NUMBER), "files": told}, changes)

    return ChangeHandler(decide, prepare)


def _check_began(journal: Path, group: str, seq: int, to: str) -> None:
    """Raise Refusal if a moment is before the first change of a group; only `0` asks for that."""
    first = read_first(journal, group)
    if to != "0" and first is not None and seq < first[0]:
        when = time_stamp(datetime.fromtimestamp(first[1] / 1000, UTC))
        why = f"{group} was empty then: its first change is {first[0]}, of {when}; 0 empties it again"
        raise Refusal("invalid", f"payload.to: {why}", field="payload.to")


def _found(journal: Path, files: WholeFiles, group: str, seq: int) -> list[Back]:
    """Return the files that changed since a moment. Raises Refusal if one of them cannot be brought back."""
    changed = read_changed_files(journal, group, seq, LAST_SEQ)
    marks = watermark_file(group, "").rpartition("/")[0]
    backs: list[Back] = []
    problems: list[str] = []
    for file in changed:
        if file.startswith(f"{marks}/"):  # else turns that are no longer summarised would not be replayed
            backs.append(Back(file, "watermark", files.load(file), read_last(journal, file, seq)))
        elif group_of(file) == group:
            backs += _persons_file(journal, files.load(file), file, seq, problems)
    backs = [back for back in backs if (back.held or None) != (back.wanted or None)]
    if problems:
        raise _refused(problems)
    return backs


def _persons_file(journal: Path, held: bytes | None, file: str, seq: int, problems: list[str]) -> Iterator[Back]:
    past = read_past(journal, file)
    wanted, now = version_at(past, seq), version_at(past, LAST_SEQ)
    if not wanted.is_known:
        problems.append(f"how {file} was then is not known")
    elif not now.is_known or now.text != (held or b""):
        problems.append(f"what {file} holds now is not in the journal: it would be lost; an edit is noticed in seconds")
    else:
        text = wanted.text if wanted.is_there else None
        yield Back(file, "entry" if file.endswith(".json") else TEXT, held, text)


def _told(back: Back, did: str) -> dict[str, Any]:
    hunks = hunks_between(lines_of(back.held or b""), lines_of(back.wanted or b""))
    added, removed = sum(len(hunk.added) for hunk in hunks), sum(len(hunk.removed) for hunk in hunks)
    return {"file": back.file, "did": did, "added": added, "removed": removed}


def _refused(problems: Sequence[str]) -> Refusal:
    return Refusal("conflict", f"{listed(problems, '; ')}; nothing was changed", field="payload.to")
