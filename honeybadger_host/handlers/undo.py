"""`undo`: the operator brings back what a change of long-term memory changed (docs/decisions/015-undo.md)."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Final, TypeAlias

from honeybadger_agent.mailbox import OPERATOR
from honeybadger_agent.wire import Refusal, Undo
from honeybadger_host.domain import (
    MEMORY,
    REMOVED,
    Asked,
    Change,
    ChangeHandler,
    FileRemoved,
    FileWritten,
    NoteAdded,
    Outcome,
)
from honeybadger_host.storage.appended import count_entries
from honeybadger_host.storage.atomic_files import ABSENT, WholeFiles, fingerprint
from honeybadger_host.storage.journal_reader import glance, read_change, read_earlier, read_request
from honeybadger_host.storage.journal_schema import Row

NOTE: Final = "note"
ENTRY: Final = "entry"
_Undone: TypeAlias = tuple[Row, bytes | None]
"""A change that is to be undone, and what its file held before it; None: there was none."""


def undo(journal: Path, files: WholeFiles) -> ChangeHandler[list[_Undone]]:
    """Return the handler of `undo`: one more change, by the operator, that has the opposite effect."""

    def prepare(asked: Asked) -> list[_Undone]:
        if asked.sender != OPERATOR:
            raise Refusal("forbidden", "undo is the operator's: honeybadger-host undo <seq>", field="type")
        row = _row_of(asked, journal)
        # an entry that was moved is written and removed
        rows = [row] if row.kind == NOTE else read_request(journal, row)
        for row in rows:
            files.load(row.file)
        is_young = row.seq >= glance(journal).marks.first_unsettled(row.file)
        if row.kind == NOTE and is_young and not _stands(row, files.view(row.file)):
            raise _conflict(f"change {row.seq} is too new: the host itself puts it back, within seconds")
        befores = [_before(row, journal) if row.kind == ENTRY else None for row in rows]
        return list(zip(rows, befores, strict=True))

    def decide(asked: Asked, rows: list[_Undone], now: datetime) -> Outcome:
        undone = [_undone(asked, row, before) for row, before in rows]
        file, did = next((row[1:] for row in undone if row[2] == "restored"), undone[0][1:])
        return Outcome({"file": file.split("/", 2)[2], "did": did}, tuple(change for change, _, _ in undone))

    def _undone(asked: Asked, row: Row, before: bytes | None) -> tuple[Change, str, str]:
        """Return the change that undoes a change, its file, and what it does. Raises Refusal."""
        held = files.view(row.file)
        change: Change
        if row.kind == NOTE:
            if _stands(row, held):
                raise Refusal(
                    "invalid",
                    f"change {row.seq} (note) stands in {MEMORY}: take it out of {MEMORY} with an editor",
                    field="payload.seq",
                )
            change, did = NoteAdded(asked.group, row.data), "restored"
        elif row.kind.endswith(REMOVED):
            if held is not None:
                raise _conflict(f"{row.file} is there again, and nothing is written over it: move it away first")
            change, did = FileWritten(asked.group, ENTRY, row.file, row.data, None), "restored"
        elif held != row.data:
            raise _conflict(f"{row.file} {'is gone' if held is None else 'was changed'} since change {row.seq}")
        elif before is None:
            change, did = FileRemoved(asked.group, ENTRY, row.file, row.data), "removed"
        else:
            change, did = FileWritten(asked.group, ENTRY, row.file, before, row.data), "put_back"
        return change, row.file, did

    return ChangeHandler(decide, prepare)


def _row_of(asked: Asked, journal: Path) -> Row:
    """Return the change that is to be undone. Raises Refusal."""
    payload = asked.payload
    assert isinstance(payload, Undo)  # noqa: S101  the table pairs type and payload
    row = read_change(journal, payload.seq)
    if row is None or row.group != asked.group:
        raise Refusal("not_found", f"group {asked.group} has no change {payload.seq}", field="payload.seq")
    if row.kind.removesuffix(REMOVED) not in (NOTE, ENTRY):
        raise Refusal(
            "invalid",
            f"change {row.seq} ({row.kind}) cannot be undone: only notes and entries are",
            field="payload.seq",
        )
    return row


def _stands(row: Row, held: bytes | None) -> bool:
    """Return whether a note stands in what its file holds."""
    return held is not None and count_entries(held, [row.data])[row.data] > 0


def _before(row: Row, journal: Path) -> bytes | None:
    """Return what a written file held before; None: there was none. Raises Refusal: the journal never had that."""
    if row.offset == ABSENT:
        return None
    before = read_earlier(journal, row, lambda data: fingerprint(data) == row.offset)
    if before is None:
        raise _conflict(f"{row.file} held what a person had written, which the journal does not have")
    return before


def _conflict(why: str) -> Refusal:
    return Refusal("conflict", f"{why}; nothing was changed", field="payload.seq")
