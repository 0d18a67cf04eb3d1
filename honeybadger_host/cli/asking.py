"""How a command asks the host, which is started for this one request where none runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from honeybadger_agent.cli.terminal import patience
from honeybadger_agent.mailbox import GLOBAL_GROUP, NAME
from honeybadger_host.errors import HostError, NotFound


def check_group(folder: Path, group: str) -> None:
    """See that a home has such a group. Exits when it has none."""
    if not NAME.fullmatch(group):
        raise typer.BadParameter(f"{group!r} is not a name the protocol allows")
    if group == GLOBAL_GROUP:
        return
    if not (folder / "groups" / group).is_dir() and not (folder / "data" / "sessions" / group).is_dir():
        raise NotFound(f"{folder} has no group {group!r}")


def asked_of(
    call: typer.Context,
    folder: Path,
    group: str,
    type_name: str,
    payload: Mapping[str, Any],
    *,
    session: str | None = None,
    wait_seconds: float = 30.0,
    keeps_house: bool = False,
) -> Mapping[str, Any]:
    """Return what the host answers the operator, and start it for this one request where none runs."""
    from honeybadger_agent.mailbox import BadName
    from honeybadger_host.ops.operator_client import ask
    from honeybadger_host.settings import load_settings

    print_warnings_only(call)
    check_group(folder, group)
    settings = load_settings(folder).settings

    def serve(inbox: Path) -> None:
        from honeybadger_host import daemon

        daemon.serve_box(folder, settings, inbox, searched=group, keeps_house=keeps_house)

    given = {name: value for name, value in payload.items() if value is not None}
    try:
        with patience(lambda: "waiting for the host"):
            reply = ask(folder, group, type_name, given, serve=serve, session=session, wait_seconds=wait_seconds)
    except BadName as error:
        raise typer.BadParameter(str(error)) from None
    if reply.error is None:
        return reply.result or {}
    if reply.error.code in ("invalid", "too_large"):
        raise typer.BadParameter(reply.error.message.replace("payload.", ""))
    raise (NotFound if reply.error.code == "not_found" else HostError)(reply.error.message)


def print_warnings_only(call: typer.Context) -> None:
    """Keep what the parts of a host log out of a command's output: warnings go to standard error."""
    from honeybadger_host.observe import warnings_to_stderr

    call.with_resource(warnings_to_stderr())
