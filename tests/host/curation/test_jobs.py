"""The jobs of curation: which may begin, and when the next is looked at."""

from __future__ import annotations

from datetime import UTC, datetime

import anyio

from honeybadger_host.curation.dreams import Dreams
from honeybadger_host.curation.passes import PassDependencies
from honeybadger_host.curation.runner import Curator
from honeybadger_host.storage.changes import TurnAdded
from honeybadger_host.text.turn import Turn


def test_two_hundred_sessions_that_are_not_due_are_looked_at_within_seconds(uses: PassDependencies) -> None:
    curator = Curator(uses, Dreams(uses))
    turn = Turn(1, datetime.now(UTC), "user", "user", "ann", "Hello.", 1)
    curator.end_batch([TurnAdded(f"group-{n % 3}", f"session-{n}", turn, b"") for n in range(200)])

    async def run() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(curator.run)
            with anyio.fail_after(20):
                while curator._grown or curator.jobs._waiting or curator.jobs.running:
                    await curator.jobs.ended.wait()
            tasks.cancel_scope.cancel()

    anyio.run(run)
