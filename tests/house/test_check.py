"""`.ci/twice.py`: a test that fails once is named, and what fails again or breaks the run is red."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands import finished

TWICE = Path(__file__).parents[2] / ".ci" / "twice.py"
ONCE = """
from pathlib import Path
def test_{name}():
    seen = Path("{name}.seen")
    assert seen.exists() or seen.write_text("") == "the first time"
"""
PASSES = "def test_passes(): pass\n"
FAILS = "def test_fails(): assert False\n"
CRASHES = "import os\ndef test_crashes(): os._exit(1)\n"

Check = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """Run the check on a suite of these tests, with nothing of the pytest that runs this one."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
    env = {**kept, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def run(tests: str | None, *arguments: str) -> subprocess.CompletedProcess[str]:
        if tests is not None:
            (tmp_path / "test_it.py").write_text(tests)
        given = (*("-p", "no:cacheprovider"), *arguments) if "--total" not in arguments else arguments
        command = [sys.executable, str(TWICE), "results.json", *given]
        return finished(command, cwd=tmp_path, env=env)

    return run


def once(*names: str) -> str:
    """Return tests that fail the first time."""
    return "".join(ONCE.format(name=name) for name in names)


def last_lines(ran: subprocess.CompletedProcess[str], count: int) -> list[str]:
    return ran.stdout.splitlines()[-count:]


def test_two_flaky_tests_are_green_and_a_third_red(check: Check) -> None:
    assert check(PASSES + once("a", "b"), "-n", "1").returncode == 0
    total = check(None, "--total")
    named = ["flaky: test_it.py::test_a", "flaky: test_it.py::test_b"]
    assert (total.returncode, last_lines(total, 3)) == (0, [*named, "3 passed, 0 failed"])
    assert check(PASSES + once("c")).returncode == 0  # of the next suite: the sum decides
    total = check(None, "--total")
    named = [f"failed: test_it.py::test_{name}" for name in "abc"]
    assert (total.returncode, last_lines(total, 4)) == (1, [*named, "2 passed, 3 failed"])
    assert "once more" not in total.stdout


def test_what_fails_alone_too_is_red(check: Check) -> None:
    assert check(PASSES + FAILS + once("a")).returncode == 0
    total = check(None, "--total")
    named = ["flaky: test_it.py::test_a", "failed: test_it.py::test_fails"]
    assert (total.returncode, last_lines(total, 3)) == (1, [*named, "2 passed, 1 failed"])


@pytest.mark.parametrize(
    ("tests", "arguments", "code"),
    [
        (once("a") + CRASHES, ("-n", "1"), 1),
        (once("a") + "import nosuch\n", (), 2),
        (once("a") + "import nosuch\n", ("-n", "1"), 1),
        (once("a"), ("--nosuch",), 4),
        ("", (), 5),
    ],
    ids=["crash of a worker", "collection", "collection by a worker", "usage", "no tests"],
)
def test_what_breaks_the_run_is_never_flaky(check: Check, tests: str, arguments: tuple[str, ...], code: int) -> None:
    assert check(tests, *arguments).returncode == code


def test_a_crash_of_the_interpreter_is_red(check: Check) -> None:
    assert check(CRASHES).returncode == 1
