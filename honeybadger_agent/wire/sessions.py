"""The document of a session: state, facts, tasks, summary; the sessions of a group; feedback on a session's answers."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints

from honeybadger_agent.wire.base import MAX_NUMBER, Count, Neutralised, OneLine, Request, Result, Wire
from honeybadger_agent.wire.labels import ToolName
from honeybadger_agent.wire.refusals import checked_json

FeedbackKind = Literal["correction", "praise", "complaint", "tool_failed"]


FreeObject = Annotated[dict[str, Any], AfterValidator(checked_json)]  # A JSON object that the agent shapes
TaskStatus = Literal["Pending", "Running", "Completed", "Failed", "Cancelled"]
Fact = Annotated[str, StringConstraints(min_length=1, max_length=2000)]


class HistoryItem(Result):
    timestamp: int = Field(description="Seconds since the epoch, UTC.")
    role: str
    content: str
    token_count: int | None = Field(description="null: not counted; limits use an estimate.")


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
    """The document, member for member as in its file (CM1), with version, size and place."""

    session_id: str
    system_state: dict[str, Any]
    facts: list[str]
    recent_history: list[HistoryItem] = Field(description="Oldest first.")
    long_term_summary: str
    active_tasks: list[SessionTask]
    tool_stats: ToolStats
    last_known_environment: Environment
    token_usage: TokenUsage
    version: str = Field(description="Version for `expected_version`; new turns do not change it.")
    turns: int = Field(description="Number of the newest turn in it.")
    tokens: int = Field(description="Tokens of `recent_history`, counted or estimated.")
    file: str = Field(description="Below the home folder; the newest turns may appear in it some seconds later.")
    is_new: bool = Field(description="true: nothing was said or kept in this session yet.")


class LoadSession(Request[SessionResult]):
    """Load this session's working document: state, facts, recent history, summary, tasks, tool and token statistics.

    Use this at the start of a session to see where you left off, and before you change facts, tasks or the summary.
    """


class TaskUpdate(Wire):
    """A new task, or changes to a known one."""

    id: OneLine
    description: Annotated[str, StringConstraints(min_length=1, max_length=2000)] | None = Field(
        default=None, description="Required for a new task."
    )
    status: TaskStatus | None = Field(default=None, description="Default for a new task: Running.")
    progress: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = Field(
        default=None, description="0 to 1; default for a new task: 0."
    )


class EnvironmentUpdate(Wire):
    """The agent's surroundings; an absent member stays as it was."""

    workspace: Annotated[str, StringConstraints(max_length=1000)] | None = None
    system_snapshot: FreeObject | None = Field(default=None, description="Replaces the previous one.")


class ToolCalls(Wire):
    """Calls of one tool that no turn names in `tools_used`."""

    tool: ToolName
    calls: Count = 1
    failures: Count = Field(default=0, description="How many of them failed; 0 calls count failures only.")


class SessionState(Result):
    """Sizes and version of a document after a change."""

    session: str
    file: str
    version: str
    turns: int
    entries: int = Field(description="Messages in `recent_history`.")
    tokens: int
    facts: int
    tasks: int
    neutralised: Neutralised = Field(default_factory=dict)


class UpdateSession(Request[SessionState], changes=True, overwrites=True):
    """Change this session's working document; what you leave out stays as it is.

    Use this when a task starts, moves on or ends, when you learn something that matters for this session, or when the
    environment changes. Messages are not added here: append_turn does that. For what should outlive the session use
    update_memory. Give the version you loaded as expected_version when you replace the summary.
    """

    system_state: FreeObject | None = Field(
        default=None, description="Merged into the state; a null member is removed (RFC 7396)."
    )
    add_facts: list[Fact] | None = Field(default=None, max_length=100)
    remove_facts: list[Fact] | None = Field(
        default=None, max_length=100, description="Facts to remove, word for word; an unknown one is not_found."
    )
    long_term_summary: str | None = Field(default=None, description="New summary of at most 6000 characters.")
    active_tasks: list[TaskUpdate] | None = Field(
        default=None, max_length=100, description="Tasks to add or change, by id; others stay."
    )
    remove_tasks: list[OneLine] | None = Field(
        default=None, max_length=100, description="Ids of tasks to remove; an unknown one is not_found."
    )
    last_known_environment: EnvironmentUpdate | None = None
    tool_calls: list[ToolCalls] | None = Field(default=None, max_length=64)
    expected_version: str | None = Field(
        default=None, description="The `version` you read; conflict if the document has changed."
    )


class DeletedResult(Result):
    session: str
    is_deleted: bool = Field(description="false: there was nothing to delete.")
    file: str
    log: str | None = Field(description="The session's log, which is kept; null: there is none.")
    context_begins_after: int = Field(default=0, description="Contexts leave out the turns up to this number; 0: none.")
    kept: list[str] = Field(default_factory=list, description="What is kept, and how to forget it.")


class DeleteSession(Request[DeletedResult], changes=True, overwrites=True, settles=True):
    """Delete this session's document. Use this only when the user asks to forget the session.

    The log of what was said is kept, and contexts still show it unless begin_again is true.
    """

    expected_version: str | None = Field(default=None, description="Like in `update_session`.")
    begin_again: bool | None = Field(
        default=None, description="true: contexts no longer show what was said so far; default: they do."
    )


class SessionRow(Result):
    session: str
    updated_at: str = Field(description="UTC, RFC 3339")
    turns: int
    entries: int | None = Field(description="Messages in `recent_history`; null when the document cannot be read.")
    tokens: int | None
    has_file: bool = Field(description="false: it has only a log.")
    problem: str | None = Field(default=None, description="Why the document, or lines of the log, cannot be read.")


class SessionsResult(Result):
    sessions: list[SessionRow] = Field(description="Last changed first.")
    total: int = Field(description="Number of sessions in the group.")


class ListSessions(Request[SessionsResult]):
    """List the group's sessions, the last changed first. Use this to find an earlier conversation."""

    limit: Annotated[int, Field(ge=1, le=200)] | None = Field(default=None, description="Default 50.")
    offset: Count | None = Field(default=None, description="Number to skip; default 0.")


class FeedbackResult(Result):
    turn: int | None = Field(description="Number of the turn it concerns; null: the session has no turns.")
    neutralised: Neutralised = Field(default_factory=dict)


class RecordFeedback(Request[FeedbackResult], changes=True):
    """Record that the user corrected, praised or criticised an answer, or that a tool failed; memory learns from it.

    Quote the user's words. A correction that says what to do instead (`Don't use X for Y, use Z`) helps most.
    """

    kind: FeedbackKind
    content: Annotated[str, StringConstraints(min_length=1, max_length=4096)] | None = Field(
        default=None, description="What the user said or what failed; required for a correction."
    )
    turn: Annotated[int, Field(ge=1, le=MAX_NUMBER)] | None = Field(
        default=None, description="Number of the turn it concerns; default: the newest."
    )
