"""Finds the groups that are due to dream: by schedule, once they are quiet, if there is something new (RB9)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import structlog

from honeybadger_agent.mailbox import GLOBAL_GROUP
from honeybadger_host.memory.feedback import feedback_file
from honeybadger_host.memory.injection_ledger import InjectionLedger
from honeybadger_host.memory.watermarks import Watermarks, dreamt_file
from honeybadger_host.search.sources import groups_of, is_archive, sources
from honeybadger_host.work.times import Cron, next_run

log = structlog.get_logger()

QUIET_SECONDS = 30.0
_BEGINNING: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class DueDreams:
    """Finds the groups that are due. One thread at a time.

    Args:
        ledger: knows since when this home is curated.
        _looked: group -> time when it was last found due, with or without something new.
    """

    home: Path
    schedule: Cron
    ledger: InjectionLedger
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    _looked: dict[str, datetime] = field(default_factory=dict)

    def groups(self) -> list[str]:
        """Return the groups that are due to dream now; missed times count once."""
        now = self.clock()
        due: list[str] = []
        for name in groups_of(self.home):
            try:
                if name != GLOBAL_GROUP and not is_archive(name) and self._is_due(name, now):
                    due.append(name)
            except OSError as error:  # a file was removed meanwhile, or the disk fails: the next look tells
                log.warning("dream.not_looked_at", group=name, why=str(error))
        return due

    def _is_due(self, group: str, now: datetime) -> bool:
        dreamt = self._dreamt(group)
        since = max(dreamt or self.ledger.last_recalled(group)[1], self._looked.get(group, _BEGINNING))
        run = next_run(self.schedule, min(since, now))  # a time from a clock that was ahead must not delay it
        if run is None or run > now:
            return False
        changed = self._changed(group)
        if changed is not None and timedelta() <= now - changed < timedelta(seconds=QUIET_SECONDS):
            return False
        self._looked[group] = now
        return changed is not None and (dreamt is None or changed > dreamt)

    def _dreamt(self, group: str) -> datetime | None:
        """Return the time of a group's last dream; None when there was none or it cannot be read."""
        file = dreamt_file(group)
        mark = Watermarks(self.home).of(file)
        if mark is None or mark.at is None:
            return None
        return max(mark.at, datetime.fromtimestamp((self.home / file).stat().st_mtime, UTC))

    def _changed(self, group: str) -> datetime | None:
        """Return the time of the last change in a group's memory; None when it has none."""
        newest = max((signature.mtime_ns for _, signature in sources(self.home, group, set())), default=0)
        feedback = self.home / feedback_file(group)
        if feedback.is_file():
            newest = max(newest, feedback.stat().st_mtime_ns)
        return datetime.fromtimestamp(newest / 1e9, UTC) if newest else None
