"""The cost of a million entries, a million turns or a huge MEMORY.md: to index, to search, to keep while nobody asks.

Not among what `python -m bench` runs by itself: it takes a quarter of an hour, 4 GiB of disk and a million inodes each.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.hosting import Daemon, new_home, running
from bench.index import Words, index_status, make_entries, make_notes, make_turns
from bench.pipeline import Figure, percentile
from honeybadger_agent import SyncClient, wire
from honeybadger_agent.tools import made

_MILLION = 1_000_000
_NOTES = 256 * 1024
_SETTINGS = ("log.level=warning",)
_MAX_SECONDS = 3600
_IDLE_SECONDS = 120.0  # two rounds of what the host compares every minute


def bench_large(base: Path) -> list[Figure]:
    """A million entries in one group, in a hundred groups; a million turns in one; 256 MiB of notes in one file."""

    def one(home: Path, words: Words) -> None:
        make_entries(home, words, _MILLION)

    def hundred(home: Path, words: Words) -> None:
        for number in range(100):
            make_entries(home, words, _MILLION // 100, "main" if number == 0 else f"group{number}")

    def turns(home: Path, words: Words) -> None:
        make_turns(home, words, _MILLION)

    def notes(home: Path, words: Words) -> None:
        make_notes(home, words, _NOTES)

    made: tuple[tuple[str, Callable[[Path, Words], None], int], ...] = (
        ("1,000,000 entries in one group", one, _MILLION),
        ("1,000,000 entries in 100 groups", hundred, _MILLION),
        ("1,000,000 turns in one group", turns, _MILLION),
        ("256 MiB of notes in one MEMORY.md", notes, _NOTES),
    )
    figures: list[Figure] = []
    for name, make, documents in made:
        with new_home(base) as home:
            make(home, Words(7))
            figures += measure_large(home, name, documents)
    return figures


def measure_large(home: Path, name: str, documents: int) -> list[Figure]:
    """Return the figures of a home that has so many documents and no index."""
    words = Words(11)
    with running(home, _SETTINGS) as daemon:
        seconds, pings, memory = _indexed(daemon, documents)
        figures = [
            Figure(f"indexed from files, {name}", f"{seconds:.0f} s"),
            Figure("- a ping meanwhile, p50, p99, longest", _of(pings)),
            Figure("- memory meanwhile, at most", f"{memory:.0f} MiB"),
        ]
    began = time.perf_counter()
    with running(home, _SETTINGS) as daemon:
        figures.append(Figure("- ready after a restart", f"{time.perf_counter() - began:.1f} s"))
        agent = SyncClient(home, "main", "agent", timeout_seconds=300)
        figures.append(Figure("- the first search at once after that", f"{_searched(agent, words):.1f} s"))
        times = [_searched(agent, words) * 1000 for _ in range(50)]
        figures.append(Figure("- a search then, p50, p99, longest", _of(times)))
        saves = [_timed(partial(agent.save_memory, f"zyzzyva{number}")) for number in range(20)]
        figures.append(Figure("- a save, p50, p99, longest", _of(saves)))
        figures.append(Figure("- found by the next request", f"{_timed(lambda: _find(agent)):.0f} ms"))
        before, then = daemon.cpu_seconds(), time.perf_counter()
        time.sleep(_IDLE_SECONDS)
        share = (daemon.cpu_seconds() - before) / (time.perf_counter() - then)
        figures.append(Figure("- idle", f"{share * 100:.1f} % of a core"))
        figures.append(Figure("- memory of the daemon", f"{daemon.resident_mib():.0f} MiB"))
        began = time.perf_counter()
    figures.append(Figure("- stopped in", f"{time.perf_counter() - began:.1f} s"))
    return figures


def _indexed(daemon: Daemon, documents: int) -> tuple[float, list[float], float]:
    """Return the seconds until all is indexed, milliseconds of pings meanwhile, and the most MiB."""
    agent = SyncClient(daemon.home, "other", "agent", timeout_seconds=60)
    pings: list[float] = []
    memory = 0.0
    began = time.perf_counter()
    while not _is_indexed(daemon.home, documents):
        pings.append(_timed(agent.ping))
        memory = max(memory, daemon.resident_mib())
        if time.perf_counter() - began > _MAX_SECONDS:
            raise TimeoutError("the index was not made within an hour")
        time.sleep(0.05)
    return time.perf_counter() - began, pings, memory


def _is_indexed(home: Path, documents: int) -> bool:
    index = index_status(home)
    return bool(index.get("documents", 0) >= documents and index.get("waiting") == 0)


def _searched(agent: SyncClient, words: Words) -> float:
    return _timed(lambda: agent.call(made(wire.SearchMemory, words.text(8, 8)))) / 1000


def _find(agent: SyncClient) -> None:
    found = agent.call(made(wire.SearchMemory, "zyzzyva19"))
    if not found.hits or found.hits[0].text != "zyzzyva19":
        raise RuntimeError("what was saved was not found by the next request")


def _timed(act: Callable[[], object]) -> float:
    """Return how many milliseconds something takes."""
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1000


def _of(times: list[float]) -> str:
    return f"{statistics.median(times):.0f}, {percentile(times, 0.99):.0f}, {max(times):.0f} ms"
