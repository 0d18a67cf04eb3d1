"""What was committed is kept in memory until it is settled, and takes no more room there than it has bytes."""

from __future__ import annotations

import threading
import time
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path

from honeybadger_host.domain import Turn, TurnAdded
from honeybadger_host.memory.turn_log import dump_turn
from honeybadger_host.observe import Counters
from honeybadger_host.spool.batch_writer import BatchWriter
from honeybadger_host.spool.inbox import Inbox
from honeybadger_host.spool.request import Decided, QueuedRequest
from honeybadger_host.storage.home import JOURNAL_FILE
from honeybadger_host.storage.journal import Journal
from honeybadger_host.storage.projections import Projections
from tests.host.indexes import made

_TURNS = 2000
_AT = datetime(2026, 11, 23, tzinfo=UTC)


def test_a_change_that_settles_takes_no_more_memory_than_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    journal = Journal.open(tmp_path / JOURNAL_FILE)
    made.append(journal)
    projections = Projections(tmp_path, settle_seconds=60, count_projected=journal.count_projected)
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
    assert projections.settle(time.monotonic()).unsettled
    assert size < held < 3 * size  # the bytes that orjson gives take 4 to 10 times
