"""The common part of all passes over memory: their dependencies, the question to a model, and the writing.

Nothing here writes memory: the result of a pass goes through the pipeline like a request, in one commit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio.to_thread
import orjson
import structlog
from pydantic import ValidationError

from honeybadger_agent.mailbox import CONSOLIDATOR, is_system_sender
from honeybadger_agent.wire import Wire
from honeybadger_host.curation.applying import Applying
from honeybadger_host.curation.asking import Answer, Asker, Question, TooOften, WrongAnswer
from honeybadger_host.curation.directives import Directives
from honeybadger_host.curation.gates import Known, applies_itself, check
from honeybadger_host.curation.proposal import COUNTED, Kind, Operation, Proposal, Tokens, numbered
from honeybadger_host.curation.proposal_files import proposal_file
from honeybadger_host.errors import WorldFailed
from honeybadger_host.files.home import JOURNAL_FILE
from honeybadger_host.handler_kinds import Asked, ChangeHandler
from honeybadger_host.journal.changes import WholeFiles
from honeybadger_host.journal.forgetting import read_tombstones
from honeybadger_host.memory.entries.store import EntryFiles
from honeybadger_host.memory.markdown.group_files import GroupFiles
from honeybadger_host.memory.session_document_store import Sessions
from honeybadger_host.memory.turn_log_store import TurnLogs, Watermarks
from honeybadger_host.settings import CurationMode
from honeybadger_host.text.turn import Turn

log = structlog.get_logger()

# Kind of a pass -> log event of its end; all other kinds log `dream.finished`.
_FINISHED: Final = {"consolidation": "consolidation.finished", "enrichment": "enrichment.finished"}
MAX_TOKENS: Final = 12_000  # tokens of turns or entries in one question: small models read 16,000
MAX_TURNS: Final = 2000  # newest turns of a session that a pass reads


@dataclass(frozen=True, slots=True)
class PassDependencies:
    """The dependencies of passes.

    Args:
        asker: asks the model; None when there is no model.
        change: see `Pipeline.change`.
        waiting_groups: the groups in which no job begins unless a person asks: a turn runs, or it went to another home.
        is_agent: whether a name is that of an agent of this home.
        memory_window: see `watermarks`; 0: nothing is consolidated.
        history_budget_tokens: limit of the replayed turns in a context; 0: no limit.
        prose: see `settings.Curation`.
    """

    home: Path
    asker: Asker | None
    directives: Directives
    change: Callable[[Asked, str, ChangeHandler[Any]], Awaitable[bytes]]
    waiting_groups: Callable[[], Collection[str]]
    is_agent: Callable[[str], bool]
    turn_logs: TurnLogs
    documents: Sessions
    watermarks: Watermarks
    files: GroupFiles
    whole_files: WholeFiles
    entry_files: EntryFiles
    memory_window: int
    history_budget_tokens: int
    mode: CurationMode
    prose: bool = False

    def forgotten_in(self, group: str) -> Callable[[str], bool]:
        """Return a test whether a text repeats something that was forgotten in a group."""
        return read_tombstones(self.home / JOURNAL_FILE, group).knows

    def is_person(self, turn: Turn) -> bool:
        """Return whether a person said a turn: not an agent, and not the host, which gives agents their tasks."""
        if turn.role != "user" or is_system_sender(turn.by):
            return False
        return not self.is_agent(turn.by) and not self.is_agent(turn.sender)

    async def name_of(self, group: str, kind: Kind, now: datetime) -> str:
        """Return the name of a group's unfinished question from before a restart, or a new name."""
        kept = None if self.asker is None else await self.asker.unfinished(group, f"{kind}-")
        return kept or f"{kind}-{now:%Y%m%d-%H%M%S-%f}"[:-3]

    async def make(
        self,
        question: Question,
        propose: Callable[[Answer | None], Proposal | None],
        *,
        until: datetime | None = None,
        is_trial: bool = False,
    ) -> Made | None:
        """Ask a model and write the proposal of its answer; return it, or None if nothing is proposed.

        Args:
            question: without a text no model is asked.
            propose: answer, or None without a model -> the proposal with its gates checked, or None if there is nothing
                to write; runs on a thread.
            until: see `Applying`; None: the time of the proposal.
            is_trial: nothing is written.
        Raises OverBudget, ModelFailed, WorldFailed, and WrongAnswer, whose answer is forgotten; nothing was changed.
        """
        answer = await self._answer(question)
        try:
            proposal = await anyio.to_thread.run_sync(propose, answer)
        except (
            WrongAnswer,
            ValidationError,
        ) as error:  # the second: it has too many operations or too long texts
            await self._forget(question)
            raise WrongAnswer(str(error)) from None
        if proposal is None or is_trial:
            await self._forget(question)
        if proposal is None:
            return None
        counts = {} if is_trial else await self._write(question, proposal, until or proposal.made_at)
        if not proposal.operations:
            return None
        if not is_trial:
            _log(proposal, counts)
        return Made(proposal, counts)

    async def _forget(self, question: Question) -> None:
        """Forget the answer to a question, which is wrong or useless."""
        if self.asker is not None:
            await self.asker.forget(question)

    async def _answer(self, question: Question) -> Answer | None:
        if self.asker is None or not question.text:
            return None
        try:
            return await self.asker.ask(question)
        except TooOften:
            log.error(
                "curation.given_up", group=question.group, id=question.name, now_what="it is done without a model"
            )
            return None

    async def _write(self, question: Question, proposal: Proposal, until: datetime) -> Mapping[str, int]:
        """Apply the operations that need no person, and keep the proposal; return state -> number of operations.

        Raises WorldFailed if another change came first, or the disk is full; nothing was changed.
        """
        applies = partial(applies_itself, policy=self.mode)
        applying = Applying(self.whole_files, self.entry_files, proposal, applies, until)
        asked = Asked(proposal.group, CONSOLIDATOR, proposal.id, proposal.session or "main", Wire(), question.digest)
        type_name = "consolidate" if proposal.kind == "consolidation" else "dream"
        reply = orjson.loads(await self.change(asked, type_name, ChangeHandler(applying.decide, applying.prepare)))
        if not reply["ok"]:
            raise WorldFailed(f"{reply['error']['message']}")
        return {state: reply["result"][state] for state in COUNTED}


class Made(NamedTuple):
    """The proposal of a pass, and state -> number of operations; empty for a trial."""

    proposal: Proposal
    counts: Mapping[str, int]


def proposed(
    question: Question, answer: Answer | None, operations: Iterable[Operation], known: Known, **more: Any
) -> Proposal:
    """Return a proposal of numbered operations, with its gates checked.

    Args:
        answer: the model's answer that proposes them; None: they are by rules.
        more: further members of the proposal.
    """
    about = {"id": question.name, "group": question.group, "kind": question.kind, **more}
    if answer is not None:
        tokens = Tokens(input=answer.input_tokens, output=answer.output_tokens)
        about |= {"by": answer.model, "prompt": question.prompt_digest, "tokens": tokens}
    return check(Proposal(**about, operations=numbered(operations)), known)


def taken(turns: Iterable[Turn]) -> int:
    """Return how many of the first turns one pass takes: at least one, else as many as `MAX_TOKENS` allows."""
    totals = accumulate(turn.line_tokens for turn in turns)
    return max(1, sum(total <= MAX_TOKENS for total in totals))


def _log(proposal: Proposal, counts: Mapping[str, int]) -> None:
    first, last = proposal.first_turn or 0, proposal.last_turn or 0
    span = {"session": proposal.session, "turns": last + 1 - first, "up_to": last} if proposal.session else {}
    log.info(
        _FINISHED.get(proposal.kind, "dream.finished"),
        group=proposal.group,
        kind=proposal.kind,
        **span,
        by=proposal.by,
        proposal=proposal_file(proposal.group, proposal.id),
        **counts,
        tokens=proposal.tokens.input + proposal.tokens.output,
    )
