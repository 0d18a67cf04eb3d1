"""Queues the jobs of curation: one of a group at a time, two in all, each failure with a longer pause.

Jobs that a person asks for go first; the others also wait while a turn of their group runs.
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
_MAX_PAUSE_SECONDS: Final = 3600.0


class Job(NamedTuple):
    """A task for a group; a consolidation also has a session."""

    group: str
    kind: Kind
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
        ended: set and replaced when a job ends: another may begin.
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

    def take(self, now: float, busy_groups: Collection[str]) -> Iterator[Job]:
        """Yield the jobs that may begin now; each runs until `end` or `fail`."""
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
        """End a job; add it again when there is more to do."""
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
