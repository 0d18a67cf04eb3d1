"""Where it comes from what an entry says: known to the host, or claimed by who saved it. Pure.

Source: docs/decisions/031-what-an-entry-knows.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args

from honeybadger_agent.mailbox import CONSOLIDATOR, HUMAN, OPERATOR
from honeybadger_agent.wire import OriginKind

KINDS: Final = frozenset(get_args(OriginKind))
_BY_AUTHOR: Final[Mapping[str | None, OriginKind]] = {None: "human", HUMAN: "human", CONSOLIDATOR: "inferred"}


@dataclass(frozen=True, slots=True)
class Origin:
    """Where it comes from what an entry says.

    Args:
        is_claimed: the host has only the sender's word for it.
        where: which file, page or tool it was.
    """

    kind: OriginKind
    is_claimed: bool = False
    where: str | None = None


def origin_of(sender: str, claim: OriginKind | None, where: str | None, *, is_agent: bool) -> Origin | None:
    """Return the origin of what a sender saves; None: nobody knows.

    Args:
        claim: what the sender says of it.
        is_agent: whether the sender is an agent of this home.
    """
    if sender == OPERATOR:  # a command of the operator's, who is a person, or brings in what others wrote
        return Origin(claim or "human", where=where)
    if claim is None:
        return Origin("agent") if is_agent else None
    return Origin(claim, not (is_agent and claim == "agent"), where)


def origin_by(author: str | None) -> Origin | None:
    """Return the origin of an entry that says none, as far as its author tells; None: it was a person's file."""
    kind = _BY_AUTHOR.get(author)
    return None if kind is None else Origin(kind)


def take_origin(members: dict[str, Any]) -> Origin | None:
    """Return the origin that a file says, taken out of its members; None: it says none.

    What is not an origin is a member of the person's own, and stays.
    """
    if not isinstance(members.get("origin"), str) or members["origin"] not in KINDS:
        return None
    kind: OriginKind = members.pop("origin")
    is_claimed = members.pop("origin_claimed") is True if isinstance(members.get("origin_claimed"), bool) else False
    where = members.pop("origin_from") if isinstance(members.get("origin_from"), str) else None
    return Origin(kind, is_claimed, where or None)


def origin_members(origin: Origin | None) -> dict[str, Any]:
    """Return an origin as the members of a file; those that say nothing are left out."""
    if origin is None:
        return {}
    members = {"origin": origin.kind, "origin_claimed": origin.is_claimed, "origin_from": origin.where}
    return {name: value for name, value in members.items() if value}
