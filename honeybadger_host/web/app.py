"""The routes of the page, and the answers to failures."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from importlib import resources
from typing import Final

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from honeybadger_host.errors import HostError, NotFound
from honeybadger_host.web import (
    context,
    entries,
    health,
    memory,
    needs,
    review,
    talk,
    tasks,
    timeline,
)
from honeybadger_host.web.asking import Home, HostDown, NoAnswer, RequestFailed
from honeybadger_host.web.forms import home_of, shown_of
from honeybadger_host.web.guards import ENTER, SESSION_SECONDS, STATIC, Access, Guards
from honeybadger_host.web.rendering import Shown, page, problem

log = structlog.get_logger()

LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
_TYPED: Final = ("content", "title", "category", "tags", "result", "to", "as")
_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".txt": "text/plain"}
_STATUS: Final = {"invalid": 422, "forbidden": 403, "not_found": 404, "conflict": 409, "too_large": 413}
_PAGES: Final = (needs, context, memory, entries, review, timeline, tasks, health, talk)


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
            Route(STATIC + "{name}", _static),
            *(route for each in _PAGES for route in each.ROUTES),
        ],
        exception_handlers={
            HTTPException: _missing,
            RequestFailed: _refused,
            HostDown: _host_down,
            NoAnswer: _no_answer,
            HostError: _host_error,
            Exception: _failed,
        },
    )
    app.state.home = home
    return Guards(app, access, cookie_name, LOOPBACK, port, may_write=home.may_write)


def _static(request: Request) -> Response:
    name = str(request.path_params["name"])
    with resources.as_file(resources.files("honeybadger_host") / "web" / "static") as folder:
        if name not in {path.name for path in folder.iterdir()}:
            raise HTTPException(404)
        kind = _TYPES.get(f".{name.rpartition('.')[2]}", "application/octet-stream")
        return FileResponse(folder / name, media_type=kind, headers={"Cache-Control": "private, max-age=86400"})


def _missing(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    what = {404: "Not found", 405: "Not allowed"}.get(status, "That failed")
    return problem(status, what, "There is no such page. Choose one above.", shown=shown_of(request))


def _refused(request: Request, error: Exception) -> Response:
    code = error.code if isinstance(error, RequestFailed) else "internal"
    what = {"not_found": "Not found", "conflict": "It has changed meanwhile"}.get(code, "The host refused it")
    told = str(error).replace("payload.", "")
    return problem(_STATUS.get(code, 502), what, told, shown=shown_of(request), typed=_typed(request))


def _host_down(request: Request, error: Exception) -> Response:
    told = (
        f"No host serves {home_of(request).path}. Start it with honeybadger-host run; this page comes back by itself."
    )
    again = 3 if request.method == "GET" else None
    if again is None:
        told += " Nothing was changed, and what you typed is below. Send it again when the host runs."
    return problem(503, "The host is down", told, retry_after=again, shown=shown_of(request), typed=_typed(request))


def _no_answer(request: Request, error: Exception) -> Response:
    again = 3 if request.method == "GET" else None
    told = str(error)
    if again is None:
        told += ". The timeline says whether it was done."
    return problem(
        504, "The host does not answer yet", told, retry_after=again, shown=shown_of(request), typed=_typed(request)
    )


def _host_error(request: Request, error: Exception) -> Response:
    if isinstance(error, NotFound):
        return problem(404, "Not found", str(error), shown=shown_of(request))
    return problem(500, "This cannot be read now", str(error), shown=shown_of(request))


def _failed(request: Request, error: Exception) -> Response:
    log.error("page.failed", path=request.url.path, error=type(error).__name__, exc_info=error)
    return problem(500, "This page failed", "This is a bug; the log of the page says more.", shown=shown_of(request))


def _typed(request: Request) -> dict[str, str]:
    """Return the texts that a person typed into a form that was refused, without its hidden members."""
    typed: dict[str, str] = getattr(request.state, "typed", {})
    return {name: value for name, value in typed.items() if name in _TYPED}
