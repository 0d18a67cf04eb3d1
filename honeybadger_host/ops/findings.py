"""A finding of the doctor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor's report.

    Args:
        check: name of the check.
        now_what: what to do; empty if there is nothing to do.
    """

    check: str
    level: Level
    message: str
    now_what: str = ""


def ok(check: str, message: str) -> Finding:
    return Finding(check, "ok", message)


def warning(check: str, message: str, now_what: str) -> Finding:
    return Finding(check, "warning", message, now_what)


def problem(check: str, message: str, now_what: str) -> Finding:
    return Finding(check, "problem", message, now_what)
