"""The search that agents have, with the points of each hit."""

from __future__ import annotations

from typing import Final

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from honeybadger_agent.wire import SearchMemory, SearchResult
from honeybadger_host.web.asking import RequestFailed, made
from honeybadger_host.web.forms import group_of, home_of, member, shown_of
from honeybadger_host.web.rendering import page

_LIMITS: Final = (8, 20, 50, 100)
_SCOPES: Final = ("all", "entries", "turns", "notes")


def _search(request: Request) -> Response:
    group, wanted = group_of(request), {name: member(request, name) for name in ("query", "category", "since", "until")}
    scope = member(request, "scope") or "all"
    limit = member(request, "limit", 3) or "8"
    is_archived = member(request, "archived") == "1"
    found: SearchResult | None = None
    problem = ""
    if any(wanted.values()) or request.query_params:
        members = {**wanted, "scope": scope, "archived": is_archived or None}
        try:
            asked = made(SearchMemory, **members, limit=int(limit) if limit.isdigit() else 8)
            found = home_of(request).read(group, asked)
        except RequestFailed as error:
            problem = str(error).replace("payload.", "")
    return page(
        "search.html",
        shown_of(request),
        wanted=wanted,
        scope=scope,
        scopes=_SCOPES,
        limit=limit,
        limits=_LIMITS,
        is_archived=is_archived,
        found=found,
        problem=problem,
        case=_case(group, wanted, found) if found is not None else "",
    )


def _case(group: str, wanted: dict[str, str | None], found: SearchResult) -> str:
    """Return the search as a test case: what was asked, and what was found, best first."""
    asked = {name: value for name, value in wanted.items() if value}
    case = {"group": group, **asked, "expected": [hit.id for hit in found.hits]}
    return orjson.dumps(case, option=orjson.OPT_INDENT_2).decode()


ROUTES: Final = (Route("/g/{group}/search", _search),)
