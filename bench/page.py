"""The operators' page on a large home: how long each page takes, and what its process holds."""

from __future__ import annotations

import http.client
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote, urlsplit

from bench.hosting import fill, new_home, running, wait_for
from bench.index import Words, index_status, make_entries, make_turns
from bench.pipeline import Figure, percentile
from honeybadger_agent import SyncClient

_GROUPS = 500
_ENTRIES = 10_000
_TURNS = 1_000_000
_CHANGES = 20_000
_PAUSE_SECONDS = 0.03  # between pages: who asks for more than 40 a second is told to wait
_ROUNDS = 30
_P50_MS = 100.0
_FIRST_BYTE_MS = 50.0
_START_SECONDS = 1.0
_MIB = 120.0
_SETTINGS = ("log.level=warning",)
_PATHS = (
    *("/", "/?offset=450", "/g/main/context?message={words}", "/g/main/memory", "/g/main/memory?offset=9950"),
    *(
        "/g/main/entry?id={entry}",
        "/g/main/notes",
        "/g/main/search?query={words}",
        "/g/main/search?query={words}&scope=turns",
    ),
    *("/g/main/review", "/timeline", "/g/main/timeline", "/g/main/timeline?by=nobody", "/change/{seq}"),
    *("/g/main/tasks", "/g/main/talk?session=s7", "/health"),
)


def bench_page(base: Path, turns: int = 1_000_000) -> list[Figure]:
    """500 groups, 10,000 entries, a million turns, 20,000 changes: each page 30 times, one after another."""
    words = Words(17)
    with new_home(base) as home:
        make_entries(home, words, _ENTRIES)
        make_turns(home, words, turns)
        for number in range(_GROUPS - 1):
            make_entries(home, words, 2, f"group{number}")
        with running(home, _SETTINGS):
            wait_for(fill(home, 10, _CHANGES), 600)
            agent = SyncClient(home, "main", "agent", timeout_seconds=600)
            saved = agent.save_memory(words.text(20, 40))
            for number in range(200):
                agent.update_memory(f"note {number}: {words.text(10, 20)}")
            _wait_until_indexed(home, _ENTRIES + turns)
            return measure_page(home, words, saved.id, agent.get_context().seq)


def measure_page(home: Path, words: Words, entry: str, seq: int) -> list[Figure]:
    """Return the figures of the page of a home that is served."""
    process, link, seconds = _start(home)
    try:
        figures = [_figure("the operators' page: until its link", f"{seconds:.2f} s", "1 s", seconds < _START_SECONDS)]
        reader = _Reader(link)
        for path in _PATHS:
            times = [
                reader.get(path.format(words=quote(words.text(3, 3)), entry=entry, seq=seq)) for _ in range(_ROUNDS)
            ]
            figures.append(_of_page(path.format(words="…", entry="…", seq="…"), times))
        held = _resident_mib(process.pid)
        return [*figures, _figure("- memory of its process then", f"{held:.0f} MiB", f"{_MIB:g} MiB", held < _MIB)]
    finally:
        process.terminate()
        process.wait(30)


def _start(home: Path) -> tuple[subprocess.Popen[str], str, float]:
    """Start the page; return its process, its link, and the seconds until it stood there."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "honeybadger_host", "web", "--home", str(home), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip(), time.perf_counter() - began


class _Reader:
    """Somebody who is signed in and reads one page after another."""

    def __init__(self, link: str) -> None:
        parts = urlsplit(link)
        self._connection = http.client.HTTPConnection(parts.netloc, timeout=60)
        self._connection.request("GET", f"{parts.path}?{parts.query}")
        answer = self._connection.getresponse()
        answer.read()
        self._cookie = (answer.headers["Set-Cookie"] or "").partition(";")[0]

    def get(self, path: str) -> tuple[float, float]:
        """Return after how many milliseconds the first byte of a page was there, and the last.

        While the host reads its index, a page says so and loads itself again; the last byte is that of the page then.
        """
        time.sleep(_PAUSE_SECONDS)
        began, first, status = time.perf_counter(), 0.0, 504
        while status == 504:
            self._connection.request("GET", path, headers={"Cookie": self._cookie})
            answer = self._connection.getresponse()
            answer.read(1)
            first = first or time.perf_counter()
            answer.read()
            status = answer.status
        if status != 200:
            raise RuntimeError(f"{path} answered {status}")
        return (first - began) * 1000, (time.perf_counter() - began) * 1000


def _of_page(name: str, times: Sequence[tuple[float, float]]) -> Figure:
    first, whole = (statistics.median(each) for each in zip(*times, strict=True))
    slowest = percentile([each[1] for each in times], 0.99)
    is_met = whole < _P50_MS and first < _FIRST_BYTE_MS
    value = f"{whole:.0f}, {slowest:.0f}; {first:.0f} ms"
    return _figure(f"- {name}: p50, p99; first byte", value, f"{_P50_MS:g}; {_FIRST_BYTE_MS:g} ms", is_met)


def _figure(name: str, value: str, goal: str, is_met: bool) -> Figure:
    return Figure(name, value, goal=goal, is_met=is_met)


def _resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _wait_until_indexed(home: Path, documents: int) -> None:
    deadline = time.monotonic() + 3600
    while (status := index_status(home)).get("documents", 0) < documents or status.get("waiting"):
        if time.monotonic() > deadline:
            raise TimeoutError("the index was not made within an hour")
        time.sleep(0.5)
