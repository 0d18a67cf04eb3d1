"""The program `honeybadger-host`. Each command imports the heavy modules that it needs."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from honeybadger_agent.mailbox import BadName
from honeybadger_agent.wording import count_of
from honeybadger_host import __version__
from honeybadger_host.cli import cluster, groups, looking_back, memory, review, senders, service, transfer
from honeybadger_host.cli.options import AsJson, GroupedCommands, Home, Overrides, flags_of, home_of, print_json, tell
from honeybadger_host.cli.status import print_finding, print_status
from honeybadger_host.errors import HostError, NotRunning, StorageFailed, may_clear

if TYPE_CHECKING:
    from honeybadger_host.ops.findings import Finding


app = typer.Typer(
    name="honeybadger-host",
    cls=GroupedCommands,
    help="The memory of groups of LLM agents: a daemon, and its operator's commands. Exit codes: 0 done, 1 failed, "
    "2 usage, 3 settings, 4 home, 5 another host serves it, 6 journal, 7 not running, 8 disk, 9 not found.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for _each in (groups, memory, looking_back, review, transfer):
    app.add_typer(_each.app)
app.add_typer(service.host_app)
app.add_typer(groups.notes_app, name="notes")
app.add_typer(cluster.app, name="cluster")
app.add_typer(senders.app, name="sender")
app.add_typer(senders.dead_app, name="dead")
app.add_typer(service.app, name="service")


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


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="Where; made when missing.")] = Path(),
    group: Annotated[str, typer.Option(help="The first group.")] = "main",
    groups: Annotated[
        Path | None,
        typer.Option(
            help="Where the groups' folders lie, such as a vault; relative: below the home.", metavar="FOLDER"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a home folder, ready to run. Existing files are not touched."""
    from honeybadger_agent.home import default_file, register_home
    from honeybadger_host.files.home import make_home

    made = make_home(folder, group, groups)
    try:
        default, registered = str(register_home(folder)), f"as {default_file()} says"
    except OSError as error:
        default, registered = None, f"none: {error.strerror or error}"
    known = {"home": str(folder.absolute()), "made": [str(path) for path in made], "default_home": default}
    lines = [f"made {path}" for path in made] or [f"{folder} is a home already"]
    lines.append(f"your default home is {f'{default}, ' if default else ''}{registered}")
    lines.append(
        f"next: edit {folder / 'groups' / group / 'CLAUDE.md'}, then: honeybadger-host run --home {quote(str(folder))}"
    )
    tell(known, lines, as_json=as_json)


@app.command()
def run(home: Home = None, overrides: Overrides = None) -> None:
    """Serve a home folder until SIGTERM or Ctrl-C."""
    gc.disable()  # collecting imported modules takes a tenth of a start; `daemon.run` turns it on again
    from honeybadger_host import daemon
    from honeybadger_host.configuration import load_settings
    from honeybadger_host.observe import configure_logging

    folder = home_of(home, is_unserved=True)
    try:
        loaded = load_settings(folder, flags_of(overrides))
        configure_logging(loaded.settings.log.format, loaded.settings.log.level)
        daemon.run(folder, loaded.settings)
    except (HostError, OSError) as error:
        if isinstance(error, StorageFailed) or not may_clear(error):
            raise
        raise StorageFailed(f"{error}; see `honeybadger-host doctor`") from error  # systemd restarts after this one


@app.command()
def config(home: Home = None, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Print every setting with its value and its origin."""
    from honeybadger_host.configuration import load_settings, values

    loaded = load_settings(home_of(home), flags_of(overrides))
    rows = [{"name": name, "value": value, "from": loaded.origins[name]} for name, value in values(loaded.settings)]
    width = max(len(row["name"]) for row in rows)
    tell(rows, (f"{row['name']:{width}}  {row['value']!s:10}  {row['from']}" for row in rows), as_json=as_json)


@app.command()
def status(
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Show whether a host serves the home, and its status. Exit code 7: none does."""
    from honeybadger_host.files.home import STATUS_FILE, is_served, read_holder

    folder = home_of(home)
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
        print_json({"running": is_running, **snapshot})
    if not is_running and not (folder / "groups").is_dir():
        raise NotRunning(f"{folder} is not a home: make one with `honeybadger-host init {quote(str(folder))}`")
    if not is_running:
        last = f"; last served by {read_holder(folder)}" if read_holder(folder).pid else ""
        raise NotRunning(
            f"no host serves {folder}{last}: start one with `honeybadger-host run --home {quote(str(folder))}`"
        )
    if not as_json:
        print_status(folder, snapshot)


@app.command()
def doctor(home: Home = None, as_json: AsJson = False) -> None:
    """Check what an operator can mend, the worst last. Exit code 1: there is a problem."""
    from honeybadger_host.observe import warnings_to_stderr
    from honeybadger_host.ops.doctor import examine

    folder = home_of(home)
    findings: list[Finding] = []
    with warnings_to_stderr():
        for finding in examine(folder, [_cluster]):
            findings.append(finding)
            if not as_json and finding.level == "ok":
                print_finding(finding)
    warnings = [finding for finding in findings if finding.level == "warning"]
    problems = [finding for finding in findings if finding.level == "problem"]
    if as_json:
        print_json(
            [{"check": f.check, "level": f.level, "message": f.message, "now_what": f.now_what} for f in findings]
        )
    else:
        for finding in (*warnings, *problems):
            print_finding(finding)
        print(f"{count_of(len(problems), 'problem')}, {count_of(len(warnings), 'warning')}")
    if problems:
        raise SystemExit(1)


def _cluster(folder: Path) -> Iterator[Finding]:
    """Check the servers and machines of a home on several machines. Raises SettingsError."""
    from honeybadger_host.configuration import load_settings

    if load_settings(folder).settings.cluster.urls:
        from honeybadger_host.cluster.checks import cluster as check  # needs an extra

        yield from check(folder)
