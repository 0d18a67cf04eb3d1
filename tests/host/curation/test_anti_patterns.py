"""Corrections become anti-patterns by rules: only clear ones, in the person's words, and through every gate."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from honeybadger_agent.wire import FeedbackKind, Role
from honeybadger_host.curation.anti_patterns import anti_patterns, clear_corrections, feedback_turns
from honeybadger_host.curation.gates import Known, applies_itself, check
from honeybadger_host.curation.proposal import Operation, Proposal
from honeybadger_host.domain import Turn
from honeybadger_host.memory.feedback import FEEDBACK_SESSION, Feedback, as_turn

AT = datetime(2026, 11, 21, 6, 0, tzinfo=UTC)
Turns = Mapping[tuple[str, int], Turn]


def turn(number: int, content: str, role: Role = "user", *tools: str) -> tuple[tuple[str, int], Turn]:
    by = "ann" if role == "user" else "assistant"
    return ("main", number), Turn(number, AT, role, by, by, content, 1, tools)


def said(
    content: str, number: int | None = 2, *, kind: FeedbackKind = "correction", by: str = "ann", after: int = 0
) -> Feedback:
    at = AT + timedelta(minutes=after)
    return Feedback(at=at, kind=kind, content=content, session="main", turn=number, by=by, request=f"r{after}")


def gated(operations: Sequence[Operation], turns: Turns, feedback: Sequence[Feedback]) -> Proposal:
    known = Known(
        texts={},
        digests={},
        turns={**turns, **feedback_turns(feedback)},
        is_person=lambda turn: turn.role == "user" and turn.by == "ann",
        group_size=100,
    )
    proposal = Proposal(id="p1", group="main", kind="dream", made_at=AT, operations=tuple(operations))
    return check(proposal, known)


CLEAR = {
    "Don't use `search_files` for content search — use `grep`": (
        "Don't use `search_files` for content search — use `grep`",
        "file-operations",
    ),
    "No, don't use search_files for that because it misses half. Use grep instead.": (
        "Don't use search_files for that because it misses half. Use grep instead",
        "file-operations",
    ),
    "Don't send emails without confirming the recipient.": (
        "Don't send emails without confirming the recipient",
        "email",
    ),
    "Again: never push to main - open a pull request instead": (
        "Never push to main - open a pull request instead",
        "general",
    ),
    "When you write to Ann, don't use her first name, use Dr. Baker": (
        "When you write to Ann, don't use her first name, use Dr. Baker",
        "general",
    ),
    "Do not commit to main. Instead, open a branch.": ("Do not commit to main. Instead, open a branch", "code"),
    "please use metric units, not imperial": ("Use metric units, not imperial", "general"),
    "Use 24-hour times rather than 3 pm in meeting invites": (
        "Use 24-hour times rather than 3 pm in meeting invites",
        "scheduling",
    ),
    "Don’t call it a bug; say “issue” instead": ("Don’t call it a bug; say “issue” instead", "general"),
    "Avoid bullet points, write whole sentences.": ("Avoid bullet points, write whole sentences", "writing"),
    "Don't edit src/wire.py by hand, run make schemas": (
        "Don't edit src/wire.py by hand, run make schemas",
        "general",
    ),
    "Nein, schreib bitte kein Englisch, sondern Deutsch!": ("Schreib bitte kein Englisch, sondern Deutsch", "writing"),
    "Nimm die Datei plan.md statt notes.txt": ("Nimm die Datei plan.md statt notes.txt", "file-operations"),
    "Statt langer Texte lieber Stichpunkte": ("Statt langer Texte lieber Stichpunkte", "writing"),
}


@pytest.mark.parametrize("content", CLEAR)
def test_a_clear_correction_becomes_an_entry_that_passes_every_gate(content: str) -> None:
    feedback = [said(content)]
    turns = dict([turn(1, "Look it up"), turn(2, "Here it is", "assistant")])
    [operation] = anti_patterns(feedback, turns)
    result, field = CLEAR[content]
    assert (operation.op, operation.result, operation.category) == ("add", result, f"anti-patterns/{field}")
    assert operation.tags == ("anti-pattern",)
    [evidence] = operation.evidence
    assert (evidence.session, evidence.turn) == (FEEDBACK_SESSION, as_turn(feedback[0]).number)
    assert evidence.quote in content
    [checked] = gated([operation], turns, feedback).operations
    assert checked.gates.failed == ()
    assert applies_itself(checked, "lossless")


@pytest.mark.parametrize(
    "content",
    [
        "That is wrong.",
        "Too long",
        "Don't do that again",
        "Why don't you use grep instead?",
        "I don't use tabs, I use spaces instead",
        "We never push to main, use what you like",
        "Don't worry, use whatever you like",
        "Don't know what I'd do without them",
        "Don't give it salt, do not wait for signs",
        "It is not a bug but a feature",
        "The file is in src, not in lib",
        "Don't use her first name, use what? ",
        f"Don't use {'a very ' * 60}long name, use a short one",
        "",
    ],
)
def test_what_is_not_a_clear_correction_becomes_nothing(content: str) -> None:
    assert anti_patterns([said(content)], {}) == []


@pytest.mark.parametrize("kind", ["praise", "complaint", "tool_failed"])
def test_only_corrections_are_looked_at(kind: FeedbackKind) -> None:
    assert anti_patterns([said("Don't use tabs, use spaces", kind=kind)], {}) == []


def test_what_an_agent_reports_is_quoted_from_the_person_who_said_it() -> None:
    turns = dict(
        [
            turn(1, "Where does it say so?"),
            turn(2, "search_files found nothing", "assistant", "search_files"),
            turn(3, "Thanks. No, don't use search_files for content search, use grep! And book a table."),
        ]
    )
    feedback = [said("The user does not want search_files used for content search but grep", by="assistant")]
    [operation] = anti_patterns(feedback, turns)
    [evidence] = operation.evidence
    assert (evidence.session, evidence.turn) == ("main", 3)
    assert evidence.quote == "don't use search_files for content search, use grep"
    assert gated([operation], turns, feedback).operations[0].gates.failed == ()


def test_an_order_that_has_nothing_to_do_with_the_feedback_is_no_anti_pattern() -> None:
    turns = dict([turn(2, "A long answer", "assistant"), turn(3, "Don't call Bob, send an email instead")])
    assert anti_patterns([said("too long and too many headings")], turns) == []


def test_what_nobody_but_an_agent_said_is_refused_by_name() -> None:
    feedback = [said("Don't use tabs, use spaces", by="assistant")]
    [checked] = gated(anti_patterns(feedback, {}), {}, feedback).operations
    assert checked.state == "refused"
    assert [failed.gate for failed in checked.gates.failed] == ["not_a_person"]


def test_the_same_correction_twice_is_one_entry_with_two_quotes() -> None:
    feedback = [
        said("Don't use tabs, use spaces", 2),
        said("don't use tabs, use spaces", 4, after=1),
        said("Don't push to main, open a branch", 6, after=2),
    ]
    first, _ = anti_patterns(feedback, {})
    assert [evidence.turn for evidence in first.evidence] == [as_turn(one).number for one in feedback[:2]]


def test_any_text_is_looked_at_in_no_time_and_each_quote_stands_in_it() -> None:
    rng = random.Random(1)
    words = [
        "don't",
        "use",
        "a,",
        "instead",
        "of",
        "not",
        "when",
        "no,",
        "stop",
        "-",
        ".",
        "\n",
        "without",
        "statt",
        "Dr.",
    ]
    texts = [" ".join(rng.choice(words) for _ in range(1500)) for _ in range(20)]
    texts += [word * 2000 for word in ("don't a, ", "no, ", "use a, not b ", "when a ", "stop a - ", "don't a ")]
    began = time.process_time()
    for text in texts:
        for clear in clear_corrections(text):
            assert clear in text
    assert time.process_time() - began < 20  # a quarter of a second on a quiet machine
