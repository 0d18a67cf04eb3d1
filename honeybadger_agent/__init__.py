"""The package that an agent installs: a client for the file protocol. It knows nothing of the host.

Names are imported when they are first used: importing pydantic takes 0.1 s, and `--help` does not need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from honeybadger_agent.client import Client, SyncClient
    from honeybadger_agent.errors import AgentError, NoHome, ReplyTimeout, RequestFailed
    from honeybadger_agent.mailbox import Mailbox, new_id

__all__ = ["AgentError", "Client", "Mailbox", "NoHome", "ReplyTimeout", "RequestFailed", "SyncClient", "new_id"]

_MODULES = {
    "AgentError": "errors",
    "Client": "client",
    "Mailbox": "mailbox",
    "NoHome": "errors",
    "ReplyTimeout": "errors",
    "RequestFailed": "errors",
    "SyncClient": "client",
    "new_id": "mailbox",
}

if not TYPE_CHECKING:  # else a type checker would accept any name

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        return value


def installed_version() -> str:
    """Return the version of the installed distribution, the host's or the agent's; empty: neither is installed."""
    from importlib import metadata  # 15 ms

    for distribution in ("honeybadger-host", "honeybadger-agent"):
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return ""
