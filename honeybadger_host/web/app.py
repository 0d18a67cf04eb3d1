"""The routes of the page, and the answers to failures."""

import hashlib
import time
from collections.abc import Callable, Mapping

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from honeybadger_agent.mailbox import BadName
from honeybadger_host.errors import HostError, NotFound
from honeybadger_host.log import log
from honeybadger_host.web import context, entries, health, memory, needs, review, talk, tasks, timeline
from honeybadger_host.web.guards import ENTER, SESSION_SECONDS, STATIC, Access, Guards
from honeybadger_host.web.rendering import Shown, page, problem
from honeybadger_host.web.visits import Home, HostDown, NoAnswer, RequestFailed, Visit, posted, shown

_TYPED = ("content", "title", "category", "tags", "result", "to", "as")
_STATUS = {"invalid": 422, "forbidden": 403, "not_found": 404, "conflict": 409, "too_large": 413}
_TITLES = {"not_found": "Not found", "conflict": "That is not possible now"}
_PAGES: Mapping[str, Callable[[Visit], Response]] = {
    "/": needs.groups,
    "/g/{group}/context": context.context,
    "/g/{group}/why": context.why,
    "/g/{group}/search": context.search,
    "/g/{group}/memory": memory.memory,
    "/g/{group}/entry": entries.entry,
    "/g/{group}/blame": entries.blame,
    "/g/{group}/review": review.review,
    "/g/{group}/review/{proposal}": review.proposal,
    "/events": timeline.events,
    "/timeline": timeline.timeline,
    "/g/{group}/timeline": timeline.timeline,
    "/change/{seq}": timeline.change,
    "/g/{group}/tasks": tasks.tasks,
    "/g/{group}/tasks/{task}": tasks.task,
    "/health": health.health,
    "/health/doctor": health.doctor,
    "/g/{group}/talk": talk.talk,
    "/g/{group}/talk/answer": talk.answer,
}
# Each gets the members of the form that was sent.
_CHANGES: Mapping[str, Callable[[Visit, dict[str, str]], Response]] = {
    "/g/{group}/memory/act": memory.acted,
    "/g/{group}/entry/edit": entries.edited,
    "/g/{group}/forget": entries.forgotten,
    "/g/{group}/review/{proposal}/decide": review.decided,
    "/g/{group}/rewind": timeline.rewound,
    "/undo": timeline.undone,
    "/g/{group}/tasks/act": tasks.acted,
    "/health/dead": health.acted,
    "/g/{group}/talk/say": talk.said,
    "/g/{group}/talk/stop": talk.stopped,
    "/g/{group}/talk/feedback": talk.told,
}


def build(home: Home, port: int | None, renewed: Callable[[str], None]) -> ASGIApp:
    """Return the page of a home.

    Args:
        port: the port that it is served on; None: it is served on a socket.
        renewed: called with each new token of a link.
    """
    access = Access(time.monotonic, renewed)
    # a browser sends a cookie to all ports of a machine, so its name depends on the home
    cookie_name = f"honeybadger_{hashlib.sha256(bytes(home.path.resolve())).hexdigest()[:12]}"

    def enter(request: Request) -> Response:
        cookie = access.enter(request.query_params.get("token", ""))
        if cookie is None:
            return problem(
                403, "This link was used, or is wrong", "A link works once. Run honeybadger-host web for a new one."
            )
        answer = page("enter.html", Shown(may_write=home.may_write))
        answer.set_cookie(cookie_name, cookie, max_age=SESSION_SECONDS, httponly=True, samesite="strict", path="/")
        return answer

    app = Starlette(
        routes=[
            Route(ENTER, enter),
            Mount(STATIC, StaticFiles(packages=[("honeybadger_host.web", "static")])),
            *(Route(path, shown(show)) for path, show in _PAGES.items()),
            *(Route(path, posted(change), methods=["POST"]) for path, change in _CHANGES.items()),
        ],
        exception_handlers=dict.fromkeys(
            (HTTPException, RequestFailed, BadName, HostDown, HostError, Exception), _failed
        ),
    )
    app.state.home = home
    return Guards(app, access, cookie_name, port, may_write=home.may_write)


def _failed(request: Request, error: Exception) -> Response:
    """Return the page about an error; it keeps the texts that a person typed into a form, without hidden members."""
    home, group = request.app.state.home, str(request.path_params.get("group", ""))
    typed: dict[str, str] = getattr(request.state, "typed", {})
    is_read = request.method != "POST"
    match error:
        case HTTPException():
            status, what, told = error.status_code, "Not found", "There is no such page. Choose one above."
        case RequestFailed():
            status, told = _STATUS.get(error.code, 502), str(error).replace("payload.", "")
            what = _TITLES.get(error.code, "The host refused it")
        case BadName():
            status, what, told = 422, "The host refused it", str(error)
        case HostDown():
            status, what = 503, "The host is down"
            then = "this page reloads until then" if is_read else "go back then and send it again: nothing was changed"
            told = f"No host serves {home.path}. Start it with honeybadger-host run; {then}."
        case NoAnswer():
            status, what, told = 504, "The host does not answer yet", str(error)
        case NotFound():
            status, what, told = 404, "Not found", str(error)
        case HostError() | OSError():
            what, told = "This cannot be read now" if is_read else "This cannot be done", str(error)
            status = 409 if type(error) is HostError else 500  # the others are faults of disk, journal or settings
        case _:
            log.error("page.failed", path=request.url.path, error=type(error).__name__, exc_info=error)
            status, what, told = 500, "This page failed", "This is a bug; the log of the page says more."
    return problem(
        status,
        what,
        told,
        retry_after=3 if is_read and status in (503, 504) else None,
        shown=Shown(group if home.has_group(group) else None, home.may_write),
        typed={name: value for name, value in typed.items() if name in _TYPED},
    )
