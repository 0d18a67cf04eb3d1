"""The context that an agent gets now, or got earlier, with the reasons; and its search."""

import shlex
from collections.abc import Mapping
from functools import partial

from starlette.responses import Response

from honeybadger_agent.mailbox import checked_session
from honeybadger_agent.wire import ContextResult, PreviewContext, SearchMemory, SearchResult
from honeybadger_host.journal.reader import read_turn
from honeybadger_host.memory.turn_log import turns_file
from honeybadger_host.web.entries import texts_of
from honeybadger_host.web.looking_back import newest_seq
from honeybadger_host.web.rendering import compared, href
from honeybadger_host.web.visits import RequestFailed, Visit, checked_number, go, made


def context(visit: Visit) -> Response:
    session = checked_session(visit.member("session", 100) or "main")
    asked = {"agent": visit.member("agent", 64), "message": visit.member("message", 8000)}
    wanted = {"session": session, **asked, "as_of": visit.member("as_of")}
    now = visit.read(made(PreviewContext, **asked), session=session)
    then: ContextResult | None = None
    why_not = ""
    if wanted["as_of"] is not None:
        try:
            then = visit.read(made(PreviewContext, **asked, as_of=wanted["as_of"]), session=session)
        except RequestFailed as error:
            why_not = str(error)
    shown = then or now
    return visit.page(
        "context.html",
        wanted=wanted,
        agents=visit.home.agents(),
        sessions=visit.home.sessions(visit.group),
        context=shown,
        texts=texts_of(visit, [one.id for one in shown.recalled]),
        is_earlier=then is not None,
        why_not=why_not.replace("payload.", ""),
        difference=None if then is None else compared(*(_text_of(one).splitlines() for one in (then, now))),
        newest=newest_seq(visit.home.journal),
        command=_command(visit.group, wanted),
        address_of=partial(_address_of, visit.group),
    )


def _text_of(context: ContextResult) -> str:
    return "\n".join([context.system, *(f"[{one.sender or one.role}]: {one.content}" for one in context.messages)])


def _address_of(group: str, source: str) -> str | None:
    """Return the page that shows a source of a context, or None if there is none."""
    match source.split("/"):
        case ["groups", of, "memory", *_] if of == group:
            return href("g", group, "memory", kind="entries")
        case ["groups", of, "MEMORY.md" | "CLAUDE.md" | "summary.md"] if of == group:
            return href("g", group, "memory", kind="notes")
        case ["data", "sessions", of, name] if of == group:
            return href("g", group, "talk", session=name.removesuffix(".jsonl"))
    return None


def _command(group: str, wanted: Mapping[str, str | None]) -> str:
    """Return the command that prints the same context."""
    parts = ["honeybadger-host context", group]
    for name, value in wanted.items():
        if value and (name, value) != ("session", "main"):
            parts += [f"--{name.replace('_', '-')}", shlex.quote(value)]
    return " ".join(parts)


def why(visit: Visit) -> Response:
    """Redirect to the context that an answer was given from."""
    session = checked_session(visit.member("session", 100) or "main")
    turn = checked_number(visit.query.get("turn", ""), "turn")
    said = read_turn(visit.home.journal, turns_file(visit.group, session), str(turn))
    served = None if said is None else said.get("context")
    if served is None:
        return go(href("g", visit.group, "talk", session=session, done="no-context"))
    return go(href("g", visit.group, "context", session=session, as_of=served["hash"]))


def search(visit: Visit) -> Response:
    wanted = {name: visit.member(name) for name in ("query", "category", "since", "until")}
    scope = visit.member("scope") or "all"
    limit = visit.number("limit") or 8
    is_archived = visit.member("archived") == "1"
    found: SearchResult | None = None
    problem = ""
    if visit.query:
        try:
            found = visit.read(made(SearchMemory, **wanted, scope=scope, archived=is_archived or None, limit=limit))
        except RequestFailed as error:
            problem = str(error).replace("payload.", "")
    return visit.page(
        "search.html",
        wanted=wanted,
        scope=scope,
        scopes=("all", "entries", "turns", "notes"),
        limit=limit,
        limits=(8, 20, 50, 100),
        is_archived=is_archived,
        found=found,
        problem=problem,
    )
