"""The commands of `honeybadger-agent`; `cli` parses their arguments.

Separate, so that `--help` and usage errors do not wait for the import of the protocol's models.
"""

from __future__ import annotations

import contextlib
import functools
import io
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from honeybadger_agent.cli.chat_answer import TAKEN_BACK, Showing, stopped_answer
from honeybadger_agent.cli.explaining import explanation_of, hit_lines, kinds_of, similar_told, waiting_told
from honeybadger_agent.cli.following import Following, message_lines
from honeybadger_agent.cli.task_lines import ACTIONS, shown_task, task_lines
from honeybadger_agent.cli.terminal import (
    Screen,
    complain,
    here,
    json_shown,
    patience,
    print_lines,
    shown,
    takes_styles,
)
from honeybadger_agent.client import CHAT_SECONDS, Client, Payload, ResultT, SyncClient, result_of
from honeybadger_agent.errors import AgentError, NoHome
from honeybadger_agent.exchange import OnLine
from honeybadger_agent.mailbox import new_id
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
    SaveMemory,
    SearchMemory,
    StreamLine,
    UpdateMemory,
)
from honeybadger_agent.wording import count_of


class UsageError(Exception):
    """The arguments cannot be used."""


def _remember(options: Mapping[str, Any]) -> None:
    text = _standard_input() if options["text"] == "-" else options["text"]
    note = _asked(options, made(UpdateMemory, text, options["section"]), request_id=options["id"])
    if options["json"]:
        _print_json(note.model_dump())
        return
    if note.proposal is not None:
        print(waiting_told(note.proposal))
        return
    changed = kinds_of(note.neutralised)
    print(f"saved in {note.file}, section {note.section}" + (f"; made harmless: {changed}" if changed else ""))
    if note.warning:
        complain(note.warning)


def _save(options: Mapping[str, Any]) -> None:
    text = _standard_input() if options["text"] == "-" else options["text"]
    asked = made(
        SaveMemory,
        text,
        options["category"],
        options["tag"],
        title=options["title"],
        aliases=options["alias"],
        origin=options["origin"],
        origin_from=options["origin_from"],
        supersedes=options["supersedes"],
        valid_until=options["valid_until"],
    )
    entry = _asked(options, asked, request_id=options["id"])
    if options["json"]:
        _print_json(entry.model_dump())
        return
    if entry.proposal is not None:
        print(waiting_told(entry.proposal))
        return
    changed = kinds_of(entry.neutralised)
    known = f"known already, said {count_of(entry.reinforced + 1, 'time')}" if entry.reinforced else "saved"
    print(f"{known}: {entry.id} in {entry.file}" + (f"; made harmless: {changed}" if changed else ""))
    for one in entry.similar or ():
        complain(f"nearly the same is there, and stays: {similar_told(one)}")


def _forget(options: Mapping[str, Any]) -> None:
    asked = made(DeleteMemory, options["entry"])
    reply = _replied(options, asked.type_name, asked)
    entry = result_of(reply, asked)
    if options["json"]:
        _print_json({**entry.model_dump(), "seq": reply.seq})
    elif entry.proposal is not None:
        print(waiting_told(entry.proposal))
    else:
        print(f"forgotten: {entry.file}; the operator brings it back with `honeybadger-host undo {reply.seq}`")


def _context(options: Mapping[str, Any]) -> None:
    context = _asked(options, made(GetContext, options["message"], options["budget"]))
    if options["json"]:
        _print_json(context.model_dump())
    elif options["explain"]:
        print_lines(explanation_of(context))
    else:
        _print_text(context.system)


def _recall(options: Mapping[str, Any]) -> None:
    members = ("query", "category", "since", "until", "limit", "scope")
    found = _asked(options, made(SearchMemory, tags=options["tag"], **{name: options[name] for name in members}))
    if options["json"]:
        _print_json(found.model_dump())
        return
    print_lines(hit_lines(found, with_points=options["explain"]))


def _history(options: Mapping[str, Any]) -> None:
    history = _asked(options, made(GetHistory, options["budget"], options["max"]))
    if options["json"]:
        _print_json(history.model_dump())
    else:
        _print_text(history.text)


def _messages(options: Mapping[str, Any]) -> None:
    found = _asked(options, made(GetMessages, options["after"], options["limit"]))
    for message in found.messages:
        _print_message(options, message)
    if options["follow"]:
        following = Following(_client(options), found.after, lambda: complain("no host answers; waiting"))
        with contextlib.closing(following):
            for message in following:
                _print_message(options, message)


def _print_message(options: Mapping[str, Any], message: GroupMessage) -> None:
    if options["json"]:
        print(orjson.dumps(message.model_dump()).decode())
    else:
        print_lines(message_lines(message))
    sys.stdout.flush()


def _tasks(options: Mapping[str, Any]) -> int:
    action, task = options["action"], options["task"]
    if action != "list" and task is None:
        complain(f"tasks {action} needs the id of a task: `tasks` lists them")
        return 2
    members = {"task": task if action != "list" else None, **({"why": options["why"]} if action == "pause" else {})}
    found: Any = _asked(options, made(REQUEST_TYPES[ACTIONS[action]], **members))
    rows = [row.model_dump(exclude_none=True) for row in (found.tasks if action in ("list", "show") else [found])]
    if options["json"]:
        _print_json(rows if action == "list" else rows[0])
    elif action == "show":
        print_lines(shown_task(rows[0]))
    else:
        print_lines(task_lines(rows) if rows else ["there are no tasks"])
    return 0


def _call(options: Mapping[str, Any]) -> int:
    payload = _payload(_standard_input() if options["payload"] == "-" else options["payload"])
    reply = _replied(options, options["type"], payload)
    _print_json(reply.model_dump(exclude_unset=True))
    return 0 if reply.ok else 1


def _ask(options: Mapping[str, Any]) -> None:
    text = _standard_input() if options["text"] in (None, "-") else options["text"]
    client, request_id = _client(options), options["id"] or new_id()

    def chat(on_line: OnLine) -> ChatResult:
        return client.chat(
            text,
            sender=options["as"],
            agent=options["agent"],
            request_id=request_id,
            timeout_seconds=_patience(options),
            on_line=on_line,
        )

    _print_answer(options, chat, on_interrupt=functools.partial(stopped_answer, client, request_id))


def _answer(options: Mapping[str, Any]) -> None:
    client, request_id = _client(options), options["turn"]
    try:
        _print_answer(
            options, lambda on_line: client.answer(request_id, timeout_seconds=_patience(options), on_line=on_line)
        )
    except KeyboardInterrupt:
        complain(f"not waiting any more; the answer goes on being written: honeybadger-agent answer {request_id}")
        raise


def _chat(options: Mapping[str, Any]) -> int:
    from honeybadger_agent.cli.chat import talk  # with asyncio, which only this command needs

    return talk(
        Client(**_place(options)), speaker=options["as"], agent=options["agent"], timeout_seconds=_patience(options)
    )


def _mcp(options: Mapping[str, Any]) -> None:
    try:
        from honeybadger_agent.mcp_server import serve  # takes a second, and only this command needs it
    except ImportError as error:
        raise AgentError(
            f"mcp needs the extra of this name ({error}): pip install 'honeybadger-agent[mcp]', or with the host "
            f"'honeybadger-host[mcp]'"
        ) from None
    place = _place(options)
    client: Client | Callable[[], Client]
    try:
        client = Client(**place)
    except NoHome as error:  # serve all the same: each call reports it and tries again
        complain(str(error))
        client = functools.partial(Client, **place)
    serve(client, options["tools"])


def _ping(options: Mapping[str, Any]) -> None:
    client = _client(options)
    began = time.perf_counter()
    with patience(lambda: "waiting for the host"):
        host = client.ping()
    milliseconds = (time.perf_counter() - began) * 1000
    if options["json"]:
        _print_json({**host.model_dump(), "milliseconds": round(milliseconds, 1)})
    else:
        print(f"honeybadger-host {host.host_version}, protocol {host.protocol}, answered in {milliseconds:.1f} ms")


COMMANDS: Final[Mapping[str, Callable[[Mapping[str, Any]], int | None]]] = {
    "remember": _remember,
    "save": _save,
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
    "mcp": _mcp,
    "ping": _ping,
}
"""Name -> function of its options; returns the exit code, None for 0."""

# ------------------------------------------------------------------------------------------------------------- options


def _client(options: Mapping[str, Any]) -> SyncClient:
    return SyncClient(**_place(options))


def _asked(options: Mapping[str, Any], request: Request[ResultT], *, request_id: str | None = None) -> ResultT:
    client = _client(options)
    with patience(lambda: "waiting for the host"):
        return client(request, request_id=request_id)


def _replied(options: Mapping[str, Any], type_name: str, payload: Payload) -> Reply:
    client = _client(options)
    with patience(lambda: "waiting for the host"):
        return client.request(type_name, payload, request_id=options["id"])


def _place(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments for a client of either kind."""
    if "box" in options and (named := [name for name in ("home", "group", "sender") if name in options]):
        raise UsageError(f"--box says it all: leave out --{named[0]}")
    place = {name: options.get(name) for name in ("home", "group", "sender", "box", "session")}
    return {**place, "timeout_seconds": options.get("timeout", 10.0)}


def _patience(options: Mapping[str, Any]) -> float:
    """Return the seconds to wait for an answer."""
    seconds: float = options.get("timeout", CHAT_SECONDS)
    return seconds


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


class _ToolsSeen:
    """Names the tools of a turn on stderr, if that is a terminal."""

    def __init__(self) -> None:
        self._count = 0
        self._is_looked_on = sys.stderr.isatty()

    def line(self, line: StreamLine) -> None:
        if line.kind == "began":
            self._count = 0
        if line.kind == "tool_ended":
            self._tool(line.tool or "", line.summary or "")

    def rest(self, result: ChatResult) -> None:
        for run in result.tools[self._count :]:
            self._tool(run.name, run.summary)

    def _tool(self, name: str, summary: str) -> None:
        self._count += 1
        if self._is_looked_on:
            print(shown(f"  {name}: {summary}"), file=sys.stderr)


def _print_answer(
    options: Mapping[str, Any],
    wait: Callable[[OnLine], ChatResult],
    on_interrupt: Callable[[], ChatResult | None] | None = None,
) -> None:
    """Print an answer: on a terminal as it comes, with its tools; else only the complete answer.

    Args:
        wait: passes on the lines of the stream and returns the answer.
        on_interrupt: stops the answer after Ctrl-C and returns what there is of it.
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and not options["json"]:
        sys.stdout.reconfigure(errors="backslashreplace")
    if sys.stdout.isatty() and not options["json"]:
        showing = Showing(Screen(sys.stdout, is_styled=takes_styles(sys.stdout)), is_looked_on=True, is_framed=False)
        on_line, begun, finish = showing.line, showing.end_text, showing.finish
    else:
        seen = _ToolsSeen()
        on_line, begun, finish = seen.line, sys.stdout.flush, functools.partial(_print_whole, options, seen)
    try:
        finish(wait(on_line))
    except KeyboardInterrupt:
        begun()
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
        begun()  # the error message gets its own line
        raise


def _print_whole(options: Mapping[str, Any], seen: _ToolsSeen, result: ChatResult) -> None:
    seen.rest(result)
    if options["json"]:
        _print_json(result.model_dump())
        return
    _print_text(result.content)
    sys.stdout.flush()
    if result.stopped_by is not None:
        complain(f"stopped: {result.stopped_by}")


def _print_text(text: str) -> None:
    if text:
        print(here(text), end="" if text.endswith("\n") else "\n")
