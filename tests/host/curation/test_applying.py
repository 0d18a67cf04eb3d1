"""Operations become changes of notes as they stand when it is decided."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from honeybadger_agent.wire import Wire
from honeybadger_host.curation.applying import Applying
from honeybadger_host.curation.notes import notes_of
from honeybadger_host.curation.proposal import Operation, Proposal
from honeybadger_host.handler_kinds import Asked
from honeybadger_host.journal.atomic_files import WholeFiles
from honeybadger_host.journal.changes import Added, NotesRevised
from honeybadger_host.memory.entries.store import EntryFiles

NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)
OPERATIONS = 4


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


def test_a_note_added_before_the_decision_stays(home: Path) -> None:
    applying = retiring(home, b"".join(map(note, range(OPERATIONS + 1))))
    asked = Asked("main", "consolidator", "dream-1", "main", Wire())
    prepared = applying.prepare(asked)
    applying.files.apply(Added.of("note", "main", note(777)))
    outcome = applying.decide(asked, prepared, NOW)
    revised = outcome.changes[0]
    assert outcome.result["applied"] == OPERATIONS
    assert isinstance(revised, NotesRevised)
    assert revised.text == note(OPERATIONS) + note(777)
