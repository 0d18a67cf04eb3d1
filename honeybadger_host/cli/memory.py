"""Commands about what a group remembers: its context, its search, its changes and their undoing."""

from __future__ import annotations

import contextlib
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from honeybadger_host.cli.options import AsJson, Home, home_of, moment, print_json
from honeybadger_host.errors import HostError, NotFound

if TYPE_CHECKING:
    from honeybadger_host.search.index import Index
    from honeybadger_host.settings import Settings

app = typer.Typer()


@app.command()
def context(
    call: typer.Context,
    group: str,
    home: Home = None,
    session: Annotated[str, typer.Option(help="The conversation.")] = "main",
    message: Annotated[str | None, typer.Option(help="What the user says now.")] = None,
    agent: Annotated[str | None, typer.Option(help="The agent, by its id in config/agents/.")] = None,
    budget: Annotated[int | None, typer.Option(help="Estimated tokens; 0 means no limit.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Print why each part is in or out, not the text.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the context an agent of the group would get now, or explain it. Works with and without a running host."""
    from honeybadger_agent.mailbox import NAME, SESSION
    from honeybadger_host.agents import Agents
    from honeybadger_host.domain import NOBODY
    from honeybadger_host.handlers.context_recall import Recaller
    from honeybadger_host.handlers.context_text import build_context
    from honeybadger_host.handlers.conversation import load_parts
    from honeybadger_host.handlers.working_memory import inventory_of
    from honeybadger_host.memory.group_files import GroupFiles
    from honeybadger_host.memory.turn_log import Conversations
    from honeybadger_host.memory.working_memory_store import Shelves
    from honeybadger_host.settings import load_settings
    from honeybadger_host.text.neutralise import use_counter
    from honeybadger_host.text.tokens import counter_of

    folder = home_of(home)
    _print_warnings_only(call)
    settings = load_settings(folder).settings
    if not NAME.fullmatch(group) or not SESSION.fullmatch(session):
        raise typer.BadParameter(f"{group!r} or {session!r} is not a name the protocol allows")
    _check_group(folder, group)
    use_counter(counter_of(settings.tokens.counter))
    files = GroupFiles(folder, max_file_bytes=settings.memory.max_group_file_bytes, max_cache_bytes=0)
    conversations = Conversations(
        folder,
        window_turns=settings.conversation.window_turns,
        idle_seconds=3600,
        max_sessions=1024,
        clock=time.monotonic,
    )
    working = inventory_of(Shelves(folder), settings.working)(group, session, datetime.now(UTC))
    recaller = Recaller(_index_of(folder, settings, group), settings.recall, settings.history.budget_tokens)
    agents = Agents(folder, settings.turns.agent)
    if agent is not None and agent not in agents.current:
        raise NotFound(f"{folder} has no agent {agent!r}: {', '.join(sorted(agents.current))}")
    identity = NOBODY if agent is None else agents.identity_of(agent)
    turns = conversations.load(group, session).turns
    recalled = recaller.recall(group, session, message, turns, datetime.now(UTC), keeps=False)
    built = build_context(
        load_parts(files, turns, group, session, message, recalled, working, identity),
        budget_tokens=settings.context.budget_tokens if budget is None else budget,
        history_budget_tokens=settings.history.budget_tokens,
        recall_budget_tokens=settings.recall.budget_tokens,
    )
    if as_json:
        print_json(
            {
                "system": built.system,
                "tokens": built.tokens,
                "budget_tokens": built.budget_tokens,
                "sections": [row.model_dump(exclude_none=True) for row in built.sections],
                "recalled": recalled.considered(built.forgotten),
            }
        )
    elif explain:
        _print_explanation(built.sections, built.tokens, built.budget_tokens, is_over=built.is_over_budget)
        _print_recalled(recalled.considered(built.forgotten))
    else:
        sys.stdout.write(built.system)


@app.command()
def search(
    call: typer.Context,
    group: str,
    query: Annotated[str | None, typer.Argument(help="Words or a question; without one the newest are listed.")] = None,
    home: Home = None,
    category: Annotated[str | None, typer.Option(help="Only entries of this category or below it.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Only entries with this tag; may be repeated.")] = None,
    since: Annotated[str | None, typer.Option(help="A date or a time, as 2026-11-21.")] = None,
    until: Annotated[str | None, typer.Option(help="A date takes the whole day in.")] = None,
    scope: Annotated[str, typer.Option(help="entries, turns, notes or all.")] = "all",
    limit: Annotated[int, typer.Option(min=1, max=100)] = 8,
    explain: Annotated[bool, typer.Option("--explain", help="Print what each hit earned from what.")] = False,
    as_json: AsJson = False,
) -> None:
    """Search what a group remembers and what was said in it. Works with and without a running host."""
    from honeybadger_agent.wire import Refusal, Request, parse_payload
    from honeybadger_host.domain import Asked
    from honeybadger_host.handlers.search import search_memory
    from honeybadger_host.settings import load_settings

    folder = home_of(home)
    _print_warnings_only(call)
    settings = load_settings(folder).settings
    wanted = {"query": query, "category": category, "tags": tag, "since": since, "until": until}
    payload = {name: value for name, value in wanted.items() if value is not None} | {"scope": scope, "limit": limit}
    try:
        request = parse_payload(Request(v=1, id="search", type="search_memory", payload=payload))
        asked = Asked(group, "operator", "search", "main", request)
        found = search_memory(_index_of(folder, settings, group), settings.recall).answer(asked, datetime.now(UTC))
    except Refusal as refusal:
        raise typer.BadParameter(refusal.message.replace("payload.", "")) from None
    if as_json:
        print_json(found)
        return
    for hit in found["hits"]:
        score = "" if hit["score"] is None else f"{hit['score']:8.2f}  "
        about = ", ".join(str(hit[name]) for name in ("time", "author", "category") if hit.get(name))
        print(f"{score}{hit['id']}  ({about})\n{'':10}{' '.join(hit['text'].split())[:300]}")
        if explain:
            points = ", ".join(f"{name} {value:g}" for name, value in hit["points"].items() if value)
            print(f"{'':10}{hit['source']}: {points or 'no points without a query'}")
    if not found["hits"]:
        print(f"nothing in {group} matches")


@app.command("log")
def log_(
    group: str,
    home: Home = None,
    limit: Annotated[int, typer.Option(min=1, help="How many, the newest.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Print who changed what when, newest first, from the journal."""
    from honeybadger_host.storage.home import JOURNAL_FILE
    from honeybadger_host.storage.journal_reader import read_log

    folder = home_of(home)
    if not (folder / JOURNAL_FILE).exists():
        raise NotFound(f"{folder} has no journal yet: nothing was changed through a host")
    rows = read_log(folder / JOURNAL_FILE, group, limit)
    if as_json:
        print_json(
            [
                {
                    "seq": row.seq,
                    "at": moment(row.at),
                    "group": row.group,
                    "sender": row.sender,
                    "request": row.request,
                    "kind": row.kind,
                    "file": row.file,
                    "text": row.data.decode("utf-8", "replace"),
                }
                for row in rows
            ]
        )
        return
    for row in rows:
        print(f"{row.seq:>8}  {moment(row.at)}  {row.sender:16}  {row.kind:5} {row.file}  {_gist(row.kind, row.data)}")
    if not rows:
        print(f"nothing was changed in {group} yet")


@app.command()
def undo(
    call: typer.Context,
    seq: Annotated[int, typer.Argument(min=1, help="The change, as `log` shows it.")],
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Bring back an entry as it was before a change: deleted, reinforced or new. Works with and without a host."""
    from honeybadger_agent.wire import Undo
    from honeybadger_host import daemon
    from honeybadger_host.ops.operator_client import ask
    from honeybadger_host.settings import load_settings
    from honeybadger_host.storage.home import JOURNAL_FILE
    from honeybadger_host.storage.journal_reader import read_change

    folder = home_of(home)
    _print_warnings_only(call)
    settings = load_settings(folder).settings
    row = read_change(folder / JOURNAL_FILE, seq) if (folder / JOURNAL_FILE).exists() else None
    if row is None:
        raise NotFound(f"{folder} has no change {seq}: `honeybadger-host log <group>` shows them")
    reply = ask(folder, row.group, "undo", Undo(seq=seq), serve=lambda box: daemon.serve_box(folder, settings, box))
    if reply.error is not None:
        raise HostError(reply.error.message)
    result = reply.result or {}
    if as_json:
        print_json({"seq": reply.seq, "group": row.group, **result})
        return
    did = str(result["did"]).replace("_", " ")
    print(f"groups/{row.group}/{result['file']}: {did}; change {reply.seq} undoes {seq}")


def _check_group(folder: Path, group: str) -> None:
    """See that a home has such a group. Exits when it has none."""
    from honeybadger_agent.mailbox import NAME

    if not NAME.fullmatch(group):
        raise typer.BadParameter(f"{group!r} is not a name the protocol allows")
    if not (folder / "groups" / group).is_dir() and not (folder / "data" / "sessions" / group).is_dir():
        raise NotFound(f"{folder} has no group {group!r}")


def _index_of(folder: Path, settings: Settings, group: str) -> Index:
    """Return a fresh index of a home, whether a host serves it or not. Exits when there is no such group."""
    from honeybadger_host.daemon import embedder_of
    from honeybadger_host.search.index import open_copy

    _check_group(folder, group)
    return open_copy(folder, group, max_note_bytes=settings.memory.max_group_file_bytes, embedder=embedder_of(settings))


def _print_warnings_only(call: typer.Context) -> None:
    """Keep what the parts of a host log out of a command's output: warnings go to standard error."""
    from honeybadger_host.observe import warnings_to_stderr

    call.with_resource(warnings_to_stderr())


def _print_explanation(sections: Any, tokens: int, budget: int, *, is_over: bool) -> None:
    width = max(len(row.title) for row in sections)
    source_width = max(len(row.source) for row in sections)
    for row in sections:
        out = f"  without {row.left_out}" if row.left_out else ""
        why = f" ({row.why})" if row.why else ""
        print(f"{row.title:{width}}  {row.source:{source_width}}  {row.state:10}  {row.tokens:>6} tokens{out}{why}")
    print(
        f"{'':{width}}  {'whole':{source_width}}  {'':10}  {tokens:>6} tokens of {budget or 'no limit'}"
        + ("  OVER: the parts that are never cut are too large" if is_over else "")
    )


def _print_recalled(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        score = f"{row['score']:.2f} points" if "score" in row else ""
        points = ", ".join(f"{name} {value:g}" for name, value in row["points"].items() if value)
        print(f"  {row['id']:12}  {row['state']:9}  {score}{f' ({points})' if points else ''}: {row['why']}")


def _gist(kind: str, data: bytes) -> str:
    """Return one line that tells a change from its neighbours."""
    text = data.decode("utf-8", "replace")
    if kind != "note":
        with contextlib.suppress(orjson.JSONDecodeError, KeyError, TypeError):
            value = orjson.loads(data)
            match kind:
                case "turn":
                    text = f"[{value['sender']}]: {value['content']}"
                case "session" | "session_removed":
                    text = f"up to turn {(value.get('honeybadger') or value)['turns']}"
                case _:
                    text = str(value["content"])
    else:
        text = text.partition("\n- ")[2]
    line = "".join(c if c.isprintable() else "\ufffd" for c in " ".join(text.split()))  # a terminal obeys the others
    return line if len(line) <= 80 else line[:77] + "..."
