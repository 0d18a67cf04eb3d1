"""Dream pass 2: infers preferences from people's turns since the last pass (RB10).

A model names the turns that show a preference; their sentences become its text. The gate `too_few` counts the turns of
one person. Turns that were too few in an earlier pass are shown again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from importlib.resources import files
from typing import Annotated, Final, Literal

import anyio.to_thread
from pydantic import Field

from honeybadger_host.curation.asking import Answer, Question, read_answer
from honeybadger_host.curation.gates import STRENGTH
from honeybadger_host.curation.passes import MAX_TOKENS, Made, PassDependencies, proposed, taken
from honeybadger_host.curation.proposal import Operation, Proposal
from honeybadger_host.curation.proposal_files import unsettled
from honeybadger_host.curation.said import (
    Refs,
    Turns,
    fact,
    newest_lines,
    numbered_turns,
    picked,
    places_in,
    sections_text,
)
from honeybadger_host.curation.snapshot import Snapshot, newest_turns, turns_of
from honeybadger_host.memory.edited import Edited
from honeybadger_host.memory.turn_log_store import inferred_file
from honeybadger_host.text.labels import is_below

CATEGORY: Final = "user-preferences/inferred"
TAG: Final = "inferred"
# Words about security, credentials and money: such a preference needs permission. Too often is better than too rarely.
_SENSITIVE: Final = re.compile(
    rf"\b(?:{'|'.join(files(__package__).joinpath('sensitive_words.txt').read_text('utf-8').split())})\b|[€$£¥]"
    "|密码|密碼|安全|权限|钱|付款|支付|银行|账户|发票|价格|购买|パスワード|秘密|権限|お金|支払|銀行|口座|請求|価格|購入",
    re.IGNORECASE,
)


class Preference(Edited):
    """The turns that show a preference, and its strength."""

    take: Refs
    strength: Literal["strong", "mild", "casual"]
    requires_user_permission: bool = False


class PreferenceAnswer(Edited):
    """A model's answer."""

    preferences: Annotated[tuple[Preference, ...], Field(strict=False)]


async def infer(uses: PassDependencies, snapshot: Snapshot, now: datetime, *, is_trial: bool) -> Made | None:
    """Return the result of the second pass of a dream. Raises as `Dreams.make`."""
    group = snapshot.group
    turns = await anyio.to_thread.run_sync(_new_turns, uses, group)
    if not turns:
        return None
    name = await uses.name_of(group, "preferences", now)
    entries = snapshot.entries.values()
    known = [entry.content for entry in entries if is_below(entry.category, "user-preferences")]
    seen = await anyio.to_thread.run_sync(turns_of, uses, group, seen_before(snapshot.earlier))
    text = request_text(turns, known, seen)
    question = Question(group, name, "preferences", uses.directives.read("pref-dream"), text)
    newest = max(turn.at for turn in turns.values())

    def propose(answer: Answer | None) -> Proposal | None:
        return None if answer is None else _proposal_of(uses, question, snapshot, answer, now)

    return await uses.make(question, propose, until=newest, is_trial=is_trial)


def _new_turns(uses: PassDependencies, group: str) -> Turns:
    """Return people's turns since the last pass, oldest first, as many as one pass takes."""
    mark = uses.watermarks.of(inferred_file(group))
    since = None if mark is None else mark.at
    turns = newest_turns(uses, group)
    return oldest({place: turn for place, turn in turns.items() if since is None or turn.at > since})


def _proposal_of(
    uses: PassDependencies, question: Question, snapshot: Snapshot, answer: Answer, now: datetime
) -> Proposal:
    """Return the proposal of an answer, with its gates checked. Raises WrongAnswer."""
    said = read_answer(answer.text, PreferenceAnswer).preferences
    turns = turns_of(uses, snapshot.group, places_in(ref for each in said for ref in each.take))
    found = [operation_of(each, turns) for each in said]
    operations = [each for each in found if each is not None]
    entries = {name: entry.content for name, entry in snapshot.entries.items()}
    known = replace(snapshot.known(turns, uses), texts=entries)  # a note with the same text is no preference
    made = proposed(question, answer, operations, known, made_at=now)
    return unsettled(made, snapshot.earlier)


def oldest(turns: Turns) -> Turns:
    """Return the oldest turns, as many as one pass takes."""
    ordered = sorted(turns.items(), key=lambda each: (each[1].at, each[0]))
    return dict(ordered[: taken(turn for _, turn in ordered)])


def request_text(turns: Turns, known: Iterable[str], seen: Turns) -> str:
    """Return the question to a model: known preferences, turns that were too few so far, and people's new turns."""
    return sections_text(
        {
            "Known Already": newest_lines([f"- {text}\n" for text in known], MAX_TOKENS),
            "Seen Before, Not Often Enough (name them again beside new ones)": numbered_turns(seen),
            "What People Said": numbered_turns(turns),
        }
    )


def seen_before(earlier: Iterable[Proposal]) -> list[tuple[str, int]]:
    """Return the turns of preferences that were refused because they were too few."""
    return [
        quote.place
        for proposal in earlier
        for each in proposal.operations
        if each.gates.refuse("too_few")
        for quote in each.evidence
    ]


def operation_of(said: Preference, turns: Turns) -> Operation | None:
    """Return an `add` in the words of the turns that show a preference, or None if there are no such turns."""
    facts = [fact(pick, None) for pick in picked(said.take, turns)]
    if not facts:
        return None
    texts = list(dict.fromkeys(text for text, _ in facts))
    metadata = {"source": "inferred", STRENGTH: said.strength}
    if said.requires_user_permission or any(map(_SENSITIVE.search, texts)):
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
