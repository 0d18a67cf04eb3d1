"""The commands `export`, `import`, `backup` and `restore`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from honeybadger_agent.cli.terminal import patience
from honeybadger_agent.wording import count_of
from honeybadger_host.cli.shared import AsJson, GivenHome, Home, HomeWithFiles, asked_of, check_group, some_of, tell
from honeybadger_host.configuration import environment_home, load_settings
from honeybadger_host.errors import HostError
from honeybadger_host.files.home import JOURNAL_FILE, check_home
from honeybadger_host.journal.schema import SharedLog
from honeybadger_host.transfer.formats import FORMATS, IMPORTERS, OWN, format_of, is_own

app = typer.Typer(rich_markup_mode=None)


@app.command()
def export(
    home: HomeWithFiles,
    group: str,
    to: Annotated[
        Path | None, typer.Option(help="A name that ends with .tar.gz, or a folder; must not exist.", metavar="PATH")
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Plain files for people, without the log.")] = False,
    as_json: AsJson = False,
) -> None:
    """Export all of a group, for `import` elsewhere. Works with and without a running host."""
    from honeybadger_host.transfer.exporting import export_group
    from honeybadger_host.transfer.markdown_export import export_markdown

    check_group(home, group)
    target = (to or Path(f"{group}{'' if markdown else '.tar.gz'}")).absolute()
    if target.suffix in (".zip", ".tar", ".7z", ".xz", ".bz2"):
        raise typer.BadParameter(f"{target.name} is neither a folder nor a .tar.gz", param_hint="--to")
    with patience(f"exporting {group}"):
        done = (export_markdown if markdown else export_group)(home, group, target)
    told = {"to": str(target), "files": done.files, "changes": done.changes, "left_out": done.left_out}
    changes = "" if markdown else f", {count_of(done.changes, 'change')}"
    lines = [f"{target}: {count_of(done.files, 'file')}{changes}"]
    tell(told, lines, as_json=as_json, missing=some_of("left out", done.left_out))


@app.command("import")
def import_(
    home: Home,
    group: str,
    path: Annotated[Path, typer.Argument(help="A file or a folder.")],
    format_: Annotated[str | None, typer.Option("--from", help="Its format; recognised where possible.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count, and change nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Import an export of a group, or another program's memory."""
    if format_ is not None and format_ not in FORMATS:
        raise typer.BadParameter(f"{format_!r} is not a format: {', '.join(FORMATS)}", param_hint="--from")
    if format_ == OWN or (format_ is None and is_own(path)):
        told, lines = _load(home, group, path, dry_run)
    else:
        told, lines = _import(home, group, path, format_, dry_run)
    tell(told, lines, as_json=as_json, missing=some_of("not imported", told.get("skipped", ())))


def _load(folder: Path, group: str, path: Path, dry_run: bool) -> tuple[dict[str, Any], list[str]]:
    """Import an export of Honeybadger; return the report as JSON and as lines."""
    from honeybadger_host.transfer.loading import load_export

    with patience(f"importing {path}"), _owning(folder) as shared:
        loaded = load_export(folder, group, path.absolute(), is_dry=dry_run, shared=shared)
    plan = loaded.forgetting
    left: Sequence[Mapping[str, str]] = ()
    if plan is not None and not dry_run and shared is None:  # else the next owner forgets it
        left = asked_of(folder, group, "forget", json.loads(plan.selector))["left"]
    forgotten = 0 if plan is None else len(plan.asked) + len(plan.wholes)
    told = {
        "format": "honeybadger",
        "group": group,
        "was": loaded.was_there,
        "files": loaded.files,
        "changes": loaded.changes,
        "shift": loaded.shift,
        "forgotten": forgotten,
        "dry_run": dry_run,
    }
    what = f"{count_of(loaded.files, 'file')} and {count_of(loaded.changes, 'change')} of {loaded.was_there}"
    lines = [f"{group}: would take in {what}" if dry_run else f"{group}: has {what}"]
    if loaded.shift:
        lines.append(f"this home has changes of those numbers: add {loaded.shift} to a number of the other home")
    if forgotten:
        lines.append(
            f"{count_of(forgotten, 'text')} of it, forgotten in this home: {'would be' if dry_run else 'are'} left out"
        )
    return told, [*lines, *(f"LEFT: {one['file']} ({one['form']})" for one in left)]


@contextmanager
def _owning(folder: Path) -> Iterator[SharedLog | None]:
    """Own a home that several machines keep, see `cluster.operating.owning`; yield None for a home of one machine."""
    from honeybadger_host.journal.transfer import is_shared

    check_home(folder)
    # A journal is read only with these settings: a kill may have left one without tables, which the load makes.
    is_clustered = bool(load_settings(folder).settings.cluster.servers)
    if not (is_clustered and (folder / JOURNAL_FILE).exists() and is_shared(folder / JOURNAL_FILE)):
        yield None
        return
    from honeybadger_host.cli.cluster import reaching
    from honeybadger_host.cluster.operating import owning

    with reaching(folder, None), owning(folder, load_settings(folder).settings) as shared:
        yield shared


def _import(
    folder: Path, group: str, path: Path, format_: str | None, dry_run: bool
) -> tuple[dict[str, Any], list[str]]:
    """Import another program's memory; return the report as JSON and as lines."""
    from zipfile import is_zipfile

    from honeybadger_host import daemon
    from honeybadger_host.observe import warn_on_stderr
    from honeybadger_host.transfer.importing import Import
    from honeybadger_host.transfer.records import open_source, read_all

    check_home(folder)
    settings = load_settings(folder).settings
    warn_on_stderr()
    with open_source(path) as source, patience(f"importing {path}"):
        name = format_ or format_of(source, path)
        serve = partial(daemon.serve_box, folder, settings)
        done = Import(folder, group, name, is_dry=dry_run, serve=serve).run(read_all(source, IMPORTERS[name]))
    if not (done.added or done.known or done.skipped):
        raise HostError(
            f"nothing in {path} is of the format {name}: files must have the names that an export gives them"
        )
    if is_zipfile(path) and not (done.added or done.known):
        first = done.skipped[0]
        raise HostError(
            f"{path} is damaged, or nothing in it can be read: {first.where}: {first.why}; nothing was imported"
        )
    told = {
        "format": name,
        "group": group,
        "turns": done.added["turns"],
        "entries": done.added["entries"],
        "known": done.known,
        "neutralised": dict(done.neutralised),
        "skipped": [f"{one.where}: {one.why}" for one in done.skipped],
        "dry_run": dry_run,
    }
    added = f"{count_of(done.added['turns'], 'turn')}, {count_of(done.added['entries'], 'entry', 'entries')}"
    return told, [f"{group}: {'would take in ' if dry_run else ''}{added} from {name}; {done.known} were there"]


@app.command()
def backup(
    home: HomeWithFiles,
    file: Annotated[Path, typer.Argument(help="The archive to make, as honeybadger.tar.gz; must not exist.")],
    as_json: AsJson = False,
) -> None:
    """Pack the home into one file (0600). Works with and without a running host."""
    from honeybadger_host.ops.backup import back_up

    with patience(f"packing {home}"):
        packed = back_up(home, file.absolute(), now=datetime.now(UTC))
    size = file.stat().st_size
    journal = "no journal yet" if packed.seq is None else f"journal at {packed.seq}"
    tell(
        {
            "file": str(file),
            "bytes": size,
            "files": packed.files,
            "journal": packed.seq,
            "left_out": packed.left_out,
        },
        [f"{file}: {count_of(packed.files, 'file')}, {journal}, {size} bytes"],
        as_json=as_json,
        missing=some_of("left out", packed.left_out),
    )


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(help="What `backup` made.")],
    home: GivenHome = None,
    as_json: AsJson = False,
) -> None:
    """Restore a home from a backup after checking all of it. Exit code 1: the doctor finds a problem."""
    from honeybadger_host.ops.archive import restore as restore_
    from honeybadger_host.ops.doctor import examine

    folder = (home or environment_home() or Path()).absolute()  # not a home that was found: the command replaces it
    with patience(f"restoring {folder}"):
        manifest, files = restore_(file.absolute(), folder)
    with patience(f"checking {folder}"):
        problems = [finding for finding in examine(folder) if finding.level == "problem"]
    told = {
        "home": str(folder),
        "files": files,
        "made_at": manifest.made_at,
        "problems": [finding.message for finding in problems],
    }
    lines = [f"{folder}: {count_of(files, 'file')} as of {manifest.made_at}, by version {manifest.version}"]
    if not problems:
        lines.append(f"next: honeybadger-host run --home {quote(str(folder))}")
    tell(told, [*lines, *(f"problem   {one.check}: {one.message}" for one in problems)], as_json=as_json)
    if problems:
        raise SystemExit(1)
