"""The gates: what refuses an operation, and why, in words for a person. Pure.

Each gate is a function from a case, an operation with all it rests on, to what is wrong, None when it passes; nothing
here reads a file or asks a model. `check` fills in a whole proposal, `applies_itself` says which of its operations need
no person. Why each is there: docs/decisions/029-gates.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Final, Literal, TypeAlias

from honeybadger_host.curation.evidence import (
    as_told,
    is_about,
    is_unsure,
    sentences_with,
    unsaid,
    why_not_stale,
    words_lost,
)
from honeybadger_host.curation.meaning import clauses_of, content_words, contradicted, flips
from honeybadger_host.curation.proposal import (
    RETIRED,
    TAKEN,
    Evidence,
    FailedGate,
    GateName,
    Gates,
    Operation,
    Proposal,
)
from honeybadger_host.curation.specifics import invented, lost, visible
from honeybadger_host.domain import SUMMARY, Turn
from honeybadger_host.memory.labels import folded
from honeybadger_host.memory.notes import SIGNED

ApplyPolicy: TypeAlias = Literal["lossless", "review", "gated"]

SHARE_OF_A_PASS: Final = 0.10
SHARE_OF_A_MONTH: Final = 0.20
"""Of a group's entries and notes; what each pass may change would add up otherwise: 0.9 ** 30 leaves 4 %."""
ALWAYS_ALLOWED: Final = 3
MAX_MERGE_DEPTH: Final = 2
_SHOWN: Final = 5
_WRITES: Final = ("write_history", "write_summary")


@dataclass(frozen=True)
class Known:
    """What gates look at, as it is at the moment of the check.

    Args:
        texts: id of an entry or a note -> its text; `summary.md` -> the part of the session that is consolidated.
        digests: id or file -> SHA-256 of what is there; an id that is gone is not in it.
        turns: (session, number) -> turn; of evidence and, for a history or a summary, all that are consolidated.
        is_person: whether a turn is a person's.
        protected: id -> why nothing may touch it: a person wrote it, it is pinned or was said again five times.
        group_size: entries and notes of the group.
        changed_lately: how many of them curation changed in the last 30 days.
        merge_depth: id -> how many merges it is made of, one upon the other.
        is_forgotten: whether a text says what was forgotten.
    """

    texts: Mapping[str, str]
    digests: Mapping[str, str]
    is_person: Callable[[Turn], bool]
    turns: Mapping[tuple[str, int], Turn] = field(default_factory=dict)
    protected: Mapping[str, str] = field(default_factory=dict)
    group_size: int = 1
    changed_lately: int = 0
    merge_depth: Mapping[str, int] = field(default_factory=dict)
    is_forgotten: Callable[[str], bool] = lambda text: False

    @cached_property
    def said(self) -> frozenset[str]:
        """The texts of the group's entries and notes, folded."""
        return frozenset(folded(content_of(text)) for name, text in self.texts.items() if name != SUMMARY)


@dataclass(frozen=True)
class _Case:
    """An operation, and what it rests on."""

    operation: Operation
    proposal: Proposal
    known: Known

    @cached_property
    def result(self) -> str:
        return " \n".join((self.operation.result or "", self.operation.title or "", *self.operation.tags))

    @cached_property
    def sources(self) -> Sequence[str]:
        texts = self.known.texts
        return [content_of(texts[source]) for source in self.operation.sources if source in texts]

    @cached_property
    def quoted(self) -> Sequence[tuple[Evidence, Turn]]:
        turns = self.known.turns
        return [(each, turns[each.session, each.turn]) for each in self.operation.evidence if _place(each) in turns]

    @cached_property
    def told(self) -> Sequence[str]:
        """The turns that are quoted, each once."""
        return list(dict.fromkeys(as_told(turn) for _, turn in self.quoted))

    @cached_property
    def sentences(self) -> Mapping[str, str]:
        """The sentences that are quoted, whole, with who said each."""
        return {
            sentence: turn.sender for each, turn in self.quoted for sentence in sentences_with(each.quote, turn.content)
        }

    @cached_property
    def consolidated(self) -> Sequence[Turn]:
        """The turns that a history or a summary is about."""
        asked = self.proposal
        places = ((asked.session or "", n) for n in range(asked.first_turn or 1, 1 + (asked.last_turn or 0)))
        return [self.known.turns[place] for place in places if place in self.known.turns]

    @cached_property
    def is_fold(self) -> bool:
        """Whether it makes one of several texts that are the same, byte for byte."""
        is_whole = len(self.sources) == len(self.operation.sources)
        return self.operation.op == "merge" and is_whole and {*self.sources} == {self.operation.result}


def check(proposal: Proposal, known: Known) -> Proposal:
    """Return the proposal with gates and states of all operations that are neither applied nor struck."""
    taken: set[str] = set()
    touched = known.changed_lately
    month = max(ALWAYS_ALLOWED, int(known.group_size * SHARE_OF_A_MONTH))
    allowed = min(touched + max(ALWAYS_ALLOWED, int(known.group_size * SHARE_OF_A_PASS)), month)
    checked = []
    for operation in proposal.operations:
        ids = {*operation.sources} if operation.op in TAKEN else set()
        if operation.state in ("applied", "struck"):
            taken |= ids if operation.state == "applied" else set()
            checked.append(operation)
            continue
        case = _Case(operation, proposal, known)
        found = {name: gate(case) for name, gate in GATES.items()}
        counted = 0 if case.is_fold else len(ids)
        if ids & taken:
            found["base_moved"] = f"{_some(sorted(ids & taken))} is changed by an operation before this one"
        if found["too_much"] is None and counted and touched + counted > allowed:
            found["too_much"] = (
                f"a pass may change {SHARE_OF_A_PASS:.0%} of {known.group_size} entries and notes, "
                f"{SHARE_OF_A_MONTH:.0%} in 30 days, and {touched} were changed: it waits for a later pass"
            )
        failed = tuple(FailedGate(gate=name, what=what) for name, what in found.items() if what is not None)
        if not failed:
            taken |= ids
            touched += counted
        is_stale = found["base_moved"] and proposal.base.keys() >= {*operation.sources}  # else an id is made up
        gates = Gates(passed=tuple(name for name, what in found.items() if what is None), failed=failed)
        state = "waiting" if not failed else "stale" if is_stale else "refused"
        checked.append(operation.model_copy(update={"gates": gates, "state": state}))
    return proposal.model_copy(update={"operations": tuple(checked)})


def applies_itself(operation: Operation, policy: ApplyPolicy) -> bool:
    """Return whether an operation that was checked is applied without a person."""
    if operation.state != "waiting" or operation.gates.failed or not operation.gates.passed or policy == "review":
        return False
    return policy == "gated" or (not operation.lost and operation.op != "retire")


# -------------------------------------------------------------------------------------------- each gate by itself


def _base_moved(case: _Case) -> str | None:
    """A source changed, or went away, since it was read."""
    for source in case.operation.sources:
        if source not in case.proposal.base:
            return f"{source} was not read when this was proposed: it is not in `base`"
        if source not in case.known.digests:
            return f"{source} is not there any more"
        if case.known.digests[source] != case.proposal.base[source]:
            return f"{source} was changed since it was read"
    return None


def _unquoted(case: _Case) -> str | None:
    """Evidence does not stand in its turn byte for byte, or does not say what it is quoted for."""
    operation = case.operation
    for evidence in operation.evidence:
        turn = case.known.turns.get(_place(evidence))
        if turn is None:
            return f"there is no turn {evidence.turn} in session {evidence.session}"
        if evidence.quote not in turn.content:
            return f"turn {evidence.session}#{evidence.turn} does not say {_short(evidence.quote)!r}"
    if operation.op == "add" and not operation.evidence and not operation.sources:
        return "it quotes nobody: a fact needs the turn it was said in"
    if operation.op in (*_WRITES, "retire") or case.is_fold:
        return None
    if not content_words(operation.result or ""):
        return "it says nothing that could be quoted"
    made_up = unsaid(operation.result or "", [*case.told, *case.sources])
    return f"what it rests on does not say {_some(made_up)}" if made_up else None


def _not_a_person(case: _Case) -> str | None:
    """What is quoted was not said by a person. What memory recalls goes into contexts, never into a turn."""
    for evidence, turn in case.quoted:
        if not case.known.is_person(turn):
            return f"turn {evidence.session}#{evidence.turn} is not a person's: {turn.by} speaks there as {turn.role}"
    return None


def _specifics_lost(case: _Case) -> str | None:
    """Something of the sources is neither in the result nor listed in `lost`."""
    operation, sources = case.operation, case.sources
    if operation.op not in RETIRED:
        return None
    if operation.op == "supersede":  # what the person spoke of has changed; the rest of the source has not
        clauses = [clause for source in sources for clause in clauses_of(source)]
        sources = [clause for clause in clauses if not any(is_about(clause, each) for each in case.sentences)]
    kept = "\n".join((case.result, *operation.lost))
    if missing := lost(sources, kept):
        return f"{_some(missing)} is lost: keep it in `result`, or list it in `lost`"
    if operation.op == "retire":
        return None if operation.lost else "nothing takes its place: list in `lost` what it says"
    gone = [word for source in sources for word in words_lost(source, kept)]
    return f"{_some(gone)} is not said any more: keep it in `result`, or list it in `lost`" if gone else None


def _specifics_invented(case: _Case) -> str | None:
    """The result has a specific that nothing it rests on has."""
    if case.operation.result is None:
        return None
    rests_on = [*case.sources, *case.told]
    if case.operation.op in _WRITES:
        asked, turns = case.proposal, [as_told(turn) for turn in case.consolidated]
        span = f"session {asked.session}, turns {asked.first_turn}-{asked.last_turn}, {len(turns)} turns"
        rests_on = [
            *turns,
            span,
            *([case.known.texts.get(SUMMARY, "")] if case.operation.op == "write_summary" else []),
        ]
    made_up = invented(case.result, rests_on)
    return f"{_some(made_up)} is in none of its sources" if made_up else None


def _meaning_flipped(case: _Case) -> str | None:
    """The result denies, or turns round, what its sources say."""
    op, result = case.operation.op, case.operation.result
    if result is None:
        return None
    if op in _WRITES:
        opposite = contradicted([turn.content for turn in case.consolidated], result)
        return f"it says the opposite of a turn: {_short(opposite[0])!r}" if opposite else None
    if op in ("merge", "promote"):
        return "; ".join(flips(case.sources, result)[:_SHOWN]) or None
    if case.sentences and all(map(is_unsure, case.sentences)) and not is_unsure(result):
        return "what it quotes was asked or supposed, not said"
    said_there = [*case.sentences] or case.told
    found = flips([*said_there, *case.sources], result, is_whole=False)
    if op == "supersede":  # what is no longer so may be denied by what replaces it
        found = found and flips(said_there, result, is_whole=False)
    return "; ".join(found[:_SHOWN]) or None


def _protected(case: _Case) -> str | None:
    """It touches what only a person may."""
    for source in case.operation.sources if case.operation.op in TAKEN else ():
        if source in case.known.protected:
            return f"{source} stays as it is: {case.known.protected[source]}"
    return None


def _not_stale(case: _Case) -> str | None:
    """Nobody said that what it replaces is no longer so."""
    if case.operation.op != "supersede":
        return None
    if not case.operation.evidence:
        return "it quotes nobody who said that it has changed: `annotate` keeps both"
    for source in case.operation.sources:
        text = content_of(case.known.texts.get(source, ""))
        whys = [why_not_stale(text, sentence, sender) for sentence, sender in case.sentences.items()]
        if None not in whys:
            return f"{source}: {next(filter(None, whys), 'what it quotes is not there')}"
    return None


def _too_much(case: _Case) -> str | None:
    """A merge of merges of merges: nobody sees any more what was said. How much a pass may change, `check` counts."""
    depth = max((case.known.merge_depth.get(source, 0) for source in case.operation.sources), default=0)
    if case.operation.op == "merge" and depth >= MAX_MERGE_DEPTH and not case.is_fold:
        return f"its sources were merged {depth} times already, {MAX_MERGE_DEPTH} is the most"
    return None


def _forgotten(case: _Case) -> str | None:
    """It brings back what somebody had forgotten."""
    texts = (case.operation.result, case.operation.title, *case.operation.tags)
    if any(case.known.is_forgotten(text) for text in texts if text):
        return "it says what was forgotten: only a person may say it again"
    return None


def _no_change(case: _Case) -> str | None:
    """It says what is there already: nothing is to be done, and nothing to be tried again."""
    is_new = case.operation.op not in ("add", "supersede", "annotate")
    is_new = is_new or folded(visible(case.operation.result or "")) not in case.known.said
    return None if is_new else "it says what is there already"


GATES: Final[Mapping[GateName, Callable[[_Case], str | None]]] = {
    "base_moved": _base_moved,
    "unquoted": _unquoted,
    "not_a_person": _not_a_person,
    "specifics_lost": _specifics_lost,
    "specifics_invented": _specifics_invented,
    "meaning_flipped": _meaning_flipped,
    "protected": _protected,
    "not_stale": _not_stale,
    "too_much": _too_much,
    "forgotten": _forgotten,
    "no_change": _no_change,
}


# ------------------------------------------------------------------------------------------------------- small parts


@lru_cache(maxsize=4096)
def content_of(text: str) -> str:
    """Return the text of an entry, or of a note without the line that says who wrote it and when."""
    first, end, body = text.partition("\n")
    return body.strip().removeprefix("- ").replace("\n  ", "\n") if end and SIGNED.fullmatch(first) else text


def _place(evidence: Evidence) -> tuple[str, int]:
    return evidence.session, evidence.turn


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 80 else f"{text[:79]}…"


def _some(found: Sequence[str]) -> str:
    """Return the first of several as text, and how many more there are."""
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(_short(each) for each in found[:_SHOWN]) + more
