"""Tasks as files that people edit: `groups/<group>/tasks/<id>.json`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
from pydantic import Field, StringConstraints

from honeybadger_agent.mailbox import GLOBAL_GROUP, NAME
from honeybadger_agent.wire import TASK_ID
from honeybadger_agent.wire.tasks import TaskMembers
from honeybadger_host.files.safe_files import MAX_JSON_BYTES, names_in, printable
from honeybadger_host.memory.edited import Time, checked, read_json
from honeybadger_host.text.neutralise import is_blank, neutralise
from honeybadger_host.text.time_stamps import time_stamp
from honeybadger_host.work.times import Interval, Once, Schedule, read_cron, read_zone

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Type of a schedule -> the member that it needs.
_GOES_WITH: Final = {"once": "run_at", "interval": "interval_seconds", "cron": "cron_expression"}
_MAX_AHEAD: Final = 10  # runs that an interval must have before the year 9999
_ID: Final = re.compile(TASK_ID)


class TaskFile(TaskMembers):
    """The content of a task's file.

    Args:
        paused: true, or why.
        created: intervals are counted from it, without it from 1970.
        by: the sender that scheduled it.
    """

    paused: bool | Annotated[str, StringConstraints(max_length=200)] = False
    created: Annotated[Time | None, Field(strict=False)] = None
    by: str | None = None


class WrongSchedule(ValueError):
    """A schedule that cannot be used.

    Args:
        member: the member that is wrong.
    """

    def __init__(self, member: str, what: str) -> None:
        super().__init__(what)
        self.member = member


def tasks_folder(group: str) -> str:
    return f"groups/{group}/tasks"


def task_file(group: str, task: str) -> str:
    return f"{tasks_folder(group)}/{task}.json"


def is_task_file(name: str) -> bool:
    """Return whether a file in a folder of tasks is a task, by its name."""
    return name.endswith(".json") and _ID.fullmatch(name[:-5]) is not None


def place_of(file: str) -> tuple[str, str] | None:
    """Return group and id of a task's file, below the home folder, or None if it is not one."""
    match file.split("/"):
        case ["groups", group, "tasks", name] if is_task_file(name) and has_tasks(group):
            return group, name[:-5]
    return None


def has_tasks(group: str) -> bool:
    """Return whether a folder's name is that of a group in which agents work."""
    return NAME.fullmatch(group) is not None and group != GLOBAL_GROUP


def named_in(file_name: str) -> str | None:
    """Return the id in the name of a file of a folder of tasks, valid or not, or None if it is no task's file."""
    name = printable(file_name)
    return name[:-5] if name.endswith(".json") and not name.startswith(".") else None


def check_id(task: str) -> None:
    """Raise ValueError if no task may have this id."""
    if _ID.fullmatch(task) is None:
        raise ValueError("its name is wrong: rename it to 1-60 letters, digits, - and _, as morning-news.json")


def tasks_of(home: Path, group: str) -> Iterator[str]:
    """Yield the ids of a group's tasks, including those that `check_id` refuses."""
    ids = (named_in(name) for name in names_in(home / tasks_folder(group)))
    yield from sorted(id_ for id_ in ids if id_ is not None)


def parse_task(data: bytes) -> TaskFile:
    """Return the task in a file. Raises ValueError: names the fault."""
    if len(data) > MAX_JSON_BYTES:
        raise ValueError(f"it has {len(data)} bytes, the limit is {MAX_JSON_BYTES}")
    task = checked(TaskFile, read_json(data))
    if (blank := blank_member(task)) is not None:
        raise ValueError(f"{blank} is blank")
    return task


def blank_member(task: TaskMembers) -> str | None:
    """Return the name of the text of a task that has nothing visible, or None if both have something."""
    texts = {"name": task.name, "description": task.description}
    return next((member for member, text in texts.items() if is_blank(neutralise(text).text)), None)


def dump_task(task: TaskFile) -> bytes:
    """Return the bytes of a file, without members at their default."""
    said: dict[str, Any] = task.model_dump(exclude_defaults=True)
    if task.created is not None:
        said["created"] = time_stamp(task.created, "auto")
    return orjson.dumps(said, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def schedule_of(task: TaskMembers, now: datetime, host_zone: str, least_seconds: float) -> Schedule:
    """Return when a task runs. Raises WrongSchedule.

    Args:
        now: a cron line that never fires after it is wrong.
        host_zone: for a task that names none.
        least_seconds: seconds between two runs at least.
    """
    for type_, member in _GOES_WITH.items():
        is_there = getattr(task, member) is not None
        if is_there and type_ != task.schedule_type:
            raise WrongSchedule(member, f"goes with schedule_type {type_}, this is {task.schedule_type}: take one away")
        if not is_there and type_ == task.schedule_type:
            raise WrongSchedule(member, f"is needed for schedule_type {type_}")
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
    anchor = (task.created if isinstance(task, TaskFile) else None) or _EPOCH
    every = timedelta(seconds=seconds)
    if datetime.max.replace(tzinfo=UTC) - anchor < _MAX_AHEAD * every:
        raise WrongSchedule("created", "is so late that no run can follow it: take it away, or write when this began")
    return Interval(every, anchor)


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
