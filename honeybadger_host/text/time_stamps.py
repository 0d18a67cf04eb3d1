"""Times as text, in the one format of files, replies and commands."""

from datetime import UTC, datetime, time, timedelta
from typing import Literal


def time_stamp(at: datetime, precision: Literal["auto", "seconds", "milliseconds"] = "seconds") -> str:
    """Return an aware time in UTC as RFC 3339, such as `2026-11-21T06:00:00Z`.

    Args:
        precision: `auto` writes as many digits as the time has.
    """
    return at.astimezone(UTC).isoformat(timespec=precision).replace("+00:00", "Z")


def parse_time(text: str) -> datetime:
    """Return the time that a text says, with its zone; one without a zone is UTC. Raises ValueError."""
    at = datetime.fromisoformat(text)
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at


def time_in(value: object) -> datetime | None:
    """Return the time in UTC that a text of others says, or None if it is not one."""
    try:
        return parse_time(value).astimezone(UTC)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None


def read_moment(text: str, now: datetime) -> int:
    """Return a time that somebody typed as milliseconds since the epoch; without a zone it is UTC, as times are shown.

    Raises ValueError: names the fault.
    """
    try:
        if text in ("today", "yesterday"):
            at = datetime.combine(now.astimezone(UTC).date() - timedelta(days=text == "yesterday"), time(), UTC)
        else:
            at = parse_time(text)
        return round(at.timestamp() * 1000)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r} is not a time: write 2026-11-21, 2026-11-21T09:30Z, `today` or `yesterday`"
        ) from None


def to_milliseconds(at: datetime) -> datetime:
    """Return a time cut to milliseconds."""
    return at.replace(microsecond=at.microsecond // 1000 * 1000)
