"""Scheduled tasks of agents, and the view that people have of them (HB7, HB10)."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from honeybadger_agent.wire.base import Neutralised, OneLine, Request, Result, Wire
from honeybadger_agent.wire.refusals import shaped
from honeybadger_agent.wire.turns import AgentId

TASK_ID = r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}"
_TEN_YEARS = 315_360_000  # in seconds
TaskId = Annotated[str, shaped(TASK_ID, "the id of a task, as morning-news")]
TaskState = Literal["waiting", "due", "fired", "done", "failed", "missed", "skipped", "paused", "over"]
Seconds = Annotated[int, Field(ge=0, le=_TEN_YEARS)]


class TaskMembers(Wire):
    """Members of a task, in the request and in its file `groups/<group>/tasks/<id>.json`."""

    name: OneLine
    description: Annotated[str, StringConstraints(min_length=1, max_length=8000)] = Field(
        description="What to do; if there may be nothing worth telling, when to answer NOTHING."
    )
    schedule_type: Literal["once", "interval", "cron"]
    run_at: Annotated[str, StringConstraints(max_length=40)] | None = Field(
        default=None, description="For once: RFC 3339, as 2026-11-23T09:00:00; in `time_zone` without an offset."
    )
    interval_seconds: Annotated[int, Field(ge=1, le=_TEN_YEARS)] | None = Field(
        default=None, description="For interval: at least 60."
    )
    cron_expression: Annotated[str, StringConstraints(max_length=200)] | None = Field(
        default=None, description="For cron: minute hour day month weekday, as `0 9 * * MON-FRI`."
    )
    time_zone: Annotated[str, StringConstraints(max_length=64)] | None = Field(
        default=None, description="IANA name, as Europe/Berlin; default: the host's."
    )
    agent: AgentId | None = Field(default=None, description="Agent that does it; default: the one that asks.")
    session: Annotated[str, shaped(r"[A-Za-z0-9_:-][A-Za-z0-9._:-]{0,99}", "a conversation, such as main")] = "main"
    context_mode: Literal["group", "isolated"] = Field(
        default="group", description="group: run in `session`; isolated: run in its own session."
    )
    missed: Literal["skip", "latest", "all"] = Field(
        default="latest", description="Which runs to catch up on that were due while the host was down."
    )
    grace_seconds: Seconds | None = Field(
        default=None, description="How late a run may start; default: 60 with skip, else no limit."
    )
    only_if: Annotated[str, shaped(r"(new_turns|changed:.{1,200})", "new_turns, or changed:MEMORY.md")] | None = Field(
        default=None,
        description="new_turns: only if `session` has new turns since the last run; changed:FILE: only if that "
        "file of the group changed.",
    )
    deliver: Literal["always", "when_said", "never"] = Field(
        default="when_said", description="when_said: an empty answer, or NOTHING, is not sent."
    )


class Task(Result):
    id: str
    name: str
    state: TaskState = Field(
        description="`due`: about to run; `fired`: running; done, failed, missed, skipped: outcome of the last "
        "run; `over`: it will not run again."
    )
    why: str | None = Field(default=None, description="Why it failed, was skipped, was missed or is paused.")
    schedule: str = Field(description="As `cron 0 9 * * MON-FRI (Europe/Berlin)`.")
    next: list[str] = Field(default_factory=list, description="The next five runs.")
    last: str | None = Field(default=None, description="Scheduled time of the last run.")
    agent: str | None = None
    session: str = "main"
    runs: int = Field(default=0, description="Number of runs.")
    tokens: int = Field(default=0, description="Tokens used in all runs, in and out.")
    file: str = Field(description="Below the home folder; people may edit it.")
    task: dict[str, Any] | None = Field(
        default=None, description="Content of the file; only when one task is asked for."
    )
    neutralised: Neutralised = Field(default_factory=dict)


class TaskList(Result):
    tasks: list[Task] = Field(description="Sorted by id.")


class ScheduleTask(Request[Task], TaskMembers, changes=True):
    """Let an agent of this group do something later, once or repeatedly.

    The answer has the next five runs: check that they are what was meant.
    """


class OneTask(Wire):
    task: TaskId


class PauseTask(Request[Task], OneTask, changes=True, settles=True):
    """Stop a task of this group from running until it is resumed; a run under way goes on."""

    why: OneLine | None = None


class ResumeTask(Request[Task], OneTask, changes=True, settles=True):
    """Let a paused task run again; runs missed meanwhile are not made up for."""


class CancelTask(Request[Task], OneTask, changes=True, overwrites=True):
    """Remove a task of this group."""


class ListTasks(Request[TaskList]):
    """List the tasks of this group: their state, their next runs, and what became of the last one."""

    task: TaskId | None = Field(default=None, description="Only this task, with its file's content.")


class RunTask(Request[Task], OneTask, changes=True, audience="programs"):
    """Run a task of this group now, in addition to its schedule."""
