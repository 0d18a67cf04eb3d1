"""`honeybadger-host`: what an operator types. Heavy parts are imported by the command that needs them."""

from __future__ import annotations

import contextlib
import shlex
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from honeybadger_host import __version__
from honeybadger_host.errors import HostError, NotFound, NotRunning, SettingsError

if TYPE_CHECKING:
    from honeybadger_host.memory.index import Index
    from honeybadger_host.settings import Settings

app = typer.Typer(
    name="honeybadger-host",
    help="The memory of groups of LLM agents: a daemon, and what its operator needs. Exit codes: 0 good, 1 failed, "
    "2 usage, 3 settings, 4 home, 5 another host serves it, 6 journal, 7 not running, 8 disk, 9 not found.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
sender_app = typer.Typer(help="Who may send in closed mode.", no_args_is_help=True)
dead_app = typer.Typer(help="Requests that could not be served.", no_args_is_help=True)
app.add_typer(sender_app, name="sender")
app.add_typer(dead_app, name="dead")
service_app = typer.Typer(help="The host as a systemd service.", no_args_is_help=True)
app.add_typer(service_app, name="service")

_MOST_LINES = 20

Home = Annotated[
    Path | None, typer.Option("--home", help="Home folder; default HONEYBADGER_HOME, else the current folder.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", help="A setting for this run, as log.level=debug; may be repeated.")
]


def main() -> None:
    """Run a command; an error of ours becomes one line and its exit code."""
    try:
        app()
    except HostError as error:
        print(f"honeybadger-host: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(0) from None


@app.command()
def version() -> None:
    """Print the version."""
    print(__version__)


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="Where; made when missing.")] = Path(),
    group: Annotated[str, typer.Option(help="The first group.")] = "main",
) -> None:
    """Make a home folder, ready to run. What exists is not touched."""
    from honeybadger_host.home import make_home

    made = make_home(folder, group)
    for path in made:
        print(f"made {path}")
    if not made:
        print(f"{folder} is a home already")
    print(f"next: edit {folder / 'groups' / group / 'CLAUDE.md'}, then: honeybadger-host run --home {folder}")


@app.command()
def run(home: Home = None, overrides: Overrides = None) -> None:
    """Serve a home folder until SIGTERM or Ctrl-C."""
    from honeybadger_host import daemon
    from honeybadger_host.observe import configure_logging
    from honeybadger_host.settings import load_settings

    folder = _home(home)
    loaded = load_settings(folder, _flags(overrides))
    configure_logging(loaded.settings.log.format, loaded.settings.log.level)
    daemon.run(folder, loaded.settings)


@app.command()
def config(home: Home = None, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Print every setting with its value and where it came from."""
    from honeybadger_host.settings import load_settings, values

    loaded = load_settings(_home(home), _flags(overrides))
    rows = [{"name": name, "value": value, "from": loaded.origins[name]} for name, value in values(loaded.settings)]
    if as_json:
        _print_json(rows)
        return
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        print(f"{row['name']:{width}}  {row['value']!s:10}  {row['from']}")


@app.command()
def status(home: Home = None, as_json: AsJson = False) -> None:
    """Say whether a host serves the home, and how it does. Exit code 7 when none does."""
    from honeybadger_host.home import is_served, read_holder
    from honeybadger_host.observe import STATUS_FILE

    folder = _home(home)
    try:
        is_running = is_served(folder)
    except OSError as error:
        raise HostError(f"cannot look at the lock of {folder}: {error.strerror}") from None
    try:
        snapshot = orjson.loads((folder / STATUS_FILE).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        snapshot = {}
    if is_running and snapshot.get("pid") != read_holder(folder).pid:
        snapshot = {}  # an earlier host wrote it
    if as_json:
        _print_json({"running": is_running, **snapshot})
    if not is_running:
        last = f"; last served by {read_holder(folder)}" if read_holder(folder).pid else ""
        raise NotRunning(f"no host serves {folder}{last}: start one with `honeybadger-host run --home {folder}`")
    if not as_json:
        _print_status(folder, snapshot)


@app.command()
def doctor(home: Home = None, as_json: AsJson = False) -> None:
    """Check what an operator can mend. Exit code 1 when something is a problem."""
    from honeybadger_host.doctor import examine

    findings = examine(_home(home))
    if as_json:
        _print_json(
            [{"check": f.check, "level": f.level, "message": f.message, "now_what": f.now_what} for f in findings]
        )
    else:
        for finding in findings:
            advice = f"\n{'':10}-> {finding.now_what}" if finding.now_what else ""
            print(f"{finding.level:8}  {finding.check}: {finding.message}{advice}")
    if any(finding.level == "problem" for finding in findings):
        raise SystemExit(1)


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
    from honeybadger_host.handlers.conversation import load_parts
    from honeybadger_host.handlers.recalling import Recaller
    from honeybadger_host.handlers.working import inventory_of
    from honeybadger_host.memory.context import build_context
    from honeybadger_host.memory.conversation import Conversations
    from honeybadger_host.memory.group_files import GroupFiles
    from honeybadger_host.memory.shelves import Shelves
    from honeybadger_host.settings import load_settings
    from honeybadger_host.text import use_counter
    from honeybadger_host.tokens import counter_of

    folder = _home(home)
    _print_warnings_only(call)
    settings = load_settings(folder).settings
    if not NAME.fullmatch(group) or not SESSION.fullmatch(session):
        raise typer.BadParameter(f"{group!r} or {session!r} is not a name the protocol allows")
    if not (folder / "groups" / group).is_dir() and not (folder / "data" / "sessions" / group).is_dir():
        raise NotFound(f"{folder} has no group {group!r}")
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
        _print_json(
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

    folder = _home(home)
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
        _print_json(found)
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
    from honeybadger_host.home import JOURNAL_FILE
    from honeybadger_host.memory.journal_reading import read_log

    folder = _home(home)
    if not (folder / JOURNAL_FILE).exists():
        raise NotFound(f"{folder} has no journal yet: nothing was changed through a host")
    rows = read_log(folder / JOURNAL_FILE, group, limit)
    if as_json:
        _print_json(
            [
                {
                    "seq": row.seq,
                    "at": _time(row.at),
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
        print(f"{row.seq:>8}  {_time(row.at)}  {row.sender:16}  {row.kind:5} {row.file}  {_gist(row.kind, row.data)}")
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
    from honeybadger_host.home import JOURNAL_FILE
    from honeybadger_host.memory.journal_reading import read_change
    from honeybadger_host.operators_box import ask
    from honeybadger_host.settings import load_settings

    folder = _home(home)
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
        _print_json({"seq": reply.seq, "group": row.group, **result})
        return
    did = str(result["did"]).replace("_", " ")
    print(f"groups/{row.group}/{result['file']}: {did}; change {reply.seq} undoes {seq}")


@app.command()
def backup(
    file: Annotated[Path, typer.Argument(help="The archive to make, as honeybadger.tar.gz; must not exist.")],
    home: Home = None,
) -> None:
    """Pack the home into one file (0600). Works with and without a running host."""
    from honeybadger_host.backup import back_up

    folder = _home(home)
    packed = back_up(folder, file.absolute(), now=datetime.now(UTC))
    for line in packed.left_out[:_MOST_LINES]:
        print(f"left out: {line}", file=sys.stderr)
    if len(packed.left_out) > _MOST_LINES:
        print(f"left out: {len(packed.left_out) - _MOST_LINES} more", file=sys.stderr)
    journal = packed.manifest.journal
    print(
        f"{file}: {len(packed.manifest.files)} files, "
        f"{'no journal yet' if journal is None else f'journal at {journal.seq}'}, {file.stat().st_size} bytes"
    )


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(help="What `backup` made.")],
    home: Home = None,
    force: Annotated[bool, typer.Option("--force", help="Move what the home has aside first.")] = False,
) -> None:
    """Make a home from a backup, after checking all of it. Exit code 1 when the doctor finds a problem with it."""
    from honeybadger_host.doctor import examine
    from honeybadger_host.restore import restore as restore_

    folder = _home(home)
    restored = restore_(file.absolute(), folder, now=datetime.now(UTC), is_forced=force)
    if restored.aside is not None:
        print(f"what was there is in {restored.aside}")
    if restored.foreign_uids:
        print(f"files of uid {', '.join(map(str, restored.foreign_uids))} are yours now; as root they would not be")
    manifest = restored.manifest
    print(f"{folder}: {len(manifest.files)} files as of {manifest.made_at}, by version {manifest.version}")
    problems = [finding for finding in examine(folder) if finding.level == "problem"]
    for finding in problems:
        print(f"{finding.level:8}  {finding.check}: {finding.message}\n{'':10}-> {finding.now_what}")
    if problems:
        raise SystemExit(1)
    print(f"next: honeybadger-host run --home {folder}")


@sender_app.command("add")
def sender_add(
    group: str,
    sender: str,
    home: Home = None,
    uid: Annotated[int | None, typer.Option(help="Who owns its folders and files; needs root.")] = None,
) -> None:
    """Make a sender's folders and enter it in config/senders.json."""
    from honeybadger_host.home import check_home
    from honeybadger_host.senders import add_sender

    folder = _home(home)
    check_home(folder)
    print(f"{add_sender(folder, group, sender, uid)} is ready; a running host serves it within a sweep")


@sender_app.command("list")
def sender_list(home: Home = None, as_json: AsJson = False) -> None:
    """Print the senders of config/senders.json and those that have a folder."""
    from honeybadger_host.senders import load_senders

    folder = _home(home)
    known = load_senders(folder)
    found = {(path.parent.name, path.name) for path in (folder / "data" / "ipc").glob("*/*") if path.is_dir()}
    rows = [
        {
            "group": group,
            "sender": sender,
            "uid": known.get((group, sender)),
            "known": (group, sender) in known,
            "has_folder": (group, sender) in found,
        }
        for group, sender in sorted(found | known.keys())
    ]
    if as_json:
        _print_json(rows)
        return
    for row in rows:
        state = ("closed mode serves it" if row["known"] else "open mode only") + (
            "" if row["has_folder"] else ", no folder"
        )
        print(f"{row['group']}/{row['sender']}  uid {'any' if row['uid'] is None else row['uid']}  {state}")
    if not rows:
        print("no senders yet")


@dead_app.command("list")
def dead_list(home: Home = None, as_json: AsJson = False) -> None:
    """Print all dead letters with their reasons."""
    from honeybadger_host.dead import list_dead

    letters = list(list_dead(_home(home)))
    if as_json:
        _print_json([{"name": letter.name, **letter.reason} for letter in letters])
        return
    for letter in letters:
        print(f"{letter.reason.get('at', '?'):20}  {letter.name}  {letter.reason.get('reason')}")
    if not letters:
        print("no dead letters")


@dead_app.command("show")
def dead_show(name: str, home: Home = None) -> None:
    """Print one dead letter: the reason, then its bytes."""
    from honeybadger_host.dead import find_dead

    letter = find_dead(_home(home), name)
    _print_json(letter.reason)
    if letter.data is None:
        print("(it was no regular file: nothing was kept)")
    else:
        print(ascii(letter.data.decode("utf-8", "backslashreplace"))[1:-1])


@dead_app.command("retry")
def dead_retry(name: str, home: Home = None) -> None:
    """Put a dead letter back into its box, as after a fault was mended."""
    from honeybadger_host.dead import find_dead, retry_dead

    folder = _home(home)
    retry_dead(folder, find_dead(folder, name))
    print(f"{name} is back in its box")


@dead_app.command("drop")
def dead_drop(name: str, home: Home = None) -> None:
    """Remove a dead letter for good."""
    from honeybadger_host.dead import drop_dead, find_dead

    drop_dead(find_dead(_home(home), name))
    print(f"{name} is gone")


@service_app.command("install")
def service_install(
    home: Annotated[
        Path | None, typer.Option(help="Home folder; default /var/lib/honeybadger, or ~/.local/share/honeybadger.")
    ] = None,
    user: Annotated[bool, typer.Option("--user", help="A service of your own, without root.")] = False,
    closed: Annotated[bool, typer.Option("--closed", help="For closed mode with senders of other users.")] = False,
    command: Annotated[Path | None, typer.Option(help="The program to start; default: this one.")] = None,
    root: Annotated[Path, typer.Option(help="Write below this folder and run nothing, as for an image.")] = Path("/"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be written and run.")] = False,
) -> None:
    """Write the systemd unit and what it needs, then start it, where systemd runs. What was there is kept as *.old."""
    from honeybadger_host import service
    from honeybadger_host.settings import environment_home, user_folders

    if user and closed:
        raise typer.BadParameter("a service of your own cannot serve other users' boxes: leave out --user or --closed")
    user_home, config_home = user_folders()
    folder = home or environment_home() or (service.default_user_home(user_home) if user else service.SYSTEM_HOME)
    program = service.find_program() if command is None else command.absolute()
    if user:
        plan = service.plan_user(folder.absolute(), program, user_home, config_home)
    else:
        plan = service.plan_system(folder.absolute(), program, is_closed=closed)
        if command is None:
            service.check_visible(Path(sys.base_prefix))
    if dry_run:
        print(service.show(plan), end="")
        return
    for path in service.write(plan, root):
        print(f"wrote {path}")
    if service.is_booted() and root == Path("/"):
        service.run(plan.commands)
        print(f"{service.UNIT} runs; see: systemctl {'--user ' if user else ''}status {service.UNIT}")
    else:
        print("systemd does not run here. Where it does, run:")
        for line in plan.commands:
            print(f"  {shlex.join(line)}")
    print(plan.hint)


def _home(given: Path | None) -> Path:
    from honeybadger_host.settings import environment_home

    return (given or environment_home() or Path()).absolute()


def _flags(overrides: list[str] | None) -> dict[str, Any]:
    flags: dict[str, Any] = {}
    for item in overrides or ():
        name, equals, value = item.partition("=")
        if not equals:
            raise SettingsError(f"--set {item}: write name=value, as --set log.level=debug")
        flags[name] = value
    return flags


def _print_json(value: Any) -> None:
    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode())


def _print_status(folder: Path, status_: dict[str, Any]) -> None:
    if not status_:
        print(f"a host serves {folder}; it has not written its status yet")
        return
    age = time.time() - status_["written_at"]
    print(
        f"running   pid {status_['pid']}, version {status_['version']}, {status_['mode']} mode, "
        f"up {status_['uptime_seconds']:.0f} s" + (f"  (as of {age:.0f} s ago!)" if age > 30 else "")
    )
    print(f"boxes     {status_['boxes']}, {status_['pending']} requests wait, {status_['stuck']} cannot be removed")
    for near in status_["limits"]["near"]:
        print(f"          near a limit: {near}")
    for reached in status_["limits"]["reached_lately"]:
        print(f"          over a limit within 10 minutes: {reached}")
    for refused in status_["boxes_refused"]:
        print(f"          not served: {refused}")
    requests, latency = status_["requests"], status_["latency"]
    outcomes = ", ".join(f"{name} {count}" for name, count in sorted(requests["by_outcome"].items()))
    print(
        f"requests  {requests['total']} ({outcomes or 'none yet'}), {status_['requests_per_second']}/s"
        + (f", p50 {latency['p50_ms']} ms, p99 {latency['p99_ms']} ms" if latency else "")
    )
    journal = status_["journal"]
    young = journal["seq"] - journal["projected_seq"]  # written, too; a start would look whether they are still there
    print(f"journal   at {journal['seq']}" + (f", the last {young} not settled yet" if young else ", all settled"))
    for file in status_["files_behind"]:
        print(f"          cannot be written now: {file}")
    if "turns" in status_:  # else the host is older than this command
        turns, agents = status_["turns"], status_["agents"]
        print(f"agents    {len(agents['known'])}, {turns['running']} turns run, {turns['waiting']} wait")
        for file, why in agents["refused"].items():
            print(f"          as it was before: {file}: {why}")
    index = status_["index"]
    waits = f", {index['waiting']} files are still to be read" if index["waiting"] else ""
    if index["without_vector"]:
        waits += f", {index['without_vector']} documents have no vector yet"
    print(f"search    {index['documents']} documents{waits}")
    watcher = status_["watcher"]
    if not watcher["is_alive"] or watcher["folders_without_events"]:
        print(
            f"watcher   {'alive' if watcher['is_alive'] else 'off'}, {watcher['folders_without_events']} folders found "
            f"by the sweep only"
        )
    if status_["last_error"]:
        print(f"error     {_time(int(status_['last_error_at'] * 1000))}  {status_['last_error']}")
    if status_["resident_bytes"]:
        print(f"memory    {status_['resident_bytes'] >> 20} MiB")


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


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _index_of(folder: Path, settings: Settings, group: str) -> Index:
    """Return a fresh index of a home, whether a host serves it or not. Exits when there is no such group."""
    from honeybadger_agent.mailbox import NAME
    from honeybadger_host.daemon import embedder_of
    from honeybadger_host.memory.index import open_copy

    if not NAME.fullmatch(group):
        raise typer.BadParameter(f"{group!r} is not a name the protocol allows")
    if not (folder / "groups" / group).is_dir() and not (folder / "data" / "sessions" / group).is_dir():
        raise NotFound(f"{folder} has no group {group!r}")
    return open_copy(folder, group, max_note_bytes=settings.memory.max_group_file_bytes, embedder=embedder_of(settings))


def _print_warnings_only(call: typer.Context) -> None:
    """Keep what the parts of a host log out of a command's output: warnings go to standard error."""
    from honeybadger_host.observe import warnings_to_stderr

    call.with_resource(warnings_to_stderr())


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
