"""Makes passes over all memory of a group (RB9, RB10)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

import anyio.to_thread
import structlog

from honeybadger_host.curation.answers import read_answer
from honeybadger_host.curation.asking import FAILED, Answer, Question
from honeybadger_host.curation.candidates import alike, unused
from honeybadger_host.curation.dream import DreamAnswer, folds, operations_of, read_in, reasons, request_text
from honeybadger_host.curation.jobs import Job
from honeybadger_host.curation.passes import MAX_TURNS, Made, PassDependencies, proposed
from honeybadger_host.curation.preferences import Preferences
from honeybadger_host.curation.proposal import Operation, Proposal, counts_of
from honeybadger_host.curation.proposal_files import settled
from honeybadger_host.curation.said import Turns, places_in
from honeybadger_host.curation.snapshot import Snapshot, newest_turns, standing, take, turns_of
from honeybadger_host.errors import WorldFailed
from honeybadger_host.memory.feedback import FEEDBACK_SESSION, as_turn, read_feedback

log = structlog.get_logger()

_FEEDBACK_OF: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Dreamt:
    """The results of passes, the number of items looked at and left out, and a summary for a reader."""

    proposals: Sequence[Made]
    looked_at: int
    left_out: int
    told: str


class Dreams:
    """Makes passes; `infers` adds one over people's turns. Event loop."""

    def __init__(
        self, uses: PassDependencies, *, infers: bool = True, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._uses = uses
        self._infers = infers
        self._clock = clock
        self._preferences = Preferences(uses, clock)

    async def dream(self, group: str, is_trial: bool = False) -> Dreamt:
        """Wait for its turn, then make the requested pass over a group.

        Args:
            is_trial: nothing is changed or kept except the cost of the model.
        Raises OverBudget, ModelFailed, WrongAnswer, WorldFailed, FileProblem: nothing was changed.
        """
        async with self._uses.jobs.asked_for(Job(group, "dream")):
            return await self.make(group, is_trial)

    async def make(self, group: str, is_trial: bool = False) -> Dreamt:
        """Make a pass over a group whose job already runs. Args and errors as `dream`."""
        snapshot = await anyio.to_thread.run_sync(take, self._uses, group, self._clock())
        tidied = await self._tidy(snapshot, is_trial)
        inferred, told = None, ""
        if self._infers:
            try:
                inferred, told = await self._preferences.infer(snapshot, is_trial)
            except FAILED as error:
                told = f"no preferences are inferred: {error}"  # the first pass keeps its changes
                log.warning("preferences.failed", group=group, why=str(error), now_what="the next dream asks again")
        made = [each for each in (tidied, inferred) if each is not None]
        return Dreamt(made, len(snapshot.items), snapshot.left_out, _told_of(made, told, is_trial))

    async def _tidy(self, snapshot: Snapshot, is_trial: bool) -> Made | None:
        """Make the first pass; an unfinished question from before a restart is continued."""
        uses, group = self._uses, snapshot.group
        kept = None if uses.asker is None else await uses.asker.unfinished(group, "dream-")
        name = kept or f"dream-{self._clock():%Y%m%d-%H%M%S-%f}"[:-3]
        feedback = await anyio.to_thread.run_sync(self._feedback, group)
        text = "" if uses.asker is None else await anyio.to_thread.run_sync(self._request, snapshot, feedback)
        question = Question(group, name, "dream", uses.directives.read("dream"), text)
        propose = partial(self._propose, question, snapshot, feedback)
        return await uses.make(question, propose, is_trial=is_trial, is_asked=bool(text or kept))

    def _feedback(self, group: str) -> Turns:
        """Return the feedback of the last days, as turns."""
        try:
            found = read_feedback(self._uses.home, group, self._clock() - _FEEDBACK_OF)
        except OSError as error:
            raise WorldFailed(f"the feedback of {group} cannot be read: {error.strerror}") from error
        turns = map(as_turn, found)
        return {(FEEDBACK_SESSION, turn.number): turn for turn in turns if self._uses.is_person(turn)}

    def _request(self, snapshot: Snapshot, feedback: Turns) -> str:
        """Return the question to a model; empty when there is nothing to ask."""
        uses, group = self._uses, snapshot.group
        entries = [item for item in snapshot.items if item.id in snapshot.entries]
        forgotten = unused(entries, *uses.ledger.last_recalled(group), self._clock())
        picked = [*reasons(snapshot, alike(snapshot.items), forgotten)]
        if not picked and not feedback:
            return ""
        turns = newest_turns(uses, group, MAX_TURNS)
        said = {place: turn for place, turn in turns.items() if uses.is_person(turn)}
        return request_text(snapshot, picked, feedback, said)

    def _propose(self, question: Question, snapshot: Snapshot, feedback: Turns, answer: Answer | None) -> Proposal:
        """Return the proposal of a pass, with its gates checked. Raises WrongAnswer, WorldFailed.

        A source that changes while the model thinks is found when the proposal is applied.
        """
        uses, group = self._uses, snapshot.group
        turns, by_rules, by_model = dict(feedback), folds(snapshot), list[Operation]()
        read: Mapping[str, str] = {}
        if answer is not None:
            said = read_answer(answer.text, DreamAnswer)
            refs = [ref for one in said.retire for ref in one.said]
            refs += [ref for one in said.anti_patterns for ref in one.take]
            turns |= turns_of(uses, group, places_in(refs))
            by_model = operations_of(said, answer.asked, snapshot, alike(snapshot.items), turns)
            read = read_in(snapshot, answer.asked)
        known = snapshot.known(turns, uses)
        known = replace(known, texts={**known.texts, **standing(uses.home, group, [*by_rules, *by_model])})
        base = {source: snapshot.digests[source] for one in by_rules for source in one.sources}
        base |= {source: read[source] for one in by_model for source in one.sources if source in read}
        is_settled = settled(snapshot.earlier)

        def is_new(each: Operation) -> bool:
            return not is_settled(each) and (each.state == "waiting" or each.n > len(by_rules))

        kept = partial(filter, is_new)
        return proposed(question, answer, [*by_rules, *by_model], known, kept, made_at=self._clock(), base=base)


def _told_of(made: Sequence[Made], more: str, is_trial: bool) -> str:
    lines = []
    for proposal, counts in made:
        told = counts or counts_of(proposal.operations)
        done = ", ".join(f"{count} {state}" for state, count in told.items() if count)
        where = "" if is_trial else f"; honeybadger-host review show {proposal.group} {proposal.id}"
        lines.append(f"{proposal.kind} by {proposal.by}: {done}{where}")
    if is_trial and lines:
        lines.append("a trial: nothing was changed")
    return "\n".join([*(lines or ["there is nothing to do"]), *([more] if more else [])])
