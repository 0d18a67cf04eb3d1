"""The state of each task: its newest record in the journal, one line of JSON.

`data/tasks/<group>.jsonl` has all records, for people; the host reads only the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias

import orjson
from pydantic import TypeAdapter

from honeybadger_host.journal.changes import TASK_RECORD, Added, Change, FileRemoved, FileWritten
from honeybadger_host.text.time_stamps import time_stamp
from honeybadger_host.work.task_files import place_of

Event: TypeAlias = Literal[
    "scheduled", "done", "failed", "missed", "skipped", "paused", "resumed", "cancelled", "asked"
]
TaskKey: TypeAlias = tuple[str, str]  # group and id
_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)
MAX_WHY_LENGTH: Final = 500  # characters; the log has the rest


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
    at: datetime = _NEVER
    event: Event = "scheduled"
    until: datetime = _NEVER
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


_STATE: Final = TypeAdapter(TaskState)


def recorded(group: str, state: TaskState) -> Added:
    said: dict[str, Any] = {}
    for name in TaskState.__slots__:
        match getattr(state, name):
            case datetime() as at:
                said[name] = time_stamp(at, "auto")
            case (datetime() as first, datetime() as last):
                said[name] = [time_stamp(first, "auto"), time_stamp(last, "auto")]
            case value if value or name in ("task", "event"):
                said[name] = value
    return Added.of(TASK_RECORD, group, orjson.dumps(said, option=orjson.OPT_APPEND_NEWLINE))


class TaskStates:
    """The states of all tasks, removed ones included. Decided on the event loop, read on any thread.

    Args:
        records: (group, newest record) of each task.
    """

    def __init__(self, records: Iterable[tuple[str, bytes]]) -> None:
        self._states: dict[TaskKey, TaskState] = {}
        self._decided: dict[TaskKey, TaskState] = {}
        # called on the writer's thread with each task whose record was written or whose file the host changed
        self.changed: Callable[[TaskKey], object] = lambda key: None
        for group, data in records:
            state = _STATE.validate_json(data)
            self._states[group, state.task] = state

    def view(self, group: str, task: str) -> TaskState | None:
        return self._decided.get((group, task)) or self._states.get((group, task))

    def current(self, group: str, task: str) -> TaskState | None:
        """Return the state in the newest written record."""
        return self._states.get((group, task))

    def is_being_written(self, group: str, task: str) -> bool:
        """Return whether a record was decided and is not written yet; the task's file may be. Any thread."""
        return (group, task) in self._decided

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
