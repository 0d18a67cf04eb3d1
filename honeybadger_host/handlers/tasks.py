"""Tasks: `schedule_task`, `pause_task`, `resume_task`, `cancel_task`, `list_tasks`, `run_task` (HB7, HB10).

A task is its file. Requests and people change that file; the runs of a task are recorded elsewhere, so neither
overwrites the other.
"""

import hashlib
import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal

import orjson

from honeybadger_agent.mailbox import SCHEDULER
from honeybadger_agent.wire import CancelTask, ListTasks, PauseTask, Refusal, ResumeTask, RunTask, ScheduleTask
from honeybadger_agent.wire import Task as TaskRow
from honeybadger_agent.wire.tasks import TaskState as ShownState
from honeybadger_agent.wording import listed
from honeybadger_host.agents import Agents, unknown_agent
from honeybadger_host.errors import WorldFailed
from honeybadger_host.files.home import AGENTS_FOLDER
from honeybadger_host.handler_kinds import Asked, ChangeHandler, Handler, Outcome, QueryHandler
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.handlers.redaction import with_neutralised
from honeybadger_host.journal.changes import Change, FileRemoved, FileWritten, read_whole
from honeybadger_host.memory.edited import read_json
from honeybadger_host.text.time_stamps import time_stamp
from honeybadger_host.work.task_files import (
    TaskFile,
    TaskState,
    TaskStates,
    WrongSchedule,
    check_id,
    dump_task,
    parse_task,
    recorded,
    schedule_of,
    shown_schedule,
    task_file,
    tasks_folder,
    tasks_of,
)
from honeybadger_host.work.times import Once, Schedule, next_run, runs

MOST_TASKS = 100  # tasks of a group; with as many, no other is scheduled
_SHOWN_RUNS = 5  # coming runs in the answer about a task
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class TaskDependencies:
    """Everything that the handlers of tasks need.

    Args:
        host_zone: the time zone of tasks that name none.
        under_way: group -> the message whose turn runs there.
    """

    memory: Dependencies
    states: TaskStates
    host_zone: str
    under_way: Callable[[], Mapping[str, Asked]]

    def schedule(self, task: TaskFile, now: datetime) -> Schedule:
        """Return when a task runs. Raises WrongSchedule."""
        return schedule_of(task, now, self.host_zone, self.memory.settings.tasks.least_seconds)

    def why_idle(self, task: TaskFile) -> str | None:
        """Return why a task does not run, though nothing is wrong with its file, or None if it runs."""
        agents = self.memory.agents
        name = task.agent or agents.default
        agent = agents.current.get(name)
        if agent is None:
            return unknown_agent(name, agents.current)
        if (agent.model or self.memory.settings.model.name) != "offline":
            return None
        return (
            f"agent {name} has only the offline model, which cannot do tasks; choose a model with "
            f"model.name or in {AGENTS_FOLDER}/{name}.json, see docs/models.md"
        )


def task_table(deps: TaskDependencies) -> Mapping[str, Handler]:
    """Return the handlers of all types of this module."""
    return {
        "schedule_task": ChangeHandler(partial(schedule_task, deps)),
        "list_tasks": QueryHandler(partial(list_tasks, deps)),
        **dict.fromkeys(
            ("pause_task", "resume_task", "cancel_task", "run_task"), ChangeHandler(partial(change_task, deps))
        ),
    }


def schedule_task(deps: TaskDependencies, asked: Asked[ScheduleTask], now: datetime) -> Outcome:
    payload, files, texts = asked.payload, deps.memory.whole_files, deps.memory.texts(asked)
    known = tasks_of(deps.memory.home, asked.group)
    there = {*(task_file(asked.group, each) for each in known), *files.below(tasks_folder(asked.group))}
    if len(there) >= MOST_TASKS:
        raise Refusal(
            "too_large",
            f"this group has {len(there)} tasks, the limit is {MOST_TASKS}: cancel some; nothing was scheduled",
        )
    name = _NOT_IN_A_NAME.sub("-", payload.name.lower()).strip("-")[:40].strip("-") or "task"
    ids = name, f"{name}-{hashlib.sha256(f'{asked.sender}/{asked.request_id}'.encode()).hexdigest()[:6]}"
    id_ = next((each for each in ids if files.view(task_file(asked.group, each)) is None), None)
    if id_ is None:
        raise Refusal("conflict", "there is a task of this name: choose another", field="payload.name")
    said = {
        **payload.model_dump(),
        "name": texts.text("payload.name", payload.name),
        "description": texts.text("payload.description", payload.description),
        "agent": _agent(deps.memory.agents, asked),
        "time_zone": payload.time_zone or deps.host_zone,
    }
    task = TaskFile(**said, created=now.replace(microsecond=0), by=asked.sender)
    try:
        first = next_run(deps.schedule(task, now), now)
    except WrongSchedule as error:
        raise Refusal("invalid", f"payload.{error}", field=f"payload.{error.member}") from None
    if first is None:
        raise Refusal(
            "invalid",
            f"payload.run_at is past: here it is {time_stamp(now)}; nothing was scheduled",
            field="payload.run_at",
        )
    state = TaskState(id_, now, until=now)
    row = task_row(deps, asked.group, id_, task, state, now)
    written = FileWritten(asked.group, "task", task_file(asked.group, id_), dump_task(task), None)
    return Outcome(with_neutralised(row, texts.changed), (written, recorded(asked.group, state)))


def _agent(agents: Agents, asked: Asked[ScheduleTask]) -> str:
    """Return the agent that runs the task. Raises Refusal if there is none or it may not be scheduled."""
    known = agents.current
    agent = asked.payload.agent or (asked.sender if asked.sender in known else agents.default)
    if agent not in known:
        raise Refusal("not_found", unknown_agent(agent, known), field="payload.agent")
    if asked.sender in known and agent not in (asked.sender, *known[asked.sender].delegates_to):
        raise Refusal("forbidden", "an agent schedules itself and those it delegates to only", field="payload.agent")
    return agent


def change_task(
    deps: TaskDependencies, asked: Asked[PauseTask | ResumeTask | CancelTask | RunTask], now: datetime
) -> Outcome:
    """Pause, resume, cancel or run one task of the group. Raises Refusal if the group has none of that id."""
    payload, by, files = asked.payload, asked.sender, deps.memory.whole_files
    file = task_file(asked.group, payload.task)
    data = files.view(file)
    if data is None:
        raise _not_found(deps, asked.group, payload.task)
    before = state = deps.states.view(asked.group, payload.task) or TaskState(payload.task, now, until=now)
    task, changes = _task_in(deps, data, now), list[Change]()
    if isinstance(payload, CancelTask):
        state = before.after("cancelled", now, why=f"by {by}", asked=None)
        changes.append(FileRemoved(asked.group, "task", file, data))
    elif isinstance(task, str):
        raise Refusal("conflict", f"{file} is wrong: {task}; mend or cancel it", field="payload.task")
    elif isinstance(payload, RunTask):
        if (why := deps.why_idle(task)) is not None:
            raise Refusal("conflict", why, field="payload.task")
        if before.asked is None:
            state = before.after("asked", now, asked=now, why=f"asked for by {by}")
    elif isinstance(payload, PauseTask) != bool(task.paused):
        paused: str | Literal[False] = False
        if isinstance(payload, PauseTask):
            paused = f"by {by}" + (f": {payload.why}" if payload.why is not None else "")
        state = before.after("paused", now, why=paused) if paused else before.after("resumed", now, until=now)
        changes.append(FileWritten(asked.group, "task", file, _rewritten(data, paused), data))
        task = task.model_copy(update={"paused": paused})
    if state is not before:
        changes.append(recorded(asked.group, state))
    return Outcome(task_row(deps, asked.group, payload.task, task, state, now), tuple(changes))


def _task_in(deps: TaskDependencies, data: bytes, now: datetime) -> TaskFile | str:
    """Return the task in a file, or its fault."""
    try:
        task = parse_task(data)
        deps.schedule(task, now)
    except ValueError as error:
        return str(error)
    return task


def _rewritten(data: bytes, paused: str | Literal[False]) -> bytes:
    """Return a task's file that is paused or not, all else as a person wrote it."""
    value = {**read_json(data), "paused": paused}
    value = {name: item for name, item in value.items() if item is not False}
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _not_found(deps: TaskDependencies, group: str, id_: str) -> Refusal:
    known = listed(tasks_of(deps.memory.home, group))
    there = f"there are: {known}" if known else "it has none"
    return Refusal("not_found", f"this group has no task {id_}; {there}", field="payload.task")


def list_tasks(deps: TaskDependencies, asked: Asked[ListTasks], now: datetime) -> Mapping[str, Any]:
    wanted, home, rows = asked.payload.task, deps.memory.home, list[dict[str, Any]]()
    for id_ in tasks_of(home, asked.group) if wanted is None else [wanted]:
        try:
            check_id(id_)
            if (data := read_whole(home / task_file(asked.group, id_))) is None:
                continue
            task: TaskFile | str = parse_task(data)
        except (ValueError, WorldFailed) as error:
            task = str(error)
        state = deps.states.current(asked.group, id_) or TaskState(id_, now, until=now)
        row = task_row(deps, asked.group, id_, task, state, now)
        if wanted is not None and isinstance(task, TaskFile):
            row["task"] = orjson.loads(dump_task(task))
        rows.append(row)
    if wanted is not None and not rows:
        raise _not_found(deps, asked.group, wanted)
    return {"tasks": rows}


def task_row(
    deps: TaskDependencies, group: str, id_: str, task: TaskFile | str, state: TaskState, now: datetime
) -> dict[str, Any]:
    """Return a task as a reply shows it.

    Args:
        task: the content of its file, or its fault.
    """
    problem, idle, schedule = "", None, None
    if isinstance(task, str):
        problem, task = task, TaskFile.model_construct(name=id_, description="", schedule_type="cron")
    else:
        try:
            schedule = deps.schedule(task, now)
            if state.event != "cancelled":
                idle = deps.why_idle(task) or deps.states.waiting.get((group, id_), (now, ""))[1]
        except WrongSchedule as error:
            problem = str(error)
    coming = [] if schedule is None else list(itertools.islice(runs(schedule, max(state.until, now)), _SHOWN_RUNS))
    is_due = schedule is not None and (at := next_run(schedule, state.until)) is not None and at <= now
    why = problem or (task.paused if isinstance(task.paused, str) else "") or idle or state.why
    if coming and state.until > now + timedelta(minutes=1) and not isinstance(schedule, Once):
        why = f"the clock was set back: it ran for {time_stamp(state.until)} already, and goes on after that"
    shown = _shown(state, is_paused=bool(problem or task.paused), is_due=is_due, has_more=bool(coming))
    turn = deps.under_way().get(group)
    if turn is not None and turn.sender == SCHEDULER and turn.request_id.startswith(f"{id_}."):
        shown = "fired"
    row = TaskRow(
        id=id_,
        name=task.name,
        state=shown,
        why=why or None,
        schedule="unknown" if problem and schedule is None else shown_schedule(task, deps.host_zone),
        next=[] if task.paused or shown == "over" else [time_stamp(at) for at in coming],
        last=None if state.run is None else time_stamp(state.run),
        agent=task.agent,
        session=task.session,
        runs=state.runs,
        tokens=state.tokens,
        file=task_file(group, id_),
    )
    return row.model_dump(exclude_none=True, exclude={"neutralised"})


def _shown(state: TaskState, *, is_paused: bool, is_due: bool, has_more: bool) -> ShownState:
    """Return the state of a task as a reply shows it."""
    if state.event == "cancelled":
        return "over"
    if is_paused:
        return "paused"
    if is_due or state.asked is not None:
        return "due"
    shown: ShownState = state.event if state.event in ("done", "failed", "missed", "skipped") else "waiting"
    return "over" if not has_more and shown in ("waiting", "done") else shown
