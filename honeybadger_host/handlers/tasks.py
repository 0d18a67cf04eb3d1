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
from typing import Any, Final

import orjson

from honeybadger_agent.wire import ListTasks, Refusal, ScheduleTask
from honeybadger_agent.wire import Task as TaskRow
from honeybadger_agent.wire.tasks import TaskState as ShownState
from honeybadger_agent.wording import listed
from honeybadger_host.agents import Agents, unknown_agent
from honeybadger_host.errors import WorldFailed
from honeybadger_host.files.home import AGENTS_FOLDER
from honeybadger_host.handler_kinds import Asked, ChangeHandler, Handler, Outcome, QueryHandler
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.handlers.redaction import with_neutralised
from honeybadger_host.journal.changes import FileRemoved, FileWritten, read_whole
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
_SHOWN_RUNS: Final = 5  # coming runs in the answer about a task
_NOT_IN_A_NAME: Final = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class TaskDependencies:
    """Everything that the handlers of tasks need.

    Args:
        host_zone: the time zone of tasks that name none.
        running: group -> id of the turn that runs there; empty: none.
    """

    memory: Dependencies
    states: TaskStates
    host_zone: str
    running: Callable[[str], str]

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
    changes: Mapping[str, Callable[[TaskDependencies, _Found], _Done]] = {
        "pause_task": _paused,
        "resume_task": _resumed,
        "cancel_task": _cancelled,
        "run_task": _asked_for,
    }
    return {
        "schedule_task": ChangeHandler(partial(schedule_task, deps), partial(_prepare_schedule_task, deps)),
        "list_tasks": QueryHandler(partial(list_tasks, deps)),
        **{
            name: ChangeHandler(partial(_changed, deps, change), partial(_prepare_change, deps))
            for name, change in changes.items()
        },
    }


def _prepare_schedule_task(deps: TaskDependencies, asked: Asked[ScheduleTask]) -> list[str]:
    """Return the ids of the group's tasks, with the files that a new task may go to loaded."""
    for id_ in _new_ids(asked):
        deps.memory.whole_files.load(task_file(asked.group, id_))
    return tasks_of(deps.memory.home, asked.group)


def schedule_task(deps: TaskDependencies, asked: Asked[ScheduleTask], known: list[str], now: datetime) -> Outcome:
    payload, files, texts = asked.payload, deps.memory.whole_files, deps.memory.texts(asked)
    there = {*(task_file(asked.group, each) for each in known), *files.below(tasks_folder(asked.group))}
    if len(there) >= MOST_TASKS:
        why = f"this group has {len(there)} tasks, the limit is {MOST_TASKS}: cancel some; nothing was scheduled"
        raise Refusal("too_large", why)
    free = [each for each in _new_ids(asked) if files.view(task_file(asked.group, each)) is None]
    if not free:
        raise Refusal("conflict", "there is a task of this name: choose another", field="payload.name")
    id_ = free[0]
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
        why = f"payload.run_at is past: here it is {time_stamp(now)}; nothing was scheduled"
        raise Refusal("invalid", why, field="payload.run_at")
    state = TaskState(id_, now, until=now)
    row = task_row(deps, asked.group, id_, task, state, now)
    written = FileWritten(asked.group, "task", task_file(asked.group, id_), dump_task(task), None)
    return Outcome(with_neutralised(row, texts.changed), (written, recorded(asked.group, state)))


def _new_ids(asked: Asked) -> tuple[str, str]:
    """Return the ids that a new task may have: the first that is free."""
    name = _NOT_IN_A_NAME.sub("-", asked.payload.name.lower()).strip("-")[:40].strip("-") or "task"
    return name, f"{name}-{hashlib.sha256(f'{asked.sender}/{asked.request_id}'.encode()).hexdigest()[:6]}"


def _agent(agents: Agents, asked: Asked[ScheduleTask]) -> str:
    """Return the agent that runs the task. Raises Refusal if there is none or it may not be scheduled."""
    known = agents.current
    agent = asked.payload.agent or (asked.sender if asked.sender in known else agents.default)
    if agent not in known:
        raise Refusal("not_found", unknown_agent(agent, known), field="payload.agent")
    if asked.sender in known and agent not in (asked.sender, *known[asked.sender].delegates_to):
        why = "an agent schedules itself and those it delegates to only"
        raise Refusal("forbidden", why, field="payload.agent")
    return agent


@dataclass(frozen=True, slots=True)
class _Found:
    """The task that a request is about.

    Args:
        task: the content of its file, or its fault.
    """

    asked: Asked
    id: str
    file: str
    data: bytes
    task: TaskFile | str
    state: TaskState
    now: datetime

    def mended(self) -> TaskFile:
        """Return the task in the file. Raises Refusal."""
        if isinstance(self.task, str):
            raise Refusal("conflict", f"{self.file} is wrong: {self.task}; mend or cancel it", field="payload.task")
        return self.task

    def rewritten(self, **members: Any) -> FileWritten:
        """Return the file with other members, all else as a person wrote it."""
        value = {**read_json(self.data), **members}
        value = {name: item for name, item in value.items() if item is not False}
        data = orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        return FileWritten(self.asked.group, "task", self.file, data, self.data)


# The task after a change, its state, and the change of its file.
_Done = tuple[TaskFile | str, TaskState, tuple[FileWritten | FileRemoved, ...]]


def _prepare_change(deps: TaskDependencies, asked: Asked) -> None:
    deps.memory.whole_files.load(task_file(asked.group, asked.payload.task))


def _changed(
    deps: TaskDependencies,
    change: Callable[[TaskDependencies, _Found], _Done],
    asked: Asked,
    prepared: None,
    now: datetime,
) -> Outcome:
    """Do something with one task of the group."""
    found = _found(deps, asked, now)
    task, state, files = change(deps, found)
    row = task_row(deps, asked.group, found.id, task, state, now)
    if state is found.state and not files:
        return Outcome(row)
    return Outcome(row, (*files, recorded(asked.group, state)))


def _found(deps: TaskDependencies, asked: Asked, now: datetime) -> _Found:
    """Return the task that is asked for. Raises Refusal if the group has none of that id."""
    id_: str = asked.payload.task
    file = task_file(asked.group, id_)
    data = deps.memory.whole_files.view(file)
    if data is None:
        raise _not_found(deps, asked.group, id_)
    state = deps.states.view(asked.group, id_) or TaskState(id_, now, until=now)
    try:
        task = parse_task(data)
        deps.schedule(task, now)
    except ValueError as error:
        return _Found(asked, id_, file, data, str(error), state, now)
    return _Found(asked, id_, file, data, task, state, now)


def _not_found(deps: TaskDependencies, group: str, id_: str) -> Refusal:
    known = listed(tasks_of(deps.memory.home, group))
    there = f"there are: {known}" if known else "it has none"
    return Refusal("not_found", f"this group has no task {id_}; {there}", field="payload.task")


def _paused(deps: TaskDependencies, found: _Found) -> _Done:
    task, said = found.mended(), found.asked.payload.why
    if task.paused:
        return task, found.state, ()
    why = f"by {found.asked.sender}" + (f": {said}" if said is not None else "")
    task = task.model_copy(update={"paused": why})
    return task, found.state.after("paused", found.now, why=why), (found.rewritten(paused=why),)


def _resumed(deps: TaskDependencies, found: _Found) -> _Done:
    task = found.mended()
    if not task.paused:
        return task, found.state, ()
    task = task.model_copy(update={"paused": False})
    return task, found.state.after("resumed", found.now, until=found.now), (found.rewritten(paused=False),)


def _cancelled(deps: TaskDependencies, found: _Found) -> _Done:
    removed = FileRemoved(found.asked.group, "task", found.file, found.data)
    return found.task, found.state.after("cancelled", found.now, why=f"by {found.asked.sender}", asked=None), (removed,)


def _asked_for(deps: TaskDependencies, found: _Found) -> _Done:
    task = found.mended()
    if (why := deps.why_idle(task)) is not None:
        raise Refusal("conflict", why, field="payload.task")
    if found.state.asked is not None:
        return task, found.state, ()
    return task, found.state.after("asked", found.now, asked=found.now, why=f"asked for by {found.asked.sender}"), ()


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
    if deps.running(group).startswith(f"{id_}."):
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
