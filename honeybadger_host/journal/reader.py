"""Reads a journal that a host may have open: its changes, for people and for looking back."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from honeybadger_host.files.home import ARCHIVE, MEMORY
from honeybadger_host.journal.changes import (
    EDIT_UNDONE,
    MARKED,
    NOTE_EDITED,
    NOTE_REMOVED,
    NOTE_RESTORED,
    REMOVED,
    TASK_RECORD,
    WHOLE_KINDS,
)
from honeybadger_host.journal.edits import LINE_KINDS
from honeybadger_host.journal.schema import EDIT_KINDS, IS_EDIT, MAX_ID_LENGTH, TOOL_REQUEST, Row, read_rows, reading

CHANGE_KINDS = (
    WHOLE_KINDS
    | LINE_KINDS
    | {
        *("note", "note_archived", "history", "turn", "feedback", "message", TASK_RECORD),
        *MARKED,
    }
)


@dataclass(frozen=True, slots=True)
class LogFilter:
    """A filter of changes; None: any.

    Args:
        by: the sender, or the author of an edit.
        since: milliseconds since the epoch.
        file: below the home or a group's folder, or only its last part; an entry's may be its id.
        after, before: numbers between which changes are looked at, so that a large journal is not read whole.
    """

    group: str | None = None
    by: str | None = None
    kind: str | None = None
    since: int | None = None
    file: str | None = None
    after: int | None = None
    before: int | None = None

    def where(self) -> tuple[str, tuple[object, ...]]:
        """Return the condition and its values."""
        conditions: dict[str, object] = {
            "grp = ?": self.group,
            "sender = ?": self.by,
            "kind = ?": self.kind,
            "at >= ?": self.since,
            "seq > ?": self.after,
            "seq < ?": self.before,
        }
        texts = [text for text, value in conditions.items() if value is not None]
        values = [value for value in conditions.values() if value is not None]
        if self.file is not None:
            end = f"/{self.file.removeprefix('/')}"
            texts.append("(substr('/' || file, -length(?)) = ? OR substr('/' || file, -length(?)) = ?)")
            values += (end, end, f"{end}.json", f"{end}.json")
        return " AND ".join(texts) or "1", tuple(values)


class SaidIn(NamedTuple):
    """The turn that led to a change.

    Args:
        turn: number of the answer in its session.
    """

    session: str
    turn: int


def read_log(path: Path, wanted: LogFilter, limit: int) -> list[Row]:
    """Return the newest changes that are wanted, newest first. Raises JournalError."""
    where, values = wanted.where()
    query = f"SELECT * FROM changes WHERE {where} ORDER BY seq DESC LIMIT ?"  # noqa: S608  constants
    return [Row._make(row) for row in read_rows(path, query, (*values, limit))]


def read_changed(path: Path, group: str) -> Iterator[tuple[int, str]]:
    """Yield number and file of each change of a group, newest first. Raises JournalError."""
    yield from read_rows(path, "SELECT seq, file FROM changes WHERE grp = ? ORDER BY seq DESC", (group,))


def read_turns_behind(path: Path, rows: Sequence[Row]) -> dict[int, SaidIn]:
    """Return the turn that led to each of some changes, by seq, where it is known. Raises JournalError.

    A turn itself, and what an agent's tools changed while it answered. A request that a client sent on its own says
    nothing of a turn; nor does one of which two turns of one name may be meant.
    """
    asked: dict[int, tuple[str, str]] = {}
    found_turns: dict[int, SaidIn] = {}
    for row in rows:
        if row.kind == "turn":
            found_turns[row.seq] = _said_in(row.file, row.data)
        elif (found := TOOL_REQUEST.fullmatch(row.request)) is not None:
            asked[row.seq] = row.group, found["id"]
    turns: defaultdict[tuple[str, str], dict[tuple[str, str], SaidIn]] = defaultdict(dict)
    query = (
        "SELECT grp, sender, request, file, data FROM changes WHERE seq >= ? AND kind = 'turn' "
        "AND substr(request, 1, ?) IN (SELECT value FROM json_each(?)) ORDER BY seq"
    )
    names = orjson.dumps(sorted({name for _, name in asked.values()})).decode()
    values = (min(asked, default=0), MAX_ID_LENGTH, names)
    for group, sender, request, file, data in read_rows(path, query, values) if asked else ():
        turns[group, request[:MAX_ID_LENGTH]][sender, request] = _said_in(file, data)
    for seq, name in asked.items():
        if len(turns[name]) == 1:
            (found_turns[seq],) = turns[name].values()
    return found_turns


def _said_in(file: str, data: bytes) -> SaidIn:
    return SaidIn(file.rpartition("/")[2].removesuffix(".jsonl"), int(orjson.loads(data)["turn"]))


def read_turn(path: Path, file: str, name: str) -> dict[str, Any] | None:
    """Return the newest turn of a log with a number, or the answer to the request with an id. Raises JournalError."""
    query = "SELECT data FROM changes WHERE file = ? AND kind = 'turn' ORDER BY seq DESC"
    turns = (orjson.loads(data) for (data,) in read_rows(path, query, (file,)))
    return next((turn for turn in turns if name in (str(turn["turn"]), turn.get("request"))), None)


def read_seq_at(path: Path, at: int) -> int:
    """Return the last change up to a time, milliseconds since the epoch; 0: none. Raises JournalError."""
    return _number(path, "SELECT coalesce(max(seq), 0) FROM changes WHERE at <= ?", at)


def read_time_of(path: Path, seq: int) -> int:
    """Return when the newest change up to a seq was made, milliseconds since the epoch; 0: none.

    Raises JournalError.
    """
    query = "SELECT coalesce(max(at), 0) FROM (SELECT at FROM changes WHERE seq <= ? ORDER BY seq DESC LIMIT 1)"
    return _number(path, query, seq)


def read_time_after(path: Path, seq: int) -> int:
    """Return when the first change after a seq was made, milliseconds since the epoch; 0: there is none.

    Raises JournalError.
    """
    query = "SELECT coalesce(max(at), 0) FROM (SELECT at FROM changes WHERE seq > ? ORDER BY seq LIMIT 1)"
    return _number(path, query, seq)


def _number(path: Path, query: str, *values: object) -> int:
    (found,) = next(read_rows(path, query, values))
    return int(found)


def read_last(path: Path, file: str, seq: int) -> bytes | None:
    """Return the last content written to a file up to a seq, or None if there is none. Raises JournalError."""
    query = "SELECT kind, data FROM changes WHERE file = ? AND seq <= ? ORDER BY seq DESC LIMIT 1"
    for kind, data in read_rows(path, query, (file, seq)):
        return None if kind.endswith(REMOVED) else data
    return None


def read_first(path: Path, group: str) -> tuple[int, int] | None:
    """Return number and time of the first change of a group. Raises JournalError."""
    query = "SELECT seq, at FROM changes WHERE grp = ? ORDER BY seq LIMIT 1"
    return next(((seq, at) for seq, at in read_rows(path, query, (group,))), None)


def read_changed_files(path: Path, group: str, after: int, until: int) -> list[str]:
    """Return the files of a group that were changed behind one change, up to another. Raises JournalError."""
    query = "SELECT DISTINCT file FROM changes WHERE seq > ? AND seq <= ? AND grp = ? ORDER BY file"
    return [file for (file,) in read_rows(path, query, (after, until, group))]


def read_change(path: Path, seq: int) -> Row | None:
    """Return one change from a journal a host may have open. Raises JournalError."""
    return next(map(Row._make, read_rows(path, "SELECT * FROM changes WHERE seq = ?", (seq,))), None)


def read_done(path: Path, group: str, sender: str, begins: str) -> set[str]:
    """Return the requests of a sender that begin so and have a receipt. Raises JournalError."""
    query = "SELECT request FROM receipts WHERE grp = ? AND sender = ? AND request BETWEEN ? AND ? || char(1114111)"
    return {request for (request,) in read_rows(path, query, (group, sender, begins, begins))}


def read_request(path: Path, row: Row) -> list[Row]:
    """Return all changes of the request that a change belongs to, in order. Raises JournalError."""

    def side(query: str) -> list[Row]:  # neighbouring rows
        rows = map(Row._make, connection.execute(query, (row.seq,)))
        return [*takewhile(lambda other: _request_of(other) == _request_of(row), rows)]

    with reading(path) as connection:
        before = side("SELECT * FROM changes WHERE seq < ? ORDER BY seq DESC")
        return [*before[::-1], *side("SELECT * FROM changes WHERE seq >= ? ORDER BY seq")]


def _request_of(row: Row) -> tuple[object, ...]:
    """Return the key that only the changes of one request share: a receipt keeps its id from being used
    again for as long as it lives, and later the time is another."""
    return row.at, row.group, row.sender, row.request


def read_requests_of(path: Path, file: str) -> list[Row]:
    """Return all changes of the requests that changed a file last of all, oldest first. Raises JournalError."""
    query = f"SELECT * FROM changes WHERE file = ? AND NOT {IS_EDIT} ORDER BY seq"  # noqa: S608  a constant
    changes = [Row._make(row) for row in read_rows(path, query, (file,))]
    return [row for change in changes for row in read_request(path, change)]


NOTE = "note"
NOTE_ARCHIVED = "note_archived"
ENTRY = "entry"
ARCHIVED = "archived"
NOTES = (NOTE, NOTE_REMOVED, NOTE_RESTORED)
OF_EDITS = (*EDIT_KINDS, EDIT_UNDONE, NOTE_EDITED, "text", f"text{REMOVED}")
_OF_ENTRIES = tuple(f"{kind}{end}" for kind in (ENTRY, ARCHIVED) for end in ("", REMOVED))


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
