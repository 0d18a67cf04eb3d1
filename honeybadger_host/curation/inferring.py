"""Infers preferences from the turns that people have said since the last time (RB10)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

import anyio.to_thread

from honeybadger_host.curation.account import accounted
from honeybadger_host.curation.asking import Answer, Question
from honeybadger_host.curation.gates import check
from honeybadger_host.curation.passes import Made, PassDependencies, origin
from honeybadger_host.curation.preferences import (
    bare,
    counted,
    known_preferences,
    parse_preferences,
    request_text,
    seen_before,
    taken,
)
from honeybadger_host.curation.proposal import Proposal
from honeybadger_host.curation.snapshot import decided_before, newest_turns, take, turns_of
from honeybadger_host.domain import Turn
from honeybadger_host.memory.labels import folded
from honeybadger_host.memory.watermarks import inferred_file, parse_watermark
from honeybadger_host.storage.atomic_files import read_whole

_MOST_TURNS: Final = 2000
"""Of a session; what was said before is not read for preferences."""
_NAMED: Final = "preferences-"
NO_MODEL: Final = "no preferences are inferred: that takes a model"


class Preferences:
    """Makes the second pass of a dream. Event loop."""

    def __init__(self, uses: PassDependencies, clock: Callable[[], datetime]) -> None:
        self._uses = uses
        self._clock = clock

    async def infer(self, group: str, is_trial: bool) -> tuple[Made | None, str]:
        """Return what was proposed, and what there is to say. Raises as `Dreams.dream`."""
        uses = self._uses
        if uses.asker is None:
            return None, NO_MODEL
        turns = await anyio.to_thread.run_sync(self._new_turns, group)
        if not turns:
            return None, ""
        kept = await uses.asker.unfinished(group, _NAMED)
        name = kept or f"{_NAMED}{_milliseconds(turns[-1][1].at)}-{_milliseconds(self._clock())}"
        text = await anyio.to_thread.run_sync(self._request, group, turns)
        question = Question(group, name, "preferences", uses.directives.read("pref-dream").text, text)
        proposal = await uses.proposed(question, partial(self._propose, question))
        if proposal is None:
            await uses.forget(question)
            return None, NO_MODEL
        return await uses.finish(question, proposal, _read_up_to(name), is_trial=is_trial), ""

    def _new_turns(self, group: str) -> list[tuple[str, Turn]]:
        """Return session and turn of what people have said since the last pass, oldest first, as many as one takes."""
        try:
            mark = parse_watermark(read_whole(self._uses.home / inferred_file(group)))
        except ValueError:  # then all of it is read again
            mark = None
        since = None if mark is None else mark.at
        turns = newest_turns(self._uses, group, _MOST_TURNS)
        return taken(
            (session, turn)
            for (session, _), turn in turns.items()
            if self._uses.is_person(turn) and (since is None or turn.at > since)
        )

    def _request(self, group: str, turns: list[tuple[str, Turn]]) -> str:
        earlier, _ = decided_before(self._uses.home, group, self._clock())
        entries = take(self._uses, group, earlier).entries.values()
        known = known_preferences((entry.category, entry.content) for entry in entries)
        return request_text(turns, known, [each.result or "" for each in seen_before(earlier).values()])

    def _propose(self, question: Question, answer: Answer | None) -> Proposal | None:
        """Return what an answer proposes, with its gates checked; None: rules cannot do it. Raises WrongAnswer."""
        if answer is None:
            return None
        uses, group, now = self._uses, question.group, self._clock()
        earlier, _ = decided_before(uses.home, group, now)
        snapshot = take(uses, group, earlier)
        operations = parse_preferences(answer.text, seen_before(earlier))
        quoted = [(each.session, each.turn) for one in operations for each in one.evidence]
        known = snapshot.known(turns_of(uses, group, quoted), uses.is_person)
        proposal = check(
            Proposal(**origin(question, answer), made_at=now, operations=tuple(map(bare, operations))), known
        )
        settled = {folded(text) for text in snapshot.texts.values()} | {
            folded(each.result or "")
            for one in earlier
            for each in one.operations
            if one.kind == "preferences" and each.state in ("waiting", "struck")
        }
        kept = tuple(
            counted(each.model_copy(update={"result": said.result}), known)
            for each, said in zip(proposal.operations, operations, strict=True)
            if folded(said.result or "") not in settled
        )
        return accounted(proposal, kept, known)


def _milliseconds(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def _read_up_to(name: str) -> datetime:
    """Return when the newest of the turns was said that a question is about: one of before a kill knows fewer."""
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=int(name.split("-")[1]))
