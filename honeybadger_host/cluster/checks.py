"""The doctor's checks of a home on several machines: servers, log, machines."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson

from honeybadger_agent.wording import count_of
from honeybadger_host.cluster.lease import OWNERS, holder
from honeybadger_host.cluster.log import Names, read_place, snapshots_of
from honeybadger_host.cluster.machines import MAX_BEHIND, State, missing, present
from honeybadger_host.cluster.servers import Servers, Unreachable
from honeybadger_host.configuration import load_settings
from honeybadger_host.errors import HostError
from honeybadger_host.files.home import JOURNAL_FILE
from honeybadger_host.files.safe_files import printable
from honeybadger_host.memory.peoples_files import REPLACED
from honeybadger_host.ops.findings import Finding
from honeybadger_host.settings import Cluster


def cluster(home: Path) -> Iterator[Finding]:
    """Check everything about a home of several machines. Raises SettingsError."""
    for path in sorted((home / REPLACED).rglob("*")):
        if path.is_file():
            yield Finding(
                "kept aside",
                "warning",
                f"{printable(str(path.relative_to(home)))} was only on this machine",
                "compare, then remove it",
            )
    settings = load_settings(home).settings.cluster
    try:
        names, here, _ = read_place(home / JOURNAL_FILE)
    except HostError as error:
        yield Finding("cluster", "problem", str(error), "see docs/machines.md")
        return
    yield from _servers(settings)
    try:
        with closing(Servers(settings.urls, settings.credentials)) as servers:
            for stream in (names.stream, OWNERS):
                yield from _stream(servers, stream, len(settings.urls))
            yield from _snapshots(servers, names)
            machines = present(servers, names)
            yield from compared(machines, holder(servers, names), here.seq)
            for node in missing(servers, names, machines):
                yield Finding(
                    "machines",
                    "warning",
                    f"{node} ran within the last week and does not answer",
                    "start its host, or wait: one that left is forgotten then",
                )
    except (HostError, Unreachable) as error:
        yield Finding(
            "cluster",
            "problem",
            f"no server, or no majority of them, answers: {error}",
            "start them: nothing is answered until most of them run",
        )


def _servers(settings: Cluster) -> Iterator[Finding]:
    """Check each server."""
    for url in settings.urls:
        try:
            with closing(Servers([url], settings.credentials)) as server:
                yield Finding("servers", "ok", f"{url} answers, version {server.version}")
        except (HostError, Unreachable) as error:
            yield Finding("servers", "problem", f"{url} cannot be used: {error}", "start it, or mend cluster.servers")


def _stream(servers: Servers, stream: str, count: int) -> Iterator[Finding]:
    info: Mapping[str, Any] = orjson.loads(servers.ask(f"$JS.API.STREAM.INFO.{stream}", b"") or b"{}")
    if "config" not in info:
        why = info.get("error", {}).get("description", "most of its servers do not answer")
        yield Finding("shared log", "problem", f"{stream}: {why}", "start the servers; see docs/machines.md")
        return
    others = info.get("cluster", {}).get("replicas") or []
    behind = [f"{one['name']} is offline" for one in others if one.get("offline")]
    behind += [f"{one['name']} is behind" for one in others if not (one.get("offline") or one.get("current"))]
    replicas = info["config"]["num_replicas"]
    if behind:
        yield Finding("shared log", "problem", f"{stream}: {', '.join(behind)}", "start it, or look at its log")
    elif replicas < 3:
        yield Finding(
            "shared log",
            "warning",
            f"{stream} has {count_of(replicas, 'replica')} on {count_of(count, 'server')}",
            f"with three servers: nats stream edit {stream} --replicas=3",
        )
    else:
        yield Finding("shared log", "ok", f"{stream} has {replicas} replicas, all current")


def _snapshots(servers: Servers, names: Names) -> Iterator[Finding]:
    first, last, _ = servers.end_of(names.stream) or (1, 0, 0)
    newest = max(snapshots_of(servers, names).values(), default=-1)
    if newest < first - 1:
        yield Finding(
            "snapshots",
            "problem",
            f"there is none from which the log goes on at {first}: no machine can join",
            "the owner publishes another when it begins: `cluster drain`",
        )
    else:
        yield Finding(
            "snapshots",
            "ok",
            f"the newest is at {newest}, {count_of(last - newest, 'message')} before the log's end",
        )


def compared(machines: Sequence[State], owner: str | None, here: int) -> Iterator[Finding]:
    """Report whether a machine owns the home, which are behind, and whether their versions fit together."""
    if owner is None:
        yield Finding("machines", "problem", "none owns the home", "start a host; one begins within some seconds")
    hosts = count_of(len(machines), "host runs", "hosts run")
    if len(machines) < 2:
        yield Finding("machines", "warning", f"{hosts}: nobody goes on when it dies", "start the others")
    for one in machines:
        if one.behind > MAX_BEHIND:
            yield Finding("machines", "warning", f"{one.node} is {one.behind} messages behind", "let it catch up")
    versions = ", ".join(f"{machine.node} {machine.version} ({machine.schema})" for machine in machines)
    if len({machine.schema for machine in machines}) > 1:
        yield Finding(
            "machines",
            "problem",
            f"they have different schemas of the journal: {versions}",
            "see Upgrades in docs/machines.md",
        )
    elif len({machine.version for machine in machines}) > 1:
        yield Finding("machines", "warning", f"they run different versions: {versions}", "upgrade the rest")
    elif machines and owner:
        yield Finding("machines", "ok", f"{owner} owns the home; {hosts}, version {machines[0].version}; here {here}")
