"""Scheduled tasks of agents, and the view that people have of them (HB7, HB10)."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field, StringConstraints

from honeybadger_agent.wire.base import Neutralised, OneLine, Request, Result, Wire
from honeybadger_agent.wire.refusals import shaped
from honeybadger_agent.wire.turns import AgentId

TASK_ID: Final = r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}"
_TEN_YEARS: Final = 315_360_000
TaskId = Annotated[str, shaped(TASK_ID, "the id of a task, as morning-news")]
TaskState = Literal["waiting", "due", "fired", "done", "failed", "missed", "skipped", "paused", "over"]
Seconds = Annotated[int, Field(ge=0, le=_TEN_YEARS)]


class TaskMembers(Wire):
    """What a task is: the members of the request, and of the file `groups/<group>/tasks/<id>.json`."""

    name: OneLine
    description: Annotated[str, StringConstraints(min_length=1, max_length=8000)] = Field(
        description="What is to be done; if it may be that nothing is worth telling: when to answer NOTHING."
    )
    schedule_type: Literal["once", "interval", "cron"]
    run_at: Annotated[str, StringConstraints(max_length=40)] | None = Field(
        default=None, description="With once: RFC 3339, as 2026-11-23T09:00:00; without an offset in `time_zone`."
    )
    interval_seconds: Annotated[int, Field(ge=1, le=_TEN_YEARS)] | None = Field(
        default=None, description="With interval: at least 60."
    )
    cron_expression: Annotated[str, StringConstraints(max_length=200)] | None = Field(
        default=None, description="With cron: minute hour day month weekday, as `0 9 * * MON-FRI`."
    )
    time_zone: Annotated[str, StringConstraints(max_length=64)] | None = Field(
        default=None, description="IANA name, as Europe/Berlin; default: the host's."
    )
    agent: AgentId | None = Field(default=None, description="Who does it; default: the agent that asks.")
    session: Annotated[str, shaped(r"[A-Za-z0-9_:-][A-Za-z0-9._:-]{0,99}", "a conversation, as main")] = "main"
    context_mode: Literal["group", "isolated"] = Field(
        default="group", description="group: in `session`; isolated: in a conversation of the task's own."
    )
    missed: Literal["skip", "latest", "all"] = Field(
        default="latest", description="Which runs are made up for that fell into a time when the host did not run."
    )
    grace_seconds: Seconds | None = Field(
        default=None, description="How late a run may begin; default: with skip 60, else any time."
    )
    only_if: Annotated[str, shaped(r"(new_turns|changed:.{1,200})", "new_turns, or changed:MEMORY.md")] | None = Field(
        default=None,
        description="new_turns: only if somebody said something in `session` since the last run; changed:FILE: only if "
        "that file of the group's folder changed.",
    )
    deliver: Literal["always", "when_said", "never"] = Field(
        default="when_said", description="when_said: an empty answer, or NOTHING, is not told to anybody."
    )


class Task(Result):
    id: str
    name: str
    state: TaskState = Field(
        description="`due`: waits for its turn; `fired`: runs now; done, failed, missed, skipped: what became of the "
        "last run; `over`: it will not run again."
    )
    why: str | None = Field(default=None, description="Why it failed, was skipped or missed, or is paused.")
    schedule: str = Field(description="As `cron 0 9 * * MON-FRI (Europe/Berlin)`.")
    next: list[str] = Field(default_factory=list, description="The next five runs.")
    last: str | None = Field(default=None, description="The last run, as it was scheduled.")
    agent: str | None = None
    session: str = "main"
    runs: int = Field(default=0, description="How often it ran.")
    tokens: int = Field(default=0, description="What models cost over all runs, in and out.")
    file: str = Field(description="Below the home folder; people may edit it.")
    task: dict[str, Any] | None = Field(default=None, description="What the file says; of one task only.")
    neutralised: Neutralised = Field(default_factory=dict)


class TaskList(Result):
    tasks: list[Task] = Field(description="Sorted by id.")


class ScheduleTask(Request[Task], TaskMembers, changes=True):
    """Let an agent of this group do something later, once or again and again.

    The answer has the next five runs: check that they are what was meant.
    """


class PauseTask(Request[Task], changes=True, settles=True):
    """Let a task of this group run no more until it is resumed; a run that is under way goes on."""

    task: TaskId
    why: OneLine | None = None


class ResumeTask(Request[Task], changes=True, settles=True):
    """Let a paused task run again; what it missed meanwhile is not made up for."""

    task: TaskId


class CancelTask(Request[Task], changes=True, overwrites=True):
    """Remove a task of this group."""

    task: TaskId


class ListTasks(Request[TaskList]):
    """List the tasks of this group: their state, their next runs, and what became of the last one."""

    task: TaskId | None = Field(default=None, description="This one, with all its members.")


class RunTask(Request[Task], changes=True, audience="programs"):
    """Run a task of this group now, besides its schedule."""

    task: TaskId
