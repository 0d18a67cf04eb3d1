"""Proposals of curation, and the operator's decisions about them."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field, StringConstraints

from honeybadger_agent.wire.base import Request, Result
from honeybadger_agent.wire.refusals import shaped

_MODEL_SECONDS = 900.0  # A model may take its time

UNDECIDED: Final = ("waiting", "refused")  # states of operations that the operator may decide about

ProposalId = Annotated[str, shaped(r"[A-Za-z0-9_-]{1,64}", "the id of a proposal, as consolidation-main-41-813010")]


class ProposalRow(Result):
    id: str
    kind: str
    made_at: str
    by: str = Field(description="The model, or `rules`.")
    session: str | None = None
    waiting: int = Field(description="Operations that nobody has decided.")
    applied: int
    refused: int = Field(description="Operations that a gate refuses; accepting one by its number overrules that.")
    stale: int = Field(default=0, description="Operations whose sources have changed: they are not applied.")
    file: str = Field(description="Below the home folder.")
    problem: str | None = Field(default=None, description="Why the file cannot be read.")
    operations: list[dict[str, Any]] = Field(description="As in the file; of one proposal only.")
    before: dict[str, str] = Field(default_factory=dict, description="Id -> text of what an operation takes up.")


class ProposalList(Result):
    proposals: list[ProposalRow] = Field(description="The newest first.")
    left_out: int = Field(description="Older ones.")


class ListProposals(Request[ProposalList], audience="operator"):
    """Show what waits for a decision in this group; only the operator may."""

    proposal: ProposalId | None = Field(default=None, description="This one, with its operations.")
    every: bool = Field(default=False, description="Those that are decided, too.")
    limit: Annotated[int, Field(ge=1, le=1000)] = 50


class DecidedProposal(Result):
    proposal: str
    applied: int = Field(description="Operations that are in memory now.")
    waiting: int
    refused: int
    stale: int = Field(default=0, description="Operations whose sources have changed: they are not applied.")
    kept: list[str] = Field(default_factory=list, description="With revert: files with later changes, which stay.")


class DecideProposal(Request[DecidedProposal], changes=True, overwrites=True, audience="operator"):
    """Accept, strike or take back operations of a proposal; only the operator may."""

    proposal: ProposalId
    decision: Literal["accept", "strike", "revert"] = Field(
        description="revert takes back all that was applied but later changes, and moves the session's watermark back."
    )
    operations: list[Annotated[int, Field(ge=1, le=100_000)]] | None = Field(
        default=None, description="Their numbers; null: all that wait."
    )
    result: Annotated[str, StringConstraints(min_length=1, max_length=65_536)] | None = Field(
        default=None, description="With accept of one operation: the text it writes, in place of its own."
    )


class ConsolidateResult(Result):
    up_to: int = Field(description="Number of the last turn that is consolidated.")
    told: str = Field(description="The same, for people.")


class Consolidate(Request[ConsolidateResult], audience="operator"):
    """Consolidate the session now, all but its newest turns; only the operator may."""

    @property
    def may_take(self) -> float:
        return _MODEL_SECONDS


class DreamResult(Result):
    proposals: list[ProposalRow] = Field(description="What the pass came to, with its operations.")
    looked_at: int = Field(description="Entries and notes.")
    left_out: int = Field(default=0, description="Entries that a pass has no room for.")
    told: str = Field(description="The same, for people.")


class Dream(Request[DreamResult], audience="operator"):
    """Tidy what the group remembers, now; only the operator may."""

    dry_run: bool = Field(default=False, description="Only show what would be proposed; a model costs all the same.")

    @property
    def may_take(self) -> float:
        return _MODEL_SECONDS


def is_copied(operation: Mapping[str, Any]) -> bool:
    """Return whether an operation, as it is shown, waits, passes every gate and needs no person."""
    is_free = not operation.get("waits") and operation["state"] == "waiting"
    return is_free and not operation.get("gates", {}).get("failed")
