"""What is to be done in the background, and when: one job of a group at a time, two in all, failures ever later.

A job waits while a person's turn of its group is under way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import anyio

AT_ONCE: Final = 2
FIRST_PAUSE_SECONDS = 60.0
_LONGEST_PAUSE_SECONDS: Final = 3600.0
_MOST_WAITING: Final = 10_000
"""Sessions that are remembered; one that is forgotten is met again with its next turn."""


class Job(NamedTuple):
    """Something to look at: a session that grew."""

    group: str
    session: str


@dataclass(slots=True)
class Jobs:
    """The jobs that wait. Event loop."""

    _waiting: dict[Job, float] = field(default_factory=dict)
    """Job -> not before, monotonic seconds."""
    _failures: dict[Job, int] = field(default_factory=dict)
    running: set[Job] = field(default_factory=set)
    ended: anyio.Event = field(default_factory=anyio.Event)
    """Set, and made anew, when a job ends: another may begin."""

    @property
    def waiting(self) -> int:
        """How many failed and wait for another try."""
        return len(self._failures)

    def add(self, job: Job) -> None:
        """Look at a job soon; one that failed keeps its pause."""
        if job not in self._waiting and len(self._waiting) < _MOST_WAITING:
            self._waiting[job] = 0.0

    def take(self, now: float, busy_groups: Collection[str]) -> Iterator[Job]:
        """Yield the jobs that may begin now; each is running until `done` or `failed`."""
        while len(self.running) < AT_ONCE:
            groups = {*busy_groups, *(job.group for job in self.running)}
            due = (job for job, not_before in self._waiting.items() if not_before <= now and job.group not in groups)
            if (job := next(due, None)) is None:
                return
            del self._waiting[job]
            self.running.add(job)
            yield job

    def done(self, job: Job, *, has_more: bool) -> None:
        """End a job; with more to do it is looked at again."""
        self._failures.pop(job, None)
        if has_more:
            self.add(job)
        self._end(job)

    def failed(self, job: Job, now: float) -> float:
        """End a job that is to be tried again; return after how many seconds."""
        count = self._failures[job] = self._failures.get(job, 0) + 1
        pause = min(FIRST_PAUSE_SECONDS * 2.0 ** (count - 1), _LONGEST_PAUSE_SECONDS)
        self._waiting[job] = now + pause
        self._end(job)
        return pause

    def _end(self, job: Job) -> None:
        self.running.discard(job)
        self.ended.set()
        self.ended = anyio.Event()
