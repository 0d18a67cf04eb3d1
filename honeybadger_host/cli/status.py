"""The status of a host as people read it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from honeybadger_host.cli.options import moment

if TYPE_CHECKING:
    pass


def print_status(folder: Path, status_: dict[str, Any]) -> None:
    """Print what `honeybadger-host status` shows."""
    if not status_:
        print(f"a host serves {folder}; it has not written its status yet")
        return
    age = time.time() - status_["written_at"]
    print(
        f"running   pid {status_['pid']}, version {status_['version']}, {status_['mode']} mode, "
        f"up {status_['uptime_seconds']:.0f} s" + (f"  (as of {age:.0f} s ago!)" if age > 30 else "")
    )
    print(f"boxes     {status_['boxes']}, {status_['pending']} requests wait, {status_['stuck']} cannot be removed")
    for near in status_["limits"]["near"]:
        print(f"          near a limit: {near}")
    for reached in status_["limits"]["reached_lately"]:
        print(f"          over a limit within 10 minutes: {reached}")
    for large in status_.get("large_memories", ()):
        print(f"          large: groups/{large}")
    for refused in status_["boxes_refused"]:
        print(f"          not served: {refused}")
    requests, latency = status_["requests"], status_["latency"]
    outcomes = ", ".join(f"{name} {count}" for name, count in sorted(requests["by_outcome"].items()))
    print(
        f"requests  {requests['total']} ({outcomes or 'none yet'}), {status_['requests_per_second']}/s"
        + (f", p50 {latency['p50_ms']} ms, p99 {latency['p99_ms']} ms" if latency else "")
    )
    journal = status_["journal"]
    young = journal["seq"] - journal["projected_seq"]  # written, too; a start would look whether they are still there
    print(f"journal   at {journal['seq']}" + (f", the last {young} not settled yet" if young else ", all settled"))
    for file in status_["files_behind"]:
        print(f"          cannot be written now: {file}")
    if "turns" in status_:  # else the host is older than this command
        turns, agents = status_["turns"], status_["agents"]
        print(f"agents    {len(agents['known'])}, {turns['running']} turns run, {turns['waiting']} wait")
        for file, why in agents["refused"].items():
            print(f"          as it was before: {file}: {why}")
    index = status_["index"]
    waits = f", {index['waiting']} files are still to be read" if index["waiting"] else ""
    if index["without_vector"]:
        waits += f", {index['without_vector']} documents have no vector yet"
    print(f"search    {index['documents']} documents{waits}")
    watcher = status_["watcher"]
    if not watcher["is_alive"] or watcher["folders_without_events"]:
        print(
            f"watcher   {'alive' if watcher['is_alive'] else 'off'}, {watcher['folders_without_events']} folders found "
            f"by the sweep only"
        )
    if status_["last_error"]:
        print(f"error     {moment(int(status_['last_error_at'] * 1000))}  {status_['last_error']}")
    if status_["resident_bytes"]:
        print(f"memory    {status_['resident_bytes'] >> 20} MiB")
