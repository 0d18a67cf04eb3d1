"""A request of a browser: its checked members, its home, and the requests to the host that answer it."""

from collections.abc import Awaitable, Callable, Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from honeybadger_agent.client import result_of
from honeybadger_agent.errors import Conflict, Invalid, NotFound, RequestFailed
from honeybadger_agent.mailbox import GLOBAL_GROUP, NAME, OPERATOR, SESSION, TURNS, Mailbox, new_id
from honeybadger_agent.tools import made
from honeybadger_agent.wire import Chat, ResultT, dump_request
from honeybadger_agent.wire import Request as Asked
from honeybadger_host.curation.passes import newest_sessions
from honeybadger_host.files.home import JOURNAL_FILE, groups_in, is_served
from honeybadger_host.observe import read_status
from honeybadger_host.ops.operator_client import NoAnswer, ask
from honeybadger_host.web.rendering import Shown, page

__all__ = ["Conflict", "Invalid", "NoAnswer", "NotFound", "RequestFailed", "made"]  # and what is defined below

PER_PAGE = 50  # rows of a table on one page


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

    def ask(self, group: str, request: Asked[ResultT], *, session: str = "main") -> tuple[ResultT, int | None]:
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
        is_name = NAME.fullmatch(group) is not None and group != GLOBAL_GROUP
        return is_name and any((self.path / one / group).is_dir() for one in ("groups", "data/ipc", "data/sessions"))

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
