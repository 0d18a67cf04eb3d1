"""`honeybadger-agent`: an agent's memory for shells and for programs that start one."""

from __future__ import annotations

import argparse
import io
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import orjson

from honeybadger_agent import tools
from honeybadger_agent.chat_wire import ChatResult, StreamLine
from honeybadger_agent.client import CHAT_SECONDS, Client, SyncClient, result_of
from honeybadger_agent.errors import AgentError, NoMailbox, ReplyTimeout, RequestFailed
from honeybadger_agent.explaining import explanation_of, hit_lines
from honeybadger_agent.mailbox import SESSION, BadName, checked_id
from honeybadger_agent.terminal import shown

_HELP = """\
The memory of an agent: what it remembers, its conversation, its context.

exit codes:
  0  done
  1  refused, by the host or before anything was sent; the code is in the message
  2  wrong usage
  3  no mailbox: the folder cannot be used, or the name of a group or sender is not allowed
  4  no reply in time; the request may still be served: ask again with the same --id
"""
_WHERE = """\
--home, --group, --sender, --session and --box default to the environment: HONEYBADGER_HOME and so on.
"""


def main() -> NoReturn:
    """Run a command; an error of ours becomes one line and its exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code."""
    parser = _parser()
    options = vars(parser.parse_args(arguments))
    try:
        done: int | None = options["command"](options)
        sys.stdout.flush()
    except _Usage as error:
        parser.error(str(error))
    except RequestFailed as error:
        _complain(f"{error.code}: {error}{_when(error)}")
        return 1
    except NoMailbox as error:
        _complain(str(error))
        return 3
    except ReplyTimeout as error:
        again = f" (The same command with --id {error.request_id} is never applied twice.)" if "id" in options else ""
        _complain(f"no reply to {error.request_id} after {error.waited_seconds:g} s; {error.state}{again}")
        return 4
    except AgentError as error:
        _complain(str(error))
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still buffered has no reader
        return 0
    return done or 0


class _Usage(Exception):
    """The arguments cannot be used."""


class _Parser(argparse.ArgumentParser):
    """argparse, but what it complains of is one line."""

    def error(self, message: str) -> NoReturn:
        _complain(f"{message}; see {self.prog} --help")
        raise SystemExit(2)


# ------------------------------------------------------------------------------------------------------------ commands


def _remember(options: Mapping[str, Any]) -> None:
    text = _standard_input() if options["text"] == "-" else options["text"]
    note = _client(options).call(tools.update_memory(text, options["section"]), request_id=options["id"])
    if options["json"]:
        _print_json(note.model_dump())
        return
    changed = ", ".join(f"{kind} ({count})" for kind, count in note.neutralised.items())
    print(f"saved in {note.file}, section {note.section}" + (f"; made harmless: {changed}" if changed else ""))


def _save(options: Mapping[str, Any]) -> None:
    text = _standard_input() if options["text"] == "-" else options["text"]
    call = tools.save_memory(
        text, options["category"], options["tag"], title=options["title"], aliases=options["alias"]
    )
    entry = _client(options).call(call, request_id=options["id"])
    if options["json"]:
        _print_json(entry.model_dump())
        return
    changed = ", ".join(f"{kind} ({count})" for kind, count in entry.neutralised.items())
    known = f"known already, said {entry.reinforced + 1} times" if entry.reinforced else "saved"
    print(f"{known}: {entry.id} in {entry.file}" + (f"; made harmless: {changed}" if changed else ""))


def _forget(options: Mapping[str, Any]) -> None:
    call = tools.delete_memory(options["entry"])
    reply = _client(options).request(call.type_name, call.payload, request_id=options["id"])
    entry = result_of(reply, call.result)
    if options["json"]:
        _print_json({**entry.model_dump(), "seq": reply.seq})
    else:
        print(f"forgotten: {entry.file}; the operator brings it back with `honeybadger-host undo {reply.seq}`")


def _context(options: Mapping[str, Any]) -> None:
    context = _client(options).get_context(options["message"], options["budget"])
    if options["json"]:
        _print_json(context.model_dump())
    elif options["explain"]:
        _print_lines(explanation_of(context))
    else:
        _print_text(context.system)


def _recall(options: Mapping[str, Any]) -> None:
    found = _client(options).call(
        tools.search_memory(
            options["query"],
            options["category"],
            options["tag"],
            options["since"],
            options["until"],
            options["limit"],
            options["scope"],
        )
    )
    if options["json"]:
        _print_json(found.model_dump())
        return
    _print_lines(hit_lines(found, with_points=options["explain"]))


def _history(options: Mapping[str, Any]) -> None:
    history = _client(options).get_history(options["budget"], options["max"])
    if options["json"]:
        _print_json(history.model_dump())
    else:
        _print_text(history.text)


def _call(options: Mapping[str, Any]) -> int:
    payload = _payload(_standard_input() if options["payload"] == "-" else options["payload"])
    reply = _client(options).request(options["type"], payload, request_id=options["id"])
    _print_json(reply.model_dump(exclude_unset=True))
    return 0 if reply.ok else 1


def _ask(options: Mapping[str, Any]) -> None:
    text = _standard_input() if options["text"] in (None, "-") else options["text"]
    client, seen = _client(options), _ToolsSeen()
    result = client.chat(
        text,
        sender=options["as"],
        agent=options["agent"],
        request_id=options["id"],
        timeout_seconds=_patience(options),
        on_line=seen.line,
    )
    _print_answer(options, result, seen)


def _answer(options: Mapping[str, Any]) -> None:
    seen = _ToolsSeen()
    result = _client(options).answer(options["turn"], timeout_seconds=_patience(options), on_line=seen.line)
    _print_answer(options, result, seen)


def _chat(options: Mapping[str, Any]) -> int:
    from honeybadger_agent.chat import talk  # an event loop, which only this command needs

    return talk(
        Client(**_place(options)), speaker=options["as"], agent=options["agent"], timeout_seconds=_patience(options)
    )


def _mcp(options: Mapping[str, Any]) -> None:
    try:
        from honeybadger_agent.mcp_server import serve  # a second, and a library that only this command needs
    except ImportError as error:
        raise AgentError(
            f"mcp needs the extra of this name ({error}): pip install 'honeybadger-agent[mcp]', or with the host "
            f"'honeybadger-host[mcp]'"
        ) from None
    serve(Client(**_place(options)))


def _ping(options: Mapping[str, Any]) -> None:
    client = _client(options)
    began = time.perf_counter()
    host = client.ping()
    milliseconds = (time.perf_counter() - began) * 1000
    if options["json"]:
        _print_json({**host.model_dump(), "milliseconds": round(milliseconds, 1)})
    else:
        print(f"honeybadger-host {host.host_version}, protocol {host.protocol}, answered in {milliseconds:.1f} ms")


# ----------------------------------------------------------------------------------------------------------- arguments


def _parser() -> argparse.ArgumentParser:
    where = _Parser(add_help=False, argument_default=argparse.SUPPRESS)  # before or after the command
    place = where.add_argument_group("where", _WHERE)
    place.add_argument("--home", metavar="DIR", help="home folder of the host; else the current folder")
    place.add_argument("--group", metavar="NAME", help="else main")
    place.add_argument("--sender", metavar="NAME", help="who asks; else user")
    place.add_argument("--session", metavar="NAME", type=_session, help="the conversation; else main")
    place.add_argument("--box", metavar="DIR", help="the sender's folder itself, as mounted into a container")
    place.add_argument("--timeout", metavar="SECONDS", type=_seconds, help="how long to wait (10; for answers 300)")

    parser = _Parser(
        prog="honeybadger-agent",
        description=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[where],
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(name: str, does: Callable[..., int | None], description: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=description, description=description, parents=[where], allow_abbrev=False)
        made.set_defaults(command=does)
        return made

    remember = command("remember", _remember, "Save a note to the group's memory; done means durable.")
    remember.add_argument("text", metavar="TEXT", help="the note; - reads standard input")
    remember.add_argument("--section", metavar="NAME", help="heading of the note, one line (Notes)")
    _add_id(remember)

    save = command("save", _save, "Save an entry of long-term memory; what is known already is not doubled.")
    save.add_argument("text", metavar="TEXT", help="what is to be known; - reads standard input")
    save.add_argument("--category", metavar="NAME", help="as user-preferences/timezone (general)")
    save.add_argument("--tag", metavar="NAME", action="append", help="a label; may be repeated")
    save.add_argument("--title", metavar="NAME", help="a short name to find it under")
    save.add_argument("--alias", metavar="NAME", action="append", help="another one; may be repeated")
    _add_id(save)

    forget = command("forget", _forget, "Remove an entry of long-term memory; the journal keeps it.")
    forget.add_argument("entry", metavar="ENTRY", help="its id")
    _add_id(forget)

    context = command("context", _context, "Print the context for the next answer of the model.")
    context.add_argument("--message", metavar="TEXT", help="what the user says now")
    context.add_argument("--budget", metavar="TOKENS", type=int, help="0 means no limit")
    context.add_argument("--explain", action="store_true", help="print why each part is in or out, not the text")

    recall = command("recall", _recall, "Search what is remembered and what was said; without a query the newest.")
    recall.add_argument("query", metavar="QUERY", nargs="?", help="words, or a question")
    recall.add_argument("--category", metavar="NAME", help="only entries of this category or below it")
    recall.add_argument("--tag", metavar="NAME", action="append", help="only entries with this tag; may be repeated")
    recall.add_argument("--since", metavar="WHEN", help="a date or a time, as 2026-11-21")
    recall.add_argument("--until", metavar="WHEN", help="a date takes the whole day in")
    recall.add_argument("--scope", choices=("all", "entries", "turns", "notes"), help="where to look (all)")
    recall.add_argument("--limit", metavar="COUNT", type=int, help="at most so many hits (8)")
    recall.add_argument("--explain", action="store_true", help="print what each hit earned from what")

    history = command("history", _history, "Print the newest part of the conversation.")
    history.add_argument("--budget", metavar="TOKENS", type=int, help="0 means no limit")
    history.add_argument("--max", metavar="COUNT", type=int, help="at most so many messages")

    call = command("call", _call, "Send any request and print its reply as JSON.")
    call.add_argument("type", metavar="TYPE", help="as update_memory")
    call.add_argument(
        "payload", metavar="PAYLOAD", nargs="?", default="{}", help="a JSON object; - reads standard input"
    )
    _add_id(call)

    ask = command("ask", _ask, "Say something to an agent of the group and print its answer.")
    ask.add_argument("text", metavar="TEXT", nargs="?", help="what is said; without it, or -, reads standard input")
    _add_id(ask)

    answer = command("answer", _answer, "Wait again for the answer to a message that was sent before.")
    answer.add_argument("turn", metavar="ID", type=_request_id, help="of the message")

    chat = command("chat", _chat, "Talk with an agent of the group; between pipes a message a line.")
    for one in (ask, chat):
        one.add_argument("--agent", metavar="NAME", help="who answers; else the host chooses")
        one.add_argument("--as", metavar="NAME", help="who speaks, as the history shows it; else the sender")

    command("mcp", _mcp, "Serve the tools to an MCP client on standard input and output (extra: mcp).")

    ping = command("ping", _ping, "Ask whether a host serves this mailbox.")
    for one in (remember, save, forget, context, recall, history, ask, answer, ping):
        one.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _add_id(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--id", type=_request_id, default=None, help="id of the request, to ask again after a timeout")


def _session(value: str) -> str:
    if not SESSION.fullmatch(value):
        raise argparse.ArgumentTypeError(f"{value[:100]!r} is not 1-100 characters of A-Z a-z 0-9 . _ : -")
    return value


def _request_id(value: str) -> str:
    try:
        return checked_id(value)
    except BadName as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _seconds(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{value!r} is not a number of seconds above 0")
    return seconds


def _client(options: Mapping[str, Any]) -> SyncClient:
    return SyncClient(**_place(options))


def _place(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a client, of either kind."""
    if "box" in options and (named := [name for name in ("home", "group", "sender") if name in options]):
        raise _Usage(f"--box says it all: leave out --{named[0]}")
    place = {name: options.get(name) for name in ("home", "group", "sender", "box", "session")}
    return {**place, "timeout_seconds": options.get("timeout", 10.0)}


def _patience(options: Mapping[str, Any]) -> float:
    """Return how long an answer is waited for, in seconds."""
    seconds: float = options.get("timeout", CHAT_SECONDS)
    return seconds


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise _Usage(f"standard input is not UTF-8 at byte {error.start}") from None


def _payload(text: str) -> dict[str, Any]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise _Usage(f"PAYLOAD is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise _Usage('PAYLOAD must be a JSON object, as {"content": "..."}')
    return value


# -------------------------------------------------------------------------------------------------------------- output


def _complain(message: str) -> None:
    line = " ".join(message.split())
    print(f"honeybadger-agent: {line}", file=sys.stderr)


def _when(error: RequestFailed) -> str:
    return "" if error.retry_after_seconds is None else f" (again in {error.retry_after_seconds:g} s)"


def _print_json(value: Any) -> None:
    print(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


class _ToolsSeen:
    """Names the tools of a turn on stderr when a terminal looks on."""

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


def _print_answer(options: Mapping[str, Any], result: ChatResult, seen: _ToolsSeen) -> None:
    """Print the answer, and nothing else on stdout; on a terminal without what it would obey."""
    seen.rest(result)
    if options["json"]:
        _print_json(result.model_dump())
        return
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    _print_text(shown(result.content) if sys.stdout.isatty() else result.content)
    sys.stdout.flush()
    if result.stopped_by is not None:
        _complain(f"stopped: {result.stopped_by}")


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)


def _print_text(text: str) -> None:
    if text:
        print(text, end="" if text.endswith("\n") else "\n")


if __name__ == "__main__":
    main()
