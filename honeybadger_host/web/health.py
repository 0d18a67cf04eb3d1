"""Whether anything is wrong: what the host says of itself, what it could not serve, and the doctor."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from honeybadger_host.errors import NotFound
from honeybadger_host.spool.dead_letter_files import DeadLetter, dead_names, drop_dead, find_dead, retry_dead
from honeybadger_host.web.asking import HostDown, Invalid
from honeybadger_host.web.forms import go, home_of, member, number, posted, shown_of
from honeybadger_host.web.rendering import href, page

_DEAD_PER_PAGE: Final = 20


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
        is_behind=home.is_behind(status),
        wrong=_wrong(status),
        dead=[*_letters(home.path, names[offset : offset + _DEAD_PER_PAGE])],
        dead_total=len(names),
        offset=offset,
        per_page=_DEAD_PER_PAGE,
        done=member(request, "done", 20),
    )


def _wrong(status: dict[str, Any]) -> list[str]:
    """Return what of a status wants somebody's attention, each in a sentence."""
    limits, agents, curation = status.get("limits", {}), status.get("agents", {}), status.get("curation", {})
    told = [f"Near a limit: {each}." for each in limits.get("near", ())]
    told += [f"Over a limit within 10 minutes: {each}." for each in limits.get("reached_lately", ())]
    told += [f"Large: groups/{each}." for each in status.get("large_memories", ())]
    told += [f"Not served: {each}." for each in status.get("boxes_refused", ())]
    told += [f"Cannot be written now: {each}." for each in status.get("files_behind", ())]
    told += [f"An agent is as it was before: {file}: {why}." for file, why in agents.get("refused", {}).items()]
    told += [f"A task does not run: {each}." for each in (status.get("tasks") or {}).get("refused", ())]
    told += [f"Curation failed: {each['job']}: {each['why']}." for each in curation.get("failed", ())]
    told += [
        f"A message cannot be pushed to {each['target']}: {each['failed']['why']}."
        for each in status.get("push", ())
        if each.get("failed")
    ]
    if status.get("stuck"):
        told.append(f"{status['stuck']} requests cannot be removed.")
    if not status.get("watcher", {}).get("is_alive", True):
        told.append("The watcher is off: requests are found by the sweep only.")
    return told


def _letters(home: Path, names: Sequence[str]) -> Iterator[DeadLetter]:
    for name in names:
        with contextlib.suppress(NotFound):  # it went meanwhile
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
    """Run the doctor, which reads the whole journal: nobody but who asks for it waits."""
    from honeybadger_host.ops.doctor import examine

    findings = list(examine(home_of(request).path, lambda check: None))
    findings.sort(key=lambda finding: ("problem", "warning", "ok").index(finding.level))
    return page("doctor.html", shown_of(request), findings=findings)


ROUTES: Final = (
    Route("/health", _health),
    Route("/health/doctor", _doctor),
    Route("/health/dead", posted(_acted), methods=["POST"]),
)
