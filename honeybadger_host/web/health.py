"""The health of the host: its status, its dead letters, its log, and the doctor."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from honeybadger_host.errors import NotFound
from honeybadger_host.ops.findings import faults_in
from honeybadger_host.spool.dead_letters import DeadLetter, dead_names, drop_dead, find_dead, retry_dead
from honeybadger_host.web.asking import HostDown, Invalid
from honeybadger_host.web.forms import PER_PAGE, go, home_of, member, number, posted, shown_of
from honeybadger_host.web.rendering import href, page


def _health(request: Request) -> Response:
    home, offset = home_of(request), number(request, "offset")
    status = home.status()
    if not status:
        raise HostDown
    names = dead_names(home.path)
    return page(
        "health.html",
        shown_of(request),
        status=status,
        wrong=[fault.message for fault in faults_in(status)],
        dead=[*_letters(home.path, names[offset : offset + PER_PAGE])],
        dead_total=len(names),
        offset=offset,
        per_page=PER_PAGE,
        done=member(request, "done", 20),
    )


def _letters(home: Path, names: Sequence[str]) -> Iterator[DeadLetter]:
    for name in names:
        with contextlib.suppress(NotFound):  # it was removed meanwhile
            yield find_dead(home, name)


def _acted(request: Request, form: dict[str, str]) -> Response:
    home, action = home_of(request), form.get("action", "")
    letter = find_dead(home.path, form.get("name", ""))
    match action:
        case "retry":
            retry_dead(home.path, letter)
        case "drop":
            drop_dead(letter)
        case _:
            raise Invalid("that is not something that can be done with a dead letter: load the page again")
    return go(href("health", done=action))


def _doctor(request: Request) -> Response:
    """Run the doctor. It reads the whole journal; only the caller waits."""
    from honeybadger_host.ops.doctor import examine

    findings = list(examine(home_of(request).path, lambda check: None))
    findings.sort(key=lambda finding: ("problem", "warning", "ok").index(finding.level))
    return page("doctor.html", shown_of(request), findings=findings)


ROUTES: Final = (
    Route("/health", _health),
    Route("/health/doctor", _doctor),
    Route("/health/dead", posted(_acted), methods=["POST"]),
)
