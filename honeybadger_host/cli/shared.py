"""The parts that commands share: options, the home, the request to its host, the printed result.

If no host runs, one is started for the request.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import orjson
import typer

from honeybadger_agent.cli.terminal import patience, print_lines
from honeybadger_agent.errors import NoHome
from honeybadger_agent.home import find_home, home_above, prefer_served
from honeybadger_agent.mailbox import GLOBAL_GROUP, checked_name
from honeybadger_agent.wire import (
    REQUEST_TYPES,
    Consolidate,
    Dream,
    Forget,
    Refusal,
    Reply,
    Request,
    Undo,
    parse_members,
)
from honeybadger_agent.wording import MAX_NAMED, as_typed
from honeybadger_host.configuration import environment_home, load_settings
from honeybadger_host.errors import HomeError, HostError, NotFound, SettingsError
from honeybadger_host.files.home import JOURNAL_FILE, groups_in, has_journal
from honeybadger_host.text.json_values import dumped
from honeybadger_host.text.time_stamps import time_stamp

_SAVING_SECONDS = 3.0  # a file that was just saved can be changed after this time

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


_HOME_HELP = "Home folder; default HONEYBADGER_HOME, else the one you are in, else yours."
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


def tell(value: Any, lines: Iterable[str], *, as_json: bool, missing: Iterable[str] = ()) -> None:
    """Print a result: as JSON with `--json`, else its lines.

    Args:
        missing: lines about what the result lacks, which go to standard error; JSON names them itself.
    """
    if as_json:
        print_json(value)
        return
    for line in missing:
        print(line, file=sys.stderr)
    print_lines(lines)


def moment(milliseconds: int) -> str:
    return time_stamp(datetime.fromtimestamp(milliseconds / 1000, UTC))


def _is_behind(home: Path) -> bool:
    """Return whether another machine owns a home, so that the files here are out of date."""
    from honeybadger_host.journal.transfer import are_files_behind

    return are_files_behind(home / JOURNAL_FILE)


def with_files(home: Path) -> Path:
    """Return the home. Raises HomeError if another machine owns it, so that the files here are out of date."""
    if _is_behind(home):
        raise HomeError(
            f"the files in {home} are not kept up, for another machine owns the home: do this on that one, see "
            "`honeybadger-host cluster status`"
        )
    return home


def journal_of(home: Path) -> Path:
    """Return the path of a home's journal; warn if another machine writes to it. Raises NotFound, JournalError."""
    if not has_journal(home):
        raise NotFound(f"{home} has no journal yet: nothing was changed through a host")
    if _is_behind(home):
        print("(as far as this machine, which follows another, has come: see cluster status)", file=sys.stderr)
    return home / JOURNAL_FILE


HomeWithFiles = Annotated[Path, _home_option(lambda given: with_files(home_of(given)))]


def check_group(folder: Path, group: str) -> None:
    """Exit with an error if a home has no such group."""
    from honeybadger_host.journal.reader import LogFilter, read_log

    checked_name("group", group)
    if group == GLOBAL_GROUP:
        return
    if not any((folder / part / group).is_dir() for part in ("groups", "data/sessions")):
        if (folder / JOURNAL_FILE).exists() and read_log(folder / JOURNAL_FILE, LogFilter(group), 1):
            return  # its files are on another machine, or its folder was removed
        raise NotFound(f"{folder} has no group {group!r}: `honeybadger-host groups` lists them")


def inbox_group(folder: Path) -> str:
    """Return any group, for requests that belong to all. Raises NotFound if there is none."""
    found = next((name for name in groups_in(folder) if name != GLOBAL_GROUP), None)
    if found is None:
        command = f"honeybadger-host init {quote(str(folder))} --group NAME"
        raise NotFound(f"{folder} has no group yet: `{command}` makes one")
    return found


def asked_of(
    folder: Path,
    group: str,
    type_name: str,
    payload: Mapping[str, Any],
    *,
    session: str = "main",
) -> Mapping[str, Any]:
    """Return the host's answer to the operator; if none runs, start one for this request.

    Args:
        payload: members that are None are left out.
    """
    check_group(folder, group)
    given = {name: value for name, value in payload.items() if value is not None}
    try:
        request = parse_members(REQUEST_TYPES[type_name], given)
    except Refusal as refusal:
        raise typer.BadParameter(_as_typed(refusal.message)) from None
    return reply_to(folder, group, request, session=session).result or {}


def reply_to(folder: Path, group: str, request: Request[Any], *, session: str = "main") -> Reply:
    """Return the host's reply to the operator; if none runs, start one for this request.

    Raises NotFound, HostError, BadParameter if it is a refusal.
    """
    from honeybadger_host.observe import warn_on_stderr
    from honeybadger_host.ops.operator_client import ask

    settings = load_settings(folder).settings

    def serve(inbox: Path) -> None:
        from honeybadger_host import daemon

        searched = None if isinstance(request, Undo) else group
        daemon.serve_box(folder, settings, inbox, searched=searched, keeps_house=isinstance(request, Forget))

    warn_on_stderr()
    with patience():
        until = time.monotonic() + _SAVING_SECONDS
        while True:
            reply = ask(folder, group, request, serve=serve, session=session)
            is_final = reply.error is None or reply.error.code != "unavailable" or time.monotonic() > until
            if is_final or isinstance(request, Consolidate | Dream):  # each attempt asks a model, which costs
                break
            time.sleep(0.2)
    if reply.error is None:
        return reply
    if reply.error.code in ("invalid", "too_large"):
        raise typer.BadParameter(_as_typed(reply.error.message))
    raise (NotFound if reply.error.code == "not_found" else HostError)(_as_typed(reply.error.message))


def _as_typed(message: str) -> str:
    """Return a message about a request's members in the words of the command that is running."""
    options = [word.partition("=")[0] for word in sys.argv if word.startswith("--")]
    return as_typed(message, {option[2:].replace("-", "_"): option for option in options})
