"""Tasks as files that people edit, `groups/<group>/tasks/<id>.json`, and the state of each.

A state is the newest record in the journal, one line of JSON. `data/tasks/<group>.jsonl` has all records, for people;
the host reads only the journal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import orjson
from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from honeybadger_agent.mailbox import GLOBAL_GROUP, NAME
from honeybadger_agent.wire import TASK_ID
from honeybadger_agent.wire.tasks import TaskMembers
from honeybadger_host.files.safe_files import MAX_JSON_BYTES, names_in, printable
from honeybadger_host.journal.changes import TASK_RECORD, Added, Change, FileRemoved, FileWritten
from honeybadger_host.log import log
from honeybadger_host.memory.edited import Time, checked, problem_of, read_json
from honeybadger_host.text.neutralise import is_blank, neutralise
from honeybadger_host.text.time_stamps import time_stamp
from honeybadger_host.work.times import Interval, Once, Schedule, read_cron, read_zone

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Type of a schedule -> the member that it needs.
_GOES_WITH = {"once": "run_at", "interval": "interval_seconds", "cron": "cron_expression"}
_ID = re.compile(TASK_ID)
_FAR = datetime(3000, 1, 1, tzinfo=UTC)  # an interval after it is still a time that exists


class TaskFile(TaskMembers):
    """The content of a task's file.

    Args:
        paused: true, or why.
        created: intervals are counted from it, without it from 1970.
        by: the sender that scheduled it.
    """

    paused: bool | Annotated[str, StringConstraints(max_length=200)] = False
    created: Annotated[Time | None, Field(strict=False, le=_FAR)] = None
    by: str | None = None


class WrongSchedule(ValueError):
    """A task that cannot be scheduled.

    Args:
        member: the member that is wrong.
    """

    def __init__(self, member: str, what: str) -> None:
        super().__init__(f"{member} {what}")
        self.member = member


def tasks_folder(group: str) -> str:
    return f"groups/{group}/tasks"


def task_file(group: str, task: str) -> str:
    return f"{tasks_folder(group)}/{task}.json"


def place_of(file: str) -> tuple[str, str] | None:
    """Return group and id of a task's file, below the home folder, or None if it is not one; see `check_id`."""
    match file.split("/"):
        case ["groups", group, "tasks", name] if has_tasks(group) and name.endswith(".json") and name[0] != ".":
            return group, printable(name[:-5])
    return None


def has_tasks(group: str) -> bool:
    """Return whether a folder's name is that of a group in which agents work."""
    return NAME.fullmatch(group) is not None and group != GLOBAL_GROUP


def check_id(task: str) -> None:
    """Raise ValueError if no task may have this id."""
    if _ID.fullmatch(task) is None:
        raise ValueError("its name is wrong: rename it to 1-60 characters of A-Z a-z 0-9 - _, as morning-news.json")


def tasks_of(home: Path, group: str) -> list[str]:
    """Return the ids of a group's tasks in order, including those that `check_id` refuses."""
    names = map(printable, names_in(home / tasks_folder(group)))
    return sorted(name[:-5] for name in names if name.endswith(".json") and not name.startswith("."))


def parse_task(data: bytes) -> TaskFile:
    """Return the task in a file. Raises ValueError: names the fault."""
    if len(data) > MAX_JSON_BYTES:
        raise ValueError(f"it has {len(data)} bytes, the limit is {MAX_JSON_BYTES}")
    return checked(TaskFile, read_json(data))


def dump_task(task: TaskFile) -> bytes:
    """Return the bytes of a file, without members at their default."""
    said: dict[str, Any] = task.model_dump(exclude_defaults=True)
    if task.created is not None:
        said["created"] = time_stamp(task.created, "auto")
    return orjson.dumps(said, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def schedule_of(task: TaskMembers, now: datetime, host_zone: str, least_seconds: float) -> Schedule:
    """Return when a task runs. Raises WrongSchedule if that, or its condition, is wrong, or it says nothing to do.

    Args:
        now: a cron line that never fires after it is wrong.
        host_zone: for a task that names none.
        least_seconds: seconds between two runs at least.
    """
    for member in ("name", "description"):
        if is_blank(neutralise(getattr(task, member)).text):
            raise WrongSchedule(member, "is blank: say what to do")
    for type_, member in _GOES_WITH.items():
        is_there = getattr(task, member) is not None
        if is_there and type_ != task.schedule_type:
            raise WrongSchedule(member, f"goes with schedule_type {type_}, this is {task.schedule_type}: take one away")
        if not is_there and type_ == task.schedule_type:
            raise WrongSchedule(member, f"is needed for schedule_type {type_}")
    watched = (task.only_if or "").removeprefix("changed:")
    leads_elsewhere = "\0" in watched or any(part in ("", ".", "..") for part in watched.split("/"))
    if task.only_if and leads_elsewhere:
        raise WrongSchedule("only_if", "names no file of the group's folder: write its path below that")
    try:
        zone = read_zone(task.time_zone or host_zone)
    except ValueError as error:
        raise WrongSchedule("time_zone", f"is wrong: {error}") from None
    if task.run_at is not None:
        try:
            at = datetime.fromisoformat(task.run_at)
            return Once((at.replace(tzinfo=zone) if at.tzinfo is None else at).astimezone(UTC))
        except (ValueError, OverflowError):
            raise WrongSchedule("run_at", "must be a time, as 2026-11-23T09:00:00 or 2026-11-23T09:00:00Z") from None
    if task.cron_expression is not None:
        try:
            return read_cron(task.cron_expression, zone, now, least_seconds)
        except ValueError as error:
            raise WrongSchedule("cron_expression", f"is wrong: {error}") from None
    seconds = task.interval_seconds or 0
    if seconds < least_seconds:
        raise WrongSchedule("interval_seconds", f"must be at least {least_seconds:g} (tasks.least_seconds)")
    anchor = (task.created if isinstance(task, TaskFile) else None) or EPOCH
    return Interval(timedelta(seconds=seconds), anchor)


def shown_schedule(task: TaskMembers, host_zone: str) -> str:
    """Return a schedule on one line."""
    zone = task.time_zone or host_zone
    match task.schedule_type:
        case "once":
            return f"once {task.run_at} ({zone})"
        case "interval":
            return f"every {task.interval_seconds} s"
        case "cron":
            return f"cron {task.cron_expression} ({zone})"


Event: TypeAlias = Literal[
    "scheduled", "done", "failed", "missed", "skipped", "paused", "resumed", "cancelled", "asked"
]
TaskKey: TypeAlias = tuple[str, str]  # group and id
MAX_WHY_LENGTH = 500  # characters; the log has the rest


@dataclass(frozen=True, slots=True)
class TaskState:
    """The state of a task after an event; its fields are the members of a record.

    Args:
        at: the time of the event.
        until: all runs up to this time were made or missed; it never goes back.
        run: the last run, as scheduled.
        missed: the first and last run that were missed before that.
        quiet: the run was done and sent no message.
        input_tokens, output_tokens: the tokens of that run.
        runs, tokens: the totals of all runs.
        asked: when somebody asked for a run outside the schedule that has not ended yet.
        heard: number of the newest turn of the session at the last run, for `only_if`.
        seen: fingerprint of the file that `only_if` names, at the last run; None: it was not read.
    """

    task: str
    at: datetime = EPOCH
    event: Event = "scheduled"
    until: datetime = EPOCH
    run: datetime | None = None
    missed: tuple[datetime, datetime] | None = None
    why: str = ""
    quiet: bool = False
    input_tokens: int = 0
    output_tokens: int = 0
    runs: int = 0
    tokens: int = 0
    asked: datetime | None = None
    heard: int = 0
    seen: int | None = None

    def after(self, event: Event, now: datetime, **members: Any) -> TaskState:
        """Return the next state: members that are not given stay, except those about a single run."""
        of_one_run: dict[str, Any] = {"missed": None, "why": "", "quiet": False, "input_tokens": 0, "output_tokens": 0}
        state = replace(self, at=now, event=event, **of_one_run | members)
        return replace(state, until=max(state.until, self.until), why=state.why[:MAX_WHY_LENGTH])


_STATE = TypeAdapter(TaskState)


def recorded(group: str, state: TaskState) -> Added:
    said = {name: value for name in TaskState.__slots__ if (value := getattr(state, name))}
    return Added.of(TASK_RECORD, group, orjson.dumps(said, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_UTC_Z))


class TaskStates:
    """The states of all tasks, removed ones included. Any thread.

    Args:
        records: (group, newest record) of each task.
    """

    def __init__(self, records: Iterable[tuple[str, bytes]]) -> None:
        self._states: dict[TaskKey, TaskState] = {}
        self._decided: dict[TaskKey, TaskState] = {}
        self.waiting: dict[TaskKey, tuple[datetime, str]] = {}  # when a step is tried again, and why not before
        # called on the writer's thread with each task whose record was written or whose file the host changed
        self.changed: Callable[[TaskKey], object] = lambda key: None
        for group, data in records:
            try:
                state = _STATE.validate_json(data)
                self._states[group, state.task] = state
            except ValidationError as error:  # a `forget` of an earlier version also emptied its times
                now_what = "nothing: if the task is still there, its next run is the next one after now"
                record = ascii(data[:80])
                log.warning("task.skipped", group=group, record=record, why=problem_of(error), now_what=now_what)

    def view(self, group: str, task: str) -> TaskState | None:
        return self._decided.get((group, task)) or self._states.get((group, task))

    def current(self, group: str, task: str) -> TaskState | None:
        """Return the state in the newest written record."""
        return self._states.get((group, task))

    def apply(self, change: Change) -> None:
        if change.row_kind == TASK_RECORD:
            state = _STATE.validate_json(change.data)
            self._decided[change.group, state.task] = state

    def end_batch(self, written: Sequence[Change]) -> None:
        keys = [*self._decided]  # also of unwritten changes, which were skipped meanwhile
        for change in written:
            if change.row_kind == TASK_RECORD:
                state = _STATE.validate_json(change.data)
                self._states[change.group, state.task] = state
            elif isinstance(change, FileWritten | FileRemoved) and (place := place_of(change.file)) is not None:
                keys.append(place)
        self._decided = {}
        for key in keys:
            self.changed(key)
