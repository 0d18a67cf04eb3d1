"""When groups dream by themselves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from honeybadger_host.curation.dreams import DueDreams
from honeybadger_host.memory.injection_ledger import InjectionLedger
from honeybadger_host.memory.turn_log_store import Watermark, dreamt_file, dump_watermark
from honeybadger_host.work.times import Cron

MADE = datetime(2026, 11, 1, 12, tzinfo=UTC)


class World:
    """A home and its clock."""

    def __init__(self, home: Path, ledger: InjectionLedger) -> None:
        self.home = home
        self.ledger = ledger
        self.now = MADE
        self.restart()

    def restart(self) -> None:
        self.due = DueDreams(self.home, Cron("30 3 * * *", ZoneInfo("UTC")), self.ledger, lambda: self.now)

    def at(self, day: int, hour: int, minute: int = 0) -> list[str]:
        self.now = datetime(2026, 11, day, hour, minute, tzinfo=UTC)
        return self.due.groups()

    def write(self, file: str = "groups/main/MEMORY.md", data: bytes = b"A note.\n") -> None:
        """Write a file now."""
        path = self.home / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, (self.now.timestamp(), self.now.timestamp()))

    def dream(self) -> None:
        """Leave what a dream of now leaves."""
        self.write(dreamt_file("main"), dump_watermark(Watermark(turn=0, at=self.now)))


@pytest.fixture
def world(home: Path) -> Iterator[World]:
    ledger = InjectionLedger(home, clock=MADE.timestamp)
    yield World(home, ledger)
    ledger.close()


def test_missed_nights_count_as_one_across_restarts(world: World) -> None:
    world.write()
    assert (world.at(1, 23), world.at(2, 3, 29), world.at(2, 3, 30), world.at(2, 3, 31)) == ([], [], ["main"], [])
    assert world.at(5, 12) == ["main"]
    world.restart()
    assert world.at(5, 12, 1) == ["main"]  # it did not come to it
    world.dream()
    world.write()
    world.now += timedelta(minutes=5)
    world.restart()
    assert world.due.groups() == []
    assert world.at(6, 4) == []  # what was changed in the same second is not newer
    world.write()
    assert world.at(7, 4) == ["main"]
