"""Decisions of the operator about proposals of curation and writes of agents, operation by operation."""

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from honeybadger_agent.wire import UNDECIDED, DecideProposal, ListProposals, ProposalRow, changed_lines, is_copied
from honeybadger_host.curation.proposal import Operation, Proposal
from honeybadger_host.curation.proposal_files import read_stored
from honeybadger_host.web.rendering import MAX_OF_A_KIND, compared, first_words, href
from honeybadger_host.web.visits import PER_PAGE, Invalid, Visit, checked_number, go, made


def review(visit: Visit) -> Response:
    offset, every = visit.number("offset"), visit.member("every") == "1"
    found = visit.read(made(ListProposals, every=every, limit=offset + PER_PAGE))
    return visit.page(
        "review.html",
        rows=[(row, _gist(visit, row)) for row in found.proposals[offset:]],
        total=len(found.proposals) + found.left_out,
        every=every,
        offset=offset,
        per_page=PER_PAGE,
    )


def _gist(visit: Visit, row: ProposalRow) -> list[str]:
    """Return the first operations that `gists_of` gives; none of a proposal that cannot be read: the row shows why."""
    proposal = read_stored(visit.home.path, visit.group, row.id).proposal
    return [] if proposal is None else gists_of(proposal)[:MAX_OF_A_KIND]


def gists_of(proposal: Proposal) -> list[str]:
    """Return the undecided operations of a proposal in words, or else all of its operations."""
    undecided = [one for one in proposal.operations if one.state in UNDECIDED]
    return [gist_of_operation(one) for one in undecided or proposal.operations]


def gist_of_operation(operation: Operation) -> str:
    """Return an operation and its result in a few words."""
    words = operation.result or operation.why or ", ".join(operation.sources)
    return first_words(words) if operation.op == "write" else f"{operation.op.replace('_', ' ')}: {first_words(words)}"


def proposal(visit: Visit) -> Response:
    row = _read(visit)
    offset = visit.number("offset")
    operations = row.operations[offset : offset + PER_PAGE]
    return visit.page(
        "proposal.html",
        row=row,
        operations=[(operation, _lines(operation, row.before)) for operation in operations],
        undecided=UNDECIDED,
        total=len(row.operations),
        copied=sum(map(is_copied, row.operations)),
        retired=sum(operation["op"] == "retire" and operation["state"] in UNDECIDED for operation in row.operations),
        offset=offset,
        per_page=PER_PAGE,
        done=visit.member("done", 20),
        seq=visit.number("seq"),
        kept=visit.number("kept"),
    )


def _read(visit: Visit) -> ProposalRow:
    return visit.read(made(ListProposals, proposal=str(visit.path["proposal"]))).proposals[0]


def _lines(operation: Mapping[str, Any], before: Mapping[str, str]) -> Sequence[tuple[str, str]]:
    """Return the difference that an operation makes, as pairs of sign and text."""
    old, new = changed_lines(operation, before)
    lines = compared(old, new)
    return [*(("-", line) for line in old), *(("+", line) for line in new)] if lines is None else lines


def decided(visit: Visit, form: dict[str, str]) -> Response:
    """Decide about one operation or about all copies, or undo the whole proposal."""
    name, decision = str(visit.path["proposal"]), form.get("decision", "")
    numbers: list[int] | None = None
    result: str | None = None
    match decision:
        case "accept" | "strike" | "edit":
            numbers = [checked_number(form.get("operation", ""), "operation")]
            result = form.get("result", "") if decision == "edit" else None
        case "copied":
            row = _read(visit)
            numbers = [operation["n"] for operation in row.operations if is_copied(operation)]
            if not numbers:
                raise Invalid("nothing waits in it that passes every gate and is a copy")
        case "revert":
            pass
        case _:
            raise Invalid("that is not a decision: load the page again")
    is_accepted = decision in ("edit", "copied")
    decided, seq = visit.ask(
        made(DecideProposal, name, "accept" if is_accepted else decision, operations=numbers, result=result)
    )
    return go(href("g", visit.group, "review", name, done=decision, seq=seq, kept=len(decided.kept) or None))
