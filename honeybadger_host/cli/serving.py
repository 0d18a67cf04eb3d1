"""Commands about a home and the host that serves it: `init`, `run`, `config`, `status`, `doctor`."""

import gc
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from honeybadger_agent.home import default_file, register_home
from honeybadger_agent.wording import count_of
from honeybadger_host.cli.shared import AsJson, GivenHome, Home, Overrides, flags_of, home_of, print_json, tell
from honeybadger_host.cli.status import print_finding, print_status
from honeybadger_host.configuration import load_settings, values
from honeybadger_host.errors import NotRunning
from honeybadger_host.files.home import is_served, make_home, read_holder
from honeybadger_host.observe import configure_logging, read_status, warn_on_stderr
from honeybadger_host.ops.findings import Finding
from honeybadger_host.work.times import dream_times

app = typer.Typer(rich_markup_mode=None)


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
    made = make_home(folder, group, groups)
    try:
        default, registered = str(register_home(folder)), f"as {default_file()} says"
    except OSError as error:
        default, registered = None, f"none: {error.strerror or error}"
    known = {"home": str(folder.absolute()), "made": [str(path) for path in made], "default_home": default}
    lines = [
        *([f"made {path}" for path in made] or [f"{folder} is a home already"]),
        f"your default home is {f'{default}, ' if default else ''}{registered}",
        f"next: edit {folder / 'groups' / group / 'CLAUDE.md'}, then: honeybadger-host run --home {quote(str(folder))}",
    ]
    tell(known, lines, as_json=as_json)


@app.command()
def run(home: GivenHome = None, overrides: Overrides = None) -> None:
    """Serve a home folder until SIGTERM or Ctrl-C."""
    gc.disable()  # collecting imported modules takes a tenth of a start; `daemon.run` turns it on again
    from honeybadger_host import daemon

    folder = home_of(home, is_unserved=True)
    settings = load_settings(folder, flags_of(overrides)).settings
    configure_logging(settings.log.format, settings.log.level)
    daemon.run(folder, settings)


@app.command()
def config(home: Home, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Print every setting with its value and its origin."""
    loaded = load_settings(home, flags_of(overrides))
    dream_times(loaded.settings.dream)  # raises SettingsError if it is wrong
    rows = [{"name": name, "value": value, "from": loaded.origins[name]} for name, value in values(loaded.settings)]
    width = max(len(row["name"]) for row in rows)
    tell(rows, (f"{row['name']:{width}}  {row['value']!s:10}  {row['from']}" for row in rows), as_json=as_json)


@app.command()
def status(
    home: Home,
    as_json: AsJson = False,
) -> None:
    """Show whether a host serves the home, and its status. Exit code 7: none does."""
    is_running, snapshot = is_served(home), read_status(home)
    if as_json:
        print_json({"running": is_running, **snapshot})
    if not is_running and not (home / "groups").is_dir():
        raise NotRunning(f"{home} is not a home: make one with `honeybadger-host init {quote(str(home))}`")
    if not is_running:
        last = f"; last served by {read_holder(home)}" if read_holder(home).pid else ""
        raise NotRunning(
            f"no host serves {home}{last}: start one with `honeybadger-host run --home {quote(str(home))}`"
        )
    if not as_json:
        print_status(home, snapshot)


@app.command()
def doctor(home: Home, as_json: AsJson = False) -> None:
    """Check what an operator can mend, the worst last. Exit code 1: there is a problem."""
    from honeybadger_host.ops.doctor import examine

    findings: list[Finding] = []
    warn_on_stderr()
    for finding in examine(home, [_cluster]):
        findings.append(finding)
        if not as_json and finding.level == "ok":
            print_finding(finding)
    warnings = [finding for finding in findings if finding.level == "warning"]
    problems = [finding for finding in findings if finding.level == "problem"]
    if as_json:
        print_json(findings)
    else:
        for finding in (*warnings, *problems):
            print_finding(finding)
        print(f"{count_of(len(problems), 'problem')}, {count_of(len(warnings), 'warning')}")
    if problems:
        raise SystemExit(1)


def _cluster(folder: Path) -> Iterator[Finding]:
    """Check the servers and machines of a home on several machines. Raises SettingsError."""
    if load_settings(folder).settings.cluster.urls:
        from honeybadger_host.cluster.checks import cluster as check  # needs an extra

        yield from check(folder)
