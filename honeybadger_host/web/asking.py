"""Access to the host: requests through the operator's inbox, and files of the home."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from honeybadger_agent.client import result_of
from honeybadger_agent.errors import Conflict, Invalid, NotFound, RequestFailed
from honeybadger_agent.mailbox import GLOBAL_GROUP, NAME, OPERATOR, SESSION, TURNS, Mailbox, new_id
from honeybadger_agent.tools import made
from honeybadger_agent.wire import Chat, Request, ResultT, dump_request
from honeybadger_host.curation.passes import newest_sessions
from honeybadger_host.files.home import JOURNAL_FILE, groups_in, is_served
from honeybadger_host.observe import read_status
from honeybadger_host.ops.operator_client import NoAnswer, ask

__all__ = ["Conflict", "Home", "HostDown", "Invalid", "NoAnswer", "NotFound", "RequestFailed", "made"]


class HostDown(Exception):
    """No host serves the home; nothing was sent."""


def _serve(inbox: Path) -> None:
    """Raise HostDown: a command starts a host for its request, the page does not."""
    raise HostDown


@dataclass(frozen=True, slots=True)
class Home:
    """A home as the page knows it. Any thread.

    Args:
        may_write: whether the page may change anything.
    """

    path: Path
    may_write: bool

    @property
    def journal(self) -> Path:
        return self.path / JOURNAL_FILE

    def ask(self, group: str, request: Request[ResultT], *, session: str = "main") -> tuple[ResultT, int | None]:
        """Return the host's answer, and the number of the change that it made, or None if it made none.

        Raises RequestFailed, as `honeybadger_agent.errors` lists; HostDown; NoAnswer; OSError.
        """
        self._check(group)
        reply = ask(self.path, group, request, serve=_serve, session=session)
        return result_of(reply, request), reply.seq

    def say(self, group: str, chat: Chat, *, session: str) -> str:
        """Send a message to an agent and return its id, without waiting for the answer. Raises as `ask`."""
        self._check(group)
        mailbox, turn = self.mailbox(group), new_id()
        mailbox.create()
        mailbox.publish(turn, dump_request(turn, chat.type_name, chat, session=session), TURNS)
        return turn

    def mailbox(self, group: str) -> Mailbox:
        return Mailbox.of(self.path, group, OPERATOR)

    def _check(self, group: str) -> None:
        """Raise NotFound if there is no such group, HostDown if no host serves the home."""
        if not self.has_group(group):
            raise NotFound(f"there is no group {group!r}")
        if not is_served(self.path):
            raise HostDown

    def has_group(self, group: str) -> bool:
        """Return whether a group exists: a request in another one would create it."""
        if not NAME.fullmatch(group) or group == GLOBAL_GROUP:
            return False
        return any((self.path / folder / group).is_dir() for folder in ("groups", "data/ipc", "data/sessions"))

    def sessions(self, group: str) -> list[str]:
        """Return the sessions of a group with the newest turns, newest first."""
        return [name for _, name in newest_sessions(self.path, group) if SESSION.fullmatch(name)]

    def any_group(self) -> str:
        """Return any group, for requests that belong to none."""
        return next((name for name in groups_in(self.path) if name != GLOBAL_GROUP), "main")

    def status(self) -> dict[str, Any]:
        """Return the host's last status; empty: no host serves the home, or it has not written one."""
        return read_status(self.path)

    def agents(self) -> list[str]:
        """Return the agents in the host's last status."""
        return [str(name) for name in self.status().get("agents", {}).get("known", [])]
