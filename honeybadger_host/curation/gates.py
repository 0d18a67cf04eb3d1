"""The gates: each refuses an operation for one reason, in words for a person. None depends on a language. Pure.

`check` runs all gates on a proposal; `applies_itself` decides which of its operations need no person.
docs/decisions/040-curation-copies.md gives the reason for each gate.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from honeybadger_agent.wording import shortened
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
from honeybadger_host.settings import CurationMode
from honeybadger_host.text.labels import folded
from honeybadger_host.text.turn import Turn

SHARE_OF_A_PASS = 0.10  # of a group's entries and notes that a pass retires at most
ALWAYS_ALLOWED = 3  # retirements that are always allowed: 10 % of a group of nine is none
STRENGTH = "strength"  # member of a preference's metadata
THRESHOLDS: Mapping[str, int] = {"strong": 1, "mild": 2, "casual": 3}  # turns of one person (RB10)


@dataclass(frozen=True)
class Known:
    """The memory of a group at the moment of the check.

    Args:
        texts: id of an entry or a note -> its text.
        turns: the quoted turns, and the turns before them.
        is_person: whether a person said a turn.
        protected: id -> why only a person may change it.
        group_size: number of entries and notes of the group.
        digests: id -> SHA-256 of the entry's file.
        is_forgotten: whether a text repeats something that was forgotten.
    """

    texts: Mapping[str, str]
    is_person: Callable[[Turn], bool]
    turns: Turns = field(default_factory=dict)
    protected: Mapping[str, str] = field(default_factory=dict)
    group_size: int = 1
    digests: Mapping[str, str] = field(default_factory=dict)
    is_forgotten: Callable[[str], bool] = lambda text: False

    @cached_property
    def said(self) -> Collection[str]:
        """The texts of the group's entries and notes, folded."""
        return frozenset(folded(words_of_fact(text)) for text in self.texts.values())


def check(proposal: Proposal, known: Known) -> Proposal:
    """Return a new proposal with the gates and states of its operations."""
    touched, allowed = 0, max(ALWAYS_ALLOWED, int(known.group_size * SHARE_OF_A_PASS))
    checked: list[Operation] = []
    for operation in proposal.operations:
        found = {name: gate(operation, known) for name, gate in GATES.items()}
        counted = len(operation.sources) if operation.op == "retire" else 0
        if counted and touched + counted > allowed:
            found["too_much"] = (
                f"a pass may retire {allowed} of {known.group_size} entries and notes: it waits for a later pass"
            )
        failed = tuple(FailedGate(gate=name, what=what) for name, what in found.items() if what is not None)
        if not failed:
            touched += counted
        gates = Gates(passed=tuple(name for name, what in found.items() if what is None), failed=failed)
        checked.append(operation.model_copy(update={"gates": gates, "state": "refused" if failed else "waiting"}))
    return proposal.model_copy(update={"operations": tuple(checked)})


def applies_itself(operation: Operation, policy: CurationMode) -> bool:
    """Return whether a checked operation is applied without a person."""
    return operation.state == "waiting" and bool(operation.gates.passed) and not operation.waits and policy != "review"


# ------------------------------------------------------------------------------------------------------ single gates


def _not_copied(operation: Operation, known: Known) -> str | None:
    """A text is not a copy: its turn lacks a quote, or its quotes and sources lack a line of the result."""
    for evidence in operation.evidence:
        turn = known.turns.get(evidence.place)
        if turn is None or evidence.quote not in turn.content:
            return f"turn {evidence.session}#{evidence.turn} does not say {shortened(evidence.quote, 80)!r}"
    if operation.result is None or operation.by:
        return None
    if not operation.evidence and not operation.sources:
        return "it quotes nobody: a fact needs the turn it was said in"
    told = [each.quote for each in operation.evidence]
    sources = [known.texts[source] for source in operation.sources if source in known.texts]
    before = [(each.session, each.turn - 1) for each in operation.evidence]
    around = [known.turns[place].content for place in before if place in known.turns]
    made_up = uncopied(operation.result, told or sources, [*sources, *around])
    return f"what it rests on does not say {shortened(made_up[0], 80)!r}" if made_up else None


def _not_a_person(operation: Operation, known: Known) -> str | None:
    """A quoted turn was not said by a person. Recalled memory goes into contexts, never into a turn."""
    for evidence, turn in _quoted(operation, known):
        if not known.is_person(turn):
            return f"turn {evidence.session}#{evidence.turn} is not a person's: {turn.by} speaks there as {turn.role}"
    return None


def _protected(operation: Operation, known: Known) -> str | None:
    """A source may be changed only by a person."""
    for source in operation.sources if operation.op in TAKEN else ():
        if source in known.protected:
            return f"{source} stays as it is: {known.protected[source]}"
    return None


def _too_few(operation: Operation, known: Known) -> str | None:
    """A preference quotes too few turns of one person for its strength; other gates refuse turns that do not count."""
    strength = str(operation.metadata.get(STRENGTH))
    if strength not in THRESHOLDS:
        return None
    said = {(turn.sender, each.place) for each, turn in _quoted(operation, known)}
    found = max(Counter(sender for sender, _ in said).values(), default=0)
    if found >= THRESHOLDS[strength]:
        return None
    return f"a {strength} preference needs {THRESHOLDS[strength]} turns of one person; this one has {found}"


def _forgotten(operation: Operation, known: Known) -> str | None:
    """A text repeats something that was forgotten on request."""
    texts = (operation.result, operation.title, *operation.tags, *operation.aliases)
    if any(known.is_forgotten(text) for text in texts if text):
        return "it says what was forgotten: only a person may say it again"
    return None


def _no_change(operation: Operation, known: Known) -> str | None:
    """Memory already has the text, so there is nothing to do now or later."""
    is_there = operation.op == "add" and folded(words_of_fact(operation.result or "")) in known.said
    return "memory already has this text" if is_there else None


GATES: Mapping[GateName, Callable[[Operation, Known], str | None]] = {
    "not_copied": _not_copied,
    "not_a_person": _not_a_person,
    "protected": _protected,
    "too_much": lambda operation, known: None,  # counted over a whole proposal, by `check`
    "too_few": _too_few,
    "forgotten": _forgotten,
    "no_change": _no_change,
}


# ------------------------------------------------------------------------------------------------------- small parts


def _quoted(operation: Operation, known: Known) -> Sequence[tuple[Evidence, Turn]]:
    """Return the quotes of an operation with their turns, without turns that are not known."""
    return [(each, known.turns[each.place]) for each in operation.evidence if each.place in known.turns]
