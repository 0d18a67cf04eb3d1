"""Checked members of the addresses and forms that a browser sends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from honeybadger_agent.wire import Request as Asked
from honeybadger_agent.wire import ResultT
from honeybadger_host.web.asking import Home, Invalid, NotFound
from honeybadger_host.web.rendering import Shown, page

PER_PAGE: Final = 50  # rows of a table on one page


class Visit(NamedTuple):
    """A request of a browser for a page, or for a change.

    Args:
        group: the group in the address, which exists; empty: the address names none.
        path: the members of the address's path.
        query: the members of its query.
    """

    home: Home
    group: str
    path: Mapping[str, Any]
    query: QueryParams

    def read(self, asked: Asked[ResultT], *, session: str = "main") -> ResultT:
        """Return the host's answer to a question about the group. Raises as `Home.ask`."""
        return self.home.ask(self.group, asked, session=session)[0]

    def ask(self, asked: Asked[ResultT], *, session: str = "main") -> tuple[ResultT, int | None]:
        """Return the host's answer about the group, and the number of the change. Raises as `Home.ask`."""
        return self.home.ask(self.group, asked, session=session)

    def page(self, name: str, *, code: int = 200, **values: Any) -> Response:
        """Return a page made from a template."""
        return page(name, Shown(self.group or None, self.home.may_write), code=code, **values)

    def member(self, name: str, most: int = 4096) -> str | None:
        """Return a member of the query, or None if it is empty. Raises Invalid."""
        value = self.query.get(name, "").strip()
        if len(value) > most:
            raise Invalid(f"{name} has {len(value)} characters, the limit is {most}")
        return value or None

    def number(self, name: str) -> int:
        """Return a number in the query, 0 where it is missing. Raises Invalid."""
        return checked_number(self.query.get(name) or "0", name)


def _visit(request: Request) -> Visit:
    """Return a request with its group checked. Raises NotFound."""
    home: Home = request.app.state.home
    group = str(request.path_params.get("group", ""))
    if "group" in request.path_params and not home.has_group(group):
        raise NotFound(f"there is no group {group[:64]!r}")
    return Visit(home, group, request.path_params, request.query_params)


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
    body = await request.body()  # the guards have checked its size
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=100, errors="strict")
    except ValueError:
        raise Invalid("that is not a form in UTF-8") from None
    typed = {name: value.replace("\r\n", "\n") for name, value in pairs}
    request.state.typed = typed
    return typed


def shown(show: Callable[[Visit], Response]) -> Callable[[Request], Response]:
    """Return an endpoint that shows a page."""
    return lambda request: show(_visit(request))


def posted(change: Callable[[Visit, dict[str, str]], Response]) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint that reads a form and passes its members to `change` on a thread."""

    async def answer(request: Request) -> Response:
        form = await _form_of(request)
        return await run_in_threadpool(lambda: change(_visit(request), form))

    return answer


def go(address: str) -> Response:
    """Return a redirect to another page, the answer to a change."""
    return RedirectResponse(address, 303)
