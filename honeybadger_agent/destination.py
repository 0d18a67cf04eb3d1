"""The destination of a client's requests: a sender's mailbox in a home, a mounted folder, or servers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from honeybadger_agent.errors import AgentError, NoMailbox
from honeybadger_agent.home import find_home
from honeybadger_agent.mailbox import REQUESTS, BadName, Mailbox
from honeybadger_agent.wording import AGENT_EXTRA

if TYPE_CHECKING:
    from honeybadger_agent.relay import Place


def box_in(home: str | os.PathLike[str] | None, group: str | None, sender: str | None) -> Mailbox:
    """Return the mailbox of a sender in a home. Raises `NoHome`, `NoMailbox`."""
    try:
        return Mailbox.of(find_home(home), named(group, "GROUP", "main"), named(sender, "SENDER", "user"))
    except BadName as error:
        raise NoMailbox(str(error)) from None


def place_of(
    server: str | None,
    home: str | os.PathLike[str] | None,
    group: str | None,
    sender: str | None,
    credentials: str | os.PathLike[str] | None,
) -> Place:
    """Return the subjects of a sender's requests over NATS. Raises `AgentError` if the extra is missing."""
    try:
        from honeybadger_agent.relay import Place
    except ImportError as error:
        raise AgentError(f"a server needs the extra cluster ({error}): {AGENT_EXTRA.format('cluster')}") from None
    home = os.fspath(home) if home is not None else os.environ.get("HONEYBADGER_HOME", "")
    key = os.fspath(credentials) if credentials is not None else os.environ.get("HONEYBADGER_CREDENTIALS", "")
    server = named(server, "SERVER", "nats://127.0.0.1:4222")
    return Place(server, home, named(group, "GROUP", "main"), named(sender, "SENDER", "user"), key)


def box_at(box: str | os.PathLike[str]) -> Mailbox:
    """Return the mailbox in a folder. Raises `NoMailbox` if the folder does not exist, or has other files."""
    root = Path(box)
    why = "it is empty"
    if os.fspath(box):
        try:
            if (root / REQUESTS).is_dir() or not os.listdir(root):
                return Mailbox(root)
            why = f"it has other files and no {REQUESTS}/"
        except OSError as error:
            why = error.strerror or "it cannot be read"
    raise NoMailbox(
        f"{os.fspath(box)!r} is not a mailbox: {why}. Mount the sender's folder there: data/ipc/<group>/<sender> below "
        f"the home folder"
    )


def named(given: str | None, variable: str, default: str) -> str:
    """Return a name that was given, else the environment's. An empty argument counts as given."""
    return os.environ.get(f"HONEYBADGER_{variable}") or default if given is None else given
