"""The gates: each refuses what it is for, in any language, and a new fact goes with no refused change."""

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from honeybadger_host.curation.gates import Known, applies_itself, check
from honeybadger_host.curation.proposal import (
    Evidence,
    Gates,
    Operation,
    Proposal,
    dump_proposal,
    numbered,
    parse_proposal,
)
from honeybadger_host.text.turn import Turn

AT = datetime(2026, 5, 7, 18, 3, tzinfo=UTC)
SAID = {1: ("user", "Ich ziehe nach Lissabon. 家賃は950。"), 2: ("assistant", "Shall I?"), 3: ("user", "Yes, do that.")}
TEXTS = {"e1": "Tea is green.", "e2": "Tea is hot.", "MEMORY.md#a1": "The rent is 900.", "mine": "Mine."}


def known(**more: Any) -> Known:
    turns = {("main", n): Turn(n, AT, role, role, role, text, 9) for n, (role, text) in SAID.items()}  # type: ignore[arg-type]
    texts = TEXTS | more.pop("texts", {})
    return Known(texts, lambda turn: turn.role == "user", turns, {"mine": "a person wrote it"}, **more)


def quote(text: str, turn: int = 1) -> tuple[Evidence, ...]:
    return (Evidence(session="main", turn=turn, quote=text, by="ann", at=AT),)


def add(text: str, *evidence: Evidence, **more: Any) -> Operation:
    return Operation(n=1, op="add", result=text, evidence=evidence, **more)


def checked(*operations: Operation, at: Known | None = None) -> list[Operation]:
    asked = Proposal(id="p", group="main", kind="dream", made_at=AT, operations=numbered(operations))
    return [*check(asked, at or known()).operations]


def failed(operation: Operation) -> list[str]:
    return [each.gate for each in operation.gates.failed]


@pytest.mark.parametrize(
    "operation",
    [
        add("Ich ziehe nach Lissabon. 家賃は950。\n(main#1)", *quote("Ich ziehe nach Lissabon. 家賃は950。")),
        add("Yes, do that.\n> bee asked: Shall I?\n(main#3)", *quote("Yes, do that.", 3)),
        add(
            "家賃は950。\n> earlier, bee: The rent is 900.\n(main#1)", *quote("家賃は950。"), sources=("MEMORY.md#a1",)
        ),
        add("家賃は950。", *quote("家賃は950。"), sources=("MEMORY.md#b2",)),
        Operation(n=1, op="merge", sources=("e1", "e2"), result="Tea is green.\nTea is hot.", category="tea"),
        Operation(n=1, op="refine", sources=("e1",), category="tea", aliases=("chai",)),
        add("Tea is green.", sources=("e1",), category="tea").model_copy(update={"result": "is green"}),
    ],
)
def test_what_is_copied_passes_and_applies_itself(operation: Operation) -> None:
    (found,) = checked(operation)
    assert failed(found) == []
    assert applies_itself(found, "copied")
    assert not applies_itself(found, "review")


@pytest.mark.parametrize(
    ("gate", "operation"),
    [
        ("not_copied", add("Ich ziehe nach Porto.", *quote("Ich ziehe nach Lissabon."))),
        ("not_copied", add("Ich ziehe nicht nach Lissabon.", *quote("Ich ziehe nach Porto."))),
        ("not_copied", add("Nobody is quoted.")),
        ("not_copied", add("Shall I?\n(main#3)", *quote("Yes, do that.", 3))),
        ("not_copied", add("x", *quote("x", 9))),
        ("not_copied", Operation(n=1, op="merge", sources=("e1", "e2"), result="Tea is green.\nTea is bad.")),
        ("not_a_person", add("Shall I?", *quote("Shall I?", 2))),
        ("protected", Operation(n=1, op="retire", sources=("mine",))),
        ("no_change", add("The rent is  900.", *quote("x"), sources=("MEMORY.md#a1",))),
        ("forgotten", add("家賃は950。", *quote("家賃は950。"), tags=("secret",))),
    ],
)
def test_bad_operations_are_refused_by_their_gate(gate: str, operation: Operation) -> None:
    (found,) = checked(operation, at=known(is_forgotten=lambda text: text == "secret"))
    assert gate in failed(found)
    assert found.state == "refused"
    assert all(len(each.what) > 10 for each in found.gates.failed)
    assert not applies_itself(found, "copied")


def test_what_waits_for_a_person_never_applies_itself() -> None:
    (found,) = checked(Operation(n=1, op="retire", sources=("e1",), waits="only a person retires"))
    assert (failed(found), found.state) == ([], "waiting")
    assert not applies_itself(found, "copied")
    assert not applies_itself(Operation(n=1, op="retire", sources=("e1",)), "copied")  # nobody checked it
    (written,) = checked(add("A model says this.", by="model", waits="written by model, nobody said this"))
    assert failed(written) == []
    assert not applies_itself(written, "copied")


def test_a_pass_retires_a_tenth() -> None:
    texts = {f"x{n}": f"Text {n}." for n in range(40)}
    gone = [Operation(n=1, op="retire", sources=(name,)) for name in texts]
    joins = [
        Operation(n=1, op="merge", sources=(f"x{n}", f"x{n + 1}"), result=f"Text {n}.\nText {n + 1}.") for n in (0, 2)
    ]
    at = known(texts=texts, group_size=40)
    assert sum(not failed(each) for each in checked(*gone, at=at)) == 4
    assert [failed(each) for each in checked(*joins, *gone[4:], at=at)[:6]] == [[]] * 6
    assert sum(not failed(each) for each in checked(*gone, at=known(texts=texts, group_size=4))) == 3


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
