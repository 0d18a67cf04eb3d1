"""Operations become changes: of notes as they stand when it is decided, and MEMORY.md is read once for all of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from honeybadger_agent.wire import Wire
from honeybadger_host.curation.applying import Applying
from honeybadger_host.curation.notes import notes_of
from honeybadger_host.curation.proposal import Operation, Proposal
from honeybadger_host.domain import Added, Asked, Change, NotesRevised
from honeybadger_host.memory.entry_store import EntryFiles
from honeybadger_host.storage.atomic_files import WholeFiles

NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)
OPERATIONS = 40


def note(number: int) -> bytes:
    return f"\n## Notes (bee, 2026-11-01 09:00)\n- This is note number {number} of a long file.\n".encode()


def retiring(home: Path, memory: bytes) -> Applying:
    """Return a proposal that retires the first notes of a MEMORY.md, each by an operation of its own."""
    path = home / "groups/main/MEMORY.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(memory)
    operations = tuple(
        Operation(n=n, op="retire", sources=(source,))
        for n, source in zip(range(1, OPERATIONS + 1), notes_of("main", memory), strict=False)
    )
    proposal = Proposal(id="dream-1", group="main", kind="dream", made_at=NOW, operations=operations)
    return Applying(WholeFiles(home), EntryFiles(home), proposal, lambda _: True, NOW)


def decided(applying: Applying, *meanwhile: Change) -> tuple[Sequence[Change], float]:
    """Return the changes, and the seconds of processor time that the decision took."""
    asked = Asked("main", "consolidator", "dream-1", "main", Wire())
    prepared = applying.prepare(asked)
    for change in meanwhile:
        applying.files.apply(change)
    begun = time.process_time()
    outcome = applying.decide(asked, prepared, NOW)
    assert outcome.result["applied"] == OPERATIONS
    return outcome.changes, time.process_time() - begun


def test_operations_on_notes_are_decided_without_reading_memory_for_each_of_them(home: Path) -> None:
    memory = b"".join(map(note, range(4000)))
    applying = retiring(home, memory)
    begun = time.process_time()
    notes_of("main", memory)
    once = time.process_time() - begun
    _, seconds = decided(applying)
    assert seconds < once * OPERATIONS / 4


def test_a_note_that_comes_before_the_decision_stays_and_the_others_are_found_where_they_stand(home: Path) -> None:
    applying = retiring(home, b"".join(map(note, range(OPERATIONS + 1))))
    added = Added.of("note", "main", note(777))
    (revised, *_), _ = decided(applying, added)
    assert isinstance(revised, NotesRevised)
    assert revised.text == note(OPERATIONS) + note(777)
