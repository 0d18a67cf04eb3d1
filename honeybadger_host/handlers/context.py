"""`get_context`, and `preview_context` for the operator: a context is loaded, built and explained (HB5)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import structlog

from honeybadger_agent.mailbox import OPERATOR
from honeybadger_agent.wire import GetContext, PreviewContext, Refusal
from honeybadger_host.domain import (
    GLOBAL_GROUP_FILE,
    MEMORY,
    NOBODY,
    PERSONA,
    ROOT_GLOBAL_FILE,
    SUMMARY,
    Answer,
    Asked,
    Identity,
    Turn,
)
from honeybadger_host.errors import FileProblem, WorldFailed
from honeybadger_host.handlers.context_parts import CONVERSATION, RECALLED, Loaded, Parts, parts_of, stable_parts_of
from honeybadger_host.handlers.context_recall import ContextRecall
from honeybadger_host.handlers.context_text import build_context
from honeybadger_host.handlers.working_memory import InventoryOf
from honeybadger_host.memory.compaction import digest
from honeybadger_host.memory.group_files import GroupFiles, GroupText
from honeybadger_host.memory.session_document_store import Sessions, session_file
from honeybadger_host.memory.summary_parts import shown_in
from honeybadger_host.memory.turn_log import TurnLogs, turns_file
from honeybadger_host.memory.watermarks import Watermark, Watermarks, begins_after, replayed
from honeybadger_host.text.neutralise import estimate_tokens, neutralise
from honeybadger_host.text.redaction import redact

log = structlog.get_logger()

_MOST_REPLAYED: Final = 1000
"""Turns that are replayed when consolidation is behind, as far as they fit the budget."""


@dataclass(frozen=True, slots=True)
class ContextHandler:
    """Answers both types.

    Args:
        identity_of: sender -> its identity, when it is an agent of this home.
        budget_tokens: of a whole context, unless the request says.
        replayed_turns: newest turns of a session to replay; 0 when no conversation is kept.
        memory_window: turns after which older ones are consolidated; see `watermarks.replayed`.
        shows_document: whether the session's document is a part.
    """

    files: GroupFiles
    turn_logs: TurnLogs
    documents: Sessions
    inventory: InventoryOf
    recaller: ContextRecall
    identity_of: Callable[[str], Identity]
    budget_tokens: int
    replayed_turns: int
    watermarks: Watermarks
    memory_window: int
    shows_document: bool = True

    def answer(self, asked: Asked, now: datetime) -> Answer:
        """Return a `ContextResult`. Raises Refusal, WorldFailed."""
        payload = asked.payload
        assert isinstance(payload, GetContext)  # noqa: S101  the table pairs type and payload
        group, session = asked.group, asked.session
        identity = self._identity(asked, payload)
        mark = self.watermarks.read(group, session)
        after, kept = self._conversation(group, session, mark)
        begun_after, window = self.documents.in_context(group, session, kept)
        is_told = mark is None or begun_after < mark.turn
        said = _without(payload.message, window)
        turns = replayed(said, after, self.replayed_turns, self.memory_window) if self.replayed_turns else ()
        if payload.most_turns is not None:
            turns = turns[-payload.most_turns :]
        recalled = self.recaller.recall(group, session, payload.message, turns, now)
        loaded = Parts(
            group=group,
            identity=[
                *([GroupText(identity.source, identity.text)] if identity.text else []),
                *(found for file in identity.files if (found := self._read(file)) is not None),
            ],
            specialists=identity.specialists,
            persona=self._read(f"groups/{group}/{PERSONA}"),
            memory=self._read(f"groups/{group}/{MEMORY}"),
            summary=self._summary(group, session, is_told=is_told),
            global_files=[(file, self._read(file)) for file in (ROOT_GLOBAL_FILE, GLOBAL_GROUP_FILE)],
            turns=turns,
            older_turns=len(said) - len(turns),
            older_why=self._why_older(after, turns),
            no_turns=None if self.replayed_turns else "conversation.enabled is off",
            turns_file=turns_file(group, session),
            message=payload.message,
            working=self.inventory(group, session, now),
            session_file=session_file(group, session),
            **self._session(group, session, is_summarised=is_told and mark is not None and mark.part is not None),
            recalled=recalled.recollections,
            not_recalled=recalled.why_none,
        )
        budget = self.budget_tokens if payload.budget_tokens is None else payload.budget_tokens
        parts = parts_of(
            loaded,
            budget_tokens=budget,
            history_budget_tokens=self.recaller.history_budget_tokens,
            recall_budget_tokens=self.recaller.settings.budget_tokens,
        )
        message_tokens = None if payload.message is None else estimate_tokens(payload.message)
        context = build_context(group, parts, stable_parts_of(parts), message_tokens, budget_tokens=budget)
        log.debug(
            "context.built",
            group=group,
            session=session,
            tokens=context.tokens,
            budget_tokens=budget,
            history_tokens_before=sum(turn.line_tokens for turn in window),
            history_tokens=estimate_tokens(context.part(CONVERSATION).text),
        )
        result = {
            "system": context.system,
            "messages": [] if payload.message is None else [{"role": "user", "content": payload.message}],
            "sections": [row.model_dump(exclude_none=True) for row in context.sections],
            "hash": context_hash(context.system),
            "stable_hash": context_hash(context.stable),
            "stable_characters": len(context.stable),
            "tokens": context.tokens,
            "budget_tokens": context.budget_tokens,
            "is_over_budget": context.is_over_budget,
            "recalled": recalled.considered(context.part(RECALLED).missing),
        }
        return Answer(result, None if isinstance(payload, PreviewContext) else recalled.injection)

    def _identity(self, asked: Asked, payload: GetContext) -> Identity:
        """Return whose context it is. Raises Refusal."""
        if not isinstance(payload, PreviewContext):
            return self.identity_of(asked.sender)
        if asked.sender != OPERATOR:
            why = "preview_context is the operator's: honeybadger-host context <group>"
            raise Refusal("forbidden", why, field="type")
        if payload.agent is None:
            return NOBODY
        if (identity := self.identity_of(payload.agent)) == NOBODY:
            why = f"there is no agent {payload.agent!r}: `honeybadger-host status` lists them"
            raise Refusal("not_found", why, field="payload.agent")
        return identity

    def _conversation(self, group: str, session: str, mark: Watermark | None) -> tuple[int, Sequence[Turn]]:
        """Return the number of the last consolidated turn, and the turns that may be replayed."""
        if not self.replayed_turns:
            return 0, ()
        window = self.turn_logs.load(group, session)
        after = begins_after(window.last_number, mark, self.memory_window)
        if self.memory_window and window.turns and window.turns[0].number > after + 1:
            return after, self.turn_logs.since(group, session, after, _MOST_REPLAYED)
        return after, window.turns

    def _why_older(self, after: int, turns: Sequence[Turn]) -> str:
        newest = f"the newest {len(turns)} turns are replayed"
        if not self.memory_window:
            return f"{newest} (consolidation.memory_window is 0)"
        if after and len(turns) > self.replayed_turns:
            return f"turns up to {after} are consolidated: HISTORY.md and summary.md tell of them"
        return f"{newest} (history.replayed_turns)"

    def _summary(self, group: str, session: str, *, is_told: bool) -> Loaded:
        """Return summary.md without the parts of other sessions.

        Args:
            is_told: its own part is shown; it is not where the context began afresh since.
        """
        loaded = self._read(f"groups/{group}/{SUMMARY}")
        if not isinstance(loaded, GroupText) or "## " not in loaded.text:
            return loaded
        text = shown_in(loaded.text, session if is_told else None, self.watermarks.sessions(group))
        return loaded if text == loaded.text else replace(loaded, text=text)

    def _session(self, group: str, session: str, *, is_summarised: bool) -> dict[str, Any]:
        """Return the session document's contribution to the parts.

        Args:
            is_summarised: summary.md tells what was said, so the document does not tell it again.
        """
        if not self.shows_document:
            return {"no_session": "document.in_context is false"}
        try:
            told = digest(self.documents.standing(group, session))
            return {"session": replace(told, prose=(), said=()) if is_summarised else told}
        except WorldFailed as error:
            log.warning("session.passed_over", group=group, session=session, error=str(error))
            return {"no_session": "it cannot be read: the host needs a plain file there"}

    def _read(self, file: str) -> Loaded:
        """Return a file's text; a file that cannot be served becomes part of the answer, not an error."""
        try:
            return self.files.read(file)
        except FileProblem as problem:
            log.warning("group_file.refused", file=problem.file, why=problem.message)
            return problem


def context_hash(text: str) -> str:
    """Return the name of a context, or of its beginning: 32 hex digits of its SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _without(message: str | None, turns: Sequence[Turn]) -> Sequence[Turn]:
    """Return the turns without the newest if that is the message, which is already in `messages`."""
    if message is None or not turns or turns[-1].role != "user":
        return turns
    said = neutralise(message).text.strip()
    newest = neutralise(turns[-1].content).text.strip()
    return turns[:-1] if newest == said or newest == redact(said)[0] else turns
