"""The loss account of a proposal: what recall has before its operations, and what it has after them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from honeybadger_host.curation.gates import Known, content_of
from honeybadger_host.curation.proposal import REPLACED, RETIRED, Loss, Operation, Proposal
from honeybadger_host.curation.specifics import lost, specifics
from honeybadger_host.text.neutralise import estimate_tokens

_MOST_LISTED: Final = 200


def accounted(proposal: Proposal, operations: Sequence[Operation], known: Known) -> Proposal:
    """Return a proposal of these operations, with the loss account of those that are waiting or applied.

    `lost` are specifics that leave recall: they are archived, and named by what replaced them.
    """
    counted = [operation for operation in operations if operation.state in ("waiting", "applied")]
    retired = {source for operation in counted if operation.op in RETIRED for source in operation.sources}
    before = [content_of(known.texts[source]) for source in sorted(retired) if source in known.texts]
    after = [operation.result for operation in counted if operation.result and operation.op in ("add", *REPLACED)]
    missing = lost(before, "\n".join(after))
    had = frozenset().union(*map(specifics, before))
    loss = Loss(
        entries_before=known.group_size,
        entries_after=max(0, known.group_size - len(retired)) + len(after),
        specifics_before=len(had),
        specifics_kept=max(0, len(had) - len(missing)),
        lost=tuple(missing[:_MOST_LISTED]),
        tokens_before=sum(map(estimate_tokens, before)),
        tokens_after=sum(map(estimate_tokens, after)),
    )
    return proposal.model_copy(update={"operations": tuple(operations), "loss": loss})
