"""Consolidates a session: what is older than its window goes to HISTORY.md, summary.md and notes (AB1, AB4)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

import anyio.to_thread
import structlog

from honeybadger_host.curation import extraction
from honeybadger_host.curation.answers import read_answer
from honeybadger_host.curation.asking import Answer, Question
from honeybadger_host.curation.consolidation import Consolidated, memory_in, memory_operations, request_text
from honeybadger_host.curation.gates import Known
from honeybadger_host.curation.jobs import Job
from honeybadger_host.curation.notes import digests_of, notes_of, protected_notes
from honeybadger_host.curation.passes import PassDependencies, proposed, taken
from honeybadger_host.curation.proposal import Gates, Operation, Proposal, counts_of
from honeybadger_host.curation.proposal_files import stored
from honeybadger_host.domain import SUMMARY, Turn
from honeybadger_host.errors import FileProblem
from honeybadger_host.memory.group_files import GroupText
from honeybadger_host.memory.summary_parts import part_of
from honeybadger_host.memory.watermarks import Watermark, begins_after, kept_turns
from honeybadger_host.text.neutralise import estimate_tokens
from honeybadger_host.text.phrases import FORGOTTEN

log = structlog.get_logger()

_MOST_TURNS: Final = 2000
_MOST_MEMORY_TOKENS: Final = 8_000
"""Of MEMORY.md that a model is given; a longer one is given without notes to compare."""
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to be consolidated: turns, oldest first, one at least; and whether what is left is due, too."""

    group: str
    session: str
    turns: Sequence[Turn]
    mark: Watermark | None
    memory: str
    part: str | None
    has_more: bool

    @property
    def name(self) -> str:
        """What it is called: its question, its change and its proposal; unlike any other of the group."""
        passes = 0 if self.mark is None else self.mark.passes
        last = self.turns[-1].number
        told = hashlib.sha256(f"{self.session}\0{self.turns[0].number}\0{passes}".encode()).hexdigest()[:6]
        return f"{_named(self.session)}{last}-{told}"


class Consolidations:
    """Consolidates sessions. Event loop."""

    def __init__(self, uses: PassDependencies) -> None:
        self._uses = uses
        self.done = 0
        """Since the start."""

    async def consolidate_now(self, group: str, session: str) -> int:
        """Consolidate all but the turns that stay; return the number of the last turn that is consolidated.

        Raises as `consolidate`.
        """
        async with self._uses.jobs.asked_for(Job(group, "consolidation", session)):
            while await self.consolidate(group, session, at_once=True):
                pass
        mark = await anyio.to_thread.run_sync(self._uses.watermarks.read, group, session)
        return 0 if mark is None else mark.turn

    async def consolidate(self, group: str, session: str, *, at_once: bool = False) -> bool:
        """Consolidate what of a session is due; return whether there is more.

        Args:
            at_once: all but the turns that stay, however few they are.
        Raises OverBudget, ModelFailed, WrongAnswer, WorldFailed: nothing was changed.
        """
        plan = await anyio.to_thread.run_sync(self._plan, group, session, at_once)
        if plan is None:
            return False
        memory = plan.memory if estimate_tokens(plan.memory) <= _MOST_MEMORY_TOKENS else ""
        text = request_text(memory, plan.part, plan.turns)
        question = Question(group, plan.name, "consolidation", self._uses.directives.read("consolidation"), text)
        made = await self._uses.make(question, partial(self._propose, plan, question), until=plan.turns[-1].at)
        self.done += 1
        return plan.has_more and made is not None and made.counts["applied"] > 0

    def _plan(self, group: str, session: str, at_once: bool) -> _Plan | None:
        """Return what is to be consolidated, None: nothing. Raises WorldFailed."""
        uses = self._uses
        mark = uses.watermarks.read(group, session)
        last = uses.turn_logs.load(group, session).last_number
        begun_again = uses.documents.begins_after(group, session)
        after = max(begins_after(last, mark, uses.memory_window), begun_again)
        turns = uses.turn_logs.since(group, session, after, _MOST_TURNS)
        old = turns[: -kept_turns(uses.memory_window)]
        is_long = bool(uses.history_budget_tokens) and (
            sum(turn.line_tokens for turn in turns) > uses.history_budget_tokens
        )
        if not old or not (at_once or is_long or len(turns) > uses.memory_window):
            return None
        if self._waits(group, session):
            return None
        count = taken(old)
        memory, summary = _read(uses.files.memory, group), _read(uses.files.summary, group)
        if mark is not None and begun_again >= mark.turn:
            summary = None  # what it tells of the session was left behind
        return _Plan(
            group,
            session,
            old[:count],
            mark,
            "" if memory is None else memory.text,
            None if summary is None else part_of(summary.text, session),
            count < len(old),
        )

    def _waits(self, group: str, session: str) -> bool:
        """Return whether a person is to decide about a consolidation of this session, or to mend the file of one."""
        if self._uses.mode != "review":
            return False
        return any(
            proposal is None or (proposal.session == session and counts_of(proposal.operations)["waiting"] > 0)
            for _, proposal, *_ in stored(self._uses.home, group, lambda name, _: name.startswith(_named(session)))
        )

    def _propose(self, plan: _Plan, question: Question, answer: Answer | None) -> Proposal:
        """Return what a consolidation proposes, with its gates checked. Raises WrongAnswer."""
        group, turns = plan.group, plan.turns
        operations: list[Operation] = []
        notes = standing = notes_of(group, plan.memory.encode())
        if answer is None:
            history, summary = self._extracted("write_history", plan), self._extracted("write_summary", plan)
        else:
            said = read_answer(answer.text, Consolidated)
            history = said.history_entry
            summary = said.conversation_summary or self._extracted("write_summary", plan)
            memory = memory_in(answer.asked)  # of before a kill, perhaps: then base tells what has changed since
            given = notes_of(group, memory.encode())
            notes = {**standing, **given}
            operations = memory_operations(said.memory_update or "", given, plan.session, turns)
        heads = [
            Operation(n=1, op="write_history", result=history, why="what was said"),
            Operation(n=1, op="write_summary", result=summary, why="what the conversation was about"),
        ]
        known = Known(
            texts={**{note: place.text for note, place in notes.items()}, SUMMARY: plan.part or ""},
            digests=digests_of(standing),
            turns={(plan.session, turn.number): turn for turn in turns},
            is_person=self._uses.is_person,
            protected=protected_notes(notes),
            group_size=len(notes),
            is_forgotten=self._uses.forgotten_in(group),
        )
        sources = {source for operation in operations for source in operation.sources}
        return proposed(
            question,
            answer,
            [*heads, *operations],
            known,
            partial(map, partial(self._kept_by_rules, plan)),
            made_at=datetime.now(UTC),
            session=plan.session,
            first_turn=turns[0].number,
            last_turn=turns[-1].number,
            base={note: digest for note, digest in digests_of(notes).items() if note in sources},
        )

    def _kept_by_rules(self, plan: _Plan, each: Operation) -> Operation:
        """Return an operation; rules write a history or summary that a gate refuses: what was said is kept."""
        if each.op not in ("write_history", "write_summary") or not each.gates.failed:
            return each
        why = "; ".join(f"{failed.gate}: {failed.what}" for failed in each.gates.failed)
        changed = {"result": self._extracted(each.op, plan), "why": f"extracted: {why}"}
        return each.model_copy(update={**changed, "gates": Gates(passed=each.gates.passed), "state": "waiting"})

    def _extracted(self, op: str, plan: _Plan) -> str:
        """Return what rules take from the turns, word for word, but for what was forgotten."""
        is_forgotten = self._uses.forgotten_in(plan.group)
        turns = [replace(turn, content=FORGOTTEN) if is_forgotten(turn.content) else turn for turn in plan.turns]
        if op == "write_history":
            return extraction.history_entry(turns, plan.session, self._uses.is_person)
        return extraction.conversation_summary(turns, self._uses.is_person, earlier=plan.part or "")


def _named(session: str) -> str:
    """Return what the names of a session's consolidations begin with; those of another session may, too."""
    return f"consolidation-{_NO_NAME.sub('-', session[:24])}-"


def _read(file: Callable[[str], GroupText | None], group: str) -> GroupText | None:
    """Return a file's text, None when it cannot be served: the conversation is consolidated all the same."""
    try:
        return file(group)
    except FileProblem as problem:
        log.warning("group_file.refused", file=problem.file, why=problem.message)
        return None
