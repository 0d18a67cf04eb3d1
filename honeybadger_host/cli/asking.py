"""Requests of commands to the host; if none runs, one is started for the request."""

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import Any, Final

import typer

from honeybadger_agent.cli.terminal import patience
from honeybadger_agent.mailbox import GLOBAL_GROUP, checked_name
from honeybadger_agent.wire import (
    REQUEST_TYPES,
    Consolidate,
    Dream,
    Forget,
    Refusal,
    Reply,
    Request,
    Undo,
    parse_members,
)
from honeybadger_agent.wording import as_typed
from honeybadger_host.configuration import load_settings
from honeybadger_host.errors import HostError, NotFound
from honeybadger_host.files.home import JOURNAL_FILE, groups_in

_SAVING_SECONDS: Final = 3.0  # a file that was just saved can be changed after this time


def check_group(folder: Path, group: str) -> None:
    """Exit with an error if a home has no such group."""
    from honeybadger_host.journal.reader import LogFilter, read_log

    checked_name("group", group)
    if group == GLOBAL_GROUP:
        return
    if not any((folder / part / group).is_dir() for part in ("groups", "data/sessions")):
        if (folder / JOURNAL_FILE).exists() and read_log(folder / JOURNAL_FILE, LogFilter(group), 1):
            return  # its files are on another machine, or its folder was removed
        raise NotFound(f"{folder} has no group {group!r}: `honeybadger-host groups` lists them")


def inbox_group(folder: Path) -> str:
    """Return any group, for requests that belong to all. Raises NotFound if there is none."""
    found = next((name for name in groups_in(folder) if name != GLOBAL_GROUP), None)
    if found is None:
        command = f"honeybadger-host init {quote(str(folder))} --group NAME"
        raise NotFound(f"{folder} has no group yet: `{command}` makes one")
    return found


def asked_of(
    folder: Path,
    group: str,
    type_name: str,
    payload: Mapping[str, Any],
    *,
    session: str = "main",
) -> Mapping[str, Any]:
    """Return the host's answer to the operator; if none runs, start one for this request.

    Args:
        payload: members that are None are left out.
    """
    check_group(folder, group)
    given = {name: value for name, value in payload.items() if value is not None}
    try:
        request = parse_members(REQUEST_TYPES[type_name], given)
    except Refusal as refusal:
        raise typer.BadParameter(_as_typed(refusal.message)) from None
    return reply_to(folder, group, request, session=session).result or {}


def reply_to(folder: Path, group: str, request: Request[Any], *, session: str = "main") -> Reply:
    """Return the host's reply to the operator; if none runs, start one for this request.

    Raises NotFound, HostError, BadParameter if it is a refusal.
    """
    from honeybadger_host.observe import warn_on_stderr
    from honeybadger_host.ops.operator_client import ask

    settings = load_settings(folder).settings

    def serve(inbox: Path) -> None:
        from honeybadger_host import daemon

        searched = None if isinstance(request, Undo) else group
        daemon.serve_box(folder, settings, inbox, searched=searched, keeps_house=isinstance(request, Forget))

    warn_on_stderr()
    with patience():
        until = time.monotonic() + _SAVING_SECONDS
        while True:
            reply = ask(folder, group, request, serve=serve, session=session)
            is_final = reply.error is None or reply.error.code != "unavailable" or time.monotonic() > until
            if is_final or isinstance(request, Consolidate | Dream):  # each attempt asks a model, which costs
                break
            time.sleep(0.2)
    if reply.error is None:
        return reply
    if reply.error.code in ("invalid", "too_large"):
        raise typer.BadParameter(_as_typed(reply.error.message))
    raise (NotFound if reply.error.code == "not_found" else HostError)(_as_typed(reply.error.message))


def _as_typed(message: str) -> str:
    """Return a message about a request's members in the words of the command that is running."""
    options = [word.partition("=")[0] for word in sys.argv if word.startswith("--")]
    return as_typed(message, {option[2:].replace("-", "_"): option for option in options})
