"""Dream pass 2: infers preferences from what people have said since the last time (RB10).

Code counts how often, not a model: irritated once, gently twice, in passing three times, so many turns of one person
must be quoted. Quotes of an earlier pass that were too few count again when a model finds the same preference.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Final, Literal

import anyio.to_thread
from pydantic import Field, StringConstraints

from honeybadger_host.curation.answers import read_answer
from honeybadger_host.curation.asking import Answer, Question
from honeybadger_host.curation.dream import sections_text, turn_text
from honeybadger_host.curation.gates import Known
from honeybadger_host.curation.ordinary import word_patterns
from honeybadger_host.curation.passes import Made, PassDependencies, proposed, taken
from honeybadger_host.curation.proposal import Evidence, FailedGate, Gates, Operation, Part, Proposal
from honeybadger_host.curation.snapshot import Snapshot, newest_turns, turns_of
from honeybadger_host.domain import Turn
from honeybadger_host.memory.labels import folded, is_below
from honeybadger_host.memory.watermarks import inferred_file

CATEGORY: Final = "user-preferences/inferred"
TAG: Final = "inferred"
THRESHOLDS: Final[Mapping[str, int]] = {"strong": 1, "mild": 2, "casual": 3}
NO_MODEL: Final = "no preferences are inferred: that takes a model"
_STRENGTH: Final = "strength"
_NAMED: Final = "preferences-"
_MOST_TURNS: Final = 2000
"""Of a session; what was said before is not read for preferences."""
_MOST_KNOWN: Final = 100
_MOST: Final = 200
_LONGEST: Final = 1000
"""Characters of a preference."""
_LEAD: Final = re.compile(
    r"(?:(?:the )?user )?((?:[^\W\d_]+ )?)(?:prefers?|likes?|wants?|would like|bevorzugt|mag|möchte|will)(?: to)? ",
    re.IGNORECASE,
)
"""What a model puts before a preference; that it is one is what quotes are counted for."""
_SENSITIVE: Final = re.compile(rf"\b(?:{word_patterns('sensitive')})\b|[€$£]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Preferences:
    """Makes the second pass of a dream. Event loop."""

    uses: PassDependencies
    clock: Callable[[], datetime]

    async def infer(self, snapshot: Snapshot, is_trial: bool) -> tuple[Made | None, str]:
        """Return what was proposed, and what there is to say. Raises as `Dreams.dream`."""
        uses, group = self.uses, snapshot.group
        if uses.asker is None:
            return None, NO_MODEL
        turns = await anyio.to_thread.run_sync(self._new_turns, group)
        if not turns:
            return None, ""
        kept = await uses.asker.unfinished(group, _NAMED)
        name = kept or f"{_NAMED}{_milliseconds(turns[-1][1].at)}-{_milliseconds(self.clock())}"
        entries = snapshot.entries.values()
        known = [entry.content for entry in entries if is_below(entry.category, "user-preferences")]
        text = request_text(turns, known, [each.result or "" for each in seen_before(snapshot.earlier).values()])
        question = Question(group, name, "preferences", uses.directives.read("pref-dream"), text)
        propose = partial(self._propose, question, snapshot)
        return await uses.make(question, propose, until=_read_up_to(name), is_trial=is_trial), ""

    def _new_turns(self, group: str) -> list[tuple[str, Turn]]:
        """Return session and turn of what people have said since the last pass, oldest first, as many as one takes."""
        mark = self.uses.watermarks.of(inferred_file(group))
        since = None if mark is None else mark.at
        turns = newest_turns(self.uses, group, _MOST_TURNS)
        return oldest(
            (session, turn)
            for (session, _), turn in turns.items()
            if self.uses.is_person(turn) and (since is None or turn.at > since)
        )

    def _propose(self, question: Question, snapshot: Snapshot, answer: Answer | None) -> Proposal | None:
        """Return what an answer proposes, with its gates checked; None: rules cannot do it. Raises WrongAnswer."""
        if answer is None:
            return None
        uses, earlier = self.uses, snapshot.earlier
        operations = parse_preferences(answer.text, seen_before(earlier))
        quoted = [(each.session, each.turn) for one in operations for each in one.evidence]
        known = snapshot.known(turns_of(uses, snapshot.group, quoted), uses)
        settled = {folded(text) for text in snapshot.texts.values()} | {
            folded(each.result or "")
            for one in earlier
            for each in one.operations
            if one.kind == "preferences" and each.state in ("waiting", "struck")
        }

        def kept(checked: Iterable[Operation]) -> Iterator[Operation]:
            for each, said in zip(checked, operations, strict=True):
                if folded(said.result or "") not in settled:
                    yield counted(each.model_copy(update={"result": said.result}), known)

        return proposed(question, answer, map(bare, operations), known, kept, made_at=self.clock())


def _milliseconds(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def _read_up_to(name: str) -> datetime:
    """Return when the newest of the turns was said that a question is about: one of before a kill knows fewer."""
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=int(name.split("-")[1]))


class _Preference(Part):
    """A preference as a model answers it."""

    content: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=_LONGEST)]
    strength: Literal["strong", "mild", "casual"]
    requires_user_permission: bool = False
    evidence: Annotated[tuple[Evidence, ...], Field(strict=False, max_length=1000)] = ()


class _Answer(Part):
    preferences: Annotated[tuple[_Preference, ...], Field(strict=False, max_length=_MOST)]


def oldest(turns: Iterable[tuple[str, Turn]]) -> list[tuple[str, Turn]]:
    """Return the oldest of (session, turn), as many as a pass takes."""
    ordered = sorted(turns, key=lambda each: (each[1].at, each[0], each[1].number))
    return ordered[: taken(turn for _, turn in ordered)]


def request_text(turns: Sequence[tuple[str, Turn]], known: Iterable[str], seen: Iterable[str]) -> str:
    """Return what a model is asked: preferences that are known, those quoted too seldom so far, and people's turns."""
    return sections_text(
        {
            "Known Already": [f"- {text}\n" for text in [*known][-_MOST_KNOWN:]],
            "Seen Before, Not Often Enough (use the same words if it shows again)": [f"- {text}\n" for text in seen],
            "What People Said": [turn_text((session, turn.number), turn) for session, turn in turns],
        }
    )


def seen_before(earlier: Iterable[Proposal]) -> dict[str, Operation]:
    """Return the preferences that were refused because too few turns were quoted, by their text, folded."""
    found: dict[str, Operation] = {}
    for proposal in earlier:
        for each in proposal.operations if proposal.kind == "preferences" else ():
            if each.state == "refused" and each.result:
                found[folded(each.result)] = each
    return found


def parse_preferences(text: str, seen: Mapping[str, Operation]) -> list[Operation]:
    """Return the operations of a model's answer; what was quoted before counts again. Raises WrongAnswer."""
    return [_operation(said, seen) for said in read_answer(text, _Answer).preferences]


def _operation(said: _Preference, seen: Mapping[str, Operation]) -> Operation:
    evidence = [*said.evidence]
    if (before := seen.get(folded(said.content))) is not None:
        evidence += [each for each in before.evidence if each not in evidence]
    texts = (said.content, *(each.quote for each in evidence))
    asks = said.requires_user_permission or any(map(_SENSITIVE.search, texts))
    return Operation(
        n=1,
        op="add",
        result=said.content,
        category=CATEGORY,
        tags=(TAG,),
        metadata={"source": "inferred", _STRENGTH: said.strength}
        | ({"requires_user_permission": "true"} if asks else {}),
        evidence=tuple(evidence[:1000]),
        why=f"a {said.strength} preference",
    )


def bare(operation: Operation) -> Operation:
    """Return an operation as gates look at it: without `prefers`, which people do not say when they do."""
    result = operation.result or ""
    found = _LEAD.match(result)
    return operation.model_copy(update={"result": f"{found[1]}{result[found.end() :]}" if found else result})


def counted(operation: Operation, known: Known) -> Operation:
    """Return an operation that was checked: refused when too few turns of one person are quoted for its strength."""
    needed = THRESHOLDS[operation.metadata[_STRENGTH]]
    quoted = {
        (turn.sender, turn.number, each.session)
        for each in operation.evidence
        if (turn := known.turns.get((each.session, each.turn))) is not None
        if known.is_person(turn) and each.quote in turn.content
    }
    found = max(Counter(sender for sender, *_ in quoted).values(), default=0)
    if found >= needed:
        return operation
    what = f"{found} of {needed} turns of one person: a {operation.metadata[_STRENGTH]} preference needs so many"
    failed = (*operation.gates.failed, FailedGate(gate="unquoted", what=what))
    gates = Gates(passed=tuple(each for each in operation.gates.passed if each != "unquoted"), failed=failed)
    return operation.model_copy(update={"gates": gates, "state": "refused"})
