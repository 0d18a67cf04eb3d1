"""The program `honeybadger-host`. A call imports only the module of its command, which imports what is heavy late."""

from __future__ import annotations

import atexit
import gc
import importlib
import sys
from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from honeybadger_agent.mailbox import BadName
from honeybadger_host import __version__
from honeybadger_host.errors import HostError

# Title in `--help` -> command -> its module.
SECTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "Serve": {
        "init": "serving",
        "run": "serving",
        "status": "serving",
        "logs": "service",
        "doctor": "serving",
        "config": "serving",
        "web": "service",
        "service": "service",
    },
    "Look": {
        "groups": "groups",
        "notes": "groups",
        "context": "memory",
        "search": "memory",
        "log": "memory",
        "show": "looking_back",
        "blame": "looking_back",
        "diff": "looking_back",
        "why": "looking_back",
    },
    "Decide": {"review": "review", "tasks": "groups", "stop-turn": "memory", "dead": "senders"},
    "Take back": {"undo": "memory", "rewind": "looking_back", "forget": "memory"},
    "Move": {"backup": "transfer", "restore": "transfer", "export": "transfer", "import": "transfer"},
    "Rare": {"consolidate": "review", "dream": "review", "sender": "senders", "cluster": "cluster"},
}
ALIASES: Final = {"stop": "stop-turn", "dead-letters": "dead", "recall": "search"}


class Commands(TyperGroup):
    """Imports a command when it is called, and prints all under the titles of `SECTIONS`."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for section in SECTIONS.values() for name in section]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        name = ALIASES.get(cmd_name, cmd_name)
        for section in SECTIONS.values():
            if name in section:
                family = importlib.import_module(f"{__name__}.{section[name]}")
                commands: Any = typer.main.get_command(family.app)
                return commands.commands[name]
        return None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, self.list_commands(ctx)))
        for title, names in SECTIONS.items():
            helps = [self.get_command(ctx, name).get_short_help_str(formatter.width - width - 6) for name in names]
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, text in zip(names, helps, strict=True)])


app = typer.Typer(
    name="honeybadger-host",
    cls=Commands,
    help="The memory of groups of LLM agents: a daemon, and its operator's commands. Exit codes: 0 done, 1 failed, "
    "2 usage, 3 settings, 4 home, 5 another host serves it, 6 journal, 7 not running, 8 disk, 9 not found.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run a command; an error of the host becomes one line and its exit code."""
    gc.set_threshold(100_000)  # imported modules are no garbage: looking through them takes a fifth of a call
    atexit.register(gc.freeze)  # at its end, too
    try:
        app()
    except HostError as error:
        print(f"honeybadger-host: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    except BadName as error:
        print(f"honeybadger-host: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _print_version(is_asked: bool) -> None:
    if is_asked:
        print(f"honeybadger-host {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
