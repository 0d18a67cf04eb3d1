"""`undo`: the operator brings back what a change of long-term memory changed (docs/decisions/015-undo.md)."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from honeybadger_agent.mailbox import OPERATOR
from honeybadger_agent.wire import Refusal, Undo
from honeybadger_host.domain import REMOVED, Asked, Change, ChangeHandler, FileRemoved, FileWritten, Outcome
from honeybadger_host.memory.journal import Row, read_change, read_earlier
from honeybadger_host.memory.whole_files import ABSENT, WholeFiles, fingerprint

_INSTEAD = {
    "note": "a note is undone with an editor: take it out of MEMORY.md",
    "turn": "what was said stays in the log of its conversation",
}


def undo(journal: Path, files: WholeFiles) -> ChangeHandler:
    """Return the handler of `undo`: one more change, by the operator, that has the opposite effect."""
    prepared: dict[tuple[str, str], tuple[Row, bytes | None]] = {}  # from `prepare` to the `decide` that follows it

    def prepare(asked: Asked) -> None:
        if asked.sender != OPERATOR:
            raise Refusal("forbidden", "undo is the operator's: honeybadger-host undo <seq>", field="type")
        row = _row_of(asked, journal)
        before = None if row.kind.endswith(REMOVED) else _before(row, journal)
        files.load(row.file)
        prepared[asked.group, asked.request_id] = row, before

    def decide(asked: Asked, now: datetime) -> Outcome:
        row, before = prepared.pop((asked.group, asked.request_id))
        held = files.get(row.file)
        if row.kind.endswith(REMOVED):
            if held is not None:
                raise _conflict(f"{row.file} is there again, and nothing is written over it: move it away first")
            change: Change = FileWritten(asked.group, "entry", row.file, row.data, None)
            did = "restored"
        elif held != row.data:
            raise _conflict(f"{row.file} {'is gone' if held is None else 'was changed'} since change {row.seq}")
        elif before is None:
            change, did = FileRemoved(asked.group, "entry", row.file, row.data), "removed"
        else:
            change, did = FileWritten(asked.group, "entry", row.file, before, row.data), "put_back"
        return Outcome({"file": row.file.split("/", 2)[2], "did": did}, (change,))

    return ChangeHandler(decide, prepare)


def _row_of(asked: Asked, journal: Path) -> Row:
    """Return the change that is to be undone. Raises Refusal."""
    payload = asked.payload
    assert isinstance(payload, Undo)  # noqa: S101  the table pairs type and payload
    row = read_change(journal, payload.seq)
    if row is None or row.group != asked.group:
        raise Refusal("not_found", f"group {asked.group} has no change {payload.seq}", field="payload.seq")
    if row.kind.removesuffix(REMOVED) != "entry":
        instead = _INSTEAD.get(row.kind, "only entries are")
        raise Refusal("invalid", f"change {row.seq} ({row.kind}) cannot be undone: {instead}", field="payload.seq")
    return row


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
