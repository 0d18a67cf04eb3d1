"""The gates: each refuses an operation for one reason, in words for a person. None of them reads a language. Pure.

`check` fills in a whole proposal, `applies_itself` says which of its operations need no person.
docs/decisions/040-curation-copies.md gives the reason for each gate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Final, Literal, TypeAlias

from honeybadger_host.curation.notes import NOTE_ID
from honeybadger_host.curation.proposal import (
    TAKEN,
    Evidence,
    FailedGate,
    GateName,
    Gates,
    Operation,
    Proposal,
)
from honeybadger_host.curation.said import Turns, uncopied, words_of_fact
from honeybadger_host.memory.markdown.notes import SIGNED
from honeybadger_host.text.labels import folded
from honeybadger_host.text.turn import Turn

ApplyPolicy: TypeAlias = Literal["copied", "review"]

# Shares of a group's entries and notes. Without the second, daily passes would add up: 0.9 ** 30 leaves 4 %.
SHARE_OF_A_PASS: Final = 0.10
SHARE_OF_A_MONTH: Final = 0.20
ALWAYS_ALLOWED: Final = 3  # else nothing could be retired from a group of nine
STRENGTH: Final = "strength"  # member of a preference's metadata
THRESHOLDS: Final[Mapping[str, int]] = {"strong": 1, "mild": 2, "casual": 3}  # turns of one person (RB10)
_SHOWN: Final = 5  # texts in a reason


@dataclass(frozen=True)
class Known:
    """The memory of a group at the moment of the check.

    Args:
        texts: id of an entry or a note -> its text.
        digests: id -> SHA-256 of the present version; without ids that are gone.
        turns: the quoted turns, and the turns before them.
        is_person: whether a person said a turn.
        protected: id -> why only a person may change it.
        group_size: number of entries and notes of the group.
        changed_lately: number of them that curation retired in the last 30 days.
        is_forgotten: whether a text repeats something that was forgotten.
    """

    texts: Mapping[str, str]
    digests: Mapping[str, str]
    is_person: Callable[[Turn], bool]
    turns: Turns = field(default_factory=dict)
    protected: Mapping[str, str] = field(default_factory=dict)
    group_size: int = 1
    changed_lately: int = 0
    is_forgotten: Callable[[str], bool] = lambda text: False

    @cached_property
    def said(self) -> Collection[str]:
        """The texts of the group's entries and notes, folded."""
        return frozenset(folded(words_of_fact(content_of(text))) for text in self.texts.values())


@dataclass(frozen=True)
class _Case:
    """An operation, with its proposal and the memory it is checked against."""

    operation: Operation
    proposal: Proposal
    known: Known

    @cached_property
    def quoted(self) -> Sequence[tuple[Evidence, Turn]]:
        turns = self.known.turns
        return [(each, turns[each.place]) for each in self.operation.evidence if each.place in turns]


def check(proposal: Proposal, known: Known) -> Proposal:
    """Return a new proposal with the gates and states of its operations."""
    taken: set[str] = set()
    touched = known.changed_lately
    month = max(ALWAYS_ALLOWED, int(known.group_size * SHARE_OF_A_MONTH))
    allowed = min(touched + max(ALWAYS_ALLOWED, int(known.group_size * SHARE_OF_A_PASS)), month)
    checked: list[Operation] = []
    for operation in proposal.operations:
        case = _Case(operation, proposal, known)
        found = {name: gate(case) for name, gate in GATES.items()}
        ids = {*operation.sources} if operation.op in TAKEN else set()
        counted = len(ids) if operation.op == "retire" else 0
        if ids & taken:
            found["base_moved"] = f"{_some(sorted(ids & taken))} is changed by an operation before this one"
        if counted and touched + counted > allowed:
            found["too_much"] = (
                f"a pass may take out {SHARE_OF_A_PASS:.0%} of {known.group_size} entries and notes, "
                f"{SHARE_OF_A_MONTH:.0%} in 30 days, and {touched} were: it waits for a later pass"
            )
        failed = tuple(FailedGate(gate=name, what=what) for name, what in found.items() if what is not None)
        if not failed:
            taken |= ids
            touched += counted
        gates = Gates(passed=tuple(name for name, what in found.items() if what is None), failed=failed)
        state = "waiting" if not failed else "stale" if found["base_moved"] else "refused"
        checked.append(operation.model_copy(update={"gates": gates, "state": state}))
    return proposal.model_copy(update={"operations": tuple(checked)})


def applies_itself(operation: Operation, policy: ApplyPolicy) -> bool:
    """Return whether a checked operation is applied without a person."""
    is_checked = operation.state == "waiting" and bool(operation.gates.passed) and not operation.gates.failed
    return is_checked and not operation.waits and policy == "copied"


# ------------------------------------------------------------------------------------------------------ single gates


def _base_moved(case: _Case) -> str | None:
    """A source is gone, or was changed since it was read; a fact is kept even if the note that it changes is gone."""
    for source in case.operation.sources:
        is_linked = case.operation.op == "add" and source.startswith(NOTE_ID)
        if not is_linked and case.known.digests.get(source) != case.proposal.base.get(source, ""):
            return f"{source} is gone, or was changed since it was read"
    return None


def _not_copied(case: _Case) -> str | None:
    """A text is not a copy: its turn lacks a quote, or its quotes and sources lack a line of the result."""
    operation, known = case.operation, case.known
    for evidence in operation.evidence:
        turn = known.turns.get(evidence.place)
        if turn is None:
            return f"there is no turn {evidence.turn} in session {evidence.session}"
        if evidence.quote not in turn.content:
            return f"turn {evidence.session}#{evidence.turn} does not say {_short(evidence.quote)!r}"
    if operation.result is None or operation.by:
        return None
    if not operation.evidence and not operation.sources:
        return "it quotes nobody: a fact needs the turn it was said in"
    told = [each.quote for each in operation.evidence]
    sources = [content_of(known.texts[source]) for source in operation.sources if source in known.texts]
    around = [known.turns[before].content for before in map(_before, operation.evidence) if before in known.turns]
    made_up = uncopied(operation.result, told or sources, [*sources, *around])
    return f"what it rests on does not say {_some(made_up)}" if made_up else None


def _not_a_person(case: _Case) -> str | None:
    """A quoted turn was not said by a person. Recalled memory goes into contexts, never into a turn."""
    for evidence, turn in case.quoted:
        if not case.known.is_person(turn):
            return f"turn {evidence.session}#{evidence.turn} is not a person's: {turn.by} speaks there as {turn.role}"
    return None


def _protected(case: _Case) -> str | None:
    """A source may be changed only by a person."""
    for source in case.operation.sources if case.operation.op in TAKEN else ():
        if source in case.known.protected:
            return f"{source} stays as it is: {case.known.protected[source]}"
    return None


def _too_few(case: _Case) -> str | None:
    """A preference quotes too few turns of one person for its strength."""
    strength = str(case.operation.metadata.get(STRENGTH))
    if strength not in THRESHOLDS:
        return None
    is_person = case.known.is_person
    said = {(turn.sender, *each.place) for each, turn in case.quoted if is_person(turn) and each.quote in turn.content}
    found = max(Counter(sender for sender, *_ in said).values(), default=0)
    if found >= THRESHOLDS[strength]:
        return None
    return f"{found} of {THRESHOLDS[strength]} turns of one person: a {strength} preference needs so many"


def _forgotten(case: _Case) -> str | None:
    """A text repeats something that was forgotten on request."""
    operation = case.operation
    texts = (operation.result, operation.title, *operation.tags, *operation.aliases)
    if any(case.known.is_forgotten(text) for text in texts if text):
        return "it says what was forgotten: only a person may say it again"
    return None


def _no_change(case: _Case) -> str | None:
    """Memory already has the text, so that there is nothing to do now or later."""
    operation = case.operation
    is_there = operation.op == "add" and folded(words_of_fact(operation.result or "")) in case.known.said
    return "it says what is there already" if is_there else None


GATES: Final[Mapping[GateName, Callable[[_Case], str | None]]] = {
    "base_moved": _base_moved,
    "not_copied": _not_copied,
    "not_a_person": _not_a_person,
    "protected": _protected,
    "too_much": lambda case: None,  # counted over a whole proposal, by `check`
    "too_few": _too_few,
    "forgotten": _forgotten,
    "no_change": _no_change,
}


# ------------------------------------------------------------------------------------------------------- small parts


@lru_cache(maxsize=4096)
def content_of(text: str) -> str:
    """Return the text of an entry, or of a note without its signature."""
    first, end, body = text.partition("\n")
    return body.strip().removeprefix("- ").replace("\n  ", "\n") if end and SIGNED.fullmatch(first) else text


def _before(evidence: Evidence) -> tuple[str, int]:
    return evidence.session, evidence.turn - 1


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 80 else f"{text[:79]}…"


def _some(found: Sequence[str]) -> str:
    """Return the first few texts, shortened, and the number of the others."""
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(_short(each) for each in found[:_SHOWN]) + more
