"""All changes, newest first, told live; the difference that each made, undo and rewind."""

from collections.abc import AsyncIterator

import anyio
import orjson
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from honeybadger_agent.mailbox import GLOBAL_GROUP
from honeybadger_agent.wire import Rewind, Undo
from honeybadger_host.files.home import is_served
from honeybadger_host.journal.reader import CHANGE_KINDS, LogFilter
from honeybadger_host.web.looking_back import difference_of, look_back, newest_seq
from honeybadger_host.web.rendering import href
from honeybadger_host.web.visits import Home, NotFound, Visit, checked_number, go, made

_LOOK_SECONDS = 1.0  # between two looks for changes


def timeline(visit: Visit) -> Response:
    group = visit.group or None
    wanted = {name: visit.member(name, 500) for name in ("by", "kind", "file")}
    before = visit.number("before") or None
    looked = look_back(
        visit.home.journal, LogFilter(group, wanted["by"], wanted["kind"], file=wanted["file"], before=before)
    )
    parts = ("g", group, "timeline") if group else ("timeline",)
    return visit.page(
        "timeline.html",
        looked=looked,
        wanted=wanted,
        kinds=sorted(CHANGE_KINDS),
        is_newest=before is None,
        newest=newest_seq(visit.home.journal),
        address=href(*parts),
        current=href(*parts, **wanted),
        further=href(*parts, **wanted, before=looked.down_to),
        done=visit.member("done", 20),
        seq=visit.number("seq"),
    )


def change(visit: Visit) -> Response:
    difference = difference_of(visit.home, checked_number(str(visit.path["seq"]), "seq"))
    group = difference.row.group
    return visit._replace(group=group if visit.home.has_group(group) else "").page(
        "change.html", difference=difference, line=difference.row
    )


def undone(visit: Visit, form: dict[str, str]) -> Response:
    """Undo one or more changes, newest first; their numbers are separated by commas."""
    home = visit.home
    seqs = sorted((checked_number(seq, "seq") for seq in form.get("seq", "").split(",")), reverse=True)
    done: int | None = None
    group = ""
    for seq in seqs:
        group = difference_of(home, seq).row.group
        # a change for all groups is undone through any group
        _, done = home.ask(home.any_group() if group == GLOBAL_GROUP else group, made(Undo, seq))
    if len(seqs) > 1 and home.has_group(group):
        return go(href("g", group, "memory", done="undo"))
    return go(href("change", str(done)) if done is not None else href("timeline"))


def rewound(visit: Visit, form: dict[str, str]) -> Response:
    """Show what a rewind would change, and do it when that is confirmed."""
    to = form.get("to", "").strip()
    if not to:
        raise NotFound("say to which change or time")
    is_meant = form.get("confirm") == "yes"
    result, seq = visit.ask(made(Rewind, to, dry_run=not is_meant or None))
    return visit.page("rewind.html", result=result, is_done=is_meant, seq=seq)


def stream(events: AsyncIterator[bytes]) -> Response:
    """Return events as an answer that goes on until the reader is gone."""
    return StreamingResponse(events, media_type="text/event-stream")


def event(name: str, data: object) -> bytes:
    """Return one event. Its JSON has no line ends."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), orjson.dumps(data))


def events(visit: Visit) -> Response:
    return stream(_news(visit.home, visit.number("after")))


async def _news(home: Home, after: int) -> AsyncIterator[bytes]:
    """Yield `changed` when the journal grew, and `host` when a host started or stopped."""
    was_up: bool | None = None
    while True:
        is_up, newest = await run_in_threadpool(lambda: (is_served(home.path), newest_seq(home.journal)))
        if is_up != was_up:
            yield event("host", is_up)
            was_up = is_up
        if newest > after:
            yield event("changed", newest)
            after = newest
        yield b":\n\n"  # a comment, which fails if the reader is gone
        await anyio.sleep(_LOOK_SECONDS)
