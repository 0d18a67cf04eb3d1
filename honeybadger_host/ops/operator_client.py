"""Requests of the operator's commands and page to the host, sent through the inbox of the sender `operator`."""

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from honeybadger_agent.mailbox import OPERATOR, REQUESTS, Mailbox, new_id
from honeybadger_agent.wire import Reply, Request, dump_request
from honeybadger_host.errors import HomeError, HomeLocked, HostError
from honeybadger_host.files.home import check_home, is_served

_LOOK_SECONDS = 0.001  # between two looks for a reply
WAIT_SECONDS = 30.0  # for a reply, in addition to the request's own time


class NoAnswer(HostError):
    """The host did not answer in time. The request is taken back: no later host does it."""


def ask(
    home: Path,
    group: str,
    request: Request[Any],
    *,
    serve: Callable[[Path], None],
    session: str = "main",
) -> Reply:
    """Return the reply to a request of the operator: of the running host, or of `serve` if no host runs.

    Args:
        serve: serves an inbox once. Raises HomeLocked if a host was started meanwhile.
    Raises NoAnswer; OSError if the inbox cannot be used; and as `serve`.
    """
    check_home(home)
    check_owner(home)
    mailbox = Mailbox.of(home, group, OPERATOR)
    request_id = new_id()
    mailbox.create()
    mailbox.publish(
        request_id,
        dump_request(request_id, request.type_name, request, session=session),
        is_durable=request.changes,
    )
    return reply_to(home, mailbox, request_id, serve, WAIT_SECONDS + request.may_take)


def reply_to(home: Path, mailbox: Mailbox, request_id: str, serve: Callable[[Path], None], seconds: float) -> Reply:
    """Return the reply to a request that was sent, see `ask`. Raises NoAnswer, and as `serve`."""
    deadline = time.monotonic() + seconds
    try:
        while (data := mailbox.reply(request_id)) is None:
            if time.monotonic() > deadline:
                raise NoAnswer(
                    f"the host that serves {home} did not answer in {seconds:g} s: see whether it hangs with "
                    f"`honeybadger-host status`; what was asked is taken back, unless it has begun: see the log"
                )
            if is_served(home):
                time.sleep(_LOOK_SECONDS)
                continue
            with contextlib.suppress(HomeLocked):  # a host was started meanwhile and answers
                serve(mailbox.root)
    except BaseException:
        with contextlib.suppress(OSError):
            mailbox.path(REQUESTS, request_id).unlink()
        raise
    mailbox.discard_reply(request_id)
    return Reply.model_validate(orjson.loads(data))


def check_owner(home: Path) -> None:
    """Raise HomeError if a home is another user's: requests of the operator must belong to the host's user."""
    owner = os.stat(home / "data").st_uid
    if owner != os.geteuid():
        raise HomeError(f"{home / 'data'} belongs to uid {owner}: run this as that user")
