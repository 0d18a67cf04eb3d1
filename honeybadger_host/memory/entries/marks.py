"""The marks of an entry: the origin of its text, and whether it is still valid. Pure.

A person may have written a member of the same name into the file: a value that is no mark stays the person's own.

Source: docs/decisions/031-what-an-entry-knows.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, get_args

from honeybadger_agent.mailbox import CONSOLIDATOR, HUMAN, OPERATOR
from honeybadger_agent.wire import ENTRY_ID, OriginKind
from honeybadger_host.text.time_stamps import time_in, time_stamp

KINDS: Final = frozenset(get_args(OriginKind))
_BY_AUTHOR: Final[Mapping[str | None, OriginKind]] = {None: "human", HUMAN: "human", CONSOLIDATOR: "inferred"}


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of an entry's text.

    Args:
        is_claimed: the sender stated it, and the host cannot check it.
        where: the file, page or tool it came from.
    """

    kind: OriginKind
    is_claimed: bool = False
    where: str | None = None


def origin_of(sender: str, claim: OriginKind | None, where: str | None, *, is_agent: bool) -> Origin | None:
    """Return the origin of a sender's text, or None if it is not known.

    Args:
        claim: the origin that the sender states.
        is_agent: whether the sender is an agent of this home.
    """
    if sender == OPERATOR:  # the operator is a person, or imports others' texts
        return Origin(claim or "human", where=where)
    if claim is None:
        return Origin("agent") if is_agent else None
    return Origin(claim, not (is_agent and claim == "agent"), where)


def origin_by(author: str | None) -> Origin | None:
    """Return the origin that an entry's author implies, or None if the author implies none."""
    kind = _BY_AUTHOR.get(author)
    return None if kind is None else Origin(kind)


def take_origin(members: dict[str, Any]) -> Origin | None:
    """Remove the origin from a file's members and return it; None: there is none.

    A value that is no origin stays a member of the person's own.
    """
    if not isinstance(members.get("origin"), str) or members["origin"] not in KINDS:
        return None
    kind: OriginKind = members.pop("origin")
    is_claimed = members.pop("origin_claimed") is True if isinstance(members.get("origin_claimed"), bool) else False
    where = members.pop("origin_from") if isinstance(members.get("origin_from"), str) else None
    return Origin(kind, is_claimed, where or None)


def origin_members(origin: Origin | None) -> dict[str, Any]:
    """Return an origin as members of a file, without empty ones."""
    if origin is None:
        return {}
    members = {"origin": origin.kind, "origin_claimed": origin.is_claimed, "origin_from": origin.where}
    return {name: value for name, value in members.items() if value}


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether an entry is still valid.

    Args:
        supersedes: ids of the entries that it replaced, each once.
        superseded_by: id of the entry that replaced it; only in the archive.
        valid_until: UTC; from then on it is not recalled.
    """

    supersedes: tuple[str, ...] = ()
    superseded_by: str | None = None
    valid_until: datetime | None = None

    def is_over(self, now: datetime) -> bool:
        """Return whether its time is over."""
        return self.valid_until is not None and self.valid_until <= now

    def again(self, said: Standing, now: datetime) -> Standing:
        """Return the standing after the same text was saved again: an expired entry is valid again."""
        supersedes = tuple(dict.fromkeys((*self.supersedes, *said.supersedes)))
        return Standing(supersedes, None, said.valid_until or (None if self.is_over(now) else self.valid_until))


STANDS: Final = Standing()


def take_standing(members: dict[str, Any]) -> Standing:
    """Remove the standing from a file's members and return it. A value that is no time or id stays a person's own."""
    ids = members.get("supersedes")
    is_ids = isinstance(ids, list) and all(isinstance(one, str) and ENTRY_ID.fullmatch(one) for one in ids)
    by = members.get("superseded_by")
    until = time_in(members.get("valid_until"))
    standing = Standing(
        tuple(dict.fromkeys(ids)) if is_ids and isinstance(ids, list) else (),
        by if isinstance(by, str) and ENTRY_ID.fullmatch(by) else None,
        until,
    )
    for name in standing_members(standing):
        del members[name]
    return standing


def standing_members(standing: Standing) -> dict[str, str | Sequence[str]]:
    """Return a standing as members of a file, without empty ones."""
    members: dict[str, str | Sequence[str]] = {}
    if standing.supersedes:
        members["supersedes"] = [*standing.supersedes]
    if standing.superseded_by is not None:
        members["superseded_by"] = standing.superseded_by
    if standing.valid_until is not None:
        members["valid_until"] = time_stamp(standing.valid_until, "auto")
    return members
