"""`python -m bench [--base FOLDER …] [name …]`: run the figures and print one table."""

from __future__ import annotations

import argparse
import os
import platform
import sqlite3
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from bench.chat import bench_chat
from bench.cluster import bench_cluster
from bench.contexts import bench_contexts
from bench.curation import bench_curation
from bench.homes import bench_homes
from bench.index import bench_index
from bench.large import bench_large
from bench.page import bench_page
from bench.pipeline import (
    Figure,
    bench_backlog,
    bench_context,
    bench_flood,
    bench_idle,
    bench_live,
    bench_single,
)
from bench.receipts import bench_receipts
from bench.scaling import bench_scaling
from bench.session import bench_session, bench_turns
from bench.start import bench_start
from bench.tasks import bench_tasks
from bench.transfer import bench_transfer

BENCHES: dict[str, Callable[[Path], Iterable[Figure]]] = {
    "backlog": bench_backlog,
    "single": bench_single,
    "live": bench_live,
    "context": bench_context,
    "contexts": bench_contexts,
    "session": bench_session,
    "turns": bench_turns,
    "chat": bench_chat,
    "idle": bench_idle,
    "flood": bench_flood,
    "index": bench_index,
    "receipts": bench_receipts,
    "start": bench_start,
    "curation": bench_curation,
}
# What takes too long to be run by itself.
ON_DEMAND: dict[str, Callable[[Path], Iterable[Figure]]] = {
    "cluster": bench_cluster,
    "homes": bench_homes,
    "large": bench_large,
    "page": bench_page,
    "scaling": bench_scaling,
    "tasks": bench_tasks,
    "transfer": bench_transfer,
}


def main() -> int:
    every = BENCHES | ON_DEMAND
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"which: {', '.join(every)}; default all but {', '.join(ON_DEMAND)}")
    parser.add_argument("--base", action="append", type=Path, help="where homes are made; default tmpfs and bench/out")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if name not in every]:
        parser.error(f"there is no bench {unknown[0]!r}: {', '.join(every)}")
    shm = Path("/dev/shm")
    bases = arguments.base or [*([shm / "honeybadger-bench"] if shm.is_dir() else []), Path(__file__).parent / "out"]
    print(
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    )
    missed = 0
    for base in bases:
        kind = "tmpfs" if str(base).startswith("/dev/shm") else "disk"
        print(f"\n| {kind} | figure | floor | ratio | goal | |\n|---|---|---|---|---|---|")
        for name in arguments.names or BENCHES:
            for row in every[name](base):
                missed += row.is_met is False
                verdict = {True: "met", False: "**missed**", None: ""}[row.is_met]
                print(f"| {row.name} | {row.value} | {row.floor} | {row.ratio} | {row.goal} | {verdict} |", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
