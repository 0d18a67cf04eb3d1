"""Proposal files: what people may edit in them, and what is said when an edit is wrong."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"[]", "it must be a JSON object"),
        (b'{"a":' * 300 + b"1" + b"}" * 300, "nested too deep"),
        (file(v=2), "v must be 1"),
        (b"{}", "id is missing; group is missing; kind is missing; made_at is missing"),
        (file(group="../../etc"), "group must be an id: 1-64 letters"),
        (file(operatoins=[]), "operatoins is unknown"),
        (file({"sources": ["../x"]}), "operations.0.sources.0 must be an id as search shows it"),
        (file({"sources": ["a1", "a1"]}), "operation 1 names one of its sources twice"),
        (file({"op": "retire"}), "operation 1, retire, writes no text"),
        (file({"evidence": [{"session": "main", "turn": 1, "quote": ""}]}), "operations.0.evidence.0.quote is empty"),
        (file(operations=[{"n": 1, "op": "retire", "sources": [one]} for one in "ab"]), "an `n` of its own"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(data: bytes, said: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_proposal(data)
    assert said in str(refused.value)
    assert len(str(refused.value)) < 1000


@given(st.binary())
def test_any_bytes_are_a_proposal_or_a_value_error(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        parse_proposal(data)
