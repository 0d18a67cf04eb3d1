"""Preferences: how many turns must be quoted, what needs permission, and what an answer may look like (RB10)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from honeybadger_host.curation.answers import WrongAnswer
from honeybadger_host.curation.gates import Known, check
from honeybadger_host.curation.preferences import bare, counted, oldest, parse_preferences, seen_before
from honeybadger_host.curation.proposal import Operation, Proposal
from honeybadger_host.domain import Turn

NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)
SAID = [
    ("user", "ann", "Short answers, please."),
    ("user", "ann", "I said short answers!"),
    ("user", "bob", "Short answers for me, too."),
    ("assistant", "bee", "You like short answers."),
    ("user", "bee", "Ann wants short answers."),
    ("user", "ann", "Short answers, as always."),
]


def known() -> Known:
    turns = {
        ("main", n): Turn(n, NOW, role, by, by, text, 9)  # type: ignore[arg-type]
        for n, (role, by, text) in enumerate(SAID, 1)
    }
    return Known({}, {}, lambda turn: turn.role == "user" and turn.by != "bee", turns, group_size=10)


def preference(strength: str, *turns: int, quote: str = "hort answers", **more: Any) -> dict[str, Any]:
    said = [{"session": "main", "turn": turn, "quote": quote} for turn in turns]
    return {"content": "Prefers short answers.", "strength": strength, "evidence": said, **more}


def answer(*rows: Any) -> str:
    return json.dumps({"preferences": rows})


def decided(row: dict[str, Any], seen: dict[str, Operation] | None = None) -> Operation:
    operations = tuple(map(bare, parse_preferences(answer(row), seen or {})))
    proposal = Proposal(id="p", group="main", kind="preferences", made_at=NOW, operations=operations)
    (operation,) = check(proposal, known()).operations
    return counted(operation, known())


@pytest.mark.parametrize(
    ("strength", "turns", "is_enough"),
    [
        ("strong", (1,), True),
        ("strong", (), False),
        ("strong", (9,), False),
        ("strong", (4,), False),  # an assistant's
        ("strong", (5,), False),  # an agent's
        ("mild", (1,), False),
        ("mild", (1, 1), False),  # the same turn twice
        ("mild", (1, 3), False),  # two people
        ("mild", (1, 2), True),
        ("casual", (1, 2), False),
        ("casual", (1, 2, 3), False),
        ("casual", (1, 2, 6), True),
    ],
)
def test_so_many_turns_of_one_person_must_be_quoted(strength: str, turns: tuple[int, ...], is_enough: bool) -> None:
    operation = decided(preference(strength, *turns))
    assert (operation.state == "waiting") == is_enough
    assert any("turns of one person" in failed.what for failed in operation.gates.failed) != is_enough


def test_what_was_quoted_too_seldom_counts_again() -> None:
    early = decided(preference("casual", 1, 2)).model_copy(update={"result": "Prefers short answers."})
    proposal = Proposal(id="p", group="main", kind="preferences", made_at=NOW, operations=(early,))
    assert decided(preference("casual", 6)).state == "refused"
    assert decided(preference("casual", 6), seen_before([proposal])).state == "waiting"


def test_a_preference_says_prefers_and_not_the_opposite() -> None:
    (said,) = parse_preferences(answer({**preference("strong", 1), "content": "Prefers no short answers."}), {})
    proposal = Proposal(id="p", group="main", kind="preferences", made_at=NOW, operations=(bare(said),))
    (operation,) = check(proposal, known()).operations
    assert "meaning_flipped" in {failed.gate for failed in operation.gates.failed}


@pytest.mark.parametrize(
    "content",
    [
        *("Wants the API key kept in the vault.", "Pays invoices by card.", "Möchte Rechnungen sofort überweisen."),
        *("Likes to spend 20 € a week.", "Prefers to deploy on Fridays.", "Mag kein Passwort eingeben."),
    ],
)
def test_what_touches_security_credentials_or_money_needs_permission(content: str) -> None:
    asked = {**preference("strong", 1), "content": content, "requires_user_permission": False}
    (operation,) = parse_preferences(answer(asked), {})
    assert operation.metadata["requires_user_permission"] == "true"
    (harmless,) = parse_preferences(answer(preference("strong", 1)), {})
    assert "requires_user_permission" not in harmless.metadata
    (quoted,) = parse_preferences(answer(preference("strong", 1, quote="my password")), {})
    assert quoted.metadata["requires_user_permission"] == "true"


@pytest.mark.parametrize(
    "row",
    [
        *("x", {}, {**preference("strong", 1), "content": " "}, {**preference("huge", 1)}, preference("mild", 0)),
        {**preference("strong", 1), "evidence": 3},
        {**preference("strong", 1), "evidence": [{"session": "main", "turn": 1, "quote": "x", "who": "ann"}]},
        {**preference("strong", 1), "state": "applied"},
        {**preference("strong", 1), "requires_user_permission": "no"},
        {**preference("strong", 1), "content": "x" * 70_000},
    ],
    ids=lambda row: str(row)[:40],
)
def test_a_wrong_answer_is_refused_as_a_whole(row: Any) -> None:
    with pytest.raises(WrongAnswer, match=r"preferences\.1"):
        parse_preferences(answer(preference("strong", 1), row), {})


def test_a_pass_takes_the_oldest_turns_that_fit() -> None:
    turns = [
        ("main", Turn(n, NOW + timedelta(seconds=n), "user", "ann", "ann", "word " * 4000, 9)) for n in range(5, 0, -1)
    ]
    assert [turn.number for _, turn in oldest(turns)] == [1, 2]
