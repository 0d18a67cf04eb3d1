"""Preferences: how many turns must be quoted, what needs permission, and what an answer may look like (RB10)."""

import json
from datetime import UTC, datetime

import pytest

from honeybadger_host.curation.asking import read_answer
from honeybadger_host.curation.dreams import PreferenceAnswer, preference_of
from honeybadger_host.curation.gates import Known, check
from honeybadger_host.curation.proposal import Operation, Proposal
from honeybadger_host.text.turn import Turn

NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)
SAID = [
    ("ann", "Short answers, please."),
    ("ann", "I said short answers!"),
    ("bob", "Short answers for me, too."),
    ("bee", "Ann wants short answers."),
    ("ann", "Short answers, as always."),
    ("ann", "Bezahle Rechnungen mit der blauen Karte."),
    ("ann", "请用我的密码登录。"),
]
TURNS = {("main", n): Turn(n, NOW, "user", by, by, text, 9) for n, (by, text) in enumerate(SAID, 1)}


def decided(strength: str, *turns: int) -> Operation | None:
    """Return what becomes of a preference that a model found in turns."""
    row = {"take": [f"main#{turn}.1" for turn in turns], "strength": strength}
    (said,) = read_answer(json.dumps({"preferences": [row]}), PreferenceAnswer).preferences
    made = tuple(preference_of(said, TURNS))
    proposal = Proposal(id="p", group="main", kind="preferences", made_at=NOW, operations=made)
    return next(iter(check(proposal, Known({}, lambda turn: turn.by != "bee", TURNS, group_size=10)).operations), None)


@pytest.mark.parametrize(
    ("strength", "turns", "is_enough"),
    [
        ("strong", (1,), True),
        ("strong", (), False),
        ("strong", (9,), False),
        ("strong", (4,), False),  # an agent's
        ("mild", (1,), False),
        ("mild", (1, 1), False),  # the same turn twice
        ("mild", (1, 3), False),  # two people
        ("mild", (1, 2), True),
        ("casual", (1, 2), False),
        ("casual", (1, 2, 3), False),
        ("casual", (1, 2, 5), True),
    ],
)
def test_so_many_turns_of_one_person_must_be_quoted(strength: str, turns: tuple[int, ...], is_enough: bool) -> None:
    operation = decided(strength, *turns)
    assert (operation is not None and operation.state == "waiting") == is_enough


def test_a_preference_uses_the_turns_own_words() -> None:
    early = decided("casual", 1, 2)
    assert early is not None
    assert early.result == "Short answers, please.\nI said short answers!"
    (few,) = early.gates.failed
    assert (few.gate, few.what) == ("too_few", "a casual preference needs 3 turns of one person; this one has 2")


@pytest.mark.parametrize(("turn", "asks"), [(6, True), (7, True), (1, False)])
def test_what_touches_security_credentials_or_money_needs_permission(turn: int, asks: bool) -> None:
    operation = decided("strong", turn)
    assert operation is not None
    assert ("requires_user_permission" in operation.metadata) == asks
