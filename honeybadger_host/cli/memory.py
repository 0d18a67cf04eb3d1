"""Commands about memory: `groups`, `context`, `search`, `log`, `undo`, `forget`, `stop`."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from honeybadger_agent.cli.explaining import explanation_of, hit_lines
from honeybadger_agent.cli.terminal import here, print_lines
from honeybadger_agent.mailbox import GLOBAL_GROUP
from honeybadger_agent.wire import ContextResult, SearchResult, Undo
from honeybadger_agent.wording import count_of
from honeybadger_host.cli.shared import (
    AsJson,
    Home,
    HomeWithFiles,
    asked_of,
    check_group,
    inbox_group,
    journal_of,
    moment,
    print_json,
    reply_to,
    some_of,
    tell,
)
from honeybadger_host.errors import HostError, NotFound
from honeybadger_host.journal.edits import edit_of, is_edit
from honeybadger_host.journal.line_hunks import signed_lines
from honeybadger_host.journal.reader import (
    CHANGE_KINDS,
    LogFilter,
    SaidIn,
    read_change,
    read_log,
    read_turns_behind,
)
from honeybadger_host.journal.schema import Row
from honeybadger_host.text.time_stamps import read_moment

app = typer.Typer(rich_markup_mode=None)
AsOf = typer.Option("--as-of", help="Number of a change, a date, a time, `yesterday`, or a context's hash.")
Explain = Annotated[bool, typer.Option("--explain", help="Print why each part is in or out, not the text.")]


@app.command()
def groups(
    home: HomeWithFiles,
    named: Annotated[str | None, typer.Argument(help="Only those with this in their name.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=200, help="How many at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List the groups of the home. Works with and without a running host."""
    result = asked_of(home, inbox_group(home), "list_groups", {"named": named, "limit": limit})
    tell(result, _group_lines(result), as_json=as_json)


def _group_lines(result: Mapping[str, Any]) -> Iterator[str]:
    rows = result["groups"]
    width = max([len("group"), *(len(row["group"]) for row in rows)])
    yield f"{'group':{width}}  notes  entries  sessions  waiting  last said             who"
    for row in rows:
        notes = "?" if row["notes"] is None else row["notes"]
        more = row["senders_total"] - len(row["senders"])
        who = ", ".join(row["senders"]) + (f" and {more} more" if more else "")
        counts = f"{notes:>5}  {row['entries']:>7}  {row['sessions']:>8}  {row['waiting']:>7}"
        yield f"{row['group']:{width}}  {counts}  {row['last_said'] or 'never':20}  {who}".rstrip()
    if result["total"] > len(rows):
        yield f"and {result['total'] - len(rows)} more: -n shows up to 200, or give a part of the name"


@app.command()
def context(
    home: Home,
    group: str,
    session: Annotated[str, typer.Option(help="The conversation.")] = "main",
    message: Annotated[str | None, typer.Option(help="What the user says now.")] = None,
    agent: Annotated[str | None, typer.Option(help="The agent, by its id in config/agents/.")] = None,
    budget: Annotated[int | None, typer.Option(help="Estimated tokens; 0 means no limit.")] = None,
    as_of: Annotated[str | None, AsOf] = None,
    explain: Explain = False,
    as_json: AsJson = False,
) -> None:
    """Print the context an agent gets now, or got earlier. Works with and without a running host."""
    result = asked_of(
        home,
        group,
        "preview_context",
        {"agent": agent, "message": message, "budget_tokens": budget, "as_of": as_of},
        session=session,
    )
    print_context(result, explain=explain, as_json=as_json)


def print_context(result: Mapping[str, Any], *, explain: bool, as_json: bool) -> None:
    """Print a context; for an earlier one print on standard error whether it was served like this."""
    if (past := result.get("as_of")) is not None and not as_json:
        what = "byte for byte what was served"
        if past["served"] is None:
            what = "the files as they were, without conversation and recalled lines: no context served then is kept"
        print(f"as of change {past['seq']}, {past['at']}: {what}", file=sys.stderr)
    if as_json:
        print_json(result)
    elif explain:
        print_lines(explanation_of(ContextResult.model_validate(result)))
    else:
        sys.stdout.write(here(result["system"]))


@app.command()
def search(
    home: Home,
    group: str,
    query: Annotated[str | None, typer.Argument(help="Words or a question; without one the newest are listed.")] = None,
    category: Annotated[str | None, typer.Option(help="Only entries of this category or below it.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Only entries with this tag; may be repeated.")] = None,
    since: Annotated[str | None, typer.Option(help="A date or a time, as 2026-11-21, or `yesterday`.")] = None,
    until: Annotated[str | None, typer.Option(help="Likewise; a date includes its whole day.")] = None,
    scope: Annotated[str, typer.Option(help="entries, turns, notes or all.")] = "all",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=100, help="How many at most.")] = 8,
    archived: Annotated[bool, typer.Option("--archived", help="Only what was merged, replaced or retired.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Print what each hit earned from what.")] = False,
    as_json: AsJson = False,
) -> None:
    """Search a group's memory and conversations. Works with and without a running host."""
    wanted = {
        "query": query,
        "category": category,
        "tags": tag,
        "since": since,
        "until": until,
        "scope": scope,
        "limit": limit,
        "archived": archived,
    }
    result = asked_of(home, group, "search_memory", wanted)
    tell(result, hit_lines(SearchResult.model_validate(result), with_points=explain), as_json=as_json)


@app.command("log")
def log_(
    home: Home,
    group: Annotated[str | None, typer.Argument(help="Without one the changes of all groups.")] = None,
    by: Annotated[str | None, typer.Option(help="Only what this sender changed; `human`: people.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only changes of this kind, as `log` names them.")] = None,
    since: Annotated[str | None, typer.Option(help="A date or a time, as 2026-11-21, or `yesterday`.")] = None,
    file: Annotated[str | None, typer.Option(help="Only this file, as MEMORY.md, or an entry by its id.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many, the newest.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Print who changed what when, newest first."""
    if group is not None:
        check_group(home, group)
    if kind is not None and kind not in CHANGE_KINDS:
        raise typer.BadParameter(
            f"there is no kind {kind!r} of changes; there are: {', '.join(sorted(CHANGE_KINDS))}", param_hint="--kind"
        )
    journal = journal_of(home)
    try:
        first = None if since is None else read_moment(since, datetime.now(UTC))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--since") from None
    wanted = LogFilter(group, by, kind, first, file)
    rows = read_log(journal, wanted, limit)
    if as_json:
        turns = read_turns_behind(journal, rows)
        print_json([_told(row, turns.get(row.seq)) for row in rows])
        return
    print_lines(_lines_of(rows))
    if not rows:
        print(
            f"nothing was changed in {group or 'this home'} yet"
            if wanted == LogFilter(group)
            else "no change is like that"
        )


def _lines_of(rows: Sequence[Row]) -> Iterator[str]:
    from honeybadger_host.ops.gist import gist_of

    width = max((len(row.kind) for row in rows), default=0)
    for row in rows:
        yield f"{row.seq:>8}  {moment(row.at)}  {row.sender:16}  {row.kind:{width}}  {row.file}  {gist_of(row)}"


def _told(row: Row, said: SaidIn | None) -> dict[str, Any]:
    """Return a change as JSON; the text of a person's edit is its lines with their signs."""
    told: dict[str, Any] = {"seq": row.seq, "at": moment(row.at), "group": row.group, "sender": row.sender}
    what = {"kind": row.kind, "file": row.file}
    if not is_edit(row):
        by = {"session": None if said is None else said.session, "turn": None if said is None else said.turn}
        return {**told, "request": row.request, **what, **by, "text": row.data.decode("utf-8", "replace")}
    edit = edit_of(row)
    lines = (
        f"{sign}{line.decode('utf-8', 'replace').rstrip(chr(10))}\n" for sign, line in signed_lines(edit.hunks or ())
    )
    text = None if edit.hunks is None else "".join(lines)
    return {**told, "event": edit.event, **what, "added": edit.added, "removed": edit.removed, "text": text}


def _change(text: str) -> int:
    """Return the number of a change that somebody typed."""
    if not text.isdecimal() or len(text) > 19 or int(text) == 0:
        raise typer.BadParameter(
            f"{text} is not the number of a change: `honeybadger-host log <group>` shows them, as 4213"
        )
    return int(text)


@app.command()
def undo(
    home: Home,
    seqs: Annotated[
        list[int], typer.Argument(parser=_change, help="The changes, as `log` shows them.", metavar="SEQ...")
    ],
    as_json: AsJson = False,
) -> None:
    """Undo changes of agents and people, newest first. Works with and without a running host."""
    waiting = sorted(set(seqs), reverse=True)
    results: list[dict[str, Any]] = []
    done: list[str] = []
    while waiting:
        try:
            path, result, together = _undo_one(home, waiting[0], waiting)
        except HostError as error:
            if not done:
                raise
            raise type(error)(f"{error}; undone before that: {', '.join(done)}") from None
        waiting = [seq for seq in waiting if seq not in together]
        results.append(result)
        done += map(str, together)
        if not as_json:
            print(
                f"{path}: {result['did'].replace('_', ' ')}; change {result['seq']} undoes "
                + " and ".join(map(str, together))
            )
    if as_json:
        print_json(results if len(results) > 1 else results[0])


def _undo_one(folder: Path, seq: int, asked: list[int]) -> tuple[str, dict[str, Any], list[int]]:
    """Undo a change; return its file, the result, and those of the numbers asked for that are undone with it.

    Raises HostError.
    """
    row = read_change(journal_of(folder), seq)
    if row is None:
        raise NotFound(f"{folder} has no change {seq}: `honeybadger-host log <group>` shows them")
    group = inbox_group(folder) if row.group == GLOBAL_GROUP else row.group
    reply = reply_to(folder, group, Undo(seq=seq))
    result = reply.result or {}
    path = f"groups/{group}/{result['file']}" if row.file.startswith(f"groups/{group}/") else result["file"]
    together = [seq]
    if len(asked) > 1:
        from honeybadger_host.handlers.undo import undone_with

        undone = {one.seq for one in undone_with(journal_of(folder), row)}
        together = [each for each in asked if each in undone]
    return path, {"seq": reply.seq, "group": row.group, **result}, together


@app.command("stop-turn")
def stop_turn(
    home: Home,
    group: Annotated[str, typer.Argument(help="Group of the agent.")],
    turn: Annotated[str | None, typer.Argument(help="Id of the message; without it the answer being written.")] = None,
    sender: Annotated[str | None, typer.Option(help="Sender of the message, if several used the same id.")] = None,
    as_json: AsJson = False,
) -> None:
    """Stop an agent's answer and keep its text so far. A message that still waits is refused."""
    result = asked_of(home, group, "stop_turn", {"turn": turn, "sender": sender})
    tell(result, [f"{result['turn']}: {result['state'].replace('_', ' ')}"], as_json=as_json)


@app.command()
def forget(
    home: Home,
    group: str,
    id_: Annotated[str | None, typer.Option("--id", help="An entry or a task, or a change as `log` shows it.")] = None,
    text: Annotated[str | None, typer.Option(help="Every line with this text, whoever wrote it.")] = None,
    sender: Annotated[str | None, typer.Option(help="Everything that this sender said and saved.")] = None,
    session: Annotated[str | None, typer.Option(help="What was said in this session, and learnt from it.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would go; change nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove something for good, from every place. Then every byte below the home is searched for it.

    The group `global` is what every group reads. It cannot be undone. Exit code 1 when something of it is left.
    """
    if len([value for value in (id_, text, sender, session) if value is not None]) != 1:
        raise typer.BadParameter("give one of --id, --text, --sender and --session")
    is_shared = group == GLOBAL_GROUP
    wanted = {"id": id_, "text": text, "sender": sender, "session": session, "shared": is_shared, "dry_run": dry_run}
    result = asked_of(home, inbox_group(home) if is_shared else group, "forget", wanted)
    tell(result, _forgotten(result), as_json=as_json)
    if result["left"]:
        raise SystemExit(1)


def _forgotten(result: Mapping[str, Any]) -> Iterator[str]:
    kinds = ", ".join(f"{kind} {count}" for kind, count in result["changes"].items())
    counts = [f"{count_of(sum(result['changes'].values()), 'change')} ({kinds})"] if kinds else []
    counts += [count_of(result["edits"], "edit")] if result["edits"] else []
    counts += [count_of(result["replies"], "reply", "replies")] if result["replies"] else []
    yield f"{'would go' if result['dry_run'] else 'forgotten'}: {', '.join(counts) or 'nothing in the journal'}"
    yield from some_of("would be rewritten" if result["dry_run"] else "rewritten", result["files"])
    yield from some_of("would be removed" if result["dry_run"] else "removed", result["removed"])
    if not result["dry_run"]:
        for one in result["left"]:
            yield f"LEFT: {one['file']} ({one['form']})"
        if not result["left"]:
            yield "looked through every file below the home: nothing of it is left"
    for backup in result["backups"]:
        yield f"not looked through, a copy, an archive or a link: {backup}"
