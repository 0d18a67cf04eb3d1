"""The runs of tasks: the message to the agent, and the record of a run (HB7)."""

import hashlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from honeybadger_agent.mailbox import SCHEDULER
from honeybadger_agent.wire import Chat, Refusal
from honeybadger_host.errors import WorldFailed
from honeybadger_host.handler_kinds import Asked
from honeybadger_host.journal.changes import Change, fingerprint, read_whole
from honeybadger_host.memory.turn_log_store import TurnLogs
from honeybadger_host.work.task_files import Event, TaskFile, TaskState, TaskStates, recorded

_RUN_FORMAT = "%Y%m%dT%H%M%S%fZ"


def stamp_of(at: datetime) -> str:
    """Return a moment as a part of an id, to the microsecond."""
    return at.astimezone(UTC).strftime(_RUN_FORMAT)


def run_in(request: str) -> tuple[str, datetime] | None:
    """Return the task and the time of the run that a turn's id names, or None if it names no run."""
    task, _, at = request.rpartition(".")
    try:
        return task, datetime.strptime(at, _RUN_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        return None


class TaskChanged(Refusal):
    """The file of a task was changed or removed before its run began: the run is decided again."""


@dataclass(frozen=True, slots=True)
class Run:
    """A due run.

    Args:
        data: the content of the task's file.
        at: scheduled time of the run; for a requested run, the time of the request.
        is_asked: somebody asked for it outside the schedule, which it does not change.
        missed: the first and last run before it that were missed.
        heard, seen: see `TaskState`.
    """

    group: str
    id: str
    task: TaskFile
    data: bytes
    at: datetime
    is_asked: bool = False
    missed: tuple[datetime, datetime] | None = None
    heard: int = 0
    seen: int | None = None

    @property
    def asked(self) -> Asked:
        """Return the run as a message to the agent."""
        session = self.task.session if self.task.context_mode == "group" else f"task:{self.id}"
        prompt = f"Execute scheduled task: {self.task.name}. {self.task.description}"
        id_ = f"{self.id}.{stamp_of(self.at)}"  # a repeated run has the same id
        digest = hashlib.sha256(orjson.dumps([self.group, id_, session, self.task.agent])).digest()
        return Asked(self.group, SCHEDULER, id_, session, Chat(content=prompt, agent=self.task.agent), digest)

    def ended(self, states: TaskStates, event: Event, now: datetime, *, used: int = 0, **members: Any) -> Change:
        """Return the record of the run's end. `used`: all its tokens, also those of agents that it asked."""
        state = states.view(self.group, self.id) or TaskState(self.id)
        members |= {"runs": state.runs + (event in ("done", "failed")), "tokens": state.tokens + used}
        if state.asked == self.at:
            members["asked"] = None
        if not self.is_asked:
            members["until"] = self.at
        members |= {"run": self.at, "missed": self.missed, "heard": self.heard, "seen": self.seen}
        return recorded(self.group, state.after(event, now, **members))


def why_skipped(run: Run, before: TaskState, home: Path, turn_logs: TurnLogs) -> tuple[Run, str]:
    """Return a run with the state that its condition compares, and why it is skipped; empty: it runs. Reads files."""
    condition = run.task.only_if
    if condition is None:
        return run, ""
    if condition == "new_turns":
        window = turn_logs.window(run.group, run.task.session)
        new = turn_logs.since(run.group, run.task.session, before.heard, window=window)
        is_met = any(turn.role == "user" and turn.by != SCHEDULER for turn in new)
        return replace(run, heard=window.last_number), "" if is_met else "nobody said anything since the last run"
    name = condition.removeprefix("changed:")
    try:
        seen = fingerprint(read_whole(home / "groups" / run.group / name))
    except WorldFailed as error:
        return run, f"{name}: {error}"
    return replace(run, seen=seen), "" if seen != before.seen else f"{name} has not changed since the last run"
