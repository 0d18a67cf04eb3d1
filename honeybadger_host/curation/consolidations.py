"""Consolidates sessions: turns older than a window go to HISTORY.md, summary.md and notes (AB1, AB4)."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

import anyio.to_thread
import structlog

from honeybadger_host.curation.asking import ATTEMPTS, Answer, Question, WrongAnswer, read_answer
from honeybadger_host.curation.consolidation import (
    Consolidated,
    Material,
    operations_of,
    request_text,
    without_model,
)
from honeybadger_host.curation.gates import Known
from honeybadger_host.curation.notes import NotePlace, notes_of, protected_notes
from honeybadger_host.curation.passes import MAX_TURNS, PassDependencies, proposed, taken
from honeybadger_host.curation.proposal import Operation, Proposal, counts_of
from honeybadger_host.curation.proposal_files import settled, stored
from honeybadger_host.errors import FileProblem
from honeybadger_host.memory.turn_log_store import Watermark, begins_after, kept_turns
from honeybadger_host.text.phrases import FORGOTTEN
from honeybadger_host.text.turn import Turn

log = structlog.get_logger()

_NAMED: Final = "consolidation-"
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class _Plan:
    """The turns to consolidate, at least one.

    Args:
        is_again: they were consolidated before, and that was reverted.
        has_more: more turns are due.
    """

    material: Material
    name: str
    is_again: bool
    has_more: bool


class Consolidations:
    """Consolidates sessions. Event loop."""

    def __init__(self, uses: PassDependencies) -> None:
        self._uses = uses
        self.done = 0  # since the start
        self._wrong: Counter[tuple[str, str]] = Counter()
        """(group, session) -> number of wrong answers since its last consolidation."""

    async def consolidate(self, group: str, session: str, *, at_once: bool = False) -> bool:
        """Consolidate the turns of a session that are due; return whether there are more.

        Args:
            at_once: consolidate all turns except the newest that always stay, even if they are few.
        Raises OverBudget, ModelFailed, WrongAnswer, WorldFailed: nothing was changed.
        """
        plan = await anyio.to_thread.run_sync(self._plan, group, session, at_once)
        if plan is None:
            return False
        directives = self._uses.directives
        system = directives.read("consolidation") + (f"\n\n{directives.read('prose')}" if self._uses.prose else "")
        text = request_text(plan.material)
        if self._wrong[group, session] >= ATTEMPTS:
            log.error("curation.given_up", group=group, id=plan.name, now_what="it is done without a model")
            text = ""
        question = Question(group, plan.name, "consolidation", system, text)
        try:
            made = await self._uses.make(
                question, partial(self._propose, plan, question), until=plan.material.turns[-1].at
            )
        except WrongAnswer:
            self._wrong[group, session] += 1
            raise
        del self._wrong[group, session]
        self.done += 1
        return plan.has_more and (made is None or made.counts["applied"] > 0)

    def _plan(self, group: str, session: str, at_once: bool) -> _Plan | None:
        """Return the turns to consolidate, or None if there are none. Raises WorldFailed."""
        uses = self._uses
        mark = uses.watermarks.read(group, session)
        begun_again = uses.documents.deletion(group, session).context_begins_after
        known = uses.turn_logs.since(group, session, begun_again, MAX_TURNS)
        last = uses.turn_logs.load(group, session).last_number
        after = begins_after(last, mark, uses.memory_window)
        turns = [turn for turn in known if turn.number > after]
        due = turns[: -kept_turns(uses.memory_window)]
        again = next((span for span in (() if mark is None else mark.again) if span[0] > begun_again), None)
        count = taken(due)
        if again is not None:
            due = [turn for turn in known if again[0] <= turn.number <= again[1]]
            count = len(due)
        tokens = sum(turn.line_tokens for turn in turns)
        is_long = bool(uses.history_budget_tokens) and tokens > uses.history_budget_tokens
        is_due = at_once or again is not None or is_long or len(turns) > uses.memory_window
        if not due or not is_due or self._waits(group, session):
            return None
        is_forgotten = uses.forgotten_in(group)
        known = [replace(turn, content=FORGOTTEN) if is_forgotten(turn.content) else turn for turn in known]
        first, end = due[0].number, due[count - 1].number
        before = [turn for turn in known if turn.number < first]
        now = [turn for turn in known if first <= turn.number <= end]
        told = self._told(group, mark)
        summary = [turn for turn in before if turn.number in told]
        material = Material(session, now, before, summary, self._notes(group), self._is_said)
        passes = 0 if mark is None else mark.passes
        digest = hashlib.sha256(f"{session}\0{first}\0{passes}".encode()).hexdigest()[:6]
        name = f"{_named(session)}{end}-{digest}"
        return _Plan(material, name, again is not None, again is not None or count < len(due))

    def _is_said(self, turn: Turn) -> bool:
        return self._uses.is_person(turn) and turn.content != FORGOTTEN

    def _notes(self, group: str) -> Mapping[str, NotePlace]:
        """Return the notes of a group; none if MEMORY.md cannot be read, which is logged."""
        try:
            memory = self._uses.files.memory(group)
        except FileProblem as problem:
            log.warning("group_file.refused", file=problem.file, why=problem.message)
            return {}
        return {} if memory is None else notes_of(group, memory.text.encode())

    def _told(self, group: str, mark: Watermark | None) -> set[int]:
        """Return the numbers of the turns in the session's last summary; none when its proposal cannot be read."""
        told: set[int] = set()
        for each in stored(self._uses.home, group, lambda name, _: mark is not None and name == mark.proposal):
            for operation in () if each.proposal is None else each.proposal.operations:
                if operation.op == "write_summary":
                    told |= {quote.turn for quote in operation.evidence}
        return told

    def _waits(self, group: str, session: str) -> bool:
        """Return whether a consolidation of this session waits for a person to decide, or to mend its file."""
        prefix, is_reviewed = _named(session), self._uses.mode == "review"
        found = stored(self._uses.home, group, lambda name, _: is_reviewed and name.startswith(prefix))
        return any(
            proposal is None or (proposal.session == session and counts_of(proposal.operations)["waiting"] > 0)
            for _, proposal, *_ in found
        )

    def _propose(self, plan: _Plan, question: Question, answer: Answer | None) -> Proposal:
        """Return the proposal of a consolidation, with its gates checked. Raises WrongAnswer."""
        group, material = question.group, plan.material
        if answer is None:
            operations = without_model(material)
        else:
            said = read_answer(answer.text, Consolidated)
            operations = operations_of(said, material, answer.model, prose=self._uses.prose)
        if any(each.waits for each in operations):
            operations = self._not_waiting_yet(question, material.session, operations)
        if plan.is_again:  # later passes keep their summary
            operations = [each for each in operations if each.op != "write_summary"]
        known = Known(
            texts={note: place.text for note, place in material.notes.items()},
            turns=material.by_place,
            is_person=self._is_said,
            protected=protected_notes(material.notes),
            group_size=len(material.notes),
            is_forgotten=self._uses.forgotten_in(group),
        )
        return proposed(
            question,
            answer,
            operations,
            known,
            made_at=datetime.now(UTC),
            session=material.session,
            first_turn=material.turns[0].number,
            last_turn=material.turns[-1].number,
        )

    def _not_waiting_yet(self, question: Question, session: str, operations: Sequence[Operation]) -> list[Operation]:
        """Return operations without those that wait and that earlier proposals already have.

        Of a session, one history and one summary in a model's words wait at a time.
        """
        found = stored(self._uses.home, question.group, lambda name, _: name.startswith(_NAMED))
        before = [each.proposal for each in found if each.proposal is not None and each.name != question.name]
        same = (each for one in before if one.session == session for each in one.operations)
        prose = {each.op for each in same if each.by and each.state == "waiting"} - {"add"}
        is_settled = settled(before)
        return [each for each in operations if not (each.waits and (each.op in prose or is_settled(each)))]


def _named(session: str) -> str:
    """Return the prefix of the names of a session's consolidations; another session may share it."""
    return f"{_NAMED}{_NO_NAME.sub('-', session[:24])}-"
