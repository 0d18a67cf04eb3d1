"""When groups dream by themselves."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from honeybadger_host.curation.dreams import DueDreams
from honeybadger_host.memory.injection_ledger import InjectionLedger
from honeybadger_host.memory.turn_log_store import Watermark, dreamt_file, dump_watermark
from honeybadger_host.work.times import Cron

MADE = datetime(2026, 11, 1, 12, tzinfo=UTC)


def test_missed_nights_count_as_one_across_restarts(home: Path) -> None:
    ledger, now = InjectionLedger(home, clock=MADE.timestamp), MADE

    def restarted() -> DueDreams:
        return DueDreams(home, Cron("30 3 * * *", ZoneInfo("UTC")), ledger, lambda: now)

    def at(day: int, hour: int, minute: int = 0) -> list[str]:
        nonlocal now
        now = datetime(2026, 11, day, hour, minute, tzinfo=UTC)
        return due.groups()

    def write(file: str, data: bytes = b"A note.\n") -> None:
        path = home / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, (now.timestamp(), now.timestamp()))

    due = restarted()
    write("groups/main/MEMORY.md")
    assert (at(1, 23), at(2, 3, 29), at(2, 3, 30), at(2, 3, 31)) == ([], [], ["main"], [])
    assert at(5, 12) == ["main"]
    due = restarted()
    assert at(5, 12, 1) == ["main"]  # it did not come to it
    write(dreamt_file("main"), dump_watermark(Watermark(turn=0, at=now)))
    write("groups/main/MEMORY.md")
    due = restarted()
    assert at(5, 12, 6) == []
    assert at(6, 4) == []  # what was changed in the same second is not newer
    write("groups/main/MEMORY.md")
    assert at(7, 4) == ["main"]
    ledger.close()
