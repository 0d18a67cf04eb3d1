"""Dreams: the passes over all memory of a group, and the groups for which one is due (RB9, RB10)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import anyio.to_thread
import structlog

from honeybadger_agent.mailbox import GLOBAL_GROUP
from honeybadger_host.curation.asking import FAILED, Answer, Question, read_answer
from honeybadger_host.curation.candidates import Pair, alike
from honeybadger_host.curation.dream import DreamAnswer, folds, operations_of, request_text
from honeybadger_host.curation.passes import Made, PassDependencies, proposed
from honeybadger_host.curation.preferences import infer
from honeybadger_host.curation.proposal import Proposal, counts_of
from honeybadger_host.curation.proposal_files import unsettled
from honeybadger_host.curation.said import Turns, places_in
from honeybadger_host.curation.snapshot import Snapshot, newest_turns, standing, take, turns_of
from honeybadger_host.errors import WorldFailed
from honeybadger_host.files.file_cache import signature_of
from honeybadger_host.files.safe_files import Signature
from honeybadger_host.memory.feedback import FEEDBACK_SESSION, as_turn, feedback_file, read_feedback
from honeybadger_host.memory.injection_ledger import InjectionLedger
from honeybadger_host.memory.turn_log_store import dreamt_file
from honeybadger_host.search.sources import groups_of, is_archive, sources
from honeybadger_host.work.times import Cron, next_run

log = structlog.get_logger()

QUIET_SECONDS = 30.0  # seconds without a change before a dream begins: an agent may be saving several entries
_FEEDBACK_OF: Final = timedelta(days=7)  # RB13
_BEGINNING: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class DueDreams:
    """Finds the groups that are due to dream: by schedule, once they are quiet, if there is something new.

    Args:
        ledger: a group that never dreamt counts as if it had dreamt at its `known_since`.
        _looked: group -> time when it was last found due, with or without something new.
    """

    home: Path
    schedule: Cron
    ledger: InjectionLedger
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    _looked: dict[str, datetime] = field(default_factory=dict)

    def groups(self) -> list[str]:
        """Return the groups that are due now; missed times count once. One thread at a time."""
        now = self.clock()
        due: list[str] = []
        for name in groups_of(self.home):
            try:
                if name != GLOBAL_GROUP and not is_archive(name) and self._is_due(name, now):
                    due.append(name)
            except OSError as error:  # a file was removed meanwhile, or the disk fails
                log.warning("dream.not_looked_at", group=name, why=str(error))
        return due

    def _is_due(self, group: str, now: datetime) -> bool:
        dreamt = _newest([signature_of(f"{self.home}/{dreamt_file(group)}")])
        since = max(dreamt or self.ledger.known_since(), self._looked.get(group, _BEGINNING))
        run = next_run(self.schedule, min(since, now))  # a time from a clock that was ahead must not delay it
        if run is None or run > now:
            return False
        feedback = signature_of(f"{self.home}/{feedback_file(group)}")
        changed = _newest([feedback, *(signature for _, signature in sources(self.home, group, set()))])
        if changed is not None and timedelta() <= now - changed < timedelta(seconds=QUIET_SECONDS):
            return False
        self._looked[group] = now
        return changed is not None and (dreamt is None or changed > dreamt)


def _newest(signatures: Iterable[Signature | None]) -> datetime | None:
    """Return the time of the last change of some files, or None if none exists."""
    times = [each.mtime_ns for each in signatures if each is not None]
    return datetime.fromtimestamp(max(times) / 1e9, UTC) if times else None


class Dreamt(NamedTuple):
    """The proposals of a dream, the numbers of entries and notes looked at and left out, and a summary for people."""

    proposals: Sequence[Made]
    looked_at: int
    left_out: int
    told: str


class Dreams:
    """Makes dreams; `infers` adds a second pass, over people's turns. Event loop."""

    def __init__(self, uses: PassDependencies, *, infers: bool = True) -> None:
        self._uses = uses
        self._infers = infers

    async def make(self, group: str, is_trial: bool = False) -> Dreamt:
        """Make a dream of a group.

        Args:
            is_trial: nothing is changed or kept except the cost of the model.
        Raises OverBudget, ModelFailed, WrongAnswer, WorldFailed, FileProblem: nothing was changed.
        """
        snapshot = await anyio.to_thread.run_sync(take, self._uses, group, datetime.now(UTC))
        tidied = await self._tidy(snapshot, is_trial)
        inferred, told = None, ""
        if self._infers and self._uses.asker is None:
            told = "no preferences are inferred: that takes a model"
        elif self._infers:
            try:
                inferred = await infer(self._uses, snapshot, datetime.now(UTC), is_trial=is_trial)
            except FAILED as error:
                told = f"no preferences are inferred: {error}"  # the first pass keeps its changes
                log.warning("preferences.failed", group=group, why=str(error), now_what="the next dream asks again")
        made = [each for each in (tidied, inferred) if each is not None]
        return Dreamt(made, len(snapshot.items), snapshot.left_out, _told_of(made, told, is_trial))

    async def _tidy(self, snapshot: Snapshot, is_trial: bool) -> Made | None:
        """Make the first pass; an unfinished question from before a restart is continued."""
        uses, group = self._uses, snapshot.group
        name = await uses.name_of(group, "dream", datetime.now(UTC))
        feedback = await anyio.to_thread.run_sync(self._feedback, group)
        pairs, text, given = await anyio.to_thread.run_sync(self._asked, snapshot, feedback)
        question = Question(group, name, "dream", uses.directives.read("dream"), text)

        def propose(answer: Answer | None) -> Proposal:
            return self._propose(question, snapshot, feedback, pairs, given, answer)

        return await uses.make(question, propose, is_trial=is_trial)

    def _feedback(self, group: str) -> Turns:
        """Return the feedback of the last days, as turns."""
        try:
            found = read_feedback(self._uses.home, group, datetime.now(UTC) - _FEEDBACK_OF)
        except OSError as error:
            raise WorldFailed(f"the feedback of {group} cannot be read: {error.strerror}") from error
        turns = map(as_turn, found)
        return {(FEEDBACK_SESSION, turn.number): turn for turn in turns if self._uses.is_person(turn)}

    def _asked(self, snapshot: Snapshot, feedback: Turns) -> tuple[Sequence[Pair], str, Mapping[str, str]]:
        """Return the similar texts, the question about them, and number -> id of the texts in it."""
        if self._uses.asker is None:
            return [], "", {}
        pairs = alike(snapshot.items)
        return pairs, *request_text(snapshot, pairs, feedback, newest_turns(self._uses, snapshot.group))

    def _propose(
        self,
        question: Question,
        snapshot: Snapshot,
        feedback: Turns,
        pairs: Sequence[Pair],
        given: Mapping[str, str],
        answer: Answer | None,
    ) -> Proposal:
        """Return the proposal of a pass, with its gates checked. Raises WrongAnswer, WorldFailed.

        A source that changes while the model thinks is found when the proposal is applied.
        """
        uses, group = self._uses, snapshot.group
        turns, operations = dict(feedback), folds(snapshot)
        if answer is not None:
            said = read_answer(answer.text, DreamAnswer)
            refs = [ref for one in said.retire for ref in one.said]
            refs += [ref for one in said.anti_patterns for ref in one.take]
            turns |= turns_of(uses, group, places_in(refs))
            operations += operations_of(said, given, snapshot, pairs, turns)
        known = snapshot.known(turns, uses)
        known = replace(known, texts={**known.texts, **standing(uses.home, group, operations)})
        base = {name: snapshot.digests[name] for one in operations for name in one.sources if name in snapshot.digests}
        made = proposed(question, answer, operations, known, made_at=datetime.now(UTC), base=base)
        return unsettled(made, snapshot.earlier)


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
