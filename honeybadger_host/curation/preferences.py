"""Dream pass 2: infers preferences from people's turns since the last pass (RB10).

A model names the turns that show a preference; its text is their sentences. Code counts the turns of one person: a
strong preference needs one, a mild one two, a casual one three. Turns of an earlier pass that were too few are shown
again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.resources import files
from typing import Annotated, Final, Literal

import anyio.to_thread
from pydantic import Field

from honeybadger_host.curation.answers import read_answer
from honeybadger_host.curation.asking import Answer, Question
from honeybadger_host.curation.dream import MAX_EACH, numbered, sections_text
from honeybadger_host.curation.gates import Known
from honeybadger_host.curation.passes import MAX_TOKENS, MAX_TURNS, Made, PassDependencies, proposed, taken
from honeybadger_host.curation.proposal import FailedGate, Gates, Operation, Proposal
from honeybadger_host.curation.proposal_files import settled
from honeybadger_host.curation.said import Refs, Turns, fact, newest_lines, picked, places_in
from honeybadger_host.curation.snapshot import Snapshot, newest_turns, turns_of
from honeybadger_host.memory.edited import Edited
from honeybadger_host.memory.watermarks import inferred_file
from honeybadger_host.text.labels import is_below
from honeybadger_host.text.turn import Turn

CATEGORY: Final = "user-preferences/inferred"
TAG: Final = "inferred"
THRESHOLDS: Final[Mapping[str, int]] = {"strong": 1, "mild": 2, "casual": 3}
# Words about security, credentials and money; it is better to ask a person too often than too rarely.
_SENSITIVE: Final = re.compile(
    rf"\b(?:{'|'.join(files(__package__).joinpath('sensitive_words.txt').read_text('utf-8').split())})\b|[€$£¥]"
    "|密码|密碼|安全|权限|钱|付款|支付|银行|账户|发票|价格|购买|パスワード|秘密|権限|お金|支払|銀行|口座|請求|価格|購入",
    re.IGNORECASE,
)
NO_MODEL: Final = "no preferences are inferred: that takes a model"
_STRENGTH: Final = "strength"
_NAMED: Final = "preferences-"


@dataclass(frozen=True, slots=True)
class Preferences:
    """Makes the second pass of a dream. Event loop."""

    uses: PassDependencies
    clock: Callable[[], datetime]

    async def infer(self, snapshot: Snapshot, is_trial: bool) -> tuple[Made | None, str]:
        """Return the result of the pass and a remark for the reader. Raises as `Dreams.dream`."""
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
        seen = turns_of(uses, group, seen_before(snapshot.earlier))
        text = request_text({(session, turn.number): turn for session, turn in turns}, known, seen)
        question = Question(group, name, "preferences", uses.directives.read("pref-dream"), text)
        propose = partial(self._propose, question, snapshot)
        return await uses.make(question, propose, until=_read_up_to(name), is_trial=is_trial), ""

    def _new_turns(self, group: str) -> list[tuple[str, Turn]]:
        """Return (session, turn) of people's turns since the last pass, oldest first, as many as one pass takes."""
        mark = self.uses.watermarks.of(inferred_file(group))
        since = None if mark is None else mark.at
        turns = newest_turns(self.uses, group, MAX_TURNS)
        return oldest(
            (session, turn)
            for (session, _), turn in turns.items()
            if self.uses.is_person(turn) and (since is None or turn.at > since)
        )

    def _propose(self, question: Question, snapshot: Snapshot, answer: Answer | None) -> Proposal | None:
        """Return the proposal of an answer, with its gates checked; None without an answer. Raises WrongAnswer."""
        if answer is None:
            return None
        uses = self.uses
        said = read_answer(answer.text, PreferenceAnswer).preferences
        turns = turns_of(uses, snapshot.group, places_in(ref for each in said for ref in each.take))
        operations = [made for each in said if (made := operation_of(each, turns)) is not None]
        known = snapshot.known(turns, uses)
        is_settled = settled(snapshot.earlier)

        def kept(checked: Iterable[Operation]) -> Iterable[Operation]:
            return [counted(each, known) for each in checked if not is_settled(each)]

        return proposed(question, answer, operations, known, kept, made_at=self.clock())


def _milliseconds(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def _read_up_to(name: str) -> datetime:
    """Return the time of the newest turn of a question; a question from before a restart has fewer turns."""
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=int(name.split("-")[1]))


class Preference(Edited):
    """The turns that show a preference, and its strength."""

    take: Refs
    strength: Literal["strong", "mild", "casual"]
    requires_user_permission: bool = False


class PreferenceAnswer(Edited):
    """A model's answer."""

    preferences: Annotated[tuple[Preference, ...], Field(strict=False, max_length=MAX_EACH)]


def oldest(turns: Iterable[tuple[str, Turn]]) -> list[tuple[str, Turn]]:
    """Return the oldest turns with their sessions, as many as one pass takes."""
    ordered = sorted(turns, key=lambda each: (each[1].at, each[0], each[1].number))
    return ordered[: taken(turn for _, turn in ordered)]


def request_text(turns: Turns, known: Iterable[str], seen: Turns) -> str:
    """Return the question to a model: known preferences, turns that were too few so far, and people's new turns."""
    return sections_text(
        {
            "Known Already": newest_lines([f"- {text}\n" for text in known], MAX_TOKENS),
            "Seen Before, Not Often Enough (name them again beside new ones)": numbered(seen),
            "What People Said": numbered(turns),
        }
    )


def seen_before(earlier: Iterable[Proposal]) -> list[tuple[str, int]]:
    """Return the turns of preferences that were refused because they were too few."""
    return [
        (quote.session, quote.turn)
        for proposal in earlier
        for each in proposal.operations
        if proposal.kind == "preferences" and each.state == "refused"
        for quote in each.evidence
    ]


def operation_of(said: Preference, turns: Turns) -> Operation | None:
    """Return an `add` in the words of the turns that show a preference; None when there are no such turns."""
    facts = [fact(pick, None) for pick in picked(said.take, turns)]
    if not facts:
        return None
    texts = list(dict.fromkeys(text for text, _ in facts))
    asks = said.requires_user_permission or any(map(_SENSITIVE.search, texts))
    metadata = {"source": "inferred", _STRENGTH: said.strength}
    if asks:
        metadata["requires_user_permission"] = "true"
    return Operation(
        n=1,
        op="add",
        result="\n".join(texts),
        category=CATEGORY,
        tags=(TAG,),
        metadata=metadata,
        evidence=tuple(each for _, evidence in facts for each in evidence),
        why=f"a {said.strength} preference",
    )


def counted(operation: Operation, known: Known) -> Operation:
    """Return an operation, refused when it quotes too few turns of one person for its strength."""
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
    failed = (*operation.gates.failed, FailedGate(gate="too_few", what=what))
    gates = Gates(passed=tuple(each for each in operation.gates.passed if each != "too_few"), failed=failed)
    return operation.model_copy(update={"gates": gates, "state": "refused"})
