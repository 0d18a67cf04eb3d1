"""Curates memory in the background: the queue of jobs, and the loop that runs them.

One job of a group runs at a time, and two in all. Jobs that a person asks for go first; all others also wait while a
turn of their group runs. Nothing here writes memory: the result of a job goes through the pipeline like a request.
"""

import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import anyio.to_thread

from honeybadger_host.curation.asking import FAILED
from honeybadger_host.curation.consolidation import Consolidations
from honeybadger_host.curation.dreams import Dreamt, DueDreams, dream
from honeybadger_host.curation.enrichment import ENRICHMENT, enrich, note, saved_in
from honeybadger_host.curation.passes import PassDependencies, newest_sessions
from honeybadger_host.journal.changes import Change, TurnAdded
from honeybadger_host.log import log
from honeybadger_host.settings import CuratedKind

AT_ONCE = 2  # jobs that run at the same time: most self-hosted model servers answer no more calls at once
FIRST_PAUSE_SECONDS = 60.0  # after a failure; each further failure doubles it
_MAX_PAUSE_SECONDS = 3600.0  # a model that was down for a night is asked again within an hour
LOOK_SECONDS = 1.0  # between two looks for new turns and entries


class Job(NamedTuple):
    """A task for a group; a consolidation also has a session."""

    group: str
    kind: CuratedKind
    session: str = ""

    def __str__(self) -> str:
        return f"{self.kind} of {self.group}" + (f"/{self.session}" if self.session else "")


class Failure(NamedTuple):
    """The last error of a job, its number of failures, and the time of the next attempt in monotonic seconds."""

    why: str
    times: int
    again_at: float


@dataclass(slots=True)
class Jobs:
    """The jobs that run and wait. Event loop.

    Args:
        asked: jobs that people asked for and that have not begun, in order.
        failed: jobs that wait for another attempt.
        ended: set and replaced by a new event whenever a job ends.
        _waiting: job -> the earliest time it may begin, in monotonic seconds.
    """

    running: set[Job] = field(default_factory=set)
    asked: list[Job] = field(default_factory=list)
    failed: dict[Job, Failure] = field(default_factory=dict)
    ended: anyio.Event = field(default_factory=anyio.Event)
    _waiting: dict[Job, float] = field(default_factory=dict)

    def add(self, job: Job) -> None:
        """Add a job to the queue; a failed job keeps its pause."""
        self._waiting.setdefault(job, 0.0)

    def take(self, now: float, waiting_groups: Collection[str]) -> Iterator[Job]:
        """Yield the jobs that may begin now; each runs until `end` or `fail`."""
        for job, not_before in [*self._waiting.items()]:
            taken = {other.group for other in (*self.running, *self.asked)}
            if len(taken) >= AT_ONCE:
                return
            if not_before <= now and job.group not in taken and job.group not in waiting_groups:
                del self._waiting[job]
                self.running.add(job)
                yield job

    @asynccontextmanager
    async def asked_for(self, job: Job) -> AsyncIterator[None]:
        """Wait until a requested job may begin; it runs until the context ends."""
        self.asked.append(job)
        try:
            while len(self.running) >= AT_ONCE or any(job.group == other.group for other in self.running):
                await self.ended.wait()
        finally:
            self.asked.remove(job)
        self.running.add(job)
        try:
            yield
        finally:
            self._end(job)

    def end(self, job: Job, *, has_more: bool) -> None:
        """End a job; add it again if there is more to do."""
        self.failed.pop(job, None)
        if has_more:
            self.add(job)
        self._end(job)

    def fail(self, job: Job, why: str, now: float) -> float:
        """End a failed job; return the seconds until its next attempt."""
        times = 1 + (self.failed[job].times if job in self.failed else 0)
        pause = min(FIRST_PAUSE_SECONDS * 2.0 ** (times - 1), _MAX_PAUSE_SECONDS)
        self._waiting[job] = now + pause
        self.failed[job] = Failure(why, times, now + pause)
        self._end(job)
        return pause

    def _end(self, job: Job) -> None:
        self.running.discard(job)
        self.ended.set()
        self.ended = anyio.Event()


class Curator:
    """Runs jobs. `end_batch` runs on the writer's thread, the rest on the event loop.

    Args:
        due_dreams: None: groups dream only on request.
    """

    def __init__(
        self,
        uses: PassDependencies,
        due_dreams: DueDreams | None = None,
    ) -> None:
        self.uses = uses
        self._due_dreams = due_dreams
        self._enriches = uses.settings.curation.enrichment and uses.asker.open_model is not None
        # Jobs for written turns and entries; an enrichment with the id of its entry.
        self._noted: deque[tuple[Job, str]] = deque()
        self.jobs = Jobs()
        self.consolidations = Consolidations(uses)

    # ------------------------------------------------------------------------------------------ what people ask for

    async def consolidate(self, group: str, session: str) -> int:
        """Consolidate all turns but the newest, which stay; return the number of the last consolidated turn, 0: none.

        Raises as `Consolidations.consolidate`.
        """
        async with self.jobs.asked_for(Job(group, "consolidation", session)):
            while await self.consolidations.consolidate(group, session, at_once=True):
                pass
        mark = await anyio.to_thread.run_sync(self.uses.watermarks.read, group, session)
        return 0 if mark is None else mark.turn

    async def dream(self, group: str) -> Dreamt:
        """Make a dream of a group. Errors as `dreams.dream`."""
        async with self.jobs.asked_for(Job(group, "dream")):
            return await dream(self.uses, group)

    # ------------------------------------------------------------------------------------------------ automatic passes

    def apply(self, change: Change) -> None:
        """Do nothing: only written changes count, see `end_batch`."""

    def end_batch(self, written: Sequence[Change]) -> None:
        """Note the sessions that grew, and the entries that were saved."""
        for change in written:
            if isinstance(change, TurnAdded) and self.uses.memory_window:
                self._noted.append((Job(change.group, "consolidation", change.session), ""))
        if self._enriches:
            self._noted.extend((Job(group, "enrichment"), entry_id) for group, entry_id in saved_in(written))

    async def run(self) -> None:
        """Run due jobs until cancelled."""
        if self.uses.memory_window:
            for group, session in await anyio.to_thread.run_sync(newest_sessions, self.uses.home, "*"):
                self.jobs.add(Job(group, "consolidation", session))  # all others when they grow
        if self._enriches:
            for question in await self.uses.asker.begun(ENRICHMENT):
                self.jobs.add(Job(question.group, "enrichment"))
        async with anyio.create_task_group() as tasks:
            while True:
                for _ in range(len(self._noted)):  # came since the last look
                    job, entry_id = self._noted.popleft()
                    if not entry_id or await note(self.uses, job.group, entry_id):
                        self.jobs.add(job)
                if self._due_dreams is not None:
                    for group in await anyio.to_thread.run_sync(self._due_dreams.groups):
                        self.jobs.add(Job(group, "dream"))
                for job in self.jobs.take(time.monotonic(), self.uses.waiting_groups()):
                    tasks.start_soon(self._do, job)
                with anyio.move_on_after(LOOK_SECONDS):
                    await self.jobs.ended.wait()

    async def _do(self, job: Job) -> None:
        has_more = False
        try:
            if job.kind == "dream":
                await dream(self.uses, job.group)
            elif job.kind == "enrichment":
                has_more = await enrich(self.uses, job.group)
            else:
                has_more = await self.consolidations.consolidate(job.group, job.session)
        except Exception as error:
            is_bug = not isinstance(error, FAILED)
            why = f"{type(error).__name__}, see the log" if is_bug else str(error)
            log.log(
                logging.ERROR if is_bug else logging.WARNING,
                "curation.failed",
                kind=job.kind,
                group=job.group,
                **({"session": job.session} if job.session else {}),
                why=why,
                again_in_seconds=round(self.jobs.fail(job, why, time.monotonic())),
                now_what="nothing is lost: memory and the turns in the log stay as they are",
                exc_info=error if is_bug else None,
            )
        else:
            self.jobs.end(job, has_more=has_more)
