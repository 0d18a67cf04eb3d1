"""Any thread may read this while the event loop, or another thread, changes it; threads switch every few bytecodes."""

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from honeybadger_host.journal.changes import WholeFiles


@pytest.fixture
def switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("switches")
def test_files_can_be_listed_while_they_change(tmp_path: Path) -> None:
    files, is_over = WholeFiles(tmp_path), threading.Event()

    def go_on() -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            files.load(f"groups/main/{number % 300}.json")
            if number % 300 == 0:
                files.end_batch(())

    changing = threading.Thread(target=go_on)
    changing.start()
    try:
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            files.below("groups")
    finally:
        is_over.set()
        changing.join()
