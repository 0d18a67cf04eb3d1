"""What was committed and written takes no room in memory."""

from __future__ import annotations

import threading
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path

from honeybadger_host.documents.projections import Documents, Projections
from honeybadger_host.files.home import JOURNAL_FILE
from honeybadger_host.files.unsynced import Unsynced
from honeybadger_host.journal.changes import TurnAdded
from honeybadger_host.journal.journal import Journal
from honeybadger_host.memory.peoples_files import document_group, name_of
from honeybadger_host.memory.turn_log import dump_turn
from honeybadger_host.observe import Counters
from honeybadger_host.spool.batch_writer import BatchWriter
from honeybadger_host.spool.inbox import Inbox
from honeybadger_host.spool.request import Decided, QueuedRequest
from honeybadger_host.text.turn import Turn
from tests.host.indexes import made

_TURNS = 2000
_AT = datetime(2026, 11, 23, tzinfo=UTC)


def test_a_change_that_is_written_takes_no_memory(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    journal = Journal.open(tmp_path / JOURNAL_FILE)
    made.append(journal)
    unsynced = Unsynced(tmp_path)
    documents = Documents(tmp_path, journal, unsynced, group_of=document_group, author_of=name_of)
    projections = Projections(tmp_path, documents, unsynced)
    writer = BatchWriter(
        journal,
        projections,
        Counters(),
        stopping=threading.Event(),
        refuse=lambda request, error: None,
        passed=lambda point: None,
    )

    def write(first: int, count: int) -> int:
        """Write turns; return how many bytes they have."""
        turns = [Turn(number, _AT, "user", "a", "a", "word " * 60, 60) for number in range(first, first + count)]
        changes = [TurnAdded("main", "s", turn, dump_turn(turn, "r")) for turn in turns]
        request = QueuedRequest(Inbox("main", "a", ""), "r", f"r{first}", 0.0, 0.0)
        decided = Decided(changes, first + count - 1, b"", b"{}")
        assert writer.commit_and_project([(request, decided)]) == changes
        return sum(len(change.data) for change in changes)

    write(1, 10)  # what is made once
    tracemalloc.start()
    try:
        size = write(11, _TURNS)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert projections.look().unsettled == {}
    assert held < size  # what is written is not kept
