"""Options and output that several commands share; the groups of commands in `--help`, and aliases of commands."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Final

import orjson
import typer

from honeybadger_agent.cli.terminal import print_lines
from honeybadger_agent.errors import NoHome
from honeybadger_agent.home import find_home, home_above, prefer_served
from honeybadger_agent.wording import MAX_NAMED
from honeybadger_host.configuration import environment_home
from honeybadger_host.errors import HomeError, NotFound, SettingsError
from honeybadger_host.files.home import JOURNAL_FILE, has_journal
from honeybadger_host.text.json_values import dumped
from honeybadger_host.text.time_stamps import time_stamp

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", help="A setting for this run, as log.level=debug; may be repeated.")
]


def home_of(given: Path | None, *, is_unserved: bool = False) -> Path:
    """Return the home of a command: the named one, or else found as clients do. Raises HomeError.

    Args:
        is_unserved: the command needs a home without a host, so the one around the current folder comes first.
    """
    if (named := given or environment_home()) is not None:
        folder = named.absolute()
        if not os.path.isdir(folder):
            raise HomeError(f"{folder} is not a folder: make a home with `honeybadger-host init {quote(str(folder))}`")
        return folder
    try:
        around = Path.cwd() if Path("groups").is_dir() else home_above(Path.cwd())  # a host needs only groups/
        if around is None:
            return find_home().absolute()
    except NoHome as error:
        raise HomeError(str(error)) from None
    return around if is_unserved else prefer_served(around)


_HOME_HELP: Final = "Home folder; default HONEYBADGER_HOME, else the one you are in, else yours."
GivenHome = Annotated[Path | None, typer.Option("--home", help=_HOME_HELP)]


def _home_option(found: Callable[[Path | None], Path]) -> Any:
    """Return the option `--home` of a command that needs a home, which is found if the option is not given."""
    return typer.Option(
        "--home",
        help=_HOME_HELP,
        callback=lambda given: found(given),
        default_factory=lambda: None,
        show_default=False,
    )


Home = Annotated[Path, _home_option(home_of)]


def flags_of(overrides: list[str] | None) -> dict[str, Any]:
    """Return setting -> value of `--set` options. Raises SettingsError."""
    flags: dict[str, Any] = {}
    for item in overrides or ():
        name, equals, value = item.partition("=")
        if not equals:
            raise SettingsError(f"--set {item}: write name=value, as --set log.level=debug")
        flags[name] = value
    return flags


def print_json(value: Any) -> None:
    sys.stdout.write(dumped(value, orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode())


def some_of(what: str, lines: Sequence[str]) -> Iterator[str]:
    """Yield the first lines, and how many more there are."""
    yield from (f"{what}: {line}" for line in lines[:MAX_NAMED])
    if len(lines) > MAX_NAMED:
        yield f"{what}: {len(lines) - MAX_NAMED} more"


def print_some(what: str, lines: Sequence[str]) -> None:
    """Print the first lines on standard error, and how many more there are."""
    for line in some_of(what, lines):
        print(line, file=sys.stderr)


def tell(value: Any, lines: Iterable[str], *, as_json: bool) -> None:
    """Print a result: as JSON with `--json`, else its lines."""
    if as_json:
        print_json(value)
    else:
        print_lines(lines)


def moment(milliseconds: int) -> str:
    return time_stamp(datetime.fromtimestamp(milliseconds / 1000, UTC))


def with_files(home: Path) -> Path:
    """Return the home. Raises HomeError if another machine owns it, so that the files here are out of date."""
    from honeybadger_host.journal.transfer import are_files_behind

    if are_files_behind(home / JOURNAL_FILE):
        raise HomeError(
            f"the files in {home} are not kept up, for another machine owns the home: do this on that one, see "
            "`honeybadger-host cluster status`"
        )
    return home


def journal_of(home: Path) -> Path:
    """Return the path of a home's journal; warn if another machine writes to it. Raises NotFound, JournalError."""
    from honeybadger_host.journal.transfer import are_files_behind

    if not has_journal(home):
        raise NotFound(f"{home} has no journal yet: nothing was changed through a host")
    if are_files_behind(home / JOURNAL_FILE):
        print("(as far as this machine, which follows another, has come: see cluster status)", file=sys.stderr)
    return home / JOURNAL_FILE


HomeWithFiles = Annotated[Path, _home_option(lambda given: with_files(home_of(given)))]
