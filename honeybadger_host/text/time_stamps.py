"""Times as text, in the one format of files, replies and commands."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal, TypeAlias

Precision: TypeAlias = Literal["auto", "seconds", "milliseconds"]


def time_stamp(at: datetime, precision: Precision = "seconds") -> str:
    """Return an aware time in UTC as RFC 3339, such as `2026-11-21T06:00:00Z`.

    Args:
        precision: `auto` writes as many digits as the time has.
    """
    return at.astimezone(UTC).isoformat(timespec=precision).replace("+00:00", "Z")


def to_milliseconds(at: datetime) -> datetime:
    """Return a time cut to milliseconds."""
    return at.replace(microsecond=at.microsecond // 1000 * 1000)
