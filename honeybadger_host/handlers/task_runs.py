"""A run of a task: a turn of an agent that only the clock asked for (HB7).

It ends with one commit: what was said and answered, what became of the task, and the receipt that keeps the same run
from being made twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import anyio.to_thread

from honeybadger_agent.mailbox import SCHEDULER
from honeybadger_agent.wire import Chat, Refusal
from honeybadger_host.errors import WorldFailed
from honeybadger_host.handler_kinds import Asked, ChangeHandler, Outcome, TurnHandler, TurnUnderWay, without_preparation
from honeybadger_host.handlers.conversation import prepare_turn
from honeybadger_host.handlers.tasks import run_id
from honeybadger_host.handlers.turns.asking import begun
from honeybadger_host.handlers.turns.chat_turn import TurnDependencies
from honeybadger_host.journal.atomic_files import WholeFiles, fingerprint, read_whole
from honeybadger_host.journal.changes import Added, Change, FileRemoved
from honeybadger_host.journal.journal import Journal
from honeybadger_host.memory.turn_log_store import TurnLogs
from honeybadger_host.text.time_stamps import to_milliseconds
from honeybadger_host.work.messages import Message, dump_message
from honeybadger_host.work.task_files import TaskFile, task_file
from honeybadger_host.work.task_states import Event, TaskState, TaskStates, recorded

MOST_TURNS: Final = 10  # newest turns of its conversation that a run is given, within the budget of every history (HB7)
_NOTHING: Final = ("", "NOTHING")


class TaskChanged(Refusal):
    """The file of a task was changed or removed before its run began: the run is decided again."""

    def __init__(self) -> None:
        super().__init__("conflict", "the task was changed before it began")


@dataclass(frozen=True, slots=True)
class Run:
    """A due run.

    Args:
        data: what the task's file held.
        at: scheduled time of the run; for a requested run, the time of the request.
        is_asked: somebody asked for it: the schedule goes on as it was.
        missed: the first and last run before it that were missed.
        heard, seen: see `TaskState`, as they were before it.
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
        """Return it as what somebody says to an agent."""
        session = self.task.session if self.task.context_mode == "group" else f"task:{self.id}"
        prompt = f"Execute scheduled task: {self.task.name}. {self.task.description}"
        return Asked(
            self.group, SCHEDULER, run_id(self.id, self.at), session, Chat(content=prompt, agent=self.task.agent)
        )

    def ended(self, states: TaskStates, event: Event, now: datetime, **members: Any) -> Change:
        state = states.view(self.group, self.id) or TaskState(self.id)
        if state.asked == self.at:
            members["asked"] = None
        if not self.is_asked:
            members["until"] = self.at
        after = state.after(event, now, run=self.at, missed=self.missed, heard=self.heard, seen=self.seen, **members)
        return recorded(self.group, after)


def run_of(run: Run, deps: TurnDependencies, files: WholeFiles, states: TaskStates, journal: Journal) -> TurnHandler:
    """Return the handler of a run.

    Args:
        journal: its next number is that of the message that tells the answer.
    """
    load_session = prepare_turn(deps.turn_logs, deps.documents)
    file = task_file(run.group, run.id)

    def prepare(asked: Asked) -> None:
        load_session(asked)
        files.load(file)

    async def begin(asked: Asked, under_way: TurnUnderWay) -> ChangeHandler[None]:
        if await anyio.to_thread.run_sync(read_whole, deps.runtime.home / file) != run.data:
            raise TaskChanged
        turn = begun(deps, asked, under_way, MOST_TURNS)
        await turn.run()

        def decide(asked: Asked, prepared: None, now: datetime) -> Outcome:
            outcome = turn.decide(asked, prepared, now)
            is_quiet = not _is_told(run.task, outcome.result["content"])
            tokens = [outcome.result.get(f"{way}_tokens") or 0 for way in ("input", "output", "delegated")]
            state = states.view(run.group, run.id) or TaskState(run.id)
            ended = run.ended(
                states,
                "done",
                now,
                why=outcome.result.get("stopped_by") or "",
                quiet=is_quiet,
                input_tokens=tokens[0],
                output_tokens=tokens[1],
                runs=state.runs + 1,
                tokens=state.tokens + sum(tokens),
            )
            over: tuple[Change, ...] = ()
            if run.task.schedule_type == "once" and not run.is_asked and files.view(file) == run.data:
                over = (FileRemoved(run.group, "task", file, run.data),)
            told: tuple[Change, ...] = ()
            if not is_quiet:  # a message is the first change: its number is the journal's next
                told = (_message(run, outcome.result, journal.next_seq, now), *outcome.changes)
            return Outcome(outcome.result, (*told, *over, ended))

        return ChangeHandler(decide, prepare)

    return TurnHandler(begin)


def _is_told(task: TaskFile, said: str) -> bool:
    """Return whether an answer is sent to people."""
    match task.deliver:
        case "always":
            return True
        case "never":
            return False
        case "when_said":
            return said.strip().strip(".`*\"'").upper() not in _NOTHING


def _message(run: Run, result: Mapping[str, Any], seq: int, now: datetime) -> Added:
    said = Message(
        seq=seq,
        at=to_milliseconds(now),
        sender=result["agent"],
        content=result["content"],
        session=run.task.session,
        request=run.asked.request_id,
    )
    return Added.of("message", run.group, dump_message(said))


def not_run(run: Run, states: TaskStates, event: Event, why: str) -> ChangeHandler[None]:
    """Return what records that a run was not made, or failed."""

    def decide(asked: Asked, now: datetime) -> Outcome:
        state = states.view(run.group, run.id) or TaskState(run.id)
        runs = state.runs + (event == "failed")
        return Outcome({}, (run.ended(states, event, now, why=why, runs=runs),))

    return without_preparation(decide)


def noted(group: str, task: str, states: TaskStates, event: Event, **members: Any) -> ChangeHandler[None]:
    """Return what records that a task was seen first, paused or resumed."""

    def decide(asked: Asked, now: datetime) -> Outcome:
        state = states.view(group, task) or TaskState(task)
        return Outcome({}, (recorded(group, state.after(event, now, **members)),))

    return without_preparation(decide)


def why_skipped(run: Run, before: TaskState, home: Path, turn_logs: TurnLogs) -> tuple[Run, str]:
    """Return a run with what its condition looks at, and why it is not to be made; empty: it is. Reads files."""
    condition = run.task.only_if
    if condition is None:
        return run, ""
    if condition == "new_turns":
        window = turn_logs.load(run.group, run.task.session)
        new = turn_logs.since(run.group, run.task.session, before.heard, max(1, window.last_number - before.heard))
        is_met = any(turn.role == "user" and turn.by != SCHEDULER for turn in new)
        return replace(run, heard=window.last_number), "" if is_met else "nobody said anything since the last run"
    name = condition.removeprefix("changed:")
    if any(part in ("", ".", "..") for part in name.split("/")) or "\0" in name:
        return run, f"{name} is not a file of the group's folder: write its path below that"
    try:
        seen = fingerprint(read_whole(home / "groups" / run.group / name))
    except WorldFailed as error:
        return run, f"{name}: {error}"
    return replace(run, seen=seen), "" if seen != before.seen else f"{name} has not changed since the last run"
