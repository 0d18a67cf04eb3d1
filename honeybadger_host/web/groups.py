"""The first page: what needs the operator, what agents do now, and the groups."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from honeybadger_agent.wire import ListGroups
from honeybadger_host.web.asking import made
from honeybadger_host.web.forms import PER_PAGE, home_of, member, number, shown_of
from honeybadger_host.web.needs import needs_of
from honeybadger_host.web.rendering import page


def _groups(request: Request) -> Response:
    home, named, offset = home_of(request), member(request, "named", 64), number(request, "offset")
    asked = made(ListGroups, named=named, limit=PER_PAGE, offset=offset)
    found = home.read(home.any_group(), asked)
    status = home.status()
    is_first = named is None and not offset
    return page(
        "groups.html",
        shown_of(request),
        needs=needs_of(home, status) if is_first else [],
        is_first=is_first,
        under_way=status.get("turns", {}).get("under_way", []),
        found=found,
        named=named,
        offset=offset,
        per_page=PER_PAGE,
        status=status,
        is_behind=home.is_behind(status),
    )


ROUTES: Final = (Route("/", _groups),)
