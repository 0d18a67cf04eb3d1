"""The output of a `honeybadger-host` command for its operator: a text, JSON, or why it failed; and other programs."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from tests.hosting import run_cli


def cli_text(*arguments: object, home: Path, code: int = 0) -> str:
    """Run a command that must end with this exit code; return what it prints. (`doctor` ends with 1 when it found a
    problem.)"""
    done = run_cli(*arguments, home=home)
    assert done.returncode == code, done
    return done.stdout


def cli_json(*arguments: object, home: Path, code: int = 0) -> Any:
    """Run a command that must end with this exit code; return its JSON."""
    return orjson.loads(cli_text(*arguments, "--json", home=home, code=code))


def cli_error(*arguments: object, home: Path, code: int = 1) -> str:
    """Run a command that must fail with this exit code; return what it says, on one line."""
    done = run_cli(*arguments, home=home)
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr
    if code > 2:
        assert done.stderr.splitlines()[-1].startswith("honeybadger-host: "), done
    return " ".join(done.stderr.replace("│", " ").split())  # wrong usage is shown in a box


def finished(command: Sequence[object], *, timeout: float = 100, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run a program that is not ours, or must import for itself, to its end."""
    words = [*map(str, command)]
    return subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=False, **more)
