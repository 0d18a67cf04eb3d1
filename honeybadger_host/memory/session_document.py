"""The session document: what an agent works with in one session, as one readable JSON file (CM1, CM4). Pure.

The file has the seed's members; the last one, `honeybadger`, is ours and says up to which turn of the session's log the
document goes. So a document is a generation that was written once and the turns of the log behind it
(docs/decisions/014-session-documents.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, TypeAlias

import orjson

from honeybadger_agent.wire import MAX_NUMBER
from honeybadger_host.domain import Turn
from honeybadger_host.text.neutralise import estimate_tokens

Json: TypeAlias = Mapping[str, object]
"""An object that somebody else shapes; it is kept and shown, never looked into."""

MARK: Final = "honeybadger"
MAX_TOOL_NAMES: Final = 500
OTHER_TOOLS: Final = "(other)"
"""Counts the calls of every further tool: a name is anybody's to choose, the file is not to grow with them."""
_READABLE: Final = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE


def _sum(count: int, more: int) -> int:
    """Add up to the largest number that every JSON reader keeps; counts come from outside, too."""
    return min(count + more, MAX_NUMBER)


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One message.

    Args:
        timestamp: seconds since the epoch.
        token_count: None when nobody counted; see `tokens`.
        more: members a person or another program added.
    """

    timestamp: int
    role: str
    content: str
    token_count: int | None = None
    more: Json = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """Tokens as counted, else as estimated."""
        return estimate_tokens(self.content) if self.token_count is None else self.token_count


@dataclass(frozen=True, slots=True)
class Task:
    """One task. `progress` is 0 to 1; times are seconds since the epoch."""

    id: str
    description: str
    status: str
    progress: float
    created_at: int
    updated_at: int
    more: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolStats:
    """How often tools were called."""

    total_calls: int = 0
    by_tool: Mapping[str, int] = field(default_factory=dict)
    failures: int = 0
    more: Json = field(default_factory=dict)

    def counted(self, calls: Iterable[tuple[str, int]], failures: int = 0) -> ToolStats:
        """Return these and some more calls, (tool, how often)."""
        by_tool, total = dict(self.by_tool), self.total_calls
        for tool, times in calls:
            name = tool if tool in by_tool or len(by_tool) < MAX_TOOL_NAMES else OTHER_TOOLS
            by_tool[name] = _sum(by_tool.get(name, 0), times)
            total = _sum(total, times)
        return replace(self, total_calls=total, by_tool=by_tool, failures=_sum(self.failures, failures))


@dataclass(frozen=True, slots=True)
class Environment:
    """The environment as last seen; `last_update` is seconds since the epoch, 0: never."""

    workspace: str = ""
    last_update: int = 0
    system_snapshot: Json = field(default_factory=dict)
    more: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of the session so far, its dropped messages included."""

    total_input: int = 0
    total_output: int = 0
    by_session: int = 0
    more: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SessionDocument:
    """The document of one session.

    Args:
        recent_history: oldest first.
        turns: number of the newest turn of the log that is in it; None: the file does not say.
        more: members of the file that are not ours.
        more_mark: members beside `turns` in the mark.
    """

    session_id: str
    system_state: Json = field(default_factory=dict)
    facts: tuple[str, ...] = ()
    recent_history: tuple[HistoryEntry, ...] = ()
    long_term_summary: str = ""
    active_tasks: tuple[Task, ...] = ()
    tool_stats: ToolStats = ToolStats()
    last_known_environment: Environment = Environment()
    token_usage: TokenUsage = TokenUsage()
    turns: int | None = 0
    more: Json = field(default_factory=dict)
    more_mark: Json = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """Tokens of the recent history."""
        return sum(entry.tokens for entry in self.recent_history)


def with_turns(document: SessionDocument, turns: Sequence[Turn]) -> SessionDocument:
    """Return the document with the turns that are behind it; those it has already are passed over.

    A turn without the numbers of a model counts by its own estimate: as output when the assistant said it, else as
    input.

    Args:
        document: says up to which turn it goes.
        turns: oldest first.
    """
    seen = document.turns or 0
    new = [turn for turn in turns if turn.number > seen]
    if not new:
        return document
    said, answered = 0, 0
    entries = list(document.recent_history)
    calls: list[tuple[str, int]] = []
    for turn in new:
        entries.append(HistoryEntry(int(turn.at.timestamp()), turn.role, turn.content, turn.token_count))
        calls += [(tool, 1) for tool in turn.tools_used]
        if turn.input_tokens is None and turn.output_tokens is None:
            is_output = turn.role == "assistant"
            answered += turn.token_count if is_output else 0
            said += 0 if is_output else turn.token_count
        else:
            said += turn.input_tokens or 0
            answered += turn.output_tokens or 0
    usage = document.token_usage
    return replace(
        document,
        recent_history=tuple(entries),
        tool_stats=document.tool_stats.counted(calls) if calls else document.tool_stats,
        token_usage=replace(
            usage,
            total_input=_sum(usage.total_input, said),
            total_output=_sum(usage.total_output, answered),
            by_session=_sum(usage.by_session, said + answered),
        ),
        turns=max(turn.number for turn in new),
    )


def version_of(document: SessionDocument) -> str:
    """Return a name for what an update may overwrite: it stays the same while turns are added."""
    value = [
        document.system_state,
        document.facts,
        document.long_term_summary,
        [_task(task) for task in document.active_tasks],
        _environment(document.last_known_environment),
    ]
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


# ----------------------------------------------------------------------------------------------------- to and from JSON


def members_of(document: SessionDocument) -> dict[str, Any]:
    """Return the seed's members, in its order, ready for JSON."""
    usage, stats = document.token_usage, document.tool_stats
    return {
        "session_id": document.session_id,
        "system_state": document.system_state,
        "facts": document.facts,
        "recent_history": [
            {
                "timestamp": entry.timestamp,
                "role": entry.role,
                "content": entry.content,
                "token_count": entry.token_count,
                **entry.more,
            }
            for entry in document.recent_history
        ],
        "long_term_summary": document.long_term_summary,
        "active_tasks": [_task(task) for task in document.active_tasks],
        "tool_stats": {
            "total_calls": stats.total_calls,
            "by_tool": stats.by_tool,
            "failures": stats.failures,
            **stats.more,
        },
        "last_known_environment": _environment(document.last_known_environment),
        "token_usage": {
            "total_input": usage.total_input,
            "total_output": usage.total_output,
            "by_session": usage.by_session,
            **usage.more,
        },
    }


def dump_document(document: SessionDocument) -> bytes:
    """Return the file: indented, the seed's members first, what others added after them, our mark last."""
    mark = {"turns": document.turns, **document.more_mark}
    return orjson.dumps({**members_of(document), **document.more, MARK: mark}, option=_READABLE)


def parse_document(data: bytes, session: str) -> SessionDocument:
    """Return the document of a file; a member that is missing is empty, one that is not ours is kept.

    Args:
        session: its name is where it lies, whatever the file says.
    Raises ValueError: it is no session document; the message says where and why.
    """
    try:
        value = orjson.loads(data.removeprefix(b"\xef\xbb\xbf"))
        orjson.dumps([[[[[[[[value]]]]]]]])  # writing is allowed fewer levels than reading, and a reply adds some
    except orjson.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    except TypeError:
        raise ValueError("it is nested too deep") from None
    whole = _Members(value, "it")
    whole.take("session_id")
    history = [_Members(item, f"recent_history[{at}]") for at, item in enumerate(whole.items("recent_history"))]
    tasks = [_Members(item, f"active_tasks[{at}]") for at, item in enumerate(whole.items("active_tasks"))]
    stats = whole.members("tool_stats")
    environment = whole.members("last_known_environment")
    usage = whole.members("token_usage")
    mark = whole.members(MARK)
    return SessionDocument(
        session_id=session,
        system_state=whole.free("system_state"),
        facts=whole.texts("facts"),
        recent_history=tuple(_entry_of(item) for item in history),
        long_term_summary=whole.text("long_term_summary"),
        active_tasks=tuple(_task_of(item) for item in tasks),
        tool_stats=ToolStats(stats.count("total_calls"), stats.counts("by_tool"), stats.count("failures"), stats.left),
        last_known_environment=Environment(
            environment.text("workspace"),
            environment.time("last_update"),
            environment.free("system_snapshot"),
            environment.left,
        ),
        token_usage=TokenUsage(
            usage.count("total_input"), usage.count("total_output"), usage.count("by_session"), usage.left
        ),
        turns=mark.count("turns") if "turns" in mark.left else None,
        more=whole.left,
        more_mark=mark.left,
    )


def _entry_of(item: _Members) -> HistoryEntry:
    count: int | None = None
    if item.left.get("token_count") is not None:
        count = item.count("token_count")
    item.take("token_count")
    return HistoryEntry(item.time("timestamp"), item.text("role"), item.text("content"), count, item.left)


def _task_of(item: _Members) -> Task:
    return Task(
        item.text("id"),
        item.text("description"),
        item.text("status"),
        item.number("progress"),
        item.time("created_at"),
        item.time("updated_at"),
        item.left,
    )


def _task(task: Task) -> dict[str, Any]:
    known = {part.name: getattr(task, part.name) for part in fields(task) if part.name != "more"}
    return {**known, **task.more}


def _environment(environment: Environment) -> dict[str, Any]:
    return {
        "workspace": environment.workspace,
        "last_update": environment.last_update,
        "system_snapshot": environment.system_snapshot,
        **environment.more,
    }


class _Members:
    """The members of one object of a file, taken one by one.

    Args:
        value: should be an object. Raises ValueError when it is none.
        where: what a person calls the place.
    """

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise ValueError(f"{where} is no JSON object")
        self._where = "" if where == "it" else f"{where}."
        self.left: dict[str, object] = dict(value)
        """What was not taken yet."""

    def take(self, name: str) -> object:
        return self.left.pop(name, None)

    def text(self, name: str) -> str:
        value = self.take(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise ValueError(f"{self._where}{name} is no string")
        return value

    def count(self, name: str) -> int:
        value = self.number(name)
        if value < 0:
            raise ValueError(f"{self._where}{name} is below 0")
        return int(value)

    def time(self, name: str) -> int:
        return int(self.number(name))

    def number(self, name: str) -> int | float:
        value = self.take(name)
        if value is None:
            return 0
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{self._where}{name} is no number")
        if abs(value) > MAX_NUMBER:
            raise ValueError(f"{self._where}{name} is too large a number")
        return value

    def free(self, name: str) -> Json:
        value = self.take(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise ValueError(f"{self._where}{name} is no JSON object")
        return value

    def members(self, name: str) -> _Members:
        return _Members(self.free(name), f"{self._where}{name}")

    def items(self, name: str) -> list[object]:
        value = self.take(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise ValueError(f"{self._where}{name} is no list")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        texts: list[str] = []
        for at, item in enumerate(self.items(name)):
            if not isinstance(item, str):
                raise ValueError(f"{self._where}{name}[{at}] is no string")
            texts.append(item)
        return tuple(texts)

    def counts(self, name: str) -> Mapping[str, int]:
        by_name = _Members(self.free(name), f"{self._where}{name}")
        return {key: by_name.count(key) for key in list(by_name.left)}
