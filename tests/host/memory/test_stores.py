"""One suite for every store of a batch: what was decided is seen, what was not written is forgotten."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from honeybadger_host.journal.changes import Change, FileRemoved, FileWritten, Store, TurnAdded, UnitOfWork, WholeFiles
from honeybadger_host.memory.compaction import CompactionLimits
from honeybadger_host.memory.session_document_store import Sessions
from honeybadger_host.memory.turn_log import dump_turn
from honeybadger_host.memory.turn_log_store import TurnLogs
from honeybadger_host.memory.working_memory import dump_working, working_file
from honeybadger_host.memory.working_memory_store import WorkingMemoryStore
from honeybadger_host.text.turn import Turn
from tests.host.memory.test_working_memory import entry

NOW = datetime(2026, 11, 21, 6, 5, 59, tzinfo=UTC)
ENTRY = "groups/main/memory/general/a.json"


@dataclass
class Stored:
    """Stores, and what the suite asks of them.

    Args:
        view: what a decision sees; `empty` before anything was saved.
        change: number -> a change that the view must show as `shown(number)`.
    """

    stores: Sequence[Store]
    view: Callable[[], Any]
    empty: Any
    change: Callable[[int], Change]
    shown: Callable[[int], Any]


def whole_files(home: Path) -> Stored:
    files = WholeFiles(home)
    return Stored(
        [files],
        lambda: files.view(ENTRY),
        None,
        lambda number: FileWritten("main", "entry", ENTRY, b"%d" % number, files.view(ENTRY)),
        lambda number: b"%d" % number,
    )


def working_memory(home: Path) -> Stored:
    working_memory = WorkingMemoryStore(home)
    file = working_file("main", "main", "key")
    return Stored(
        [working_memory],
        lambda: [one.category for one in working_memory.view("main", "main").values()],
        [],
        lambda number: FileWritten("main", "working", file, dump_working(entry("key", "data", f"c{number}")), None),
        lambda number: [f"c{number}"],
    )


def turns(home: Path) -> Stored:
    turn_logs = TurnLogs(home, window_turns=50, clock=lambda: 0.0)

    def change(number: int) -> Change:
        said = Turn(turn_logs.next_number("main", "main"), NOW, "user", "user", "bee", f"turn {number}", 1)
        return TurnAdded("main", "main", said, dump_turn(said, "r"))

    return Stored([turn_logs], lambda: turn_logs.next_number("main", "main") - 1, 0, change, lambda number: number)


def documents(home: Path) -> Stored:
    turn_logs = TurnLogs(home, window_turns=50, clock=lambda: 0.0)
    files = WholeFiles(home)
    sessions = Sessions(turn_logs, files, CompactionLimits(), lambda file: None)

    def change(number: int) -> Change:
        document = sessions.view("main", "main").document
        facts = (*document.facts, f"fact {number}")
        return sessions.write("main", "main", document.model_copy(update={"facts": facts}))

    return Stored(
        [turn_logs, files, sessions],
        lambda: len(sessions.view("main", "main").document.facts),
        0,
        change,
        lambda number: number,
    )


STORES = [whole_files, working_memory, turns, documents]


@pytest.fixture(params=STORES, ids=[make.__name__ for make in STORES])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Stored:
    made: Stored = request.param(tmp_path)
    return made


def write(home: Path, changes: Sequence[Change]) -> None:
    """Do what the projections do."""
    for change in changes:
        path = home / change.file
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(change, FileRemoved):
            path.unlink()
        elif isinstance(change, FileWritten):
            path.write_bytes(change.data)
        else:
            with path.open("ab") as file:
                file.write(change.data)


def decide(stored: Stored, *numbers: int) -> list[Change]:
    """Decide changes one upon another, each seen before the next."""
    changes = []
    for number in numbers:
        changes.append(stored.change(number))
        UnitOfWork(stored.stores).apply(changes[-1:])
        assert stored.view() == stored.shown(number)
    return changes


def test_a_decision_sees_earlier_ones_of_its_batch(stored: Stored) -> None:
    assert stored.view() == stored.empty
    decide(stored, 1, 2, 3)


def test_what_was_written_is_there_in_the_next_batch(stored: Stored, tmp_path: Path) -> None:
    stored.view()
    changes = decide(stored, 1, 2)
    write(tmp_path, changes)
    UnitOfWork(stored.stores).end_batch(changes)
    assert stored.view() == stored.shown(2)
    decide(stored, 3)


def test_what_could_not_be_written_is_forgotten(stored: Stored, tmp_path: Path) -> None:
    stored.view()
    first = decide(stored, 1)
    write(tmp_path, first)
    UnitOfWork(stored.stores).end_batch(first)
    stored.view()
    decide(stored, 2, 3)
    UnitOfWork(stored.stores).end_batch(())
    assert stored.view() == stored.shown(1)


def test_what_a_person_wrote_between_two_batches_is_seen(stored: Stored, tmp_path: Path) -> None:
    stored.view()
    change = stored.change(1)
    UnitOfWork(stored.stores).end_batch(())
    write(tmp_path, [change])  # as an editor, a restored backup, or the run before
    assert stored.view() == stored.shown(1)
