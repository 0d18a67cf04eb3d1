"""The commands of `honeybadger-agent` with their arguments and help, without an import of the protocol's models."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

from honeybadger_agent.cli.terminal import complain
from honeybadger_agent.mailbox import BadName, checked_id, checked_session
from honeybadger_agent.wording import meant

# Its name, and what else `add_argument` takes; `dest` is the member of the request, if it has another name.
_Argument: TypeAlias = tuple[str, Mapping[str, Any]]

_ABOUT = """\
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
_ALIASES = {"search": "recall"}


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


def _argument(name: str, metavar: str, help_: str, **more: Any) -> _Argument:
    return name, {"metavar": metavar, "help": help_, **more}


def _choice(name: str, help_: str, *choices: str, **more: Any) -> _Argument:
    return name, {"choices": choices, "help": help_, **more}


def _flag(name: str, help_: str) -> _Argument:
    return name, {"action": "store_true", "help": help_}


_PLACE = (
    _argument("--home", "DIR", "home folder of the host; else the current one, else yours"),
    _argument("--group", "NAME", "else main"),
    _argument("--sender", "NAME", "who asks; else user"),
    _argument("--session", "NAME", "the conversation; else main", type=_checked(checked_session)),
    _argument("--box", "DIR", "the sender's folder itself, as mounted into a container"),
    _argument("--server", "URLS", "NATS servers of the home (extra: cluster); --home: its identity"),
    _argument("--credentials", "FILE", "with --server, the sender's key"),
    _argument("--timeout", "SECONDS", "how long to wait (10; for answers 300)", type=_seconds),
)
_ID = _argument("--id", "ID", "id of the request, to ask again after a timeout", type=_checked(checked_id))
_JSON = _flag("--json", "print JSON")
_SPEAKERS = (
    _argument("--agent", "NAME", "who answers; else the host chooses"),
    _argument("--as", "NAME", "who speaks, as the history shows it; else the sender"),
)
_TOOLS = ("claude-code", "codex", "gemini", "agent-plugin")
_TOOL = (
    _choice("tool", ", ".join(_TOOLS), *_TOOLS, metavar="TOOL"),
    _flag("--dry-run", "say what would be changed"),
)
# Title in `--help` -> command -> its help and its arguments. Commands without a title are not listed.
_SECTIONS: Mapping[str, Mapping[str, tuple[str, Sequence[_Argument]]]] = {
    "remember": {
        "remember": (
            "Save a note. Every context shows it.",
            (
                _argument("content", "TEXT", "the note; - reads standard input"),
                _argument("--section", "NAME", "heading of the note, one line (Notes)"),
                *(_ID, _JSON),
            ),
        ),
        "save": (
            "Save an entry. A context shows it when it fits the message.",
            (
                _argument("content", "TEXT", "text of the entry; - reads standard input"),
                _argument("--category", "NAME", "as user-preferences/timezone (general)"),
                _argument("--tag", "NAME", "a label; may be repeated", action="append", dest="tags"),
                _argument("--title", "NAME", "a short name to find it under"),
                _argument("--alias", "NAME", "another one; may be repeated", action="append", dest="aliases"),
                _argument("--origin", "KIND", "human, agent, tool, web, imported, inferred or recalled"),
                _argument("--from", "WHERE", "with --origin: the file, address or tool", dest="origin_from"),
                _argument("--supersedes", "ENTRY", "id of one that is no longer so; repeated", action="append"),
                _argument("--valid-until", "TIME", "when it ceases to be so, as 2026-12-24T18:00:00+01:00"),
                *(_ID, _JSON),
            ),
        ),
        "delete": ("Remove an entry. It can be undone.", (_argument("entry", "ENTRY", "its id"), _ID, _JSON)),
    },
    "look": {
        "recall": (
            "Search what is remembered and what was said.",
            (
                _argument("query", "QUERY", "words, or a question; without it the newest", nargs="?"),
                _argument("--category", "NAME", "only entries of this category or below it"),
                _argument("--tag", "NAME", "only entries with this tag; may be repeated", action="append", dest="tags"),
                _argument("--since", "WHEN", "a date or a time, as 2026-11-21, or yesterday"),
                _argument("--until", "WHEN", "a date takes the whole day in"),
                _choice("--scope", "where to look (all)", "all", "entries", "turns", "notes"),
                _argument("--limit", "COUNT", "most hits (8)", type=int),
                _flag("--explain", "print the parts of each hit's score"),
                _JSON,
            ),
        ),
        "context": (
            "Print the context for the next answer of the model.",
            (
                _argument("--message", "TEXT", "what the user says now"),
                _argument("--budget", "TOKENS", "0 means no limit", type=int, dest="budget_tokens"),
                _flag("--explain", "print why each part is in or out, not the text"),
                _JSON,
            ),
        ),
        "history": (
            "Print the newest part of the conversation.",
            (
                _argument("--budget", "TOKENS", "0 means no limit", type=int, dest="budget_tokens"),
                _argument("--max", "COUNT", "most messages", type=int, dest="max_messages"),
                _JSON,
            ),
        ),
        "messages": (
            "Print the messages that agents sent to the group.",
            (
                _argument("--after", "NUMBER", "only those after it; else the newest", type=int),
                _argument("--limit", "COUNT", "most messages (50)", type=int),
                _flag("--follow", "then those that come, until Ctrl-C"),
                _JSON,
            ),
        ),
        "tasks": (
            "Show, run, pause, resume or cancel scheduled tasks.",
            (
                _choice(
                    "action",
                    "list is the default",
                    *("list", "show", "run", "pause", "resume", "cancel"),
                    nargs="?",
                    default="list",
                ),
                _argument("task", "TASK", "its id; list needs none", nargs="?"),
                _argument("--why", "TEXT", "with pause: what is shown as its reason"),
                _JSON,
            ),
        ),
    },
    "talk": {
        "chat": ("Talk with an agent of the group.", _SPEAKERS),
        "ask": (
            "Say one thing to an agent and print its answer.",
            (
                _argument("text", "TEXT", "what is said; without it, or -, reads standard input", nargs="?"),
                *(*_SPEAKERS, _ID, _JSON),
            ),
        ),
        "answer": (
            "Wait again for the answer to an earlier message.",
            (_argument("turn", "ID", "of the message", type=_checked(checked_id)), _JSON),
        ),
    },
    "connect": {
        "install": ("Give a coding tool this memory, through its hooks.", _TOOL),
        "uninstall": ("Take it out again. What is remembered stays.", _TOOL),
        "mcp": (
            "Serve the tools to MCP clients, over stdio or HTTP.",
            (
                _argument(
                    "--http",
                    "HOST:PORT",
                    "over HTTP, for holders of a token of `honeybadger-host sender token`; port 0: any",
                    default=argparse.SUPPRESS,
                ),
                _argument(
                    "--behind-proxy",
                    "NAME",
                    "with --http: host name of the TLS proxy in front; else only loopback is served",
                    default=argparse.SUPPRESS,
                ),
                _choice(
                    "--for",
                    "home, group and sender as `install TOOL` has them; a file .honeybadger above names another group",
                    *_TOOLS,
                    dest="for_tool",
                    metavar="TOOL",
                    default=argparse.SUPPRESS,
                ),
                _choice("--tools", "which tools are offered (default)", "default", "all", default="default"),
            ),
        ),
        "ping": ("Ask whether a host serves this mailbox.", (_JSON,)),
        "call": (
            "Send any request of the protocol; print its reply as JSON.",
            (
                _argument("type", "TYPE", "as update_memory"),
                _argument("payload", "PAYLOAD", "a JSON object; - reads standard input", nargs="?", default="{}"),
                _ID,
            ),
        ),
        "relay": ("Carry a folder's requests to a home on other machines.", ()),
    },
    "": {
        "forget": (
            "Does nothing: it was the name of `delete`.",
            (_argument("entry", "ENTRY", "its id", nargs="?"), _ID, _JSON),
        ),
    },
}


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands; options of the place may come before or after the command."""
    where = _Parser(add_help=False, argument_default=argparse.SUPPRESS)
    place = where.add_argument_group(
        "where", "The environment gives the defaults: HONEYBADGER_HOME, _GROUP, _SENDER ..."
    )
    for name, options in _PLACE:
        place.add_argument(name, **options)
    made = _Parser(
        prog="honeybadger-agent",
        description=_ABOUT + "".join(_listed()),
        epilog=_EXIT_CODES,
        usage="honeybadger-agent [OPTIONS] COMMAND ...",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[where],
        allow_abbrev=False,
    )
    made.add_argument("--version", action="store_true", default=False, help="print the version")
    commands = made.add_subparsers(title="commands", metavar="COMMAND", help=argparse.SUPPRESS, prog=made.prog)
    for section in _SECTIONS.values():
        for name, (description, arguments) in section.items():
            aliases = [alias for alias, meaning in _ALIASES.items() if meaning == name]
            command = commands.add_parser(
                name, aliases=aliases, description=description, parents=[where], allow_abbrev=False
            )
            names = {command.add_argument(argument, **options).dest: argument for argument, options in arguments}
            names.pop("id", None)  # of the request; `payload.id` is that of an entry
            command.set_defaults(command=name, names=names)
    return made


def _listed() -> Iterator[str]:
    """Yield the lines of the list of commands, in groups."""
    for title, section in _SECTIONS.items():
        if title:
            yield f"\n{title}:\n"
            for name, (description, _) in section.items():
                yield f"  {name:9}  {description}\n"
