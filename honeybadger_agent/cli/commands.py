"""The commands of `honeybadger-agent`; `cli` parses their arguments.

Separate, so that `--help` and usage errors do not wait for the import of the protocol's models.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import orjson

from honeybadger_agent.cli.chat_answer import TAKEN_BACK, Showing, stopped_answer
from honeybadger_agent.cli.explaining import (
    ACTIONS,
    done_told,
    explanation_of,
    hit_lines,
    shown_task,
    similar_told,
    task_lines,
    waiting_told,
)
from honeybadger_agent.cli.following import Following, message_lines
from honeybadger_agent.cli.terminal import Screen, complain, here, json_shown, patience, print_lines, takes_styles
from honeybadger_agent.client import CHAT_SECONDS, Client, Payload, SyncClient, place_of, result_of, server_or_box
from honeybadger_agent.errors import AgentError, NoHome, NotFound
from honeybadger_agent.exchange import OnLine
from honeybadger_agent.home import find_home, named
from honeybadger_agent.hooks.program.settings import HOME_SETTINGS
from honeybadger_agent.mailbox import GLOBAL_GROUP, NAME, BadName, new_id
from honeybadger_agent.tools import made
from honeybadger_agent.wire import (
    REQUEST_TYPES,
    ChatResult,
    DeleteMemory,
    GetContext,
    GetHistory,
    GetMessages,
    GroupMessage,
    Reply,
    Request,
    RequestT,
    ResultT,
    SaveMemory,
    SearchMemory,
    UpdateMemory,
    Wire,
)
from honeybadger_agent.wording import AGENT_EXTRA, count_of, meant

ClientT = TypeVar("ClientT", Client, SyncClient)
_RELAY_LOOK_SECONDS = 0.02  # between two looks into the folder


class UsageError(Exception):
    """The arguments cannot be used."""


def _remember(options: Mapping[str, Any]) -> None:
    note = _asked(options, _request(options, UpdateMemory), request_id=options["id"])
    _print(options, note, [done_told(note, f"saved in {note.file}, section {note.section}")])


def _save(options: Mapping[str, Any]) -> None:
    entry = _asked(options, _request(options, SaveMemory), request_id=options["id"])
    known = f"known already, said {count_of(entry.reinforced + 1, 'time')}" if entry.reinforced else "saved"
    _print(options, entry, [done_told(entry, f"{known}: {entry.id} in {entry.file}")])
    for one in () if options["json"] else entry.similar or ():
        complain(f"nearly the same is there, and stays: {similar_told(one)}")


def _forget(options: Mapping[str, Any]) -> None:
    raise UsageError(
        "nothing was done: `honeybadger-agent delete ENTRY` removes an entry, and the journal keeps it; what is to go "
        "for good, the operator removes with `honeybadger-host forget`"
    )


def _delete(options: Mapping[str, Any]) -> None:
    asked = made(DeleteMemory, options["entry"])
    reply = _replied(options, asked.type_name, asked)
    entry = result_of(reply, asked)
    if options["json"]:
        _print_json({**entry.model_dump(), "seq": reply.seq})
    elif entry.proposal is not None:
        print(waiting_told(entry.proposal))
    else:
        undo = f"`honeybadger-host undo {reply.seq}`"
        print(f"deleted: {entry.file}; the journal keeps it, and the operator brings it back with {undo}")


def _context(options: Mapping[str, Any]) -> None:
    context = _asked(options, _request(options, GetContext))
    _print(options, context, explanation_of(context) if options["explain"] else context.system)


def _recall(options: Mapping[str, Any]) -> None:
    found = _asked(options, _request(options, SearchMemory))
    _print(options, found, hit_lines(found, with_points=options["explain"]))


def _history(options: Mapping[str, Any]) -> None:
    history = _asked(options, _request(options, GetHistory))
    _print(options, history, history.text)
    if not history.messages and not options["json"]:
        complain("nothing was said in this session, or all of it was taken back")


def _messages(options: Mapping[str, Any]) -> None:
    found = _asked(options, _request(options, GetMessages))
    for message in found.messages:
        _print_message(options, message)
    if options["follow"]:
        following = Following(
            _client(options, changes=False), found.after, lambda: complain("no host answers; waiting")
        )
        with contextlib.closing(following):  # Ctrl-C may come between a request and the wait for it
            for message in following:
                _print_message(options, message)


def _print_message(options: Mapping[str, Any], message: GroupMessage) -> None:
    if options["json"]:
        print(orjson.dumps(message.model_dump()).decode())
    else:
        print_lines(message_lines(message))
    sys.stdout.flush()


def _tasks(options: Mapping[str, Any]) -> None:
    action = options["action"]
    if action != "list" and options["task"] is None:
        raise UsageError(f"tasks {action} needs the id of a task: `tasks` lists them")
    found: Any = _asked(options, _request(options, REQUEST_TYPES[ACTIONS[action]]))
    rows = [row.model_dump(exclude_none=True) for row in (found.tasks if action in ("list", "show") else [found])]
    if options["json"]:
        _print_json(rows if action == "list" else rows[0])
    elif action == "show":
        print_lines(shown_task(rows[0]))
    else:
        print_lines(task_lines(rows) if rows else ["there are no tasks"])


def _call(options: Mapping[str, Any]) -> int:
    payload = _payload(_standard_input() if options["payload"] == "-" else options["payload"])
    reply = _replied(options, options["type"], payload)
    _print_json(reply.model_dump(exclude_unset=True))
    return 0 if reply.ok else 1


def _ask(options: Mapping[str, Any]) -> None:
    text = _standard_input() if options["text"] in (None, "-") else options["text"]
    client, request_id = _client(options, changes=True), options["id"] or new_id()

    def chat(on_line: OnLine) -> ChatResult:
        return client.chat(
            text,
            sender=options["as"],
            agent=options["agent"],
            request_id=request_id,
            timeout_seconds=options.get("timeout", CHAT_SECONDS),
            on_line=on_line,
        )

    _print_answer(options, chat, on_interrupt=functools.partial(stopped_answer, client, request_id))


def _answer(options: Mapping[str, Any]) -> None:
    client, request_id = _client(options, changes=False), options["turn"]
    try:
        _print_answer(
            options,
            lambda on_line: client.answer(
                request_id, timeout_seconds=options.get("timeout", CHAT_SECONDS), on_line=on_line
            ),
        )
    except KeyboardInterrupt:
        complain(f"not waiting any more; the answer goes on being written: honeybadger-agent answer {request_id}")
        raise


def _chat(options: Mapping[str, Any]) -> int:
    from honeybadger_agent.cli.chat import talk  # with asyncio, which only this command needs

    return talk(
        _opened(Client, _place(options), changes=True),
        speaker=options["as"],
        agent=options["agent"],
        timeout_seconds=options.get("timeout", CHAT_SECONDS),
    )


def _mcp(options: Mapping[str, Any]) -> None:
    try:
        from honeybadger_agent.mcp_server import serve  # takes a second, and only this command needs it
    except ImportError as error:
        raise AgentError(f"mcp needs the extra of this name ({error}): {AGENT_EXTRA.format('mcp')}") from None
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # else it waits for the thread that waits for input
    if "http" in options:
        _mcp_http(options)
        return
    if "behind_proxy" in options:
        raise UsageError("--behind-proxy goes with --http")
    if "for_tool" in options:
        from honeybadger_agent.cli.install import place_for

        options = {**place_for(options["for_tool"], Path.cwd()), **options}
    place = _place(options)
    client: Client | Callable[[], Client]
    try:
        client = _opened(Client, place, changes=True)
    except NoHome as error:  # serve nevertheless: each call reports it and tries again
        complain(str(error))
        client = functools.partial(Client, **place)
    serve(client, options["tools"])


def _mcp_http(options: Mapping[str, Any]) -> None:
    for name in ("group", "sender", "box", "session", "server", "credentials"):
        if name in options:
            raise UsageError(f"with --http the token says who asks: leave out --{name}")
    host, _, port = options["http"].rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise UsageError(f"--http {options['http']!r} is not HOST:PORT, as 127.0.0.1:8765")
    from honeybadger_agent.mcp_http import serve_http

    home = find_home(options.get("home"))
    told = functools.partial(print, flush=True)
    serve_http(home, host.strip("[]"), int(port), told, options["tools"], public_name=options.get("behind_proxy"))


def _install(options: Mapping[str, Any]) -> None:
    from honeybadger_agent.cli.install import install
    from honeybadger_agent.hooks.tools import TOOLS

    if named := [name for name in ("box", "session", "server", "credentials", "timeout") if name in options]:
        raise UsageError(f"install takes --home, --group and --sender: leave out --{named[0]}")
    try:
        install(TOOLS[options["tool"]], options, print)
    except BadName as error:
        raise UsageError(str(error)) from None


def _uninstall(options: Mapping[str, Any]) -> None:
    from honeybadger_agent.cli.install import uninstall
    from honeybadger_agent.hooks.tools import TOOLS

    uninstall(TOOLS[options["tool"]], print, is_dry=options["dry_run"])


def _ping(options: Mapping[str, Any]) -> None:
    client = _client(options, changes=False)
    began = time.perf_counter()
    with patience():
        host = client.ping()
    milliseconds = (time.perf_counter() - began) * 1000
    if options["json"]:
        _print_json({**host.model_dump(), "milliseconds": round(milliseconds, 1)})
    else:
        print(f"honeybadger-host {host.host_version}, protocol {host.protocol}, answered in {milliseconds:.1f} ms")


def _relay(options: Mapping[str, Any]) -> None:
    """Carry requests to the servers until a signal."""
    if "box" not in options:
        raise UsageError("relay needs --box, the folder that is carried")
    where = place_of(options.get("server"), *(options.get(name) for name in ("home", "group", "sender", "credentials")))
    from honeybadger_agent.relay import Relay

    mailbox = SyncClient(box=options["box"]).mailbox
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    with contextlib.closing(Relay(mailbox, where, look_seconds=_RELAY_LOOK_SECONDS)) as relay:
        complain(f"carries {mailbox.root} to {where.servers} as {where.sender} in {where.group}")
        said = ""
        while not ended.wait(0.2):
            if relay.trouble != said:
                said = relay.trouble
                complain(said or "requests are answered")


# Name -> function of its options; returns the exit code, None for 0.
COMMANDS: Mapping[str, Callable[[Mapping[str, Any]], int | None]] = {
    "remember": _remember,
    "save": _save,
    "delete": _delete,
    "forget": _forget,
    "context": _context,
    "recall": _recall,
    "history": _history,
    "messages": _messages,
    "tasks": _tasks,
    "call": _call,
    "ask": _ask,
    "answer": _answer,
    "chat": _chat,
    "install": _install,
    "uninstall": _uninstall,
    "mcp": _mcp,
    "ping": _ping,
    "relay": _relay,
}

# ------------------------------------------------------------------------------------------------------------- options


def _request(options: Mapping[str, Any], kind: type[RequestT]) -> RequestT:
    """Return a request whose members are the arguments of the command; a text `-` is standard input."""
    members = {name: options[name] for name in kind.model_fields if name in options}
    if members.get("content") == "-":
        members["content"] = _standard_input()
    return made(kind, **members)


def _client(options: Mapping[str, Any], *, changes: bool) -> SyncClient:
    return _opened(SyncClient, _place(options), changes=changes)


def _opened(kind: Callable[..., ClientT], place: dict[str, Any], *, changes: bool) -> ClientT:
    """Return a client; only a change makes a group. Raises NotFound."""
    remark = _new_group(place, changes=changes)
    client = kind(**place)
    if remark:
        complain(remark)
    return client


def _new_group(place: dict[str, Any], *, changes: bool) -> str:
    """Return a remark if a change is going to make a group, whose name may be mistyped. Raises NotFound, NoHome."""
    where = ("server", "box", "home", "group", "sender")
    if server_or_box(*(place[name] for name in where)) != (None, None):
        return ""
    home, group = find_home(place["home"]), named(place["group"], "GROUP", "main")
    place["home"] = home
    try:
        groups = {*os.listdir(home / "data" / "ipc"), *os.listdir(home / "groups")}
    except OSError:
        return ""  # only the host may look
    if group in (*groups, GLOBAL_GROUP) or not NAME.fullmatch(group):
        return ""
    near = meant(group, groups - {GLOBAL_GROUP})
    hint = f"; did you mean {near}?" if near else ""
    if changes:
        return f"{group} is a new group{hint}" if groups else ""
    if _is_on_one_machine(home):
        raise NotFound(f"{home} has no group {group!r}{hint or '; what is saved first makes it'}")
    return ""


def _is_on_one_machine(home: Path) -> bool:
    """Return whether a home is known to be on this machine alone; others may have groups that it has no folder of."""
    import tomllib  # only after a mistake

    try:
        settings = tomllib.loads((home / HOME_SETTINGS).read_text(encoding="utf-8"))
        return not settings.get("cluster", {}).get("servers")
    except (OSError, ValueError, AttributeError):
        return False


def _asked(options: Mapping[str, Any], request: Request[ResultT], *, request_id: str | None = None) -> ResultT:
    client = _client(options, changes=request.changes)
    with patience():
        return client(request, request_id=request_id)


def _replied(options: Mapping[str, Any], type_name: str, payload: Payload) -> Reply:
    kind = REQUEST_TYPES.get(type_name)
    client = _client(options, changes=kind is not None and kind.changes)
    with patience():
        return client.request(type_name, payload, request_id=options["id"])


def _place(options: Mapping[str, Any]) -> dict[str, Any]:
    if "box" in options and (named := [name for name in ("home", "group", "sender") if name in options]):
        raise UsageError(f"--box says it all: leave out --{named[0]}")
    if "box" in options and "server" in options:
        raise UsageError("--box is a folder: leave out --server, or carry the folder there with `relay`")
    place = {name: options.get(name) for name in ("home", "group", "sender", "box", "session", "server", "credentials")}
    return {**place, "timeout_seconds": options.get("timeout", 10.0)}


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input is not UTF-8 at byte {error.start}") from None


def _payload(text: str) -> dict[str, Any]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise UsageError(f"PAYLOAD is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise UsageError('PAYLOAD must be a JSON object, as {"content": "..."}')
    return value


# -------------------------------------------------------------------------------------------------------------- output


def _print_json(value: Any) -> None:
    text = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    print(json_shown(text) if sys.stdout.isatty() else text)


def _print(options: Mapping[str, Any], result: Wire, told: str | Iterable[str]) -> None:
    """Print a result: as JSON with `--json`, else as a text or lines for people."""
    if options["json"]:
        _print_json(result.model_dump())
    elif not isinstance(told, str):
        print_lines(told)
    elif told:
        print(here(told), end="" if told.endswith("\n") else "\n")


def _print_answer(
    options: Mapping[str, Any],
    wait: Callable[[OnLine], ChatResult],
    on_interrupt: Callable[[], ChatResult | None] | None = None,
) -> None:
    """Print an answer: on a terminal as it comes, with its tools; else only the complete answer.

    Args:
        wait: passes on the lines of the stream and returns the answer.
        on_interrupt: stops the answer after Ctrl-C and returns its text so far.
    """
    is_looked_on = sys.stdout.isatty() and not options["json"]
    showing = Showing(Screen(sys.stdout, takes_styles(sys.stdout)), is_looked_on=is_looked_on, is_framed=False)

    def finish(result: ChatResult) -> None:
        if options["json"]:
            _print_json(result.model_dump())
        else:
            showing.finish(result)

    try:
        finish(wait(showing.line))
    except KeyboardInterrupt:
        showing.end_text()
        if on_interrupt is not None:
            try:
                if (result := on_interrupt()) is None:
                    complain(TAKEN_BACK)
                else:
                    finish(result)
            except AgentError as error:
                complain(f"the host does not say what became of the answer: {error}")
        raise
    except BaseException:
        showing.end_text()  # the error message gets its own line
        raise
