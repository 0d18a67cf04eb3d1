"""Checked members of the addresses and forms that a browser sends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Mapping
from typing import Final
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from honeybadger_host.web.asking import Home, Invalid, NotFound
from honeybadger_host.web.guards import MAX_BODY_BYTES
from honeybadger_host.web.rendering import Shown

PER_PAGE: Final = 50  # rows of a table on one page


def home_of(request: Request) -> Home:
    home: Home = request.app.state.home
    return home


def group_of(request: Request) -> str:
    """Return the group in an address. Raises NotFound."""
    group = str(request.path_params["group"])
    if not home_of(request).has_group(group):
        raise NotFound(f"there is no group {group[:64]!r}")
    return group


def shown_of(request: Request) -> Shown:
    """Return the values that every page shows."""
    home, group = home_of(request), str(request.path_params.get("group", ""))
    return Shown(group if home.has_group(group) else None, home.may_write)


def member(request: Request, name: str, most: int = 4096) -> str | None:
    """Return a member of an address, or None if it is empty. Raises Invalid."""
    value = request.query_params.get(name, "").strip()
    if len(value) > most:
        raise Invalid(f"{name} has {len(value)} characters, the limit is {most}")
    return value or None


def number(request: Request, name: str) -> int:
    """Return a number in an address, 0 where it is missing. Raises Invalid."""
    return checked_number(request.query_params.get(name) or "0", name)


def checked_number(text: str, name: str) -> int:
    """Return the number in a text. Raises Invalid."""
    if not (text.isascii() and text.isdigit()) or len(text) > 16:
        raise Invalid(f"{name} is not a number from 0 on")
    return int(text)


def action_in(form: Mapping[str, str], actions: Container[str]) -> str:
    """Return the action that a form asks for. Raises Invalid."""
    action = form.get("action", "")
    if action not in actions:
        raise Invalid("that cannot be done here: load the page again")
    return action


async def _form_of(request: Request) -> dict[str, str]:
    """Return the members of a form, each once, with one kind of line end. Raises Invalid."""
    body = await request.body()
    if len(body) > MAX_BODY_BYTES:
        raise Invalid(f"the form has {len(body)} bytes, the limit is {MAX_BODY_BYTES}")
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=100, errors="strict")
    except ValueError:
        raise Invalid("that is not a form in UTF-8") from None
    typed = {name: value.replace("\r\n", "\n") for name, value in pairs}
    request.state.typed = typed
    return typed


def posted(change: Callable[[Request, dict[str, str]], Response]) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint that reads a form and passes its members to `change` on a thread."""

    async def answer(request: Request) -> Response:
        return await run_in_threadpool(change, request, await _form_of(request))

    return answer


def go(address: str) -> Response:
    """Return a redirect to another page, the answer to a change."""
    return RedirectResponse(address, 303)
