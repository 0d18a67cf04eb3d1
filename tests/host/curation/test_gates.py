"""The gates: what each lets through, and what it refuses, by name and in words."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.survival.restraint import HELD_OUT_MUST, HELD_OUT_NOT, MUST, MUST_NOT
from honeybadger_host.curation.gates import ApplyPolicy, Known, applies_itself, check
from honeybadger_host.curation.passes import accounted
from honeybadger_host.curation.proposal import Evidence, Op, Operation, Proposal, dump_proposal, parse_proposal
from honeybadger_host.domain import Turn
from honeybadger_host.storage.journal import Journal
from honeybadger_host.storage.tombstones import bury, read_tombstones

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
TEXTS = {
    "tea": "User prefers tea over coffee.",
    "tea2": "User prefers tea over coffee.",
    "nuts": "User is allergic to peanuts.",
    "rent": "The rent is $1,450; the landlord is Mr Glanz.",
    "lisbon": "User lives in Lisbon.",
    "dose": "Takes 8 mg of Ramipril twice daily.",
    "dose2": "Ramipril: 8 mg, twice daily, before breakfast.",
    "bob": "Bob's old bike is a Puch from 1986.",
    "MEMORY.md#4f0c21": "## Facts (researcher, 2026-11-01 09:00)\n- The cat is called Mia.\n",
}
SAID = [
    ("user", "sam", "I moved from Lisbon to Porto, and my dentist is Dr. Weber."),
    ("assistant", "helper", "Your rent is $1,600 now, and you like skiing."),
    ("user", "sam", "I am not allergic to almonds. Meet me on 7 May."),
    ("user", "sam", "What else?"),
    ("tool", "shell", "The database moved to port 6432."),
    ("user", "sam", "What if the dose was changed to 16 mg of Ramipril?"),
]


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def turns(said: Sequence[tuple[str, str, str]]) -> dict[tuple[str, int], Turn]:
    return {
        ("main", n): Turn(n, NOON, role, by, by, text, 9)  # type: ignore[arg-type]
        for n, (role, by, text) in enumerate(said, 1)
    }


def known(texts: Mapping[str, str] = TEXTS, **changed: Any) -> Known:
    """Return what is known: nothing is protected, the group is large."""
    return replace(
        Known(
            texts=texts,
            digests={each: digest(text) for each, text in texts.items()},
            turns=turns(SAID),
            is_person=lambda turn: turn.role == "user",
            protected={},
            group_size=200,
        ),
        **changed,
    )


def op(kind: Op, sources: Sequence[str] = (), result: str | None = None, **more: Any) -> Operation:
    return Operation(n=more.pop("n", 1), op=kind, sources=tuple(sources), result=result, **more)


def add(result: str, turn: int, quote: str) -> Operation:
    return op("add", result=result, evidence=quoting(turn, quote))


def quoting(turn: int, quote: str) -> tuple[Evidence, ...]:
    return (Evidence(session="main", turn=turn, quote=quote),)


def proposal(*operations: Operation, **more: Any) -> Proposal:
    base = {each: digest(text) for each, text in TEXTS.items()}
    values = {"id": "p1", "group": "kitchen", "kind": "dream", "made_at": NOON, "base": base, **more}
    return Proposal(operations=operations, **values)


def checked(*operations: Operation, at: Known | None = None, **more: Any) -> list[Operation]:
    return list(check(proposal(*operations, **more), at or known()).operations)


def failures(operation: Operation, at: Known | None = None, **more: Any) -> dict[str, str]:
    """Return gate -> what is wrong, of one operation."""
    (found,) = checked(operation, at=at, **more)
    return {each.gate: each.what for each in found.gates.failed}


MERGE = op("merge", ["dose", "dose2"], "Takes 8 mg of Ramipril twice daily, before breakfast.")
FOLD = op("merge", ["tea", "tea2"], "User prefers tea over coffee.")
MOVE = op("supersede", ["lisbon"], "User lives in Porto.", evidence=quoting(1, "I moved from Lisbon to Porto"))
ADD = op("add", result="The user's dentist is Dr. Weber.", evidence=quoting(1, "my dentist is Dr. Weber"))
NOTE = op("promote", ["MEMORY.md#4f0c21"], "The cat is called Mia.", category="pets")
GOOD = [MERGE, FOLD, MOVE, ADD, NOTE, op("annotate", ["rent"], "The user asked about the rent.", evidence=())]


@pytest.mark.parametrize("good", GOOD, ids=lambda each: str(each.op))
def test_what_is_good_passes_every_gate_and_waits(good: Operation) -> None:
    (found,) = checked(good)
    assert found.gates.failed == ()
    assert len(found.gates.passed) == 11
    assert found.state == "waiting"


REFUSED: list[tuple[str, str, Operation]] = [
    # base_moved
    ("base_moved", "gone1 was not read", op("merge", ["tea", "gone1"], "User prefers tea over coffee.")),
    # unquoted
    ("unquoted", "does not say", add("Dentist is Dr. Weber.", 1, "my dentist is Dr Weber")),
    ("unquoted", "does not say", add("Dentist: Dr. Weber", 1, "my\u200b dentist is Dr. Weber")),
    ("unquoted", "does not say", add("Dentist: Dr. Weber", 1, "My dentist is Dr. Weber")),
    ("unquoted", "does not say", add("Meet on 7 May", 3, "on 7\u00a0May")),
    ("unquoted", "no turn 99", add("Dentist: Dr. Weber", 99, "my dentist is Dr. Weber")),
    ("unquoted", "quotes nobody", op("add", result="The dentist is Dr. Weber.")),
    ("unquoted", "does not say", add("Hates loud restaurants and long queues.", 1, "and my")),
    ("unquoted", "does not say hat", add("My dentist has a hat.", 1, "my dentist")),
    ("unquoted", "rests on does not say", op("merge", ["tea", "tea2"], "User prefers tea over coffee and loves dogs.")),
    ("unquoted", "rests on does not say", op("annotate", ["tea"], "The user is a liar.")),
    # not_a_person
    ("not_a_person", "helper speaks there as assistant", add("Likes skiing.", 2, "you like skiing")),
    (
        "not_a_person",
        "shell speaks there as tool",
        add("The database is on port 6432.", 5, "The database moved to port 6432"),
    ),
    # specifics_lost
    ("specifics_lost", "twice", op("merge", ["dose", "dose2"], "Takes 8 mg of Ramipril daily before breakfast.")),
    ("specifics_lost", "8 mg", op("merge", ["dose", "dose2"], "Takes 8 of Ramipril twice daily, before breakfast.")),
    ("specifics_lost", "1986", op("merge", ["bob", "tea"], "Bob's old bike is a Puch; User prefers tea over coffee.")),
    ("specifics_lost", "Mia", op("promote", ["MEMORY.md#4f0c21"], "There is a cat.", category="pets")),
    ("specifics_lost", "Glanz", op("supersede", ["rent"], "The rent is now $1,600.")),
    ("specifics_lost", "Lisbon", op("retire", ["lisbon"])),
    ("specifics_lost", "is not said any more", op("merge", ["tea", "nuts"], "User is allergic to peanuts.")),
    # specifics_invented
    (
        "specifics_invented",
        "18 mg",
        op("merge", ["dose", "dose2"], "Takes 8 mg, not 18 mg, of Ramipril twice daily before breakfast."),
    ),
    ("specifics_invented", "Assam", op("merge", ["tea", "tea2"], "User prefers Assam tea over coffee.")),
    ("specifics_invented", "17 May", add("Meet on 17 May.", 3, "Meet me on 7 May")),
    (
        "specifics_invented",
        "Osei",
        op("add", result="Dentist: Dr. Weber", title="Call Dr. Osei 5", evidence=quoting(1, "my dentist is Dr. Weber")),
    ),
    ("specifics_invented", "Porto", op("annotate", ["rent"], "The user moved to Porto.")),
    # meaning_flipped
    (
        "meaning_flipped",
        "denied",
        op("merge", ["nuts", "tea"], "User is not allergic to peanuts; prefers tea over coffee."),
    ),
    ("meaning_flipped", "denied", add("The user is allergic to almonds.", 3, "allergic to almonds")),
    ("meaning_flipped", "stands behind", add("Moved from Porto to Lisbon.", 1, "moved from Lisbon to Porto")),
    (
        "meaning_flipped",
        "stands behind",
        op("merge", ["dose", "dose2"], "Takes 8 mg of Ramipril twice daily, after breakfast."),
    ),
    (
        "meaning_flipped",
        "asked or supposed",
        add("The dose was changed to 16 mg of Ramipril.", 6, "the dose was changed"),
    ),
    # not_stale
    ("not_stale", "quotes nobody", op("supersede", ["lisbon"], "User lives in Porto.")),
    (
        "not_stale",
        "a plan, a wish",
        op(
            "supersede",
            ["dose"],
            "Takes 16 mg of Ramipril twice daily.",
            evidence=quoting(6, "the dose was changed to 16 mg of Ramipril"),
        ),
    ),
    (
        "not_stale",
        "about something else",
        op("supersede", ["dose"], "Takes 8 mg of Ramipril.", evidence=quoting(1, "I moved from Lisbon to Porto")),
    ),
    (
        "meaning_flipped",
        "denied",
        op("merge", ["nuts", "tea"], "User is n\u200bot allergic to peanuts, but tea over coffee."),
    ),
    # no_change
    ("no_change", "there already", op("annotate", ["tea"], "User prefers\u200b tea over coffee.")),
    ("no_change", "there already", op("annotate", ["tea"], "User  prefers tea over COFFEE.")),
    (
        "no_change",
        "there already",
        op("supersede", ["lisbon"], "User lives in Lisbon.", evidence=quoting(1, "I moved from Lisbon to Porto")),
    ),
]


@pytest.mark.parametrize(("gate", "said", "bad"), REFUSED, ids=[f"{gate}-{said[:20]}" for gate, said, _ in REFUSED])
def test_what_is_bad_is_refused_by_the_gate_of_that_name_in_words(gate: str, said: str, bad: Operation) -> None:
    found = failures(bad)
    assert gate in found, found
    assert said in found[gate]
    (after,) = checked(bad)
    assert after.state == "refused"
    assert not any(applies_itself(after, policy) for policy in ("lossless", "review", "gated"))


def test_what_was_forgotten_is_not_learnt_again(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "journal.db")
    asked, record = ["vault code"], ["User prefers tea over coffee, and hates milk.", "ok"]
    journal.change_past(lambda connection: bury(connection, "main", asked, record))
    journal.close()
    stones = read_tombstones(tmp_path / "journal.db", "main")
    at = known({**TEXTS, "tea": "x"}, is_forgotten=stones.knows)
    for bad in ("The VAULT  code is long.", "I heard: user prefers TEA over coffee and hates milk", "OK."):
        assert "forgotten" in failures(op("annotate", ["tea"], bad), at), bad
    assert "forgotten" in failures(op("add", [], "Fine.", title="Vault code", category="x"), at)
    for good in ("The code of the vault is long.", "User prefers tea over coffee.", "It is ok there."):
        assert "forgotten" not in failures(op("annotate", ["tea"], good), at), good
    assert not read_tombstones(tmp_path / "journal.db", "other").knows("vault code")


def test_a_source_that_changed_or_went_makes_an_operation_stale_and_the_others_stay() -> None:
    at = known({**TEXTS, "dose": "Takes 8 mg of Ramipril once daily."})
    assert [each.state for each in checked(MERGE, replace_n(FOLD, 2), at=at)] == ["stale", "waiting"]
    assert "changed since it was read" in failures(MERGE, at)["base_moved"]
    gone = {name: text for name, text in TEXTS.items() if name != "dose"}
    assert failures(MERGE, known(gone))["base_moved"] == "dose is not there any more"


def replace_n(operation: Operation, n: int) -> Operation:
    return operation.model_copy(update={"n": n})


def test_only_one_operation_may_take_an_id_and_a_refused_one_does_not_take_it() -> None:
    again = op("annotate", ["tea"], "The user asked about coffee and tea.", n=2)
    first, second = checked(FOLD, again)
    assert (first.state, second.state) == ("waiting", "stale")
    assert "is changed by an operation before this one" in second.gates.failed[0].what
    first, second = checked(FOLD.model_copy(update={"state": "struck"}), replace_n(again, 2))
    assert (first.state, second.gates.failed[0].gate if second.gates.failed else None) == ("struck", None)
    bad = op("merge", ["tea", "nuts"], "User likes peanuts.")
    assert [each.state for each in checked(bad, replace_n(FOLD, 2))] == ["refused", "waiting"]


def test_what_is_applied_or_struck_is_not_checked_again() -> None:
    applied = MERGE.model_copy(update={"state": "applied"})
    assert checked(applied, at=known({})) == [applied]


def test_a_listed_loss_passes_its_gate_and_waits_for_a_person() -> None:
    listed = op("merge", ["dose", "dose2"], "Takes Ramipril daily before breakfast.", lost=("8 mg", "twice"))
    (found,) = checked(listed)
    assert (found.state, found.gates.failed) == ("waiting", ())
    assert not applies_itself(found, "lossless")
    assert applies_itself(found, "gated")
    rest = op("retire", ["lisbon"], lost=("Lisbon",))
    assert failures(rest) == {}
    assert not applies_itself(checked(rest)[0], "lossless")


def test_what_a_person_wrote_pinned_or_said_again_and_again_is_not_touched() -> None:
    at = known(protected={"dose": "a person wrote it", "tea": "it is pinned"})
    assert failures(MERGE, at)["protected"] == "dose stays as it is: a person wrote it"
    assert failures(FOLD, at)["protected"] == "tea stays as it is: it is pinned"
    assert failures(op("annotate", ["tea"], "Asked about tea."), at)["protected"]
    linked = op("add", ["dose"], "Ramipril is taken before breakfast: 8 mg.")
    assert "protected" not in failures(linked, at)


def many(count: int) -> tuple[dict[str, str], list[Operation]]:
    texts = {f"e{n}": f"Fact number {n} is about thing {n}." for n in range(2 * count)}
    merges = [
        op("merge", [f"e{2 * n}", f"e{2 * n + 1}"], f"{texts[f'e{2 * n}']} {texts[f'e{2 * n + 1}']}", n=n + 1)
        for n in range(count)
    ]
    return texts, merges


@pytest.mark.parametrize(
    ("size", "lately", "passing"), [(100, 0, 5), (20, 0, 1), (0, 0, 1), (100, 20, 0), (100, 16, 2)]
)
def test_a_pass_changes_a_tenth_of_a_group_and_a_month_a_fifth(size: int, lately: int, passing: int) -> None:
    texts, merges = many(12)
    at = known(texts, group_size=size, changed_lately=lately)
    base = {name: digest(text) for name, text in texts.items()}
    states = [each.state for each in check(proposal(*merges, base=base), at).operations]
    assert states == ["waiting"] * passing + ["refused"] * (12 - passing)


def test_a_delete_of_everything_is_refused_but_for_three_at_most_even_when_every_loss_is_listed() -> None:
    deletes = [op("retire", [name], n=n, lost=(TEXTS[name],)) for n, name in enumerate(TEXTS, 1)]
    found = checked(*deletes, at=known(group_size=len(TEXTS)))
    assert sum(each.state == "waiting" for each in found) == 3
    assert not any(applies_itself(each, "lossless") for each in found)


def test_folds_of_identical_texts_are_free_however_many() -> None:
    texts = {f"e{n}": "User prefers tea." for n in range(60)}
    folds = [op("merge", [f"e{n}", f"e{n + 1}"], "User prefers tea.", n=n + 1) for n in range(0, 60, 2)]
    base = {name: digest(text) for name, text in texts.items()}
    at = known(texts, group_size=60, changed_lately=60, merge_depth={"e0": 9})
    found = check(proposal(*folds, base=base), at).operations
    assert {each.state for each in found} == {"waiting"}


def test_merges_of_merges_of_merges_are_refused() -> None:
    assert failures(MERGE, known(merge_depth={"dose": 1})) == {}
    assert "merged 2 times already" in failures(MERGE, known(merge_depth={"dose": 2}))["too_much"]


HISTORY: dict[str, Any] = {"kind": "consolidation", "session": "main", "first_turn": 1, "last_turn": 3}


@pytest.mark.parametrize("kind", ["write_history", "write_summary"])
def test_a_history_says_only_what_its_turns_say(kind: Op) -> None:
    good = op(kind, result="[2026-11-21 12:00] Sam moved from Lisbon to Porto; dentist Dr. Weber; meets on 7 May.")
    assert failures(good, **HISTORY) == {}
    dated = op(kind, result="Sam wants to meet on 2026-05-07.")
    assert failures(dated, **HISTORY) == {}
    assert "Berlin" in failures(op(kind, result="Sam moved to Berlin."), **HISTORY)["specifics_invented"]
    beyond = op(kind, result="The database is on port 6432.")
    assert "6432" in failures(beyond, **HISTORY)["specifics_invented"]
    assert "opposite" in failures(op(kind, result="Sam is allergic to almonds."), **HISTORY)["meaning_flipped"]


@pytest.mark.parametrize(
    ("policy", "applied"), [("lossless", [True, True, True]), ("review", [False] * 3), ("gated", [True] * 3)]
)
def test_what_applies_itself_is_the_operators_choice(policy: ApplyPolicy, applied: list[bool]) -> None:
    found = checked(replace_n(MERGE, 1), replace_n(FOLD, 2), replace_n(MOVE, 3))
    assert [applies_itself(each, policy) for each in found] == applied


def test_an_operation_that_was_not_checked_never_applies_itself() -> None:
    assert not applies_itself(FOLD, "gated")


def overwritten(old: str, said: str, new: str) -> bool:
    """Return whether a model's wish to overwrite is applied by itself."""
    evidence = quoting(1, said)
    at = known({"old1": old}, turns=turns([("user", "sam", said)]), group_size=50)
    asked = proposal(op("supersede", ["old1"], new, evidence=evidence), base={"old1": digest(old)})
    return applies_itself(check(asked, at).operations[0], "lossless")


@pytest.mark.parametrize(("old", "said", "new"), [*MUST_NOT, *HELD_OUT_NOT])
def test_what_nobody_said_has_changed_is_not_overwritten(old: str, said: str, new: str) -> None:
    assert not overwritten(old, said, new)


@pytest.mark.parametrize(("old", "said", "new"), MUST)
def test_what_somebody_said_has_changed_is_overwritten(old: str, said: str, new: str) -> None:
    assert overwritten(old, said, new)


def test_of_changes_the_rules_never_saw_most_are_taken_and_the_others_wait() -> None:
    assert sum(overwritten(*each) for each in HELD_OUT_MUST) >= 13  # of 16


def test_the_loss_account_counts_what_leaves_recall() -> None:
    asked = check(
        proposal(replace_n(FOLD, 1), op("retire", ["bob"], n=2, lost=("Bob", "Puch", "1986", "bike"))), known()
    )
    loss = accounted(asked, asked.operations, known()).loss
    assert (loss.entries_before, loss.entries_after) == (200, 198)
    assert loss.specifics_before == 3
    assert loss.specifics_kept == 0
    assert set(loss.lost) == {"Bob's", "Puch", "1986"}
    assert loss.tokens_before > loss.tokens_after > 0
    checked = check(proposal(), known())
    assert accounted(checked, checked.operations, known()).loss.lost == ()


parts = st.sampled_from([*"ab 8\u200b.,#-\n\"'€", "not ", "Anna ", "8 kg ", "from ", "## "])
hostile = st.lists(parts, max_size=30).map("".join)


@given(
    hostile.filter(lambda text: text.strip() != ""),
    hostile.filter(bool),
    st.integers(1, 7),
    st.sampled_from(["tea", "dose"]),
)
def test_whatever_a_model_writes_is_checked_to_an_end_and_survives_its_file(
    result: str, quote: str, turn: int, source: str
) -> None:
    asked = proposal(
        op("add", result=result, evidence=quoting(turn, quote)),
        op("supersede", [source], result, evidence=quoting(turn, quote), n=2),
        op("merge", ["nuts", "bob"], result, n=3),
        op("write_summary", result=result, n=4),
        **HISTORY,
    )
    once = check(asked, known())
    assert parse_proposal(dump_proposal(once)) == once
    assert check(once, known()) == once
    assert not any(applies_itself(each, "lossless") for each in once.operations[:3])
