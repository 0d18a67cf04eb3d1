"""What waits for a decision: proposals of curation and writes that agents asked for, operation by operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from honeybadger_agent.wire import DecideProposal, ListProposals, ProposalRow
from honeybadger_agent.wire.proposals import UNDECIDED, is_lossless
from honeybadger_host.web.asking import Invalid, made
from honeybadger_host.web.forms import PER_PAGE, checked_number, go, group_of, home_of, member, number, posted, shown_of
from honeybadger_host.web.rendering import compared, href, page

_MOST_LISTED: Final = 1000


class _Shown(NamedTuple):
    """An operation with its difference, as pairs of sign and text."""

    operation: Mapping[str, Any]
    lines: Sequence[tuple[str, str]]
    is_undecided: bool
    is_lossless: bool


def _review(request: Request) -> Response:
    group, offset, every = group_of(request), number(request, "offset"), member(request, "every") == "1"
    asked = made(ListProposals, every=every, limit=min(offset + PER_PAGE, _MOST_LISTED))
    found = home_of(request).read(group, asked)
    return page(
        "review.html",
        shown_of(request),
        rows=found.proposals[offset:],
        total=len(found.proposals) + found.left_out,
        every=every,
        offset=offset,
        per_page=PER_PAGE,
    )


def _proposal(request: Request) -> Response:
    group = group_of(request)
    row = _read(request, group, str(request.path_params["proposal"]))
    operations = [_shown(operation, row.before) for operation in row.operations]
    offset = number(request, "offset")
    return page(
        "proposal.html",
        shown_of(request),
        row=row,
        operations=operations[offset : offset + PER_PAGE],
        total=len(operations),
        lossless=sum(each.is_lossless for each in operations),
        retired=sum(each.operation["op"] == "retire" for each in operations),
        lost=[one for each in operations for one in each.operation.get("lost", ())],
        offset=offset,
        per_page=PER_PAGE,
        done=member(request, "done", 20),
        seq=number(request, "seq"),
    )


def _read(request: Request, group: str, name: str) -> ProposalRow:
    return home_of(request).read(group, made(ListProposals, proposal=name)).proposals[0]


def _shown(operation: Mapping[str, Any], before: Mapping[str, str]) -> _Shown:
    old = [line for source in operation.get("sources", ()) for line in before.get(source, f"({source})").splitlines()]
    new = (operation.get("result") or "").splitlines()
    lines = compared(old, new)
    if lines is None:
        lines = [*(("-", line) for line in old), *(("+", line) for line in new)]
    return _Shown(operation, lines, operation["state"] in UNDECIDED, is_lossless(operation))


def _decided(request: Request, form: dict[str, str]) -> Response:
    """Decide about one operation, all that lose nothing, or take the whole proposal back."""
    group = group_of(request)
    name, decision = str(request.path_params["proposal"]), form.get("decision", "")
    numbers: list[int] | None = None
    result: str | None = None
    match decision:
        case "accept" | "strike" | "edit":
            numbers = [checked_number(form.get("operation", ""), "operation")]
            result = form.get("result", "") if decision == "edit" else None
        case "lossless":
            row = _read(request, group, name)
            numbers = [operation["n"] for operation in row.operations if is_lossless(operation)]
            if not numbers:
                raise Invalid("nothing waits in it that passes every gate and loses nothing")
        case "revert":
            pass
        case _:
            raise Invalid("that is not a decision: load the page again")
    is_accepted = decision in ("edit", "lossless")
    asked = made(DecideProposal, name, "accept" if is_accepted else decision, operations=numbers, result=result)
    _, seq = home_of(request).ask(group, asked, seconds=60)
    return go(href("g", group, "review", name, done=decision, seq=seq))


ROUTES: Final = (
    Route("/g/{group}/review", _review),
    Route("/g/{group}/review/{proposal}", _proposal),
    Route("/g/{group}/review/{proposal}/decide", posted(_decided), methods=["POST"]),
)
