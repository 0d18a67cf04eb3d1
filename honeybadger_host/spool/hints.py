"""Inboxes that may have new files: some after a file event, all at a sweep."""

from __future__ import annotations

import time

from honeybadger_agent.mailbox import TURNS
from honeybadger_host.spool.inbox import Inbox
from honeybadger_host.spool.spool import Spool

# Sweeps after which turns/ is looked into that nothing was heard of (1 s by default): a model takes longer.
_TURNS_EVERY = 4
_DISTRUST_EVERY = 20  # sweeps after which every folder is listed, whatever its time stamp says (5 s by default)


class Hints:
    """Collects file events. `add` on any thread; `look` on one at a time."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._hinted: dict[str, None] = {}
        self._is_everywhere = True
        self.sweeps = 0
        self.sweep_cost = 0.0
        """Seconds of processor time that the last look into all inboxes took."""

    def add(self, inbox_path: str | None) -> None:
        """Note where something came; None: look everywhere."""
        if inbox_path is None:
            self._is_everywhere = True
        else:
            self._hinted[inbox_path] = None

    def only(self, inbox_path: str) -> None:
        """Look into one inbox, and into no other that nothing is heard of."""
        self._is_everywhere = False
        self.add(inbox_path)

    def look(self, now: float) -> None:
        """List the inboxes that were hinted; at a sweep all, with `turns/` of all now and then."""
        both = self._taken()
        swept: list[Inbox] = []
        begun = time.thread_time()
        if is_sweep := self._is_everywhere:
            self._is_everywhere = False
            if self.sweeps % _DISTRUST_EVERY == 0:
                self._spool.distrust()
            self._spool.discover()
            swept = list(self._spool.inboxes.values())
            if self.sweeps % _TURNS_EVERY == 0:
                both = dict.fromkeys(swept)
            self.sweeps += 1
        for inbox in dict.fromkeys((*both, *self._spool.expected, *swept)):
            for one in inbox.both if inbox in both else (inbox,):
                if not self._spool.scan(one, now):
                    self.add(inbox.path)
        if is_sweep:
            self.sweep_cost = time.thread_time() - begun

    def _taken(self) -> dict[Inbox, None]:
        """Take the hints; one of an inbox that is not known yet makes a sweep."""
        found: dict[Inbox, None] = {}
        known = self._spool.inboxes
        while self._hinted:
            try:
                path, _ = self._hinted.popitem()
            except KeyError:
                break
            if (inbox := known.get(path) or known.get(path.removesuffix(f"/{TURNS}"))) is not None:
                found[inbox] = None
            elif path:
                self._is_everywhere = True
        return found
