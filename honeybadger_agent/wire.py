"""Every value that crosses the boxes: envelope, payloads, results, replies (docs/protocol.md).

Bytes become models here, once; agents and host share the same models, and `docs/schemas/` is generated from them.
"""

# Without `from __future__ import annotations`: pydantic would compile 300 annotations again, 6 ms of an import.

import difflib
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Final, Literal

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import PydanticCustomError

from honeybadger_agent.mailbox import REQUEST_ID, SESSION

PROTOCOL: Final = 1
MAX_NOTE_CHARACTERS: Final = 32_768
MAX_SECTION_CHARACTERS: Final = 80
MAX_KEY_CHARACTERS: Final = 100
MAX_JSON_LEVELS: Final = 32
MAX_QUERY_CHARACTERS: Final = 4096
MAX_NUMBER: Final = 2**53 - 1
"""The largest integer that every JSON reader keeps exactly."""
MAX_TAGS: Final = 32
MAX_TAG_CHARACTERS: Final = 64
MAX_TITLE_CHARACTERS: Final = 200
MAX_METADATA_BYTES: Final = 8192
MAX_NAME_CHARACTERS: Final = 128
MAX_LISTED: Final = 1000
CATEGORY: Final = re.compile(r"[A-Za-z0-9_-]{1,64}(?:/[A-Za-z0-9_-]{1,64}){0,7}")
"""Categories, also as folders; match with `fullmatch`."""
MAX_CATEGORY_CHARACTERS: Final = 200
GENERAL: Final = "general"
"""The category of what has none (RB4)."""
ENTRY_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""The host makes ids of 12 characters; a person who writes a file may choose."""

ErrorCode = Literal[
    "invalid", "forbidden", "not_found", "conflict", "too_large", "rate_limited", "unavailable", "internal"
]
Role = Literal["user", "assistant", "system", "tool"]


class Refusal(Exception):
    """A request is answered with an error reply.

    Args:
        code: the protocol's error code.
        message: what, which, what now; never the content of the request.
        field: where in the request, as `payload.content`.
        retry_after_seconds: only with `rate_limited`.
    """

    def __init__(
        self, code: ErrorCode, message: str, *, field: str | None = None, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(message)
        self.code: ErrorCode = code
        self.message = message
        self.field = field
        self.retry_after_seconds = retry_after_seconds


class NotARequest(Exception):
    """The bytes are no request at all; they belong among the dead letters.

    Args:
        message: what is wrong with them.
        is_unfinished: the bytes end too early, as when somebody is still writing them.
    """

    def __init__(self, message: str, *, is_unfinished: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.is_unfinished = is_unfinished


class Wire(BaseModel):
    """Base of all wire models: exact types, no unknown members, immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class Result(Wire):
    """Base of what the host answers: members that a newer host adds are ignored."""

    model_config = ConfigDict(extra="ignore")


OneLine = Annotated[str, StringConstraints(min_length=1, max_length=MAX_SECTION_CHARACTERS)]
Count = Annotated[int, Field(ge=0, le=MAX_NUMBER)]


def _shallow(value: dict[str, Any]) -> dict[str, Any]:
    """Return an object of anybody's shape that every JSON reader can take. Raises PydanticCustomError."""
    level: list[object] = [value]
    for _ in range(MAX_JSON_LEVELS):
        level = [
            part
            for item in level
            if isinstance(item, dict | list)
            for part in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return value
    raise PydanticCustomError("must_be", "an object of at most 32 levels")


FreeObject = Annotated[dict[str, Any], AfterValidator(_shallow)]
"""A JSON object that the agent shapes."""


# ---------------------------------------------------------------------------------------------- payloads and results


class Ping(Wire):
    """Ask whether a host serves this box."""


class PingResult(Result):
    host_version: str
    protocol: int
    now: str = Field(description="UTC, RFC 3339")


class UpdateMemory(Wire):
    """Append a note to the group's MEMORY.md (HB1, HB2)."""

    content: Annotated[str, StringConstraints(min_length=1, max_length=MAX_NOTE_CHARACTERS)] = Field(
        description="The note, 1-32,768 characters. Markdown headings in it are escaped."
    )
    section: OneLine | None = Field(default=None, description="Heading of the note, one line; default `Notes`.")


class NoteResult(Result):
    file: str = Field(description="The file the note went to, below the group's folder.")
    section: str
    neutralised: dict[str, int] = Field(
        default_factory=dict,
        description="What was changed in the text so that it forges and betrays nothing: kind and count.",
    )


class ReadGroupFiles(Wire):
    """Read persona, memory and summary of the group (HB3)."""


class FileProblem(Result):
    file: str
    message: str


class GroupFilesResult(Result):
    persona: str | None = Field(description="CLAUDE.md, or null when there is none.")
    memory: str | None = Field(description="MEMORY.md, or null when there is none.")
    summary: str | None = Field(description="summary.md, or null when there is none.")
    problems: list[FileProblem] = Field(
        default_factory=list, description="Files that are there and cannot be served; the others are not affected."
    )


class AppendTurn(Wire):
    """Append one turn to the conversation of the session (AM1, CM4)."""

    role: Role
    content: Annotated[str, StringConstraints(min_length=1)]
    sender: Annotated[str, StringConstraints(min_length=1, max_length=80)] | None = Field(
        default=None,
        description="Who speaks, as shown in the history; default: the sender's folder for `assistant`, else the role.",
    )
    tools_used: list[Annotated[str, StringConstraints(min_length=1, max_length=100)]] | None = Field(
        default=None, max_length=64
    )
    input_tokens: Count | None = None
    output_tokens: Count | None = None


class TurnResult(Result):
    turn: int = Field(description="Number of the turn in its session, from 1.")
    token_count: int = Field(description="Estimate for the content: ASCII characters // 4 plus one per other one.")
    neutralised: dict[str, int] = Field(
        default_factory=dict,
        description="What was changed in the content because it held a credential: kind and count.",
    )


class GetHistory(Wire):
    """Return the newest turns of the session that fit a token budget (HB6)."""

    budget_tokens: Count | None = Field(default=None, description="Default 8000; 0 means no limit.")
    max_messages: Annotated[int, Field(ge=1, le=MAX_NUMBER)] | None = Field(
        default=None, description="At most the window of the conversation (50)."
    )


class Message(Result):
    role: Role
    content: str
    sender: str | None = None
    turn: int | None = None
    at: str | None = Field(default=None, description="UTC, RFC 3339")


class HistoryResult(Result):
    text: str = Field(description="Lines `[sender]: content`, oldest first.")
    messages: list[Message] = Field(description="The same turns, oldest first, content as it was said.")
    tokens: int = Field(description="Estimate for `text`, summed over its lines.")
    dropped: int = Field(description="Turns of the window that did not fit.")
    shortened: bool = Field(description="Whether the newest turn alone was over the budget and was cut and marked.")


class GetContext(Wire):
    """Return the whole context for the next model call, budgeted and explained (HB5)."""

    message: Annotated[str, StringConstraints(min_length=1)] | None = Field(
        default=None, description="What the user says now; it becomes `messages`."
    )
    budget_tokens: Count | None = Field(default=None, description="Default 32000; 0 means no limit.")


class Recalled(Result):
    id: str = Field(description="Id of the entry.")
    state: Literal["new", "in_view", "near_miss", "newest"] = Field(
        description="`new`: recalled for this message; `in_view`: recalled for an earlier message that is still shown; "
        "`newest`: nothing matched at the beginning of a session; `near_miss`: not in the context."
    )
    score: float | None = Field(default=None, description="Points; what they are made of is in `points`.")
    points: dict[str, float] = Field(default_factory=dict, description="What earned how many points.")
    words: dict[str, float] = Field(default_factory=dict, description="What each word of the question earned.")
    why: str | None = Field(default=None, description="Why it is in the context, or why it is not.")


SectionState = Literal["whole", "cut", "left_out", "absent", "unreadable"]


class ContextSection(Result):
    title: str
    source: str = Field(description="The file it came from, below the home folder, or `request`.")
    state: SectionState
    tokens: int = Field(description="Estimate for what is in the context, heading included; 0 when nothing is.")
    left_out: str | None = Field(default=None, description="What is not in the context.")
    why: str | None = Field(default=None, description="Why it is not.")


class ContextResult(Result):
    system: str = Field(description="System text; `system` and `messages` together are the whole input of the model.")
    messages: list[Message]
    sections: list[ContextSection] = Field(description="One row per part, in the order of the text.")
    tokens: int
    budget_tokens: int = Field(description="0 means no limit.")
    is_over_budget: bool = Field(description="The parts that are never cut are over the budget alone.")
    recalled: list[Recalled] = Field(
        default_factory=list, description="Long-term entries that were considered for this message, best first (RB2)."
    )


def _checked_category(value: str) -> str:
    if not CATEGORY.fullmatch(value):
        raise PydanticCustomError(
            "must_be", "names of letters, digits, - and _ with / between them, at most 8 deep and 64 characters each"
        )
    return value


def _checked_metadata(value: dict[str, Any]) -> dict[str, Any]:
    try:
        size = len(orjson.dumps([[[[value]]]])) - 8  # four levels less than there may be: it goes into other objects
    except TypeError:
        raise PydanticCustomError("must_be", "JSON, with integers of 64 bits and 250 levels at most") from None
    if size > MAX_METADATA_BYTES:
        raise PydanticCustomError("too_many_bytes", "", {"size": size, "limit": MAX_METADATA_BYTES})
    return value


_HIDDEN: Final = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode's categories of what is not seen, or ends a line; joiners are part of some scripts and emoji."""


def is_name(text: str) -> bool:
    """Return whether an entry may have this name: one that a file could have, too."""
    return (
        0 < len(text) <= MAX_NAME_CHARACTERS
        and text not in (".", "..")
        and text == text.strip()
        and not any(
            character in "/\\" or (unicodedata.category(character) in _HIDDEN and character not in "\u200c\u200d")
            for character in text
        )
    )


def _checked_name(value: str) -> str:
    if not is_name(value):
        raise PydanticCustomError("must_be", "a name as a file has: one line without / and \\, not . or ..")
    return unicodedata.normalize("NFC", value)


Category = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MAX_CATEGORY_CHARACTERS),
    AfterValidator(_checked_category),
    Field(json_schema_extra={"pattern": f"^{CATEGORY.pattern}$"}),
]
Tag = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TAG_CHARACTERS)]
Title = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TITLE_CHARACTERS)]
EntryName = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_NAME_CHARACTERS), AfterValidator(_checked_name)
]
EntryId = Annotated[str, StringConstraints(pattern=f"^{ENTRY_ID.pattern}$")]


class SaveMemory(Wire):
    """Save one thing worth knowing for long as an entry of its own (RB1, RB5)."""

    content: Annotated[str, StringConstraints(min_length=1, max_length=MAX_NOTE_CHARACTERS)] = Field(
        description="What is to be known, in words that are understood without the conversation: 1-32,768 characters."
    )
    category: Category | None = Field(
        default=None,
        description="Where it belongs, as user-preferences/timezone, anti-patterns/email, project-context/website. "
        "Default: general.",
    )
    tags: list[Tag] | None = Field(default=None, max_length=MAX_TAGS, description="Labels to search by, at most 32.")
    metadata: Annotated[dict[str, Any], AfterValidator(_checked_metadata)] | None = Field(
        default=None, description="Anything else, as an object of at most 8 KiB of JSON."
    )
    title: Title | None = Field(default=None, description="A short name to find it under, at most 200 characters.")
    aliases: list[Title] | None = Field(
        default=None, max_length=MAX_TAGS, description="Other names and words people may ask for it with."
    )
    name: EntryName | None = Field(
        default=None,
        description="Makes it a document of its own, as notes.md: no other entry of the category may have the name "
        "(conflict), and known text is not looked for. Default: it has none.",
    )


class EntryResult(Result):
    id: str
    category: str
    content: str
    name: str | None = Field(default=None, description="As a file's name, unique in its category; most have none.")
    title: str | None = None
    aliases: list[str] = Field(default_factory=list)
    tags: list[str]
    metadata: dict[str, Any]
    created: str | None = Field(description="UTC, RFC 3339; null: a person wrote the file and did not say.")
    updated: str | None = Field(description="UTC, RFC 3339, of the last save; null as above.")
    by: str | None = Field(description="Sender that saved it first; null: a person wrote the file.")
    reinforced: int = Field(description="How often the same was saved again.")
    file: str = Field(description="Below the group's folder.")
    version: str = Field(default="", description="Name of what its file holds; any change makes another.")


class SavedEntry(EntryResult):
    neutralised: dict[str, int] = Field(
        default_factory=dict, description="What was changed in the texts so that they forge and betray nothing."
    )


class GetMemory(Wire):
    """Return one entry."""

    id: EntryId


class EditMemory(Wire):
    """Change one entry; what is absent stays as it is."""

    id: EntryId
    content: Annotated[str, StringConstraints(min_length=1, max_length=MAX_NOTE_CHARACTERS)] | None = Field(
        default=None, description="Replaces the text."
    )
    category: Category | None = Field(default=None, description="Moves it there.")
    name: EntryName | None = Field(
        default=None, description="Its name from now on, as a file's; taken in the category: conflict."
    )
    title: Title | None = None
    aliases: list[Title] | None = Field(default=None, max_length=MAX_TAGS, description="Replaces them all.")
    tags: list[Tag] | None = Field(default=None, max_length=MAX_TAGS, description="Replaces them all.")
    metadata: Annotated[dict[str, Any], AfterValidator(_checked_metadata)] | None = Field(
        default=None, description="Replaces it."
    )
    expected_version: str | None = Field(
        default=None, description="The `version` that was read; when the file holds something else by now: conflict."
    )


class DeleteMemory(Wire):
    """Move one entry to the archive in the journal; the answer is the entry as it was (RB5)."""

    id: EntryId


class ListMemoryCategories(Wire):
    """Return the categories of the group's entries (RB5)."""


class CategoryCount(Result):
    category: str
    entries: int = Field(description="Just in it.")
    total: int = Field(description="In it and below it.")


class CategoriesResult(Result):
    categories: list[CategoryCount] = Field(description="The tree, each category before those below it.")
    total: int


class ListMemoryEntries(Wire):
    """List entries by category and name, without their text."""

    category: Category | None = Field(default=None, description="Only in it and below it; default: all.")
    depth: Annotated[int, Field(ge=0, le=8)] | None = Field(
        default=None, description="Levels below it that are listed; 0: just in it. Default: all."
    )
    name: EntryName | None = Field(
        default=None, description="Only the one of this name, just in `category` (default general)."
    )
    limit: Annotated[int, Field(ge=1, le=MAX_LISTED)] | None = Field(default=None, description="Default 200.")
    offset: Count | None = Field(default=None, description="How many to pass over; default 0.")


class EntryRow(Result):
    id: str
    category: str
    name: str | None
    title: str | None
    begins: str = Field(description="Its first words, one line of at most 80 characters.")
    bytes: int = Field(description="Of its text, as UTF-8.")
    updated: str | None = Field(description="UTC, RFC 3339")


class EntryFolder(Result):
    category: str
    entries: int = Field(description="Just in it.")
    total: int = Field(description="In it and below it.")
    bytes: int = Field(description="Of all texts in it and below it.")


class EntriesResult(Result):
    entries: list[EntryRow] = Field(description="By category; there by name, those without one last.")
    total: int = Field(description="How many there are without `limit` and `offset`.")
    folders: list[EntryFolder] = Field(
        description="The category asked for and those below it, one level more than listed; empty with `name`."
    )
    is_complete: bool = Field(description="False while files of the group are still being indexed.")


Key = Annotated[str, StringConstraints(min_length=1, max_length=MAX_KEY_CHARACTERS)]
Tags = Annotated[list[Tag], Field(max_length=MAX_TAGS)]


class SaveToWorkingMemory(Wire):
    """Keep something for a while in the working memory of the session; the same key again replaces it (RB6)."""

    key: Key = Field(description="Unique in the session, one visible line, 1-100 characters.")
    data: Annotated[str, StringConstraints(min_length=1)] = Field(description="At most 131,072 bytes by default.")
    ttl_minutes: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None, description="Minutes until it expires, by default 5, at most 1440."
    )
    category: OneLine | None = Field(default=None, description="As `web-content` or `web-content/github`.")
    tags: Tags | None = None


class WorkingSaved(Result):
    key: str
    expires_at: str = Field(description="UTC, RFC 3339")
    replaced: bool = Field(description="Whether the key held something that had not expired.")
    neutralised: dict[str, int] = Field(
        default_factory=dict,
        description="What was changed in the text so that it forges and betrays nothing: kind and count.",
    )


class WorkingLabel(Result):
    key: str
    expires_at: str = Field(description="UTC, RFC 3339")
    category: str | None = None
    tags: list[str]
    by: str = Field(description="The sender's folder it came from.")
    characters: int = Field(description="Length of its data.")


class GetFromWorkingMemory(Wire):
    """Return one entry of the session's working memory, with its data (RB6)."""

    key: Key


class WorkingEntryResult(WorkingLabel):
    stored_at: str = Field(description="UTC, RFC 3339")
    data: str


class SearchWorkingMemory(Wire):
    """Search the session's working memory: key, data, tags and category (RB6)."""

    query: Annotated[str, StringConstraints(min_length=1)]
    category: OneLine | None = Field(default=None, description="`a` finds `a` and `a/b`, not `ab`.")
    tags: Tags | None = Field(default=None, description="An entry must have them all.")


class WorkingHit(WorkingLabel):
    score: float
    text: str = Field(description="A piece of its data around what was found, one line, at most 200 characters.")


class WorkingHits(Result):
    hits: list[WorkingHit] = Field(description="Best first.")


class ListWorkingMemory(Wire):
    """List what the session's working memory holds, without data (RB6)."""


class WorkingList(Result):
    entries: list[WorkingLabel] = Field(description="By key; what has expired is not there.")
    max_entries: int = Field(description="How many there may be.")
    skipped: int = Field(description="Files in its folder that are no entries; the host's log names them.")


class Undo(Wire):
    """Bring back what one change of long-term memory changed; only the operator may."""

    seq: Annotated[int, Field(ge=1, le=MAX_NUMBER)] = Field(description="The change, as `honeybadger-host log` shows.")


class UndoResult(Result):
    file: str = Field(description="Below the group's folder.")
    did: Literal["restored", "put_back", "removed"] = Field(
        description="A deleted file is there again; it has what it held before; it is gone, as there was none before."
    )


TaskStatus = Literal["Pending", "Running", "Completed", "Failed", "Cancelled"]
Fact = Annotated[str, StringConstraints(min_length=1, max_length=2000)]


class LoadSession(Wire):
    """Read the session's document as it is now, the newest turns included (CM2)."""


class HistoryItem(Result):
    timestamp: int = Field(description="Seconds since the epoch, UTC.")
    role: str
    content: str
    token_count: int | None = Field(description="null: nobody counted; limits take an estimate.")


class SessionTask(Result):
    id: str
    description: str
    status: str
    progress: float = Field(description="0 to 1.")
    created_at: int
    updated_at: int


class ToolStats(Result):
    total_calls: int
    by_tool: dict[str, int]
    failures: int


class Environment(Result):
    workspace: str
    last_update: int = Field(description="Seconds since the epoch; 0: never.")
    system_snapshot: dict[str, Any]


class TokenUsage(Result):
    total_input: int
    total_output: int
    by_session: int


class SessionResult(Result):
    """The document, member for member as in its file (CM1), and where it stands."""

    session_id: str
    system_state: dict[str, Any]
    facts: list[str]
    recent_history: list[HistoryItem] = Field(description="Oldest first.")
    long_term_summary: str
    active_tasks: list[SessionTask]
    tool_stats: ToolStats
    last_known_environment: Environment
    token_usage: TokenUsage
    version: str = Field(description="Name of what an update may overwrite; turns do not change it.")
    turns: int = Field(description="Number of the newest turn in it.")
    tokens: int = Field(description="Of `recent_history`, counted or estimated.")
    file: str = Field(description="Below the home folder; it may lack the newest turns for some seconds.")
    is_new: bool = Field(description="Nothing was ever said or kept in this session.")


class TaskUpdate(Wire):
    """A new task, or what changed of a known one."""

    id: OneLine
    description: Annotated[str, StringConstraints(min_length=1, max_length=2000)] | None = Field(
        default=None, description="Needed when the task is new."
    )
    status: TaskStatus | None = Field(default=None, description="Default for a new task: Running.")
    progress: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = Field(
        default=None, description="0 to 1; default for a new task: 0."
    )


class EnvironmentUpdate(Wire):
    """What the agent sees around it now; a member that is absent stays as it was."""

    workspace: Annotated[str, StringConstraints(max_length=1000)] | None = None
    system_snapshot: FreeObject | None = Field(default=None, description="Replaces the one before.")


class ToolCalls(Wire):
    """Calls of one tool that no turn names in `tools_used`."""

    tool: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    calls: Count = 1
    failures: Count = Field(default=0, description="How many of them failed; 0 calls count failures only.")


class UpdateSession(Wire):
    """Change the session's document; what is absent stays (CM2)."""

    system_state: FreeObject | None = Field(
        default=None, description="Merged into the state there is; a member that is null is removed (RFC 7396)."
    )
    add_facts: list[Fact] | None = Field(default=None, max_length=100)
    remove_facts: list[Fact] | None = Field(
        default=None, max_length=100, description="Word for word; one that is not there: not_found."
    )
    long_term_summary: str | None = Field(default=None, description="Replaces the summary; at most 6000 characters.")
    active_tasks: list[TaskUpdate] | None = Field(
        default=None, max_length=100, description="Tasks to add or to change, by id; the others stay."
    )
    remove_tasks: list[OneLine] | None = Field(
        default=None, max_length=100, description="Ids; one that is not there: not_found."
    )
    last_known_environment: EnvironmentUpdate | None = None
    tool_calls: list[ToolCalls] | None = Field(default=None, max_length=64)
    expected_version: str | None = Field(
        default=None, description="The `version` that was read; when the document has another by now: conflict."
    )


class SessionState(Result):
    """A document in numbers, after it was changed."""

    session: str
    file: str
    version: str
    turns: int
    entries: int = Field(description="Messages in `recent_history`.")
    tokens: int
    facts: int
    tasks: int
    neutralised: dict[str, int] = Field(
        default_factory=dict, description="What was changed in texts so that they forge and betray nothing."
    )


class CompactSession(Wire):
    """Bring the session's document within its limits, prune its tasks, sort its facts (CM3)."""


class CompactResult(SessionState):
    is_changed: bool
    summarised: int = Field(description="Messages that went into the summary; the log has them in full.")
    facts_removed: int = Field(description="Duplicates.")
    tasks_removed: int = Field(description="Ended more than a day ago.")


class DeleteSession(Wire):
    """Delete the session's document (CM2). Its log stays."""

    expected_version: str | None = Field(default=None, description="As in `update_session`.")


class DeletedResult(Result):
    session: str
    is_deleted: bool = Field(description="false: there was nothing to delete.")
    file: str
    log: str | None = Field(description="The session's log, which is kept whole; null when there is none.")


class ListSessions(Wire):
    """List the sessions of the group (CM2)."""

    limit: Annotated[int, Field(ge=1, le=200)] | None = Field(default=None, description="Default 50.")
    offset: Count | None = Field(default=None, description="How many to pass over; default 0.")


class SessionRow(Result):
    session: str
    updated_at: str = Field(description="UTC, RFC 3339")
    turns: int
    entries: int | None = Field(description="Messages in `recent_history`; null when the document cannot be read.")
    tokens: int | None
    has_file: bool = Field(description="false: it has only a log so far.")
    problem: str | None = Field(default=None, description="Why the document cannot be read.")


class SessionsResult(Result):
    sessions: list[SessionRow] = Field(description="The last changed first.")
    total: int = Field(description="Sessions of the group.")


SearchScope = Literal["all", "entries", "turns", "notes"]
Day = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)?)?$")]


class SearchMemory(Wire):
    """Find what was remembered or said, best first; without a query the newest (RB2, RB3, AM2)."""

    query: Annotated[str, StringConstraints(min_length=1, max_length=MAX_QUERY_CHARACTERS)] | None = Field(
        default=None, description="Words, or a question as a person asks it."
    )
    category: Category | None = Field(
        default=None, description="Only entries of this category or below it: `a` takes `a` and `a/b`, not `ab`."
    )
    tags: Annotated[list[Tag], Field(max_length=MAX_TAGS)] | None = Field(
        default=None, description="Only entries that have all of these tags."
    )
    since: Day | None = Field(default=None, description="RFC 3339 date or time; without a zone it is UTC.")
    until: Day | None = Field(default=None, description="As `since`; a date takes the whole day in.")
    limit: Annotated[int, Field(ge=1, le=100)] | None = Field(default=None, description="Most hits; default 8.")
    scope: SearchScope | None = Field(
        default=None,
        description="`entries`, `turns` of every session, `notes` of MEMORY.md and HISTORY.md, or `all`; default all. "
        "With `category` or `tags` only entries are looked at.",
    )


class Hit(Result):
    id: str = Field(description="Of an entry its id; of a turn `session#number`; of a note `MEMORY.md#hash`.")
    kind: Literal["entry", "turn", "note", "history"]
    score: float | None = Field(description="Points, comparable within this answer; null without a query.")
    text: str = Field(description="What it says, its first 2,000 characters.")
    is_cut: bool = Field(default=False, description="Whether the text goes on.")
    time: str | None = Field(default=None, description="UTC, RFC 3339; null when unknown.")
    category: str | None = None
    tags: list[str] = Field(default_factory=list)
    author: str | None = Field(default=None, description="Who said or saved it.")
    session: str | None = Field(default=None, description="Of a turn.")
    source: str = Field(description="The file it stands in, below the home folder.")
    points: dict[str, float] = Field(default_factory=dict, description="What earned how many points.")
    words: dict[str, float] = Field(default_factory=dict, description="What each word of the question earned.")


class SearchResult(Result):
    hits: list[Hit] = Field(description="Best first; ties by time, newest first.")
    is_complete: bool = Field(description="False while files of the group are still being indexed.")


@dataclass(frozen=True, slots=True)
class RequestType:
    """One row of the protocol's table.

    Args:
        changes: whether it changes memory, that is, goes through the journal and keeps a receipt.
    """

    name: str
    payload: type[Wire]
    result: type[Result]
    changes: bool


REQUEST_TYPES: Final[Mapping[str, RequestType]] = {
    kind.name: kind
    for kind in (
        RequestType("ping", Ping, PingResult, changes=False),
        RequestType("update_memory", UpdateMemory, NoteResult, changes=True),
        RequestType("read_group_files", ReadGroupFiles, GroupFilesResult, changes=False),
        RequestType("append_turn", AppendTurn, TurnResult, changes=True),
        RequestType("get_history", GetHistory, HistoryResult, changes=False),
        RequestType("get_context", GetContext, ContextResult, changes=False),
        RequestType("save_memory", SaveMemory, SavedEntry, changes=True),
        RequestType("get_memory", GetMemory, EntryResult, changes=False),
        RequestType("edit_memory", EditMemory, SavedEntry, changes=True),
        RequestType("delete_memory", DeleteMemory, EntryResult, changes=True),
        RequestType("list_memory_entries", ListMemoryEntries, EntriesResult, changes=False),
        RequestType("list_memory_categories", ListMemoryCategories, CategoriesResult, changes=False),
        RequestType("search_memory", SearchMemory, SearchResult, changes=False),
        RequestType("save_to_working_memory", SaveToWorkingMemory, WorkingSaved, changes=True),
        RequestType("get_from_working_memory", GetFromWorkingMemory, WorkingEntryResult, changes=False),
        RequestType("search_working_memory", SearchWorkingMemory, WorkingHits, changes=False),
        RequestType("list_working_memory", ListWorkingMemory, WorkingList, changes=False),
        RequestType("undo", Undo, UndoResult, changes=True),
        RequestType("load_session", LoadSession, SessionResult, changes=False),
        RequestType("update_session", UpdateSession, SessionState, changes=True),
        RequestType("compact_session", CompactSession, CompactResult, changes=True),
        RequestType("delete_session", DeleteSession, DeletedResult, changes=True),
        RequestType("list_sessions", ListSessions, SessionsResult, changes=False),
    )
}


# ------------------------------------------------------------------------------------------------- envelope and reply


class Request(BaseModel):
    """The envelope. Unknown members beside `payload` are ignored, so that version 1 can grow."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, defer_build=True)

    v: int = Field(description="Protocol version, 1.", json_schema_extra={"const": PROTOCOL})
    id: str = Field(
        pattern=f"^{REQUEST_ID.pattern}$", description="Equals the file's stem; names one request for ever."
    )
    type: str
    group: str | None = Field(default=None, description="When present, equals the folder.")
    sender: str | None = Field(default=None, description="When present, equals the folder.")
    session: str = Field(default="main", pattern=f"^{SESSION.pattern}$")
    sent_at: str | None = Field(default=None, description="UTC, RFC 3339; for readers, the host does not use it.")
    payload: dict[str, Any] = Field(default_factory=dict)


class ErrorBody(Result):
    code: ErrorCode
    message: str
    field: str | None = None
    retry_after_seconds: float | None = None


class Reply(BaseModel):
    """What the host answers. `ok` with a `seq` means durable."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, defer_build=True)

    v: int
    id: str
    ok: bool
    seq: int | None = Field(default=None, description="Position in the journal; only for what changed something.")
    result: dict[str, Any] | None = None
    error: ErrorBody | None = None


def parse_request(data: bytes, stem: str) -> Request:
    """Return the envelope of a request file.

    Args:
        data: the bytes of the file; of two members with the same name the last counts.
        stem: the file's name without `.json`.
    Raises:
        NotARequest: no JSON, no object, or a member of the envelope is missing or of another type.
        Refusal: an envelope the host cannot serve.
    """
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise NotARequest(f"not JSON: {error}", is_unfinished=_ends_too_early(data, error.pos)) from None
    if not isinstance(value, dict):
        raise NotARequest(f"a request is a JSON object, this is {_json_kind(value)}")
    version = value.get("v")
    if type(version) is int and version != PROTOCOL:
        raise Refusal(
            "invalid", f"v is {str(version)[:20]}; this host speaks version {PROTOCOL}: send v: {PROTOCOL}", field="v"
        )
    try:
        request = Request.model_validate(value)
    except ValidationError as error:
        refusal = refusal_of(error)
        if error.errors(include_url=False, include_input=False)[0]["type"] == "string_pattern_mismatch":
            raise refusal from None  # the right shape with a value that is not allowed
        raise NotARequest(f"not a request: {refusal.message}") from None
    if request.id != stem:
        raise Refusal("invalid", f"id must equal the file's name without .json, which is {stem!r}", field="id")
    return request


def parse_payload(request: Request, types: Mapping[str, RequestType] = REQUEST_TYPES) -> Wire:
    """Return the payload of `request` as the model of its type.

    Args:
        types: what the box takes that it lay in.
    Raises `Refusal`, naming the member.
    """
    kind = types.get(request.type)
    if kind is None:
        raise Refusal(
            "invalid",
            f"type {request.type[:60]!r} is unknown; {nearest(request.type, types)}",
            field="type",
        )
    known = _members(kind.payload)
    if not request.payload.keys() <= known.keys():  # before pydantic: a typo explains what it would find missing
        name = next(name for name in request.payload if name not in known)
        field = f"payload.{_shown(name)}"
        hint = nearest(name, known) if known else f"{kind.name} takes no members"
        raise Refusal("invalid", f"{field} is unknown; {hint}", field=field)
    try:
        return kind.payload.model_validate(request.payload)
    except ValidationError as error:
        raise refusal_of(error, "payload.") from None


@lru_cache
def _members(model: type[Wire]) -> Mapping[str, object]:
    return model.model_fields  # pydantic looks it up anew each time


def refusal_of(error: ValidationError, prefix: str = "") -> Refusal:
    """Return the first thing pydantic found as a refusal that names the member and never shows the content.

    Args:
        prefix: where in the request the model stands, as `payload.`.
    """
    first = error.errors(include_url=False)[0]
    where = prefix + ".".join(_shown(str(part)) for part in first["loc"])
    context = first.get("ctx", {})
    code: ErrorCode = "invalid"
    match first["type"]:
        case "missing":
            message = "is missing"
        case "string_too_long":
            code = "too_large"
            message = f"has {len(first['input'])} characters, the limit is {context['max_length']}: send less"
        case "too_long":
            code = "too_large"
            message = f"has {len(first['input'])} items, the limit is {context['max_length']}: send less"
        case "string_too_short":
            message = "is empty"
        case "string_pattern_mismatch":
            message = f"must match {context['pattern']}"
        case "literal_error":
            message = f"must be {context['expected']}"
        case "greater_than":
            message = f"must be more than {context['gt']:g}"
        case "greater_than_equal":
            message = f"must be at least {context['ge']}"
        case "less_than_equal":
            message = f"must be at most {context['le']}"
        case "extra_forbidden":
            message = "is unknown"
        case "too_many_bytes":
            code = "too_large"
            message = f"has {context['size']} bytes, the limit is {context['limit']}: send less"
        case "must_be":
            message = f"must be {first['msg']}"
        case kind if kind in _MUST_BE:
            message = f"must be {_MUST_BE[kind]}"
        case _:
            message = f"is wrong: {first['msg']}"
    return Refusal(code, f"{where} {message}", field=where)


def dump_reply(request_id: str, result: Mapping[str, Any], seq: int | None = None) -> bytes:
    """Return the bytes of a good reply."""
    head: dict[str, Any] = {"v": PROTOCOL, "id": request_id, "ok": True}
    if seq is not None:
        head["seq"] = seq
    head["result"] = result
    return orjson.dumps(head, option=orjson.OPT_APPEND_NEWLINE)


def dump_error(request_id: str, refusal: Refusal) -> bytes:
    """Return the bytes of an error reply."""
    error: dict[str, Any] = {"code": refusal.code, "message": refusal.message}
    if refusal.field is not None:
        error["field"] = refusal.field
    if refusal.retry_after_seconds is not None:
        error["retry_after_seconds"] = refusal.retry_after_seconds
    head = {"v": PROTOCOL, "id": request_id, "ok": False, "error": error}
    return orjson.dumps(head, option=orjson.OPT_APPEND_NEWLINE)


def dump_request(
    request_id: str,
    type_name: str,
    payload: Wire | Mapping[str, Any],
    *,
    session: str | None = None,
    sent_at: str | None = None,
) -> bytes:
    """Return the bytes of a request; the same arguments give the same bytes, so that a retry is recognised.

    Raises TypeError: the payload is a mapping with something in it that JSON cannot hold.
    """
    head: dict[str, Any] = {"v": PROTOCOL, "id": request_id, "type": type_name}
    if session is not None:
        head["session"] = session
    if sent_at is not None:
        head["sent_at"] = sent_at
    head["payload"] = payload.model_dump(exclude_none=True) if isinstance(payload, Wire) else payload
    return orjson.dumps(head)


# ------------------------------------------------------------------------------------------------------------ helpers


_MUST_BE: Final = {
    "string_type": "a string",
    "string_unicode": "text without lone surrogates",
    "int_type": "an integer",
    "float_type": "a number",
    "finite_number": "a finite number",
    "dict_type": "an object",
    "list_type": "an array",
}


def _ends_too_early(data: bytes, error_at: int) -> bool:
    """Return whether bytes that are no JSON could become it with more bytes after them.

    Args:
        error_at: the character at which the parser gave up; it counts characters, not bytes.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return error_at >= len(text.rstrip(" \t\r\n"))


def nearest(name: str, known: Iterable[str]) -> str:
    """Return what somebody may have meant by a name that is not known, else all that are."""
    near = difflib.get_close_matches(name[:100], list(known), n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"


def _shown(name: str) -> str:
    """Return a name that somebody else chose, short and printable."""
    return name[:60] if name[:60].isprintable() else ascii(name[:60])[1:-1]


def _json_kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case _:
            return "an array"
