"""The commands `backup` and `restore`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from honeybadger_agent.cli.terminal import patience
from honeybadger_agent.wording import count_of
from honeybadger_host.cli.options import AsJson, Home, check_files, home_of, print_json, print_some
from honeybadger_host.cli.status import print_finding

app = typer.Typer()


@app.command()
def backup(
    file: Annotated[Path, typer.Argument(help="The archive to make, as honeybadger.tar.gz; must not exist.")],
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Pack the home into one file (0600). Works with and without a running host."""
    from honeybadger_host.ops.backup import back_up

    folder = home_of(home)
    check_files(folder)
    with patience(lambda: f"packing {folder}"):
        packed = back_up(folder, file.absolute(), now=datetime.now(UTC))
    journal = packed.manifest.journal
    if as_json:
        known = {"file": str(file), "bytes": file.stat().st_size, "files": len(packed.manifest.files)}
        print_json({**known, "journal": None if journal is None else journal.seq, "left_out": packed.left_out})
        return
    print_some("left out", packed.left_out)
    print(
        f"{file}: {count_of(len(packed.manifest.files), 'file')}, "
        f"{'no journal yet' if journal is None else f'journal at {journal.seq}'}, {file.stat().st_size} bytes"
    )


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(help="What `backup` made.")],
    home: Home = None,
    force: Annotated[bool, typer.Option("--force", help="Move what the home has aside first.")] = False,
    as_json: AsJson = False,
) -> None:
    """Restore a home from a backup after checking all of it. Exit code 1: the doctor finds a problem."""
    from honeybadger_host.configuration import environment_home
    from honeybadger_host.ops.doctor import examine
    from honeybadger_host.ops.restore import restore as restore_

    folder = (home or environment_home() or Path()).absolute()  # not a home that was found: the command replaces it
    with patience(lambda: f"restoring {folder}"):
        restored = restore_(file.absolute(), folder, now=datetime.now(UTC), is_forced=force)
    with patience(lambda: f"checking {folder}"):
        problems = [finding for finding in examine(folder) if finding.level == "problem"]
    manifest = restored.manifest
    if as_json:
        known = {"home": str(folder), "files": len(manifest.files), "made_at": manifest.made_at}
        aside = None if restored.aside is None else str(restored.aside)
        print_json({**known, "aside": aside, "problems": [finding.message for finding in problems]})
        raise SystemExit(1 if problems else 0)
    if restored.aside is not None:
        print(f"what was there is in {restored.aside}")
    if restored.foreign_uids:
        print(f"files of uid {', '.join(map(str, restored.foreign_uids))} are yours now; as root they would not be")
    print(f"{folder}: {count_of(len(manifest.files), 'file')} as of {manifest.made_at}, by version {manifest.version}")
    for finding in problems:
        print_finding(finding)
    if problems:
        raise SystemExit(1)
    print(f"next: honeybadger-host run --home {folder}")
