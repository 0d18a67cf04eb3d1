"""The program `honeybadger-host`. A call imports only the module of its command, which imports what is heavy late."""

import importlib
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from honeybadger_agent.cli.terminal import prepare_process
from honeybadger_agent.mailbox import BadName
from honeybadger_agent.wording import meant
from honeybadger_host import __version__
from honeybadger_host.errors import HostError, StorageFailed, may_clear

# Title in `--help` -> command -> its module, and its help: the first sentence of its own, which need not be imported.
SECTIONS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Serve": {
        "init": ("serving", "Make a home folder, ready to run."),
        "run": ("serving", "Serve a home folder until SIGTERM or Ctrl-C."),
        "status": ("serving", "Show whether a host serves the home, and its status."),
        "doctor": ("serving", "Check what an operator can mend, the worst last."),
        "config": ("serving", "Print every setting with its value and its origin."),
        "web": ("service", "Serve the operators' page until Ctrl-C."),
        "service": ("service", "Run the host as a systemd service."),
    },
    "Look": {
        "groups": ("memory", "List the groups of the home."),
        "context": ("memory", "Print the context an agent gets now, or got earlier."),
        "search": ("memory", "Search a group's memory and conversations."),
        "log": ("memory", "Print who changed what when, newest first."),
        "show": ("looking_back", "Print a file as it is, or as it was at a moment."),
        "blame": ("looking_back", "Print who wrote each line of a file, and when."),
        "diff": ("looking_back", "Print how a group's files differ between two moments."),
        "why": ("looking_back", "Print the context that an answer was given from."),
    },
    "Decide": {
        "review": ("review", "Decide about proposals of curation."),
        "stop-turn": ("memory", "Stop an agent's answer and keep its text so far."),
        "dead": ("senders", "List, retry or drop requests that could not be served."),
    },
    "Take back": {
        "undo": ("memory", "Undo changes of agents and people, newest first."),
        "rewind": ("looking_back", "Bring a group's files back to an earlier moment."),
        "forget": ("memory", "Remove something for good, from every place."),
    },
    "Move": {
        "backup": ("transfer", "Pack the home into one file (0600)."),
        "restore": ("transfer", "Restore a home from a backup after checking all of it."),
        "export": ("transfer", "Export all of a group, for `import` elsewhere."),
        "import": ("transfer", "Import an export of a group, or another program's memory."),
    },
    "Rare": {
        "consolidate": ("review", "Consolidate a session now."),
        "dream": ("review", "Tidy a group's memory now: fold duplicates, ask the model."),
        "sender": ("senders", "Manage senders: folders of closed mode, and tokens."),
        "cluster": ("cluster", "Keep a home on several machines."),
    },
}
ALIASES = {"stop": "stop-turn", "dead-letters": "dead", "recall": "search"}


class Commands(TyperGroup):
    """Imports a command when it is called, and prints all under the titles of `SECTIONS`."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for section in SECTIONS.values() for name in section]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        name = ALIASES.get(cmd_name, cmd_name)
        for section in SECTIONS.values():
            if name in section:
                family = importlib.import_module(f"{__name__}.{section[name][0]}")
                commands: Any = typer.main.get_command(family.app)
                return commands.commands[name]
        near = meant(name, self.list_commands(ctx))
        if near is not None and not ctx.resilient_parsing:
            ctx.fail(f"No such command {cmd_name!r}. Did you mean {near!r}?")
        return None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, self.list_commands(ctx)))
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), help_) for name, (_, help_) in section.items()])


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
    """Run a command; an error of the host, or of the disk or the machine, becomes one line and its exit code."""
    prepare_process()
    try:
        app()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except Exception as error:
        passes, now_what, code = may_clear(error), "", 1
        if isinstance(error, HostError):
            code = error.exit_code
        elif isinstance(error, BadName):
            code = 2
        elif passes or (isinstance(error, OSError) and error.filename is not None):
            now_what = "; see `honeybadger-host doctor`, then the same command again"
        else:
            raise
        print(f"honeybadger-host: {error}{now_what}", file=sys.stderr)
        raise SystemExit(StorageFailed.exit_code if passes else code) from None


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
