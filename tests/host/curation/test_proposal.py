"""Proposal files: what people may edit in them, and what is said when an edit is wrong."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson

from honeybadger_host.curation.proposal import Gates, dump_proposal, parse_proposal


def file(operation: dict[str, Any] | None = None, **changed: Any) -> bytes:
    """Return a proposal as somebody might write it, with members changed."""
    value: dict[str, Any] = {"id": "dream-1", "group": "kitchen", "kind": "dream", "made_at": "2026-11-21T12:00:00Z"}
    merge = {"n": 1, "op": "merge", "sources": ["a1", "MEMORY.md#4f"], "result": "Tea at 8"}
    return orjson.dumps({**value, "operations": [{**merge, **(operation or {})}], **changed})


def test_a_person_may_leave_out_whatever_says_nothing() -> None:
    proposal = parse_proposal(file())
    assert (proposal.made_at, proposal.by) == (datetime(2026, 11, 21, 12, tzinfo=UTC), "rules")
    assert (proposal.operations[0].state, proposal.operations[0].gates) == ("waiting", Gates())
    assert parse_proposal(b"\xef\xbb\xbf" + file({"title": None}, session=None)) == proposal
    assert parse_proposal(dump_proposal(proposal)) == proposal
