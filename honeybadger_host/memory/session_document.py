"""The session document: the state of one session as one readable JSON file (CM1, CM4). Pure.

The file has the seed's members. The last one, `honeybadger`, is ours: it has the number of the last turn of the
session's log that is in the document. So the document now is a written version and the later turns of the log
(docs/decisions/014-session-documents.md).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, TypeAlias

import orjson
from pydantic import BeforeValidator, Field

from honeybadger_agent.wire import MAX_NUMBER
from honeybadger_host.log import log
from honeybadger_host.memory.edited import Count, Edited, Stamp, Texts, checked, read_json
from honeybadger_host.text.neutralise import estimate_tokens
from honeybadger_host.text.turn import Turn

Json: TypeAlias = Mapping[str, object]  # an object that somebody else shapes; it is kept and shown, never looked into

MARK = "honeybadger"
# Members that follow from the log of the session; nobody sets them.
DERIVED = ("recent_history", "tool_stats", "token_usage", MARK)
READABLE = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE


def _sum(count: int, more: int) -> int:
    """Return the sum, at most the largest number that every JSON reader keeps; counts come from outside, too."""
    return min(count + more, MAX_NUMBER)


def _rounded(value: object) -> object:
    """Return a number without its fraction: other programs write times and counts with one."""
    return int(value) if isinstance(value, float) and math.isfinite(value) else value


_Count: TypeAlias = Annotated[Count, BeforeValidator(_rounded)]
# Seconds since the epoch.
_Seconds: TypeAlias = Annotated[int, BeforeValidator(_rounded), Field(ge=-MAX_NUMBER, le=MAX_NUMBER)]


class HistoryEntry(Edited):
    """One message; `token_count` is None if nobody counted, see `tokens`."""

    timestamp: _Seconds = 0
    role: str = ""
    content: str = ""
    token_count: _Count | None = None

    @property
    def tokens(self) -> int:
        """Tokens as counted, else as estimated."""
        return estimate_tokens(self.content) if self.token_count is None else self.token_count


# States in which nothing more happens to a task, in any case of letters.
FINISHED = frozenset({"completed", "done", "failed", "cancelled", "canceled"})


class Task(Edited):
    """One task. `progress` is 0 to 1."""

    id: str = ""
    description: str = ""
    status: str = ""
    progress: Annotated[float, Field(ge=-MAX_NUMBER, le=MAX_NUMBER)] = 0.0
    created_at: _Seconds = 0
    updated_at: _Seconds = 0

    @property
    def is_finished(self) -> bool:
        return self.status.strip().casefold() in FINISHED


class ToolStats(Edited):
    total_calls: _Count = 0
    by_tool: dict[str, _Count] = Field(default={})
    failures: _Count = 0

    def counted(self, calls: Iterable[tuple[str, int]], failures: int = 0) -> ToolStats:
        """Return the statistics with more calls: (tool, how often)."""
        by_tool, total = dict(self.by_tool), self.total_calls
        for tool, times in calls:
            by_tool[tool] = _sum(by_tool.get(tool, 0), times)
            total = _sum(total, times)
        failed = _sum(self.failures, failures)
        return self.model_copy(update={"total_calls": total, "by_tool": by_tool, "failures": failed})


class Environment(Edited):
    """The environment as last seen; `last_update` 0: never."""

    workspace: str = ""
    last_update: _Seconds = 0
    system_snapshot: dict[str, Any] = Field(default={})


class TokenUsage(Edited):
    """Tokens of the session so far, its dropped messages included."""

    total_input: _Count = 0
    total_output: _Count = 0
    by_session: _Count = 0


class Mark(Edited):
    """The number of the last turn of the log that is in a document; None: the file does not say."""

    turns: _Count | None = None


class SessionDocument(Edited):
    """The document of one session; `recent_history` is oldest first."""

    session_id: str
    system_state: dict[str, Any] = Field(default={})
    facts: Texts = ()
    recent_history: Annotated[tuple[HistoryEntry, ...], Field(strict=False)] = ()
    long_term_summary: str = ""
    active_tasks: Annotated[tuple[Task, ...], Field(strict=False)] = ()
    tool_stats: ToolStats = ToolStats()
    last_known_environment: Environment = Environment()
    token_usage: TokenUsage = TokenUsage()
    honeybadger: Mark = Mark()

    @property
    def turns(self) -> int | None:
        """Number of the newest turn of the log that is in it; None: the file does not say."""
        return self.honeybadger.turns

    @property
    def tokens(self) -> int:
        return sum(entry.tokens for entry in self.recent_history)

    def up_to(self, turns: int | None) -> SessionDocument:
        """Return the document with another number of its last turn."""
        return self.model_copy(update={MARK: self.honeybadger.model_copy(update={"turns": turns})})


def _entry_of(turn: Turn) -> HistoryEntry:
    return HistoryEntry(
        timestamp=int(turn.at.timestamp()), role=turn.role, content=turn.content, token_count=turn.token_count
    )


def newest_known(document: SessionDocument, turns: Sequence[Turn]) -> int:
    """Return the number of the newest of some turns whose message is in the document; 0: none is."""
    known = {(entry.timestamp, entry.role, entry.content) for entry in document.recent_history}
    shown = (turn.number for turn in turns if (int(turn.at.timestamp()), turn.role, turn.content) in known)
    return max(shown, default=0)


def without_turns(document: SessionDocument, turns: Sequence[Turn]) -> SessionDocument:
    """Return the document without the messages of turns that are withdrawn; statistics and summary stay."""
    entries = list(document.recent_history)
    for entry in map(_entry_of, turns):
        if entry in entries:
            entries.remove(entry)
    return document.model_copy(update={"recent_history": tuple(entries)})


def with_restored(document: SessionDocument, turns: Sequence[Turn]) -> SessionDocument:
    """Return the document with the messages of turns that were withdrawn, in the order of their times."""
    restored = [_entry_of(turn) for turn in turns if turn.number <= (document.turns or 0)]
    entries = sorted((*document.recent_history, *restored), key=lambda entry: entry.timestamp)
    return document.model_copy(update={"recent_history": tuple(entries)})


def with_turns(document: SessionDocument, turns: Sequence[Turn]) -> SessionDocument:
    """Return the document with the turns that are not in it yet.

    Args:
        turns: oldest first.
    """
    new = [turn for turn in turns if turn.number > (document.turns or 0)]
    if not new:
        return document
    said, answered = map(sum, zip(*map(_tokens_of, new), strict=True))
    calls = [(tool, 1) for turn in new for tool in turn.tools_used]
    usage = document.token_usage
    used = {
        "total_input": _sum(usage.total_input, said),
        "total_output": _sum(usage.total_output, answered),
        "by_session": _sum(usage.by_session, said + answered),
    }
    update = {
        "recent_history": (*document.recent_history, *map(_entry_of, new)),
        "tool_stats": document.tool_stats.counted(calls) if calls else document.tool_stats,
        "token_usage": usage.model_copy(update=used),
    }
    return document.model_copy(update=update).up_to(max(turn.number for turn in new))


def _tokens_of(turn: Turn) -> tuple[int, int]:
    """Return the tokens of a turn, as input and as output.

    Without a model's counts its own estimate counts: as output if the role is assistant, else as input.
    """
    if turn.input_tokens is None and turn.output_tokens is None:
        return (0, turn.token_count) if turn.role == "assistant" else (turn.token_count, 0)
    return turn.input_tokens or 0, turn.output_tokens or 0


def version_of(document: SessionDocument) -> str:
    """Return the version of the members that an update may overwrite; new turns do not change it."""
    value = [
        document.system_state,
        document.facts,
        document.long_term_summary,
        [task.model_dump() for task in document.active_tasks],
        document.last_known_environment.model_dump(),
    ]
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


# ----------------------------------------------------------------------------------------------------- to and from JSON


def members_of(document: SessionDocument) -> dict[str, Any]:
    """Return the seed's members, in its order, ready for JSON."""
    members = document.model_dump()
    return {name: members[name] for name in SessionDocument.model_fields if name != MARK}


def dump_document(document: SessionDocument) -> bytes:
    """Return the bytes of the file: indented, the seed's members first, then unknown ones, our mark last."""
    members = document.model_dump()
    mark = members.pop(MARK)
    return orjson.dumps({**members, MARK: mark}, option=READABLE)


def parse_document(data: bytes, session: str) -> SessionDocument:
    """Return the document of a file; a missing member is empty, an unknown one is kept.

    Args:
        session: its name by the path; a name in the file is ignored.
    Raises ValueError if it is not a session document; the message says where and why.
    """
    document = _parsed(data)
    return document if document.session_id == session else document.model_copy(update={"session_id": session})


@lru_cache(maxsize=64)  # a version is decided, checked, written and read again; one takes up to 150 KiB
def _parsed(data: bytes) -> SessionDocument:
    value = read_json(data)
    session = value.get("session_id")
    return checked(SessionDocument, {**value, "session_id": session if isinstance(session, str) else ""})


def is_document(data: bytes) -> bool:
    """Return whether a file holds a session document."""
    try:
        parse_document(data, "")
    except ValueError:
        return False
    return True


def with_derived_of(data: bytes, newest: bytes) -> bytes:
    """Return a person's save of the document with the derived members of the newest document.

    Messages, counts and the mark come from the log of the session.
    """
    saved, now = read_json(data), read_json(newest)
    derived = {name: now[name] for name in DERIVED if name in now}
    value = {name: item for name, item in saved.items() if name not in DERIVED or name in derived} | derived
    return newest if value == now else orjson.dumps(value, option=READABLE)


SESSIONS = "data/context"


def session_file(group: str, session: str) -> str:
    return f"{SESSIONS}/{group}/{session}.json"


def deleted_file(group: str, session: str) -> str:
    """Return the path, below the home, of the record of a deletion."""
    return f"{session_file(group, session)}.deleted"


class Deletion(Edited):
    """The record of the last deletion of a document.

    Args:
        turns: number of the last turn that the document leaves out; 0: nothing was deleted.
        context_begins_after: number of the last turn that contexts leave out, too; `context_begins_at` is when this was
            asked for.
    """

    turns: Count = 0
    context_begins_after: Count = 0
    context_begins_at: Stamp | None = None

    def left(self, turns: Sequence[Turn]) -> tuple[int, Sequence[Turn]]:
        """Return the number of the last turn that contexts leave out, and the shown turns."""
        return self.context_begins_after, [turn for turn in turns if self.shows(turn)]

    def shows(self, turn: Turn) -> bool:
        """Return whether contexts show a turn. A log that was removed by hand is numbered from 1 again."""
        since = self.context_begins_at
        return since is None or turn.number > self.context_begins_after or turn.at > since


def parse_deletion(data: bytes | None, file: str) -> Deletion:
    """Return the deletion that a file records; a damaged record, which is logged, records none."""
    try:
        return Deletion() if data is None else checked(Deletion, read_json(data))
    except ValueError:
        log.warning("session.mark_lost", file=file)
        return Deletion()
