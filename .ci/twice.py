"""Run the suites of `make check`, and at its end run what failed once more, alone.

    twice.py RESULTS PYTEST_ARGUMENT...   run one suite, and add its outcome to the file RESULTS
    twice.py RESULTS --total              run failed tests once more, and print the flaky ones and the sum of all suites

A test that fails and then passes alone is flaky. The check passes when at most `MAX_FLAKY` tests of all suites failed,
and each of them is flaky. Suites run side by side, so a test is alone only after all of them. A suite that broke (a
crash of a worker, an error while tests are collected, every exit code but 1 of pytest) ends the check.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest

MAX_FLAKY = 2


@dataclass
class Suite:
    """The outcome of one suite, and what it takes to run a test of it again."""

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    python: str = sys.executable
    environment: dict[str, str] = field(default_factory=dict)

    def passes_alone(self, test: str) -> bool:
        print(f"once more, alone: {test}", flush=True)
        again = [self.python, "-m", "pytest", "-q", "-n", "0", "-p", "no:randomly", test]
        return subprocess.call(again, env={**os.environ, **self.environment}) == pytest.ExitCode.OK


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


def run_suite(arguments: list[str]) -> tuple[int, Suite]:
    """Run one suite; return its outcome, and 0 unless the suite broke."""
    outcomes = Outcomes()
    chosen = {name: value for name, value in os.environ.items() if name.startswith("HB_")}  # before the suite adds any
    code = int(pytest.main(arguments, plugins=[outcomes]))
    failed = sorted(outcomes.failed)
    if code == pytest.ExitCode.TESTS_FAILED and failed and not outcomes.is_broken:
        code = 0
    return code, Suite(len(outcomes.passed - outcomes.failed), failed, environment=chosen)


def print_total(suites: list[Suite]) -> int:
    """Run failed tests once more, unless they are too many; print the sum; return the exit code of the check."""
    passed = sum(suite.passed for suite in suites)
    failed = [(suite, test) for suite in suites for test in suite.failed]
    flaky = [test for suite, test in failed if suite.passes_alone(test)] if len(failed) <= MAX_FLAKY else []
    for _, test in failed:
        print(f"{'flaky' if test in flaky else 'failed'}: {test}")
    count = len(failed) - len(flaky)
    print(f"{passed + len(flaky)} passed, {count} failed", flush=True)
    return int(count > 0)


def read_suites(path: Path) -> list[Suite]:
    """Return the outcomes of the suites that have ended so far."""
    return [Suite(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def main(path: Path, arguments: list[str]) -> int:
    if arguments == ["--total"]:
        return print_total(read_suites(path))
    code, suite = run_suite(arguments)
    with path.open("a") as file:  # suites may run side by side
        print(json.dumps(asdict(suite)), file=file)
    return code


if __name__ == "__main__":
    sys.path[0] = os.getcwd()  # as `python -m pytest` has it
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
