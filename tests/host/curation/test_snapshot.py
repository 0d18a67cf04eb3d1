"""The snapshot that a pass works on: the newest entries, what is protected, and how many were taken out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio

from honeybadger_agent.mailbox import SCHEDULER
from honeybadger_host.curation.dreams import Dreams
from honeybadger_host.curation.passes import PassDependencies, retired_since, take
from honeybadger_host.curation.proposal import Operation, Proposal, dump_proposal
from honeybadger_host.curation.proposal_files import readable
from honeybadger_host.memory.entries.entry import Entry, dump_entry, entry_file
from honeybadger_host.text.turn import Turn

NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)


def write(home: Path, stem: str, content: str, **more: Any) -> Path:
    members: dict[str, Any] = {"created": NOW, "by": "bee", **more}
    entry = Entry(stem, members.pop("category", "general"), content, **members)
    path = home / entry_file("main", entry.category, stem)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(dump_entry(entry))
    return path


def test_written_pinned_and_repeated_texts_are_protected(uses: PassDependencies) -> None:
    write(uses.home, "mine", "x", by=None)
    write(uses.home, "edited", "x", by="human")
    write(uses.home, "pinned", "x", pinned=True)
    write(uses.home, "document", "x", name="plan.md")
    write(uses.home, "again", "x", reinforced=5)
    write(uses.home, "free", "x", reinforced=4)
    memory = "Ours.\n\n## Own\n- Mine.\n\n## Notes (bee, 2026-11-01 09:00)\n- Free.\n"
    memory += "\n## Notes (bee, 2026-11-01 09:01)\n- Kept. (pinned)\n\n## Notes (human, 2026-11-01 09:02)\n- Said.\n"
    (uses.home / "groups/main/MEMORY.md").write_text(memory)
    snapshot = take(uses, "main", NOW)
    free = [text for name, text in snapshot.texts.items() if name not in snapshot.protected]
    assert free == ["x", "Free."]
    assert {each.partition(" ")[0] for each in snapshot.protected.values()} == {"a", "it"}
    assert len(snapshot.texts) == 10


def test_removals_of_30_days_count_once_without_joins(home: Path) -> None:
    folder = home / "groups/main/proposals"
    folder.mkdir(parents=True)
    operations = (
        Operation(n=1, op="retire", sources=("a", "b"), state="applied"),
        Operation(n=2, op="retire", sources=("b",), state="applied"),
        Operation(n=3, op="merge", sources=("c", "d"), result="x", state="applied"),
        Operation(n=4, op="retire", sources=("e",), state="refused"),
        Operation(n=5, op="add", sources=("f",), result="x", state="applied"),
    )
    proposal = Proposal(id="dream-1", group="main", kind="dream", made_at=NOW, operations=operations)
    (folder / "dream-1.json").write_bytes(dump_proposal(proposal))
    (folder / "broken.json").write_text("{")
    (found,) = readable(home, "main", lambda name, at: True)
    assert retired_since([found], NOW) == {"a", "b"}
    assert retired_since([found], NOW + timedelta(seconds=1)) == set()


def test_a_pass_reads_a_thousand_entries_and_says_so(uses: PassDependencies) -> None:
    names = ["Ann", "Bob", "Carla", "Dieter", "Eve"]
    for number in range(1100):
        person, day = names[number % 5], number % 27 + 1
        text = f"{person} paid {number // 2 * 7} EUR to firm number {number // 3} for the move on {day} March 2026."
        write(uses.home, f"e{number:04}", text if number % 10 else "The same again.", category=f"c{number % 4}")

    async def trial() -> Any:
        return await Dreams(uses).make("main", True)

    dreamt = anyio.run(trial)
    assert (dreamt.looked_at, dreamt.left_out) == (1000, 100)
    ((proposal, _),) = dreamt.proposals
    assert len(proposal.operations[0].sources) > 90


def test_what_agents_and_tasks_say_is_not_a_persons(uses: PassDependencies) -> None:
    def said(by: str) -> Turn:
        return Turn(1, NOW, "user", by, by, "I like tea.", 3)

    assert [uses.is_person(said(by)) for by in ("ann", "bee", SCHEDULER)] == [True, False, False]
