"""All changes, newest first; the difference that each made, undo and rewind."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from honeybadger_agent.mailbox import GLOBAL_GROUP
from honeybadger_agent.wire import Rewind, Undo
from honeybadger_host.journal.reader import CHANGE_KINDS, LogFilter
from honeybadger_host.web.asking import NotFound, made
from honeybadger_host.web.forms import checked_number, go, group_of, home_of, member, number, posted, shown_of
from honeybadger_host.web.looking_back import difference_of, look_back, newest_seq
from honeybadger_host.web.rendering import Shown, href, page

_KINDS: Final = sorted(CHANGE_KINDS)


def _timeline(request: Request) -> Response:
    home = home_of(request)
    group = group_of(request) if "group" in request.path_params else None
    wanted = {name: member(request, name, 500) for name in ("by", "kind", "file")}
    before = number(request, "before") or None
    looked = look_back(home.journal, LogFilter(group, wanted["by"], wanted["kind"], file=wanted["file"], before=before))
    parts = ("g", group, "timeline") if group else ("timeline",)
    return page(
        "timeline.html",
        shown_of(request),
        looked=looked,
        wanted=wanted,
        kinds=_KINDS,
        is_newest=before is None,
        newest=newest_seq(home.journal),
        address=href(*parts),
        current=href(*parts, **wanted),
        further=href(*parts, **wanted, before=looked.before),
        done=member(request, "done", 20),
        seq=number(request, "seq"),
    )


def _change(request: Request) -> Response:
    home = home_of(request)
    difference = difference_of(home, checked_number(str(request.path_params["seq"]), "seq"))
    group = difference.line.group
    shown = Shown(group if home.has_group(group) else None, home.may_write)
    return page("change.html", shown, difference=difference, line=difference.line)


def _undone(request: Request, form: dict[str, str]) -> Response:
    """Undo one or more changes, newest first; their numbers are separated by commas."""
    home = home_of(request)
    seqs = sorted((checked_number(seq, "seq") for seq in form.get("seq", "").split(",")), reverse=True)
    done: int | None = None
    group = ""
    for seq in seqs:
        group = difference_of(home, seq).line.group
        # a change for all groups is undone through any group
        _, done = home.ask(home.any_group() if group == GLOBAL_GROUP else group, made(Undo, seq))
    if len(seqs) > 1 and home.has_group(group):
        return go(href("g", group, "memory", done="undo"))
    return go(href("change", str(done)) if done is not None else href("timeline"))


def _rewound(request: Request, form: dict[str, str]) -> Response:
    """Show what a rewind would change, and do it when that is confirmed."""
    group = group_of(request)
    to = form.get("to", "").strip()
    if not to:
        raise NotFound("say to which change or time")
    is_meant = form.get("confirm") == "yes"
    result, seq = home_of(request).ask(group, made(Rewind, to, dry_run=not is_meant or None))
    return page("rewind.html", shown_of(request), result=result, is_done=is_meant, seq=seq)


ROUTES: Final = (
    Route("/timeline", _timeline),
    Route("/g/{group}/timeline", _timeline),
    Route("/g/{group}/rewind", posted(_rewound), methods=["POST"]),
    Route("/change/{seq}", _change),
    Route("/undo", posted(_undone), methods=["POST"]),
)
