"""Curates memory in the background, while the conversation goes on.

Nothing here writes memory: the result of a job goes through the pipeline like a request, in one commit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

import anyio
import anyio.to_thread
import structlog

from honeybadger_host.curation.asking import FAILED, Asker
from honeybadger_host.curation.consolidating import Consolidations
from honeybadger_host.curation.dreaming import Dreams
from honeybadger_host.curation.due_dreams import DueDreams
from honeybadger_host.curation.enriching import Enrichment, Saved, saved_in
from honeybadger_host.curation.jobs import Job
from honeybadger_host.curation.passes import PassDependencies
from honeybadger_host.curation.snapshot import newest_sessions
from honeybadger_host.storage.changes import Change, TurnAdded

log = structlog.get_logger()

LOOK_SECONDS = 1.0
DREAM_LOOK_SECONDS = 30.0  # between two looks for groups that are due to dream
_FOUND_AT_START: Final = 100  # sessions looked at after a start: those that changed last


class Curator:
    """Runs the jobs in the background. `end_batch` runs on the writer's thread, the rest on the event loop.

    Args:
        due_dreams: None: groups dream only on request.
        enrichment: None: saved entries are not enriched.
    """

    def __init__(
        self,
        uses: PassDependencies,
        dreams: Dreams,
        due_dreams: DueDreams | None = None,
        enrichment: Enrichment | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._uses = uses
        self._dreams = dreams
        self._due_dreams = due_dreams
        self._enrichment = enrichment
        self._clock = clock
        self.jobs = uses.jobs
        self._lock = threading.Lock()
        self._grown: set[Job] = set()
        self._saved: set[Saved] = set()
        self.consolidations = Consolidations(uses)
        self.failures = 0  # since the start

    @property
    def consolidates(self) -> bool:
        return self._uses.memory_window > 0

    @property
    def asker(self) -> Asker | None:
        """The asker of the model; None without a model: then summaries keep people's turns."""
        return self._uses.asker

    def apply(self, change: Change) -> None:
        """Do nothing: only written changes count, see `end_batch`."""

    def end_batch(self, written: Sequence[Change]) -> None:
        """Note the sessions that grew, and the entries that were saved."""
        added = [change for change in written if self.consolidates and isinstance(change, TurnAdded)]
        grown = {Job(change.group, "consolidation", change.session) for change in added}
        saved = set() if self._enrichment is None else {*saved_in(written)}
        if grown or saved:
            with self._lock:
                self._grown |= grown
                self._saved |= saved

    async def run(self) -> None:
        """Run due jobs until cancelled."""
        if self.consolidates:
            found = await anyio.to_thread.run_sync(newest_sessions, self._uses.home, "*", _FOUND_AT_START)
            for group, session in found:
                self.jobs.add(Job(group, "consolidation", session))
        if self._enrichment is not None:
            for group in await self._enrichment.groups():
                self.jobs.add(Job(group, "enrichment"))
        look_at = 0.0
        async with anyio.create_task_group() as tasks:
            while True:
                with self._lock:
                    grown, self._grown = self._grown, set()
                    saved, self._saved = self._saved, set()
                for job in grown:
                    self.jobs.add(job)
                if self._enrichment is not None:
                    for group in await self._enrichment.note(saved):
                        self.jobs.add(Job(group, "enrichment"))
                if self._due_dreams is not None and self._clock() >= look_at:
                    look_at = self._clock() + DREAM_LOOK_SECONDS
                    for group in await anyio.to_thread.run_sync(self._due_dreams.groups):
                        self.jobs.add(Job(group, "dream"))
                for job in self.jobs.take(self._clock(), self._uses.busy_groups()):
                    tasks.start_soon(self._do, job)
                with anyio.move_on_after(LOOK_SECONDS):
                    await self.jobs.ended.wait()

    async def _do(self, job: Job) -> None:
        about = {"kind": job.kind, "group": job.group, **({"session": job.session} if job.session else {})}
        has_more = False
        try:
            if job.kind == "dream":
                await self._dreams.make(job.group)
            elif job.kind == "enrichment":
                has_more = self._enrichment is not None and await self._enrichment.make(job.group)
            else:
                has_more = await self.consolidations.consolidate(job.group, job.session)
        except FAILED as error:
            pause = self.jobs.fail(job, str(error), self._clock())
            self.failures += 1
            log.warning(
                "curation.failed",
                **about,
                why=str(error),
                again_in_seconds=round(pause),
                now_what="nothing is lost: memory and the turns in the log stay as they are",
            )
        except Exception as error:
            self.jobs.fail(job, f"{type(error).__name__}, see the log", self._clock())
            self.failures += 1
            log.error("curation.failed", **about, exc_info=error)
        else:
            self.jobs.end(job, has_more=has_more)
