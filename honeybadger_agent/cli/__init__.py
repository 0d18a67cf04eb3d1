"""`honeybadger-agent`: an agent's memory for shells and for programs that start one."""

from __future__ import annotations

import argparse
import atexit
import gc
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from honeybadger_agent import installed_version
from honeybadger_agent.cli.terminal import complain
from honeybadger_agent.errors import AgentError, ReplyTimeout, RequestFailed
from honeybadger_agent.mailbox import BadName, checked_id, checked_session
from honeybadger_agent.wording import in_words, meant

_HELP = """\
The memory of an agent: what it remembers, its conversation, its context.
"""
_EXIT_CODES = """\
exit codes:
  0  done
  1  refused; the protocol's code is in the message
  2  wrong usage
  3  no home or no mailbox, or a name that is not allowed
  4  no reply in time: the same command with the same --id is safe to repeat
"""
_SECTIONS = {
    "remember": ("remember", "save", "delete"),
    "look": ("recall", "context", "history", "messages", "tasks"),
    "talk": ("chat", "ask", "answer"),
    "connect": ("install", "uninstall", "mcp", "ping", "call", "relay"),
}
_ALIASES = {"search": "recall"}
_TOOLS = ("claude-code", "codex", "gemini", "agent-plugin")
_WHERE = "The environment gives the defaults: HONEYBADGER_HOME, _GROUP, _SENDER ..."


def main() -> NoReturn:
    """Run a command; an error of ours becomes one line and its exit code."""
    # Garbage collection of the imported modules finds nothing and would take a fifth of a call, partly at its end.
    gc.set_threshold(100_000)
    atexit.register(gc.freeze)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # looking for plugins reads all installed packages
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    parser = _parser()
    options = vars(parser.parse_args(arguments))
    if options["version"]:
        print(f"honeybadger-agent {installed_version()}")
        return 0
    if "command" not in options:
        parser.error("the following arguments are required: COMMAND")
    from honeybadger_agent.cli import commands  # a tenth of a second, mostly pydantic's

    try:
        done = commands.COMMANDS[options["command"]](options)
        sys.stdout.flush()
    except commands.UsageError as error:
        complain(f"{error}; see {parser.prog} {options['command']} --help")
        return 2
    except RequestFailed as error:
        message = str(error) if options["command"] == "call" else str(error).replace("payload.", "")
        seconds = error.retry_after_seconds
        complain(f"{error.code}: {message}" + ("" if seconds is None else f" (again in {in_words(seconds)})"))
        return 1
    except ReplyTimeout as error:
        again = f" (The same command with --id {error.request_id} is never applied twice.)" if "id" in options else ""
        complain(f"no reply to {error.request_id} after {error.waited_seconds:g} s; {error.state}{again}")
        return error.exit_code
    except AgentError as error:
        complain(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader of the buffered output is gone
        return 0
    return done or 0


class _Parser(argparse.ArgumentParser):
    """argparse with errors on one line, and with suggestions for mistyped commands."""

    def _check_value(self, action: argparse.Action, value: object) -> None:
        choices = [] if action.choices is None else [str(choice) for choice in action.choices]
        if action.choices is not None and value not in action.choices:
            near = meant(str(value), choices)
            hint = f"did you mean {near}?" if near else f"there are: {', '.join(choices)}"
            raise argparse.ArgumentError(action, f"there is no {value!r}; {hint}")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse unknown arguments here, so that a command names its own help."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        complain(f"{message}; see {self.prog} --help")
        raise SystemExit(2)


# ----------------------------------------------------------------------------------------------------------- arguments


def _parser() -> argparse.ArgumentParser:
    where = _Parser(add_help=False, argument_default=argparse.SUPPRESS)  # before or after the command
    place = where.add_argument_group("where", _WHERE)
    place.add_argument("--home", metavar="DIR", help="home folder of the host; else the current one, else yours")
    place.add_argument("--group", metavar="NAME", help="else main")
    place.add_argument("--sender", metavar="NAME", help="who asks; else user")
    place.add_argument("--session", metavar="NAME", type=_checked(checked_session), help="the conversation; else main")
    place.add_argument("--box", metavar="DIR", help="the sender's folder itself, as mounted into a container")
    place.add_argument(
        "--server", metavar="URLS", help="NATS servers of the home (extra: cluster); --home: its identity"
    )
    place.add_argument("--credentials", metavar="FILE", help="with --server, the sender's key")
    place.add_argument("--timeout", metavar="SECONDS", type=_seconds, help="how long to wait (10; for answers 300)")

    parser = _Parser(
        prog="honeybadger-agent",
        epilog=_EXIT_CODES,
        usage="honeybadger-agent [OPTIONS] COMMAND ...",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[where],
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", default=False, help="print the version")
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", help=argparse.SUPPRESS, prog="honeybadger-agent"
    )

    descriptions: dict[str, str] = {}

    def command(name: str, description: str) -> argparse.ArgumentParser:
        descriptions[name] = description
        aliases = [alias for alias, meaning in _ALIASES.items() if meaning == name]
        made = commands.add_parser(
            name, aliases=aliases, help=description, description=description, parents=[where], allow_abbrev=False
        )
        made.set_defaults(command=name)
        return made

    remember = command("remember", "Save a note. Every context shows it.")
    remember.add_argument("text", metavar="TEXT", help="the note; - reads standard input")
    remember.add_argument("--section", metavar="NAME", help="heading of the note, one line (Notes)")

    save = command("save", "Save an entry. A context shows it when it fits the message.")
    save.add_argument("text", metavar="TEXT", help="text of the entry; - reads standard input")
    save.add_argument("--category", metavar="NAME", help="as user-preferences/timezone (general)")
    save.add_argument("--tag", metavar="NAME", action="append", help="a label; may be repeated")
    save.add_argument("--title", metavar="NAME", help="a short name to find it under")
    save.add_argument("--alias", metavar="NAME", action="append", help="another one; may be repeated")
    save.add_argument("--origin", metavar="KIND", help="human, agent, tool, web, imported, inferred or recalled")
    save.add_argument("--from", dest="origin_from", metavar="WHERE", help="with --origin: the file, address or tool")
    save.add_argument("--supersedes", metavar="ENTRY", action="append", help="id of one that is no longer so; repeated")
    save.add_argument("--valid-until", metavar="TIME", help="when it ceases to be so, as 2026-12-24T18:00:00+01:00")

    delete = command("delete", "Remove an entry. It can be undone.")
    delete.add_argument("entry", metavar="ENTRY", help="its id")

    forget = command("forget", "Does nothing: it was the name of `delete`.")
    forget.add_argument("entry", nargs="?", help=argparse.SUPPRESS)

    context = command("context", "Print the context for the next answer of the model.")
    context.add_argument("--message", metavar="TEXT", help="what the user says now")
    context.add_argument("--budget", metavar="TOKENS", type=int, help="0 means no limit")
    context.add_argument("--explain", action="store_true", help="print why each part is in or out, not the text")

    recall = command("recall", "Search what is remembered and what was said.")
    recall.add_argument("query", metavar="QUERY", nargs="?", help="words, or a question; without it the newest")
    recall.add_argument("--category", metavar="NAME", help="only entries of this category or below it")
    recall.add_argument("--tag", metavar="NAME", action="append", help="only entries with this tag; may be repeated")
    recall.add_argument("--since", metavar="WHEN", help="a date or a time, as 2026-11-21")
    recall.add_argument("--until", metavar="WHEN", help="a date takes the whole day in")
    recall.add_argument("--scope", choices=("all", "entries", "turns", "notes"), help="where to look (all)")
    recall.add_argument("--limit", metavar="COUNT", type=int, help="most hits (8)")
    recall.add_argument("--explain", action="store_true", help="print the parts of each hit's score")

    history = command("history", "Print the newest part of the conversation.")
    history.add_argument("--budget", metavar="TOKENS", type=int, help="0 means no limit")
    history.add_argument("--max", metavar="COUNT", type=int, help="most messages")

    messages = command("messages", "Print the messages that agents sent to the group.")
    messages.add_argument("--after", metavar="NUMBER", type=int, help="only those after it; else the newest")
    messages.add_argument("--limit", metavar="COUNT", type=int, help="most messages (50)")
    messages.add_argument("--follow", action="store_true", help="then those that come, until Ctrl-C")

    tasks = command("tasks", "Show, run, pause, resume or cancel scheduled tasks.")
    actions = ("list", "show", "run", "pause", "resume", "cancel")
    tasks.add_argument("action", nargs="?", default="list", choices=actions, help="list is the default")
    tasks.add_argument("task", metavar="TASK", nargs="?", help="its id; list needs none")
    tasks.add_argument("--why", metavar="TEXT", help="with pause: what is shown as its reason")

    call = command("call", "Send any request of the protocol; print its reply as JSON.")
    call.add_argument("type", metavar="TYPE", help="as update_memory")
    call.add_argument(
        "payload", metavar="PAYLOAD", nargs="?", default="{}", help="a JSON object; - reads standard input"
    )

    ask = command("ask", "Say one thing to an agent and print its answer.")
    ask.add_argument("text", metavar="TEXT", nargs="?", help="what is said; without it, or -, reads standard input")

    answer = command("answer", "Wait again for the answer to an earlier message.")
    answer.add_argument("turn", metavar="ID", type=_checked(checked_id), help="of the message")

    chat = command("chat", "Talk with an agent of the group.")
    for one in (ask, chat):
        one.add_argument("--agent", metavar="NAME", help="who answers; else the host chooses")
        one.add_argument("--as", metavar="NAME", help="who speaks, as the history shows it; else the sender")

    mcp = command("mcp", "Serve the tools to MCP clients, over stdio or HTTP.")
    mcp.add_argument(
        "--http",
        metavar="HOST:PORT",
        default=argparse.SUPPRESS,
        help="over HTTP, for holders of a token of `honeybadger-host sender token`; port 0: any",
    )
    mcp.add_argument(
        "--behind-proxy",
        metavar="NAME",
        default=argparse.SUPPRESS,
        help="with --http: host name of the TLS proxy in front; else only loopback is served",
    )
    mcp.add_argument(
        "--for",
        dest="for_tool",
        metavar="TOOL",
        choices=_TOOLS,
        default=argparse.SUPPRESS,
        help="home, group and sender as `install TOOL` has them; a file .honeybadger above names another group",
    )
    mcp.add_argument("--tools", choices=("default", "all"), default="default", help="which tools are offered (default)")

    for name, description in (
        ("install", "Give a coding tool this memory, through its hooks."),
        ("uninstall", "Take it out again. What is remembered stays."),
    ):
        hooks = command(name, description)
        hooks.add_argument("tool", metavar="TOOL", choices=_TOOLS, help=", ".join(_TOOLS))
        hooks.add_argument("--dry-run", action="store_true", help="say what would be changed")

    command("relay", "Carry a folder's requests to a home on other machines.")

    ping = command("ping", "Ask whether a host serves this mailbox.")
    for one in (remember, save, delete, forget, call, ask):
        one.add_argument("--id", type=_checked(checked_id), help="id of the request, to ask again after a timeout")
    for one in (remember, save, delete, forget, context, recall, history, messages, tasks, ask, answer, ping):
        one.add_argument("--json", action="store_true", help="print JSON")
    parser.description = _HELP + "".join(_listed(descriptions))
    return parser


def _listed(descriptions: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of the list of commands, in groups."""
    for title, names in _SECTIONS.items():
        yield f"\n{title}:\n"
        for name in names:
            yield f"  {name:9}  {descriptions[name]}\n"


def _checked(check: Callable[[str], str]) -> Callable[[str], str]:
    """Return a check of a name as the type of an argument."""

    def checked(value: str) -> str:
        try:
            return check(value)
        except BadName as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return checked


def _seconds(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{value!r} is not a number of seconds above 0")
    return seconds


if __name__ == "__main__":
    main()
