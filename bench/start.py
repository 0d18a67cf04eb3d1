"""The cost of a start: of the agents' package, of its client, and of the command line, each in a process of its own."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench.pipeline import Figure

_STARTS = 15


def bench_start(_: Path) -> list[Figure]:
    """Median wall times; the floor is Python alone, and for the client Python with pydantic."""
    python = _milliseconds("pass")
    pydantic = _milliseconds("from pydantic import BaseModel")
    agent = _milliseconds("import honeybadger_agent")
    client = _milliseconds("from honeybadger_agent import SyncClient")
    usage = _milliseconds("from honeybadger_agent.cli import run; run(['--help'])")
    return [
        _figure("import honeybadger_agent", agent, f"{python:.0f} ms for Python", 150),
        _figure("from honeybadger_agent import SyncClient", client, f"{pydantic:.0f} ms for pydantic", None),
        _figure("honeybadger-agent --help", usage, f"{python:.0f} ms for Python", 300),
    ]


def _figure(name: str, milliseconds: float, floor: str, goal: int | None) -> Figure:
    return Figure(
        name,
        f"{milliseconds:.0f} ms",
        floor,
        goal="" if goal is None else f"{goal} ms",
        is_met=None if goal is None else milliseconds < goal,
    )


def _milliseconds(source: str) -> float:
    """Return the median wall time of a process that runs `source`; the first one, which may compile, is left out."""
    times = []
    for _ in range(_STARTS + 1):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", source], stdout=subprocess.DEVNULL, check=True)
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times[1:])
