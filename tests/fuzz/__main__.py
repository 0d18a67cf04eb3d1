"""`python -m tests.fuzz [--seconds 60] [--corpus FOLDER]`: any bytes at all get one reply that is one.

With atheris (the extra `fuzz`) the search is led by coverage; without it Hypothesis draws the same requests blindly.
What breaks the pipeline is printed, and kept by atheris as `crash-…` in the current folder.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.fuzz.fuzzed_host import FuzzedHost


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--corpus", type=Path, help="a folder that is read first and keeps what was worth keeping")
    arguments = parser.parse_args()
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory if memory.is_dir() else None) as folder:
        try:
            atheris = importlib.import_module("atheris")
        except ModuleNotFoundError:
            print("atheris is not installed (make fuzz installs it): Hypothesis draws without looking at coverage")
            code = 0
            _drawn(arguments.seconds, Path(folder))
        else:
            corpus = arguments.corpus or Path(folder) / "corpus"
            if (child := os.fork()) == 0:  # libFuzzer ends its process as it likes, and this one has to clean up
                _led(atheris, arguments.seconds, corpus, Path(folder))
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    sys.exit(0 if code == 0 else 1)


def _quiet() -> None:
    import logging

    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


class _Tally:
    """Counts what was answered; says so at the end."""

    def __init__(self, host: FuzzedHost) -> None:
        self.host = host
        self.outcomes: Counter[str] = Counter()
        self.began = time.monotonic()

    def check(self, data: bytes) -> None:
        reply = self.host.check(data)
        self.outcomes["ok" if reply.error is None else reply.error.code] += 1

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def print(self) -> None:
        total, outcomes = self.outcomes.total(), dict(self.outcomes.most_common())
        print(f"{total:,} executions in {self.seconds:.0f} s, none broke the pipeline: {outcomes}", flush=True)


def _led(atheris: Any, seconds: int, corpus: Path, folder: Path) -> None:
    """Fuzz with coverage; ends the process."""
    with atheris.instrument_imports(include=["honeybadger_agent", "honeybadger_host"]):
        from tests.fuzz.fuzzed_host import FuzzedHost, seeds
    from tests.fuzz.mutate import dumped, mutated

    _quiet()
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds()):
        (corpus / f"seed-{number}").write_bytes(seed)
    tally = _Tally(FuzzedHost(folder))

    def check(data: bytes) -> None:
        tally.check(data)
        if tally.seconds > seconds:
            tally.print()
            os._exit(0)

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if rng.random() < 0.75:
            with contextlib.suppress(ValueError, RecursionError):
                return dumped(mutated(json.loads(data), rng), rng)[:most]
        return bytes(atheris.Mutate(data, most))

    options = ["-max_len=65536", "-timeout=20", "-rss_limit_mb=4096", "-verbosity=0", "-mutate_depth=1"]
    atheris.Setup([sys.argv[0], *options, str(corpus)], check, custom_mutator=mutate)
    atheris.Fuzz()


def _drawn(seconds: int, folder: Path) -> None:
    """Draw requests until the time is over."""
    from hypothesis import HealthCheck, given, settings

    from tests.fuzz.fuzzed_host import FuzzedHost
    from tests.fuzz.test_fuzz import ANYTHING

    _quiet()
    with FuzzedHost(folder) as host:
        tally = _Tally(host)

        @settings(max_examples=2_000, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(ANYTHING)
        def draw(data: bytes) -> None:
            tally.check(data)

        while tally.seconds < seconds:
            draw()
        tally.print()


if __name__ == "__main__":
    main()
