"""Lets tasks run when they are due, each run once (HB7, HB10).

Due times follow from the task's file, its newest record in the journal, and the clock; nothing else is kept. A run is
a turn whose id is made of task and time. After a kill the next start continues an interrupted run; a run that ended
left its record in the same commit.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeAlias

import anyio
import anyio.to_thread
import orjson

from honeybadger_agent.mailbox import SCHEDULER
from honeybadger_agent.wire import ListTasks, Refusal
from honeybadger_agent.wording import MAX_NAMED
from honeybadger_host.errors import StorageFailed, WorldFailed
from honeybadger_host.files.group_folders import GroupFolders
from honeybadger_host.handler_kinds import Asked, ChangeHandler, CutShort, Outcome, TurnHandler
from honeybadger_host.journal.changes import Change, read_whole
from honeybadger_host.journal.journal import Journal
from honeybadger_host.log import log
from honeybadger_host.memory.turn_log_store import TurnLogs
from honeybadger_host.work.runs import Run, TaskChanged, run_in, stamp_of, why_skipped
from honeybadger_host.work.task_files import (
    EPOCH,
    Event,
    TaskFile,
    TaskKey,
    TaskState,
    TaskStates,
    check_id,
    has_tasks,
    parse_task,
    place_of,
    recorded,
    task_file,
    tasks_folder,
    tasks_of,
)
from honeybadger_host.work.times import Schedule, due, missed_before, next_run

LOOK_SECONDS = 60.0  # between two looks at the clock, which may be set, and at the agents of idle tasks
_RETRIES = 2  # retries of a run whose model is unavailable; after a failure of the disk there is no limit
RETRY_SECONDS = 60.0  # pause before the first retry; all others wait twice as long


def wall_clock() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class _Known:
    """A task as its file was last read.

    Args:
        task: None: the file is wrong.
        problem: why it does not run.
        next: time of its next step.
    """

    data: bytes
    task: TaskFile | None
    schedule: Schedule | None
    problem: str = ""
    next: datetime | None = None


_Record: TypeAlias = Callable[[], Awaitable[None]]  # writes a record that is due, without a run
_Step: TypeAlias = Run | _Record


@dataclass(slots=True)
class Scheduler:
    """Runs due tasks. `touch` may be called on any thread; all else runs on the event loop or one worker thread.

    Args:
        clock: the time, aware.
        schedule_of: (task, now) -> when it runs. Raises WrongSchedule.
        why_idle: task -> why it does not run although its file is right; None: it runs.
        handler_of: run -> the handler of its turn.
        turn, change: see `Pipeline`.
        _begun: runs under way.
    """

    home: Path
    groups: GroupFolders
    journal: Journal
    states: TaskStates
    turn_logs: TurnLogs
    schedule_of: Callable[[TaskFile, datetime], Schedule]
    why_idle: Callable[[TaskFile], str | None]
    handler_of: Callable[[Run], TurnHandler]
    turn: Callable[[Asked, str, TurnHandler], Awaitable[bytes | None]]
    change: Callable[[Asked, str, ChangeHandler], Awaitable[bytes]]
    clock: Callable[[], datetime]
    _known: dict[TaskKey, _Known] = field(default_factory=dict)
    _under_way: set[TaskKey] = field(default_factory=set)
    _begun: dict[TaskKey, datetime] = field(default_factory=dict)
    _tries: dict[TaskKey, int] = field(default_factory=dict)
    _touched: SimpleQueue[TaskKey] = field(default_factory=SimpleQueue)
    _event: anyio.Event = field(default_factory=anyio.Event)
    _loop: Callable[[Callable[[], object]], object] = lambda wake: None

    def __post_init__(self) -> None:
        self.states.changed = self.touch

    @property
    def status(self) -> Mapping[str, object]:
        """Return the counts of tasks for the status. Any thread."""
        known, waiting = dict(self._known), dict(self.states.waiting)
        active = [each for each in known.values() if each.task and not (each.problem or each.task.paused)]
        broken = sorted(f"{task_file(*key)}: {each.problem}" for key, each in known.items() if each.problem)
        return {
            "known": len(known),
            "paused": len(known) - len(active) - len(broken),
            "refused": broken[:MAX_NAMED],
            "next_at": min((each.next.timestamp() for each in active if each.next is not None), default=None),
            "due": len(self._under_way),
            "waiting": sorted(f"{task_file(*key)}: {why}" for key, (_, why) in waiting.items())[:MAX_NAMED],
        }

    def touch(self, key: TaskKey) -> None:
        """Let the next look read a task again: its file or its record has changed."""
        self._touched.put(key)
        self.wake()

    def touch_file(self, file: str) -> None:
        """Touch the task of a file, below the home folder, that may have changed; ignore other files."""
        if "/tasks/" in file and (key := place_of(file)) is not None:
            self.touch(key)

    def touch_folder(self, folder: str) -> None:
        """Touch all tasks of a folder, below the home folder, that is watched from now on; ignore other folders."""
        match folder.split("/"):
            case ["groups", group, "tasks"] if has_tasks(group):
                for task in tasks_of(self.home, group):
                    self.touch((group, task))

    def folders(self) -> list[str]:
        """Return the folders of tasks that exist, below the home folder. Reads folders."""
        groups = self.groups.refresh().items()
        return [tasks_folder(name) for name, inside in groups if "tasks" in inside and has_tasks(name)]

    def wake(self) -> None:
        """Start a look. Any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closing: nobody is left to wake
            self._loop(lambda: self._event.set())

    async def run(self) -> None:
        """Run due tasks until cancelled."""
        self._loop = asyncio.get_running_loop().call_soon_threadsafe
        for turn in await anyio.to_thread.run_sync(self.journal.unfinished, SCHEDULER):
            if (found := run_in(turn.request)) is not None:
                self._begun[turn.group, found[0]] = found[1]
        for folder in await anyio.to_thread.run_sync(self.folders):
            await anyio.to_thread.run_sync(self.touch_folder, folder)
        async with anyio.create_task_group() as tasks:
            while True:
                self._event = anyio.Event()
                steps, wakes_at = await anyio.to_thread.run_sync(self._look)
                for key, step in steps:
                    tasks.start_soon(self._do, key, step)
                seconds = (wakes_at - self.clock()).total_seconds()
                with anyio.move_on_after(min(seconds, LOOK_SECONDS)):
                    await self._event.wait()

    # -------------------------------------------------------------------------------------------------------- looking

    def _look(self) -> tuple[list[tuple[TaskKey, _Step]], datetime]:
        """Read changed files; return the steps that are due now, the longest due runs first, and when the next one is.

        Worker thread.
        """
        now = self.clock()
        touched = {self._touched.get() for _ in range(self._touched.qsize())}
        for key in touched:
            self._read(key, now)
        for key, waiting in self._known.items():
            if waiting.next is not None and waiting.next <= now:
                waiting.next = None
                touched.add(key)
        steps: list[tuple[TaskKey, _Step]] = []
        for key in sorted(touched):
            known = self._known.get(key)
            if known is None or key in self._under_way:
                continue
            try:
                step = self._step(key, known, now)
            except Exception as error:
                known.task, known.problem = None, f"the host failed on it: {type(error).__name__}"
                log.error("task.refused", file=task_file(*key), why=known.problem, exc_info=error)
                continue
            if step is not None:
                self._under_way.add(key)
                steps.append((key, step))
        nexts = [known.next for known in self._known.values() if known.next is not None]
        steps.sort(key=lambda each: each[1].at if isinstance(each[1], Run) else EPOCH)
        return steps, min(nexts, default=now + timedelta(seconds=LOOK_SECONDS))

    def _read(self, key: TaskKey, now: datetime) -> None:
        """Read a task's file; a fault is reported once."""
        file = task_file(*key)
        before = self._known.get(key)
        problem, task, schedule, data = "", None, None, b""
        try:
            check_id(key[1])
            data = read_whole(self.home / file) or b""
            if not data:
                self._forget(key)
                return
            if before is not None and data == before.data:
                return
            task = parse_task(data)
            schedule = self.schedule_of(task, now)
        except (ValueError, WorldFailed) as error:
            problem, task = str(error), None
        if problem and key[1] not in tasks_of(self.home, key[0]):  # a wrong name that is gone
            self._forget(key)
            return
        if problem and (before is None or before.problem != problem):
            log.warning("task.refused", file=file, why=problem, now_what="mend it; until then it does not run")
        self._known[key] = _Known(data, task, schedule, problem)

    def _forget(self, key: TaskKey) -> None:
        self._known.pop(key, None)
        self.states.waiting.pop(key, None)

    def _step(self, key: TaskKey, known: _Known, now: datetime) -> _Step | None:
        """Return the step of a task that is due now, or None; then the time of its next step is queued."""
        task, schedule = known.task, known.schedule
        state = self.states.current(*key)
        if task is None or schedule is None or self.states.view(*key) is not state:
            return None  # a record was decided: writing it touches the task again
        if state is None:
            if next_run(schedule, now) is None:
                return self._note(key, "missed", until=now, why="run_at was past when the file was first seen")
            return self._note(key, "scheduled", until=now)
        why = self.why_idle(task) or ""
        if why and why != known.problem:
            log.warning("task.refused", file=task_file(*key), why=why, now_what="until then it does not run")
        known.problem = why
        if why:
            known.next = now + timedelta(seconds=LOOK_SECONDS)
            return None
        again_at, _ = self.states.waiting.get(key, (now, ""))
        if now < again_at:
            known.next = again_at
            return None
        self.states.waiting.pop(key, None)
        if state.asked is not None:
            run = Run(*key, task, known.data, state.asked, is_asked=True)
            return why_skipped(run, state, self.home, self.turn_logs)[0]
        if task.paused:
            why = task.paused if isinstance(task.paused, str) else "its file says so"
            return None if state.event == "paused" else self._note(key, "paused", why=why)
        if state.event in ("paused", "cancelled"):
            return self._note(key, "resumed", until=now)
        begun = self._begun.get(key)
        if begun is not None and state.until < begun <= now:
            missed = missed_before(schedule, state.until, begun)
            return Run(*key, task, known.data, begun, missed=missed, heard=state.heard, seen=state.seen)
        found = due(schedule, state.until, now, task.missed, task.grace_seconds)
        if found is None:
            known.next = next_run(schedule, state.until)
            return None
        run = Run(*key, task, known.data, found.run or found.until, missed=found.missed, heard=state.heard)
        if found.run is None:
            why = f"the host did not run, or was busy, until {task.grace_seconds or 60} s after that (grace_seconds)"
            return self._not_run(key, run, "missed", why)
        run, why = why_skipped(run, state, self.home, self.turn_logs)
        if why:
            return self._not_run(key, run, "skipped", why)
        return run

    def _note(self, key: TaskKey, event: Event, **members: Any) -> _Record:
        """Return what records that a task was first seen, paused or resumed."""

        def change(now: datetime) -> Change:
            state = self.states.view(*key) or TaskState(key[1])
            return recorded(key[0], state.after(event, now, **members))

        return partial(self._record, key, event, change)

    def _not_run(self, key: TaskKey, run: Run, event: Event, why: str, asked: Asked | None = None) -> _Record:
        """Return what records that a run failed, was missed or is skipped."""
        return partial(self._record, key, event, partial(run.ended, self.states, event, why=why), asked)

    # ---------------------------------------------------------------------------------------------------------- doing

    async def _do(self, key: TaskKey, step: _Step) -> None:
        """Do one step, and touch the task."""
        try:
            await (self._fire(key, step) if isinstance(step, Run) else step())
        finally:
            self._under_way.discard(key)
            self.touch(key)

    async def _fire(self, key: TaskKey, run: Run) -> None:
        asked = run.asked
        self._begun[key] = run.at
        log.info("task.fired", group=run.group, task=run.id, id=asked.request_id)
        try:
            reply = await self.turn(asked, "run_task", self.handler_of(run))
            if reply is None:
                return
            said = orjson.loads(reply)
            if not said["ok"]:
                raise WorldFailed(said["error"]["message"])
            self._tries.pop(key, None)
            self._begun.pop(key, None)
            return
        except TaskChanged:
            self._begun.pop(key, None)
            return
        except CutShort as error:
            why = str(error)
        except Refusal as error:
            why = error.message
            if error.code == "unavailable" and self._tries.get(key, 0) < _RETRIES:
                self._try_later(key, run, why)
                return
        except WorldFailed as error:
            self._try_later(key, run, str(error))
            return
        except StorageFailed:
            raise
        except Exception as error:
            why = f"the host failed: {type(error).__name__}"
            log.error("task.failed", group=run.group, task=run.id, id=asked.request_id, exc_info=error)
        log.warning("task.failed", group=run.group, task=run.id, id=asked.request_id, why=why)
        self._tries.pop(key, None)
        await self._not_run(key, run, "failed", why, asked)()

    def _try_later(self, key: TaskKey, run: Run, why: str) -> None:
        tries = self._tries[key] = self._tries.get(key, 0) + 1
        seconds = RETRY_SECONDS * 2 ** (min(tries, _RETRIES) - 1)
        self.states.waiting[key] = self.clock() + timedelta(seconds=seconds), why
        log.warning("task.waiting", group=run.group, task=run.id, why=why, again_in_seconds=round(seconds))

    async def _record(
        self, key: TaskKey, event: Event, change: Callable[[datetime], Change], asked: Asked | None = None
    ) -> None:
        """Write a record through the pipeline, once for each event.

        Args:
            change: the time -> the record.
            asked: the run that it is about.
        """
        group, task = key
        if asked is None:
            asked = Asked(group, SCHEDULER, f"{task}.{event}.{stamp_of(self.clock())}", "main", ListTasks())
        asked = replace(asked, digest=hashlib.sha256(f"{asked.request_id}/{event}".encode()).digest())
        handler = ChangeHandler(lambda asked, now: Outcome({}, (change(now),)))
        reply = orjson.loads(await self.change(asked, "run_task", handler))
        if reply["ok"]:
            self._begun.pop(key, None)
            if event == "missed":
                log.warning("task.missed", group=group, task=task)
        else:
            why = reply["error"]["message"]
            self.states.waiting[key] = self.clock() + timedelta(seconds=RETRY_SECONDS), why
            log.warning("task.waiting", group=group, task=task, why=why)
