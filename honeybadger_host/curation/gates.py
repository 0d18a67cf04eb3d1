"""The gates: what refuses an operation, and why, in words for a person. Pure.

Each gate is a function from an operation and what is known to what is wrong, None when it passes; nothing here reads a
file or asks a model. `check` fills in a whole proposal, `applies_itself` says which of its operations need no person.
Why each is there: docs/decisions/029-gates.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
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


@dataclass(frozen=True, slots=True)
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
    turns: Mapping[tuple[str, int], Turn]
    is_person: Callable[[Turn], bool]
    protected: Mapping[str, str]
    group_size: int
    changed_lately: int = 0
    merge_depth: Mapping[str, int] = field(default_factory=dict)
    is_forgotten: Callable[[str], bool] = lambda text: False


def check(proposal: Proposal, known: Known) -> Proposal:
    """Return the proposal with gates and states of all operations that are neither applied nor struck."""
    taken: set[str] = set()
    touched = known.changed_lately
    allowed_now = max(ALWAYS_ALLOWED, int(known.group_size * SHARE_OF_A_PASS))
    allowed = min(known.changed_lately + allowed_now, max(ALWAYS_ALLOWED, int(known.group_size * SHARE_OF_A_MONTH)))
    there = frozenset(folded(content_of(text)) for name, text in known.texts.items() if name != SUMMARY)
    checked = []
    for operation in proposal.operations:
        if operation.state in ("applied", "struck"):
            if operation.state == "applied" and operation.op in TAKEN:
                taken.update(operation.sources)
            checked.append(operation)
            continue
        ids = set(operation.sources) if operation.op in TAKEN else set()
        counted = 0 if is_fold(operation, known) else len(ids)
        found = dict(_gates(operation, proposal, known, there))
        if ids & taken:
            found["base_moved"] = f"{_some(sorted(ids & taken))} is changed by an operation before this one"
        if found["too_much"] is None and counted and touched + counted > allowed:
            found["too_much"] = _too_much(known, allowed_now)
        is_stale = found["base_moved"] and proposal.base.keys() >= set(operation.sources)  # else an id is made up
        failed = tuple(FailedGate(gate=gate, what=what) for gate, what in found.items() if what is not None)
        if not failed:
            taken |= ids
            touched += counted
        checked.append(
            operation.model_copy(
                update={
                    "gates": Gates(passed=tuple(gate for gate, what in found.items() if what is None), failed=failed),
                    "state": "waiting" if not failed else "stale" if is_stale else "refused",
                }
            )
        )
    return proposal.model_copy(update={"operations": tuple(checked)})


def applies_itself(operation: Operation, policy: ApplyPolicy) -> bool:
    """Return whether an operation that was checked is applied without a person."""
    if operation.state != "waiting" or operation.gates.failed or not operation.gates.passed or policy == "review":
        return False
    if policy == "gated":
        return True
    return not operation.lost and operation.op != "retire"


def is_fold(operation: Operation, known: Known) -> bool:
    """Return whether an operation makes one of several texts that are the same, byte for byte."""
    if operation.op != "merge" or any(source not in known.texts for source in operation.sources):
        return False
    return {content_of(known.texts[source]) for source in operation.sources} == {operation.result}


def _gates(
    operation: Operation, proposal: Proposal, known: Known, there: frozenset[str]
) -> Iterator[tuple[GateName, str | None]]:
    """Yield every gate with what is wrong, None where it passes."""
    yield "base_moved", base_moved(operation, proposal.base, known)
    yield "unquoted", unquoted(operation, known)
    yield "not_a_person", not_a_person(operation, known)
    yield "specifics_lost", specifics_lost(operation, known)
    yield "specifics_invented", specifics_invented(operation, proposal, known)
    yield "meaning_flipped", meaning_flipped(operation, proposal, known)
    yield "protected", protected(operation, known)
    yield "not_stale", not_stale(operation, known)
    yield "too_much", too_deep(operation, known)
    yield "forgotten", forgotten(operation, known)
    yield "no_change", no_change(operation, there)


# -------------------------------------------------------------------------------------------- each gate by itself


def base_moved(operation: Operation, base: Mapping[str, str], known: Known) -> str | None:
    """A source changed, or went away, since it was read."""
    ids = [*operation.sources, *([SUMMARY] if operation.op == "write_summary" and SUMMARY in base else [])]
    for source in ids:
        if source not in base:
            return f"{source} was not read when this was proposed: it is not in `base`"
        if source not in known.digests:
            return f"{source} is not there any more"
        if known.digests[source] != base[source]:
            return f"{source} was changed since it was read"
    return None


def unquoted(operation: Operation, known: Known) -> str | None:
    """Evidence does not stand in its turn byte for byte, or does not say what it is quoted for."""
    for evidence in operation.evidence:
        turn = known.turns.get((evidence.session, evidence.turn))
        if turn is None:
            return f"there is no turn {evidence.turn} in session {evidence.session}"
        if evidence.quote not in turn.content:
            return f"turn {evidence.session}#{evidence.turn} does not say {_short(evidence.quote)!r}"
    if operation.op == "add" and not operation.evidence and not operation.sources:
        return "it quotes nobody: a fact needs the turn it was said in"
    if operation.op not in (*_WRITES, "retire") and not is_fold(operation, known):
        if not content_words(operation.result or ""):
            return "it says nothing that could be quoted"
        made_up = unsaid(operation.result or "", _told(operation, known) + _taken_up(operation, known))
        if made_up:
            return f"what it rests on does not say {_some(made_up)}"
    return None


def not_a_person(operation: Operation, known: Known) -> str | None:
    """What is quoted was not said by a person. What memory recalls goes into contexts, never into a turn."""
    for evidence, turn in _quoted(operation, known):
        if not known.is_person(turn):
            return f"turn {evidence.session}#{evidence.turn} is not a person's: {turn.by} speaks there as {turn.role}"
    return None


def specifics_lost(operation: Operation, known: Known) -> str | None:
    """Something of the sources is neither in the result nor listed in `lost`."""
    if operation.op not in RETIRED:
        return None
    result = " \n".join((operation.result or "", operation.title or "", *operation.tags))
    listed = "\n".join(operation.lost)
    sources = _taken_up(operation, known)
    if operation.op == "supersede":
        quoted = [sentence for sentence, _ in _sentences(operation, known)]
        clauses = [clause for source in sources for clause in clauses_of(source)]
        sources = [clause for clause in clauses if not any(is_about(clause, each) for each in quoted)]
    missing = lost(sources, f"{result}\n{listed}")
    if missing:
        return f"{_some(missing)} is lost: keep it in `result`, or list it in `lost`"
    if operation.op == "retire":
        return None if operation.lost else "nothing takes its place: list in `lost` what it says"
    gone = [word for source in sources for word in words_lost(source, f"{result}\n{listed}")]
    if gone:
        return f"{_some(gone)} is not said any more: keep it in `result`, or list it in `lost`"
    return None


def specifics_invented(operation: Operation, proposal: Proposal, known: Known) -> str | None:
    """The result has a specific that nothing it rests on has."""
    if operation.result is None:
        return None
    result = " \n".join((operation.result, operation.title or "", *operation.tags))
    made_up = invented(result, _rests_on(operation, proposal, known))
    return f"{_some(made_up)} is in none of its sources" if made_up else None


def meaning_flipped(operation: Operation, proposal: Proposal, known: Known) -> str | None:
    """The result denies, or turns round, what its sources say."""
    if operation.result is None:
        return None
    if operation.op in _WRITES:
        found = contradicted([turn.content for turn in _consolidated(proposal, known)], operation.result)
        return f"it says the opposite of a turn: {_short(found[0])!r}" if found else None
    if operation.op in ("merge", "promote"):
        found = flips(_taken_up(operation, known), operation.result)
    else:
        quoted = [sentence for sentence, _ in _sentences(operation, known)]
        if quoted and all(map(is_unsure, quoted)) and not is_unsure(operation.result):
            return "what it quotes was asked or supposed, not said"
        said_there = quoted or _told(operation, known)
        found = flips([*said_there, *_taken_up(operation, known)], operation.result, is_whole=False)
        if operation.op == "supersede":  # what is no longer so may be denied by what replaces it
            found = found and flips(said_there, operation.result, is_whole=False)
    return "; ".join(found[:_SHOWN]) or None


def protected(operation: Operation, known: Known) -> str | None:
    """It touches what only a person may."""
    if operation.op in TAKEN:
        for source in operation.sources:
            if source in known.protected:
                return f"{source} stays as it is: {known.protected[source]}"
    return None


def not_stale(operation: Operation, known: Known) -> str | None:
    """Nobody said that what it replaces is no longer so."""
    if operation.op != "supersede":
        return None
    if not operation.evidence:
        return "it quotes nobody who said that it has changed: `annotate` keeps both"
    said_by = list(_sentences(operation, known))
    for source in operation.sources:
        whys = [why_not_stale(content_of(known.texts.get(source, "")), [each], sender) for each, sender in said_by]
        if None not in whys:
            return f"{source}: {next(filter(None, whys), 'what it quotes is not there')}"
    return None


def too_deep(operation: Operation, known: Known) -> str | None:
    """A merge of merges of merges: nobody sees any more what was said."""
    depth = 1 + max((known.merge_depth.get(source, 0) for source in operation.sources), default=0)
    if operation.op == "merge" and depth > MAX_MERGE_DEPTH and not is_fold(operation, known):
        return f"its sources were merged {depth - 1} times already, {MAX_MERGE_DEPTH} is the most"
    return None


def _too_much(known: Known, allowed_now: int) -> str:
    return (
        f"a pass may change {allowed_now} of {known.group_size} entries and notes, {SHARE_OF_A_MONTH:.0%} in 30 days, "
        f"and {known.changed_lately} were changed in these: it waits for a later pass"
    )


def forgotten(operation: Operation, known: Known) -> str | None:
    """It brings back what somebody had forgotten."""
    texts = (operation.result, operation.title, *operation.tags)
    if any(known.is_forgotten(text) for text in texts if text):
        return "it says what was forgotten: only a person may say it again"
    return None


def no_change(operation: Operation, there: frozenset[str]) -> str | None:
    """It says what is there already: nothing is to be done, and nothing to be tried again.

    Args:
        there: texts of the group's entries and notes, folded.
    """
    if operation.op in ("add", "supersede", "annotate") and folded(visible(operation.result or "")) in there:
        return "it says what is there already"
    return None


# ----------------------------------------------------------------------------------------- what operations rest on


def _rests_on(operation: Operation, proposal: Proposal, known: Known) -> list[str]:
    """Return the texts that an operation may take its specifics from."""
    if operation.op in _WRITES:
        turns = [as_told(turn) for turn in _consolidated(proposal, known)]
        span = f"session {proposal.session}, turns {proposal.first_turn}-{proposal.last_turn}, {len(turns)} turns"
        return [*turns, span, *([known.texts.get(SUMMARY, "")] if operation.op == "write_summary" else [])]
    return _taken_up(operation, known) + _told(operation, known)


def _taken_up(operation: Operation, known: Known) -> list[str]:
    """Return the texts of its sources."""
    return [content_of(known.texts[source]) for source in operation.sources if source in known.texts]


def _quoted(operation: Operation, known: Known) -> Iterator[tuple[Evidence, Turn]]:
    """Yield the evidence of an operation with the turn that it quotes, where there is one."""
    for evidence in operation.evidence:
        turn = known.turns.get((evidence.session, evidence.turn))
        if turn is not None:
            yield evidence, turn


def _told(operation: Operation, known: Known) -> list[str]:
    """Return the turns that are quoted, each once."""
    return list(dict.fromkeys(as_told(turn) for _, turn in _quoted(operation, known)))


def _sentences(operation: Operation, known: Known) -> Iterator[tuple[str, str]]:
    """Yield the sentences that are quoted, whole, and who said each."""
    for evidence, turn in _quoted(operation, known):
        for sentence in sentences_with(evidence.quote, turn.content):
            yield sentence, turn.sender


def _consolidated(proposal: Proposal, known: Known) -> list[Turn]:
    """Return the turns that a history or a summary is about."""
    if proposal.session is None or proposal.first_turn is None or proposal.last_turn is None:
        return []
    numbers = range(proposal.first_turn, proposal.last_turn + 1)
    return [known.turns[proposal.session, n] for n in numbers if (proposal.session, n) in known.turns]


@lru_cache(maxsize=4096)
def content_of(text: str) -> str:
    """Return the text of an entry, or of a note without the line that says who wrote it and when."""
    first, end, body = text.partition("\n")
    return body.strip().removeprefix("- ").replace("\n  ", "\n") if end and SIGNED.fullmatch(first) else text


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 80 else f"{text[:79]}…"


def _some(found: list[str]) -> str:
    """Return the first of several as text, and how many more there are."""
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(_short(each) for each in found[:_SHOWN]) + more
