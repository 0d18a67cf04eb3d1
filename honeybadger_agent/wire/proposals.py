"""Proposals of curation, and the operator's decisions about them."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from honeybadger_agent.wire.base import Request, Result
from honeybadger_agent.wire.refusals import shaped

_MODEL_SECONDS = 900.0  # A model may take its time

UNDECIDED = ("waiting", "refused")  # states of operations that the operator may decide about

ProposalId = Annotated[str, shaped(r"[A-Za-z0-9_-]{1,64}", "the id of a proposal, as consolidation-main-41-813010")]


class ProposalRow(Result):
    id: str
    kind: str
    made_at: str
    by: str = Field(description="The model, or `rules`.")
    session: str | None = None
    waiting: int = Field(description="Operations that wait for a decision.")
    applied: int
    refused: int = Field(description="Operations refused by a gate; accept one by its number to overrule it.")
    stale: int = Field(default=0, description="Operations whose sources have changed; they are not applied.")
    file: str = Field(description="Below the home folder.")
    problem: str | None = Field(default=None, description="Why the file cannot be read.")
    operations: list[dict[str, Any]] = Field(
        description="Operations as in the file; only when one proposal is asked for."
    )
    before: dict[str, str] = Field(default_factory=dict, description="Texts of the sources of its operations, by id.")


class ProposalList(Result):
    proposals: list[ProposalRow] = Field(description="Newest first.")
    left_out: int = Field(description="Number of older proposals that are not listed.")


class ListProposals(Request[ProposalList], audience="operator"):
    """Show what waits for a decision in this group; only the operator may."""

    proposal: ProposalId | None = Field(default=None, description="Only this proposal, with its operations.")
    every: bool = Field(default=False, description="true: include decided proposals.")
    limit: Annotated[int, Field(ge=1, le=1000)] = 50


class DecidedProposal(Result):
    proposal: str
    applied: int = Field(description="Operations that have been applied.")
    waiting: int
    refused: int
    stale: int = Field(default=0, description="Operations whose sources have changed; they are not applied.")
    kept: list[str] = Field(default_factory=list, description="With revert: files in which later changes were kept.")


class DecideProposal(Request[DecidedProposal], changes=True, overwrites=True, audience="operator"):
    """Accept, strike or take back operations of a proposal; only the operator may."""

    proposal: ProposalId
    decision: Literal["accept", "strike", "revert"] = Field(
        description="revert takes back what was applied, keeps later changes, and lets the session's turns be "
        "consolidated again."
    )
    operations: list[Annotated[int, Field(ge=1, le=100_000)]] | None = Field(
        default=None, description="Numbers of operations; default: all that wait."
    )
    result: Annotated[str, StringConstraints(min_length=1, max_length=65_536)] | None = Field(
        default=None, description="When one operation is accepted: text to write instead of its own."
    )


class ConsolidateResult(Result):
    up_to: int = Field(description="Number of the last consolidated turn.")
    told: str = Field(description="The result in words.")


class Consolidate(Request[ConsolidateResult], changes=True, audience="operator", takes_seconds=_MODEL_SECONDS):
    """Consolidate the session now, all but its newest turns; only the operator may."""


class DreamResult(Result):
    proposals: list[ProposalRow] = Field(description="The proposal of this pass, with its operations.")
    looked_at: int = Field(description="Number of entries and notes looked at.")
    left_out: int = Field(default=0, description="Entries left for the next pass.")
    told: str = Field(description="The result in words.")


class Dream(Request[DreamResult], changes=True, audience="operator", takes_seconds=_MODEL_SECONDS):
    """Tidy what the group remembers, now; only the operator may."""


def is_copied(operation: Mapping[str, Any]) -> bool:
    """Return whether a shown operation waits, passes every gate and needs no person."""
    is_free = not operation.get("waits") and operation["state"] == "waiting"
    return is_free and not operation.get("gates", {}).get("failed")


def changed_lines(operation: Mapping[str, Any], before: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the lines that a shown operation takes out of memory, and those that it writes.

    An `add` and a `refine` leave the texts of their sources as they are; a `refine` writes labels.

    Args:
        before: see `ProposalRow`.
    """
    result, write = operation.get("result"), operation.get("write") or {}
    if operation["op"] == "refine":
        labels = {name: operation.get(name) or () for name in ("category", "tags", "aliases")}
        shown = {name: value if isinstance(value, str) else ", ".join(value) for name, value in labels.items()}
        return [], [f"{name}: {value}" for name, value in shown.items() if value]
    if operation["op"] == "add":
        return [], (result or "").splitlines()
    if write and result is None and write["type"] != "delete_memory":  # it changes labels, or many things
        asked = write["payload"].get("operations", [write["payload"]])
        return [], [json.dumps(each, ensure_ascii=False) for each in asked]
    old = [line for name in operation.get("sources", ()) for line in before.get(name, f"({name})").splitlines()]
    return old, (result or "").splitlines()
