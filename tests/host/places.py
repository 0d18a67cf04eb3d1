"""Senders on disk, with the rooms that serve them."""

import json
from pathlib import Path

from honeybadger_host.spool.dead_letters import DeadLetters
from honeybadger_host.spool.inbox import Inbox, OpenInbox
from honeybadger_host.spool.replies import ReplyRetention
from honeybadger_host.spool.spool import Spool


class Place:
    """A spool with senders, as they are on disk."""

    def __init__(self, root: Path, senders: dict[tuple[str, str], int | None] | None = None) -> None:
        self.ipc = root / "ipc"
        self.dead = root / "dead"
        self.ipc.mkdir()
        self.spool = Spool(self.ipc, senders=senders)
        self.replies = ReplyRetention(self.spool, ttl_seconds=3600)
        self.dead_letters = DeadLetters(self.dead)

    def sender(self, group: str, sender: str, *names: str) -> Path:
        """Make a box with requests; return its folder."""
        root = self.ipc / group / sender
        for folder in ("tmp", "requests", "replies"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        for name in names:
            (root / "requests" / name).write_bytes(b"{}")
        return root

    def sweep(self, now: float = 0.0) -> list[Inbox]:
        """Find and list every box."""
        self.spool.mark(None)
        self.spool.look(now)
        return self.spool.senders_inboxes

    def take(self, most: int = 512) -> list[str]:
        """Return `group/sender/name` of what is taken."""
        return [f"{box.group}/{box.sender}/{name}" for name, box in self.spool.take(most)]

    def take_all(self) -> list[str]:
        """Return the names that are taken until nothing is left of any listing."""
        names: list[str] = []
        while taken := self.spool.take(512):
            names += [name for name, _ in taken]
        return names

    def open(self, box: Inbox) -> OpenInbox:
        opened = self.spool.open(box)
        assert opened is not None
        return opened

    def buried(self) -> dict[str, dict[str, str]]:
        """Return the reasons in `dead/`, by file name."""
        return {path.name: json.loads(path.read_bytes()) for path in self.dead.glob("*/*/*.reason.json")}
