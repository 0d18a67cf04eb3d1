"""Commands about a home that several machines keep: `cluster …`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from honeybadger_host.cli.options import AsJson, Home, Overrides, flags_of, home_of, tell
from honeybadger_host.errors import SettingsError, StorageFailed

if TYPE_CHECKING:
    from honeybadger_host.settings import Cluster

app = typer.Typer(help="A home that several machines keep: begin it, join it, look at it.", no_args_is_help=True)
Anew = Annotated[bool, typer.Option("--anew", help="Remove what the servers have of this home from before.")]
Identity = Annotated[str, typer.Argument(help="What `cluster init` printed.")]


def _cluster_of(home: Path, overrides: list[str] | None) -> Cluster:
    from honeybadger_host.configuration import load_settings

    settings = load_settings(home, flags_of(overrides)).settings.cluster
    if not settings.urls:
        raise SettingsError("setting cluster.servers is empty: name the NATS servers, see docs/machines.md")
    return settings


@contextmanager
def _reaching() -> Iterator[None]:
    from honeybadger_host.cluster.servers import Unreachable

    try:
        yield
    except Unreachable as error:
        raise StorageFailed(f"the servers of the cluster do not answer ({error}): see that most of them run") from None


@app.command("init")
def cluster_init(home: Home = None, anew: Anew = False, overrides: Overrides = None) -> None:
    """Put the log of a home on the servers, so that other machines may join. No host may serve the home now."""
    from honeybadger_host.cluster.operating import begin

    folder = home_of(home)
    settings = _cluster_of(folder, overrides)
    with _reaching():
        names = begin(folder, settings, is_anew=anew)
    print(names.identity)
    print(f"next, here: honeybadger-host run --home {folder}")
    print(f"on another machine, with the same cluster.servers: honeybadger-host cluster join {names.identity}")


@app.command("join")
def cluster_join(identity: Identity, home: Home = None, overrides: Overrides = None) -> None:
    """Let this machine, in whose home no host ever ran, keep a home with others."""
    from honeybadger_host.cluster.operating import join

    folder = home_of(home)
    settings = _cluster_of(folder, overrides)
    with _reaching():
        join(folder, settings, identity)
    print(f"joined; next: honeybadger-host run --home {folder}")


@app.command("leave")
def cluster_leave(home: Home = None) -> None:
    """Make the home one of this machine alone, as it is here. No host may serve it now."""
    from honeybadger_host.cluster.operating import leave

    leave(home_of(home))
    print("this home is of this machine alone; take cluster.servers out of its settings")


@app.command("status")
def cluster_status(home: Home = None, as_json: AsJson = False, overrides: Overrides = None) -> None:
    """Say who owns the home, how long its log is, and how far this machine has come."""
    from honeybadger_host.cluster.operating import look

    folder = home_of(home)
    settings = _cluster_of(folder, overrides)
    with _reaching():
        found = look(folder, settings)
    lines = [
        f"home     {found['home']}",
        f"owner    {found['owner'] or 'nobody just now'}, epoch {found['epoch']}",
        f"log      {found['log']['first']} to {found['log']['last']}, snapshots at {found['snapshots']}",
        f"here     {found['node']} has {found['here']}",
    ]
    tell(found, lines, as_json=as_json)


@app.command("verify")
def cluster_verify(home: Home = None, overrides: Overrides = None) -> None:
    """Follow the hashes of the log, and see that the journal of this machine is on its line. Exit code 6 if not."""
    from honeybadger_host.cluster.operating import verify

    folder = home_of(home)
    settings = _cluster_of(folder, overrides)
    with _reaching():
        end = verify(folder, settings)
    print(f"ok: {end.seq} {end.chain}")
