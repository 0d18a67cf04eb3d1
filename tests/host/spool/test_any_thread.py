"""Any thread may read this while the event loop, or another thread, changes it; threads switch every few bytecodes."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from honeybadger_host.journal.changes import WholeFiles
from honeybadger_host.spool.turn_queue import TurnQueue
from honeybadger_host.spool.unbatched import Unbatched

NOTHING = cast(Any, None)  # A part that neither side of a case uses


@pytest.fixture(autouse=True)
def switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def case_of(name: str, folder: Path) -> tuple[Callable[[], object], Callable[[int], object]]:
    """Return what is read, and what changes it."""
    if name == "Unbatched.busy":
        queue = TurnQueue(NOTHING, NOTHING, NOTHING, at_once=1)
        unbatched = Unbatched(NOTHING, queue, NOTHING, NOTHING, NOTHING, NOTHING)

        def count(number: int) -> None:
            unbatched._queries[str(number % 300)] += 1
            if number % 300 == 0:
                unbatched._queries.clear()

        return lambda: unbatched.busy, count
    files = WholeFiles(folder)

    def load(number: int) -> None:
        files.view(f"groups/main/{number % 300}.json")
        if number % 300 == 0:
            files.end_batch(())

    return lambda: files.below("groups"), load


@pytest.mark.parametrize("name", ["Unbatched.busy", "WholeFiles.below"])
def test_shared_values_can_be_read_while_they_change(name: str, tmp_path: Path) -> None:
    read, change = case_of(name, tmp_path)
    is_over = threading.Event()

    def go_on() -> None:
        number = 0
        while not is_over.is_set():
            change(number := number + 1)

    changing = threading.Thread(target=go_on)
    changing.start()
    try:
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            read()
    finally:
        is_over.set()
        changing.join()
