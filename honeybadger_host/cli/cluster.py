"""Commands about a home on several machines: `cluster …`."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from honeybadger_agent.wording import count_of
from honeybadger_host.cli.shared import AsJson, Home, Overrides, flags_of, tell
from honeybadger_host.cluster import operating
from honeybadger_host.cluster.servers import Unreachable
from honeybadger_host.configuration import load_settings
from honeybadger_host.errors import HomeError, SettingsError, StorageFailed
from honeybadger_host.files.home import JOURNAL_FILE
from honeybadger_host.observe import warn_on_stderr
from honeybadger_host.settings import Cluster

app = typer.Typer(rich_markup_mode=None)
cluster_app = typer.Typer(help="Keep a home on several machines.", no_args_is_help=True)
app.add_typer(cluster_app, name="cluster")


@contextmanager
def reaching(home: Path, overrides: list[str] | None) -> Iterator[Cluster]:
    """Yield a home's settings of the servers. Raises StorageFailed if these do not answer."""
    settings = load_settings(home, flags_of(overrides)).settings.cluster
    if not settings.urls:
        raise SettingsError("setting cluster.servers is empty: name the NATS servers, see docs/machines.md")
    warn_on_stderr()
    try:
        yield settings
    except Unreachable as error:
        raise StorageFailed(
            f"the servers of the cluster do not answer ({error}): most of them must run and have room on their disks"
        ) from None


@cluster_app.command("init")
def cluster_init(
    home: Home,
    anew: Annotated[bool, typer.Option("--anew", help="Remove the earlier log of this home from the servers.")] = False,
    overrides: Overrides = None,
) -> None:
    """Put the log of a home on the servers, so that other machines may join. No host may serve the home now."""
    with reaching(home, overrides) as settings:
        identity = operating.begin(home, settings, is_anew=anew)
    print(identity)
    print(f"next, here: honeybadger-host run --home {quote(str(home))}")
    print(f"on another machine, with the same cluster.servers: honeybadger-host cluster join {identity}")


@cluster_app.command("key")
def cluster_key(
    home: Home,
    group: Annotated[str | None, typer.Argument(help="Group of an agent on a machine without a host.")] = None,
    sender: Annotated[str | None, typer.Argument(help="Its sender.")] = None,
    to: Annotated[Path | None, typer.Option("--to", help="File of the seed.")] = None,
    as_json: AsJson = False,
    overrides: Overrides = None,
) -> None:
    """Make the key of this host, or of an agent elsewhere, and say what the servers' nats.conf needs for it."""
    from honeybadger_host.journal.schema import read_meta

    chosen = load_settings(home, flags_of(overrides)).settings.cluster.credentials
    if group is None:
        path = to or Path(chosen or home / "config" / "cluster.seed")
        lines, sets = operating.host_lines(public := operating.make_key(path)), f'cluster.credentials = "{path}"'
    elif sender is None:
        raise typer.BadParameter(f"say whose key it is: cluster key {group} <sender>")
    else:
        identity = read_meta(home / JOURNAL_FILE, "identity") if (home / JOURNAL_FILE).exists() else None
        if not identity:
            raise HomeError(f"{home} has no identity yet: `honeybadger-host cluster init` gives it one")
        operating.agent_lines("", identity, group, sender)  # names are checked before a key is made
        path = to or Path(f"{sender}.seed")
        lines = operating.agent_lines(public := operating.make_key(path), identity, group, sender)
        sets = f"HONEYBADGER_CREDENTIALS={path}"
    told = [f"{path} has the seed; in nats.conf of each server, authorization {{ users: [ … ] }}:", "", *lines]
    told += ["", f"then `systemctl reload nats` there, and here {sets}"]
    tell({"file": str(path), "public": public, "lines": lines}, told, as_json=as_json)


@cluster_app.command("join")
def cluster_join(
    identity: Annotated[str, typer.Argument(help="What `cluster init` printed.")],
    home: Home,
    overrides: Overrides = None,
) -> None:
    """Let this machine, in whose home no host ever ran, keep a home with others."""
    with reaching(home, overrides) as settings:
        operating.join(home, settings, identity)
    print(f"joined; next: honeybadger-host run --home {quote(str(home))}")


@cluster_app.command("leave")
def cluster_leave(home: Home) -> None:
    """Make the home one of this machine alone, as it is here. No host may serve it now."""
    operating.leave(home)
    print("this home is of this machine alone; take cluster.servers out of its settings")


@cluster_app.command("status")
def cluster_status(home: Home, as_json: AsJson = False, overrides: Overrides = None) -> None:
    """Say who owns the home, how long its log is, how far this machine has come, and who owns the other homes."""
    with reaching(home, overrides) as settings:
        found = operating.look(home, settings)
    named = f"{found['owner']}, epoch {found['epoch']}; people edit files there"
    lines = [
        f"home     {found['home']}",
        f"owner    {named if found['owner'] else 'nobody just now'}",
        *map(_line_of, found["machines"]),
        *(f"machine  {node} does not answer" for node in found["missing"]),
        f"log      {found['log']['first']} to {found['log']['last']}, snapshots at {found['snapshots']}",
        f"here     {found['node']} has {found['here']}",
    ]
    if len(found["homes"]) > 1:
        lines += ["", *map(_line_of_home, found["homes"])]
    tell(found, lines, as_json=as_json)


def _line_of_home(home: Mapping[str, Any]) -> str:
    name, owner = "/".join(home["names"]) or "no machine runs", home["owner"]
    line = f"{name} ({home['home']}): {owner or 'nobody owns it'}, on {count_of(len(home['machines']), 'machine')}"
    return line + f"; preferred {home['order'][0]}" if home["order"] and home["order"][0] != owner else line


@cluster_app.command("balance")
def cluster_balance(home: Home, as_json: AsJson = False, overrides: Overrides = None) -> None:
    """Spread all homes of the servers over the machines that run now, and keep that as the preferred places.

    Each moved home is unavailable for about a second, one after the other. Exit code 1: one could not be moved.
    """
    with reaching(home, overrides) as settings:
        done = operating.balance(settings)
    lines = []
    for one in done:
        lines.append(_line_of_home(one) + (f"; NOT MOVED: {one['why']}" if one["why"] else ""))
        lines += [f"    next: {', '.join(one['order'][1:])}"] if one["order"][1:] else []
    tell(done, lines, as_json=as_json)
    if any(one["why"] for one in done):
        raise typer.Exit(1)


def _line_of(machine: Mapping[str, Any]) -> str:
    does = "begins to own the home" if machine["epoch"] else "follows"
    if machine["serves"]:
        does = "serves"
    left = "".join(f"; of what was forgotten is left: {file} ({form})" for file, form in machine["left"])
    return f"machine  {machine['node']} {does}, has {machine['seq']}, version {machine['version']}{left}"


@cluster_app.command("move")
def cluster_move(
    machine: Annotated[str, typer.Argument(help="Its host name, its folder, or a whole name, see `cluster status`.")],
    home: Home,
    as_json: AsJson = False,
    overrides: Overrides = None,
) -> None:
    """Let another machine own the home. It waits until that one serves; requests meanwhile wait, too."""
    _move(machine, home, overrides, as_json=as_json)


@cluster_app.command("drain")
def cluster_drain(home: Home, as_json: AsJson = False, overrides: Overrides = None) -> None:
    """Let any other machine own the home if this one does: before it is stopped or upgraded. It follows from then on,
    and owns the home again only when that one is gone."""
    _move(None, home, overrides, as_json=as_json)


def _move(machine: str | None, home: Path, overrides: list[str] | None, *, as_json: bool) -> None:
    with reaching(home, overrides) as settings:
        moved = operating.move_to(home, settings, machine)
    how = f", after {moved['seconds']:.1f} s; {moved['was']} follows" if moved["owner"] != moved["was"] else " already"
    tell(moved, [f"{moved['owner']} owns the home{how}"], as_json=as_json)


@cluster_app.command("verify")
def cluster_verify(home: Home, overrides: Overrides = None) -> None:
    """Check the hashes of the log, and that the journal of this machine matches them. Exit code 6: it does not."""
    with reaching(home, overrides) as settings:
        end = operating.verify(home, settings)
    print(f"ok: {end.seq} {end.chain}")
