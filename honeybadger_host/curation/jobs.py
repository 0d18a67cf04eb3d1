"""What is to be done, and when: one job of a group at a time, two in all, failures ever later.

What a person asks for goes before what is done in the background; that waits while a turn of its group is under way.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import anyio

from honeybadger_host.curation.proposal import Kind

AT_ONCE: Final = 2
FIRST_PAUSE_SECONDS = 60.0
_LONGEST_PAUSE_SECONDS: Final = 3600.0
_MOST_WAITING: Final = 10_000
"""Jobs that are remembered; a session that is forgotten is met again with its next turn."""


class Job(NamedTuple):
    """Something to look at; a consolidation has a session."""

    group: str
    kind: Kind
    session: str = ""

    def __str__(self) -> str:
        return f"{self.kind} of {self.group}" + (f"/{self.session}" if self.session else "")


class Failure(NamedTuple):
    """Why a job failed the last time, how often it did, and when it is tried again, in monotonic seconds."""

    why: str
    times: int
    again_at: float


@dataclass(slots=True)
class Jobs:
    """The jobs that run and wait. Event loop.

    Args:
        asked: what people asked for and what has not begun, in their order.
        failed: what waits for another try.
        ended: set, and made anew, when a job ends: another may begin.
    """

    running: set[Job] = field(default_factory=set)
    asked: list[Job] = field(default_factory=list)
    failed: dict[Job, Failure] = field(default_factory=dict)
    ended: anyio.Event = field(default_factory=anyio.Event)
    _waiting: dict[Job, float] = field(default_factory=dict)
    """Job -> not before, monotonic seconds."""

    def add(self, job: Job) -> None:
        """Look at a job soon; one that failed keeps its pause."""
        if job not in self._waiting and len(self._waiting) < _MOST_WAITING:
            self._waiting[job] = 0.0

    def take(self, now: float, busy_groups: Collection[str]) -> Iterator[Job]:
        """Yield the jobs that may begin now; each is running until `end` or `fail`."""
        for job, not_before in [*self._waiting.items()]:
            taken = {other.group for other in (*self.running, *self.asked)}
            if len(taken) >= AT_ONCE:
                return
            if not_before <= now and job.group not in taken and job.group not in busy_groups:
                del self._waiting[job]
                self.running.add(job)
                yield job

    @asynccontextmanager
    async def asked_for(self, job: Job) -> AsyncIterator[None]:
        """Wait for the turn of a job that somebody asked for, and run it."""
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
        """End a job; with more to do it is looked at again."""
        self.failed.pop(job, None)
        if has_more:
            self.add(job)
        self._end(job)

    def fail(self, job: Job, why: str, now: float) -> float:
        """End a job that is to be tried again; return after how many seconds."""
        times = 1 + (self.failed[job].times if job in self.failed else 0)
        pause = min(FIRST_PAUSE_SECONDS * 2.0 ** (times - 1), _LONGEST_PAUSE_SECONDS)
        self._waiting[job] = now + pause
        self.failed[job] = Failure(why, times, now + pause)
        self._end(job)
        return pause

    def _end(self, job: Job) -> None:
        self.running.discard(job)
        self.ended.set()
        self.ended = anyio.Event()
