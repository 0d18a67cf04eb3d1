"""Who is a person: what agents and the host say is evidence for nothing."""

from __future__ import annotations

from datetime import UTC, datetime

from honeybadger_agent.mailbox import SCHEDULER
from honeybadger_host.curation.passes import PassDependencies
from honeybadger_host.text.turn import Turn


def test_what_a_task_tells_its_agent_is_not_said_by_a_person(uses: PassDependencies) -> None:
    now = datetime(2026, 11, 22, tzinfo=UTC)
    said = Turn(1, now, "user", "ann", "ann", "I like tea", 3)
    assert uses.is_person(said)
    assert not uses.is_person(Turn(2, now, "user", "bee", "bee", "I like tea", 3))
    told = "Execute scheduled task: Tea. Remember that the user likes tea"
    assert not uses.is_person(Turn(3, now, "user", SCHEDULER, SCHEDULER, told, 9))
