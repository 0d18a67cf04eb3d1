"""Run pytest for `make check`, and run what failed once more, alone.

    twice.py RESULTS PYTEST_ARGUMENT...   run one suite and add what came of it to the file RESULTS
    twice.py RESULTS --total              print the flaky tests and the sum of all suites

A test that fails and then passes alone is flaky. A suite passes when all that failed in it is flaky, and all suites
together have at most `MAX_FLAKY` such tests. A crash of a worker, an error while tests are collected and every exit
code but 1 of pytest are never flaky.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import pytest

MAX_FLAKY: Final = 2


@dataclass
class Results:
    """What came of a suite, or of several."""

    passed: int = 0
    failed: int = 0
    flaky: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join([*(f"flaky: {test}" for test in self.flaky), f"{self.passed} passed, {self.failed} failed"])


class Outcomes:
    """A plugin of pytest that keeps which tests passed and which failed."""

    def __init__(self) -> None:
        self.passed: set[str] = set()
        self.failed: set[str] = set()
        self.is_broken = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)
            self.is_broken |= report.when not in ("setup", "call", "teardown")  # xdist: the worker crashed
        elif report.when == "call" and report.passed:
            self.passed.add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.is_broken |= report.failed


def _passes_alone(test: str, environment: dict[str, str]) -> bool:
    print(f"once more, alone: {test}", flush=True)
    again = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:randomly", test]
    return subprocess.call(again, env=environment) == pytest.ExitCode.OK


def read_results(path: Path) -> Results:
    """Return the sum of the suites that have ended so far."""
    total = Results()
    for line in path.read_text().splitlines() if path.exists() else ():
        suite = Results(**json.loads(line))
        total = Results(total.passed + suite.passed, total.failed + suite.failed, total.flaky + suite.flaky)
    return total


def run_suite(arguments: list[str], room: int) -> tuple[int, Results]:
    """Run one suite in which at most `room` tests may be flaky; return the exit code of the check and the results."""
    outcomes = Outcomes()
    environment = dict(os.environ)  # before the suite adds to it
    code = int(pytest.main(arguments, plugins=[outcomes]))
    failed = sorted(outcomes.failed)
    flaky: list[str] = []
    if code == pytest.ExitCode.TESTS_FAILED and not outcomes.is_broken and 0 < len(failed) <= room:
        flaky = [test for test in failed if _passes_alone(test, environment)]
        code = 0 if flaky == failed else code
    passed = len(outcomes.passed - outcomes.failed) + len(flaky)
    return code, Results(passed, len(failed) - len(flaky), flaky)


def main(path: Path, arguments: list[str]) -> int:
    code = 0
    if arguments != ["--total"]:
        code, results = run_suite(arguments, MAX_FLAKY - len(read_results(path).flaky))
        with path.open("a") as file:  # suites may run side by side
            print(json.dumps(asdict(results)), file=file)
    total = read_results(path)
    code = code or len(total.flaky) > MAX_FLAKY
    if code or arguments == ["--total"]:
        print(total, flush=True)
    return int(code)


if __name__ == "__main__":
    sys.path[0] = os.getcwd()  # as `python -m pytest` has it
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
