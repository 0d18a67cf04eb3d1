"""Whether an entry still stands: which ones it took the place of, which one took its own, until when it is valid. Pure.

Source: docs/decisions/031-what-an-entry-knows.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from honeybadger_agent.wire import ENTRY_ID
from honeybadger_host.text.time_stamps import parse_time, time_stamp


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether an entry still stands.

    Args:
        supersedes: ids of those whose place it took, each once.
        superseded_by: id of the one that took its place; of an entry in the archive.
        valid_until: UTC; from then on nothing recalls it.
    """

    supersedes: tuple[str, ...] = ()
    superseded_by: str | None = None
    valid_until: datetime | None = None

    def is_over(self, now: datetime) -> bool:
        """Return whether it is not valid any more."""
        return self.valid_until is not None and self.valid_until <= now

    def again(self, said: Standing, now: datetime) -> Standing:
        """Return how it stands after the same was said again: what had expired stands once more."""
        supersedes = tuple(dict.fromkeys((*self.supersedes, *said.supersedes)))
        return Standing(supersedes, None, said.valid_until or (None if self.is_over(now) else self.valid_until))


STANDS: Final = Standing()


def take_standing(members: dict[str, Any]) -> Standing:
    """Return what a file says of it, taken out of its members. What is not a time or an id is a person's, and stays."""
    ids = members.get("supersedes")
    is_ids = isinstance(ids, list) and all(isinstance(one, str) and ENTRY_ID.fullmatch(one) for one in ids)
    by = members.get("superseded_by")
    until = _time_in(members.get("valid_until"))
    standing = Standing(
        tuple(dict.fromkeys(ids)) if is_ids and isinstance(ids, list) else (),
        by if isinstance(by, str) and ENTRY_ID.fullmatch(by) else None,
        until,
    )
    for name in standing_members(standing):
        del members[name]
    return standing


def standing_members(standing: Standing) -> dict[str, str | Sequence[str]]:
    """Return it as members of a file; those that say nothing are left out."""
    members: dict[str, str | Sequence[str]] = {}
    if standing.supersedes:
        members["supersedes"] = [*standing.supersedes]
    if standing.superseded_by is not None:
        members["superseded_by"] = standing.superseded_by
    if standing.valid_until is not None:
        members["valid_until"] = time_stamp(standing.valid_until, "auto")
    return members


def _time_in(value: object) -> datetime | None:
    """Return a time that a person wrote, in UTC; one without a zone is UTC. None: it is not one."""
    try:
        return parse_time(value).astimezone(UTC)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
