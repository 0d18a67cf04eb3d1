"""Makes a context of what a group's memory holds (HB5)."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from honeybadger_agent.wire import PART_NAMES, PartName
from honeybadger_host.agents import Agent
from honeybadger_host.context.parts import (
    CONVERSATION,
    RECALLED,
    Loaded,
    Older,
    conversation_part,
    file_part,
    in_order,
    parts_of_files,
    recalled_part,
    session_part,
    specialists_part,
    stable_parts_of,
    working_part,
)
from honeybadger_host.context.recall import ContextRecall, Recalled
from honeybadger_host.context.text import Context, Part, build_context
from honeybadger_host.errors import FileProblem, WorldFailed
from honeybadger_host.files.home import SUMMARY
from honeybadger_host.log import log
from honeybadger_host.memory.markdown.group_files import GroupFiles, GroupText
from honeybadger_host.memory.session_document import session_file
from honeybadger_host.memory.session_document_store import Sessions
from honeybadger_host.memory.turn_log import turns_file
from honeybadger_host.memory.turn_log_store import TurnLogs, Watermark, Watermarks, begins_after, replayed
from honeybadger_host.memory.working_memory import session_folder
from honeybadger_host.memory.working_memory_store import WorkingMemoryStore
from honeybadger_host.settings import Settings
from honeybadger_host.text.neutralise import neutralise
from honeybadger_host.text.redaction import redact
from honeybadger_host.text.turn import Turn


@dataclass(frozen=True, slots=True)
class Question:
    """A request for a context.

    Args:
        message: the user's text; None when nothing is asked.
        parts: names of the wanted parts; None: all.
    """

    group: str
    session: str
    message: str | None
    message_tokens: int | None
    budget_tokens: int
    most_turns: int | None
    parts: Sequence[PartName] | None = None


@dataclass(frozen=True, slots=True)
class ContextMaker:
    """Makes contexts of a home's memory."""

    settings: Settings
    files: GroupFiles
    turn_logs: TurnLogs
    documents: Sessions
    working_memory: WorkingMemoryStore
    recaller: ContextRecall
    watermarks: Watermarks

    def make(
        self, question: Question, agent: Agent | None, specialists: Sequence[Agent], now: datetime
    ) -> tuple[Context, Recalled]:
        """Return the context of an agent, or of nobody in particular, and the recollections in it. Raises WorldFailed.

        Args:
            specialists: the agents that it can give tasks to.
        """
        settings = self.settings
        group, session = question.group, question.session
        mark = self.watermarks.read(group, session)
        after, kept = self._conversation(group, session, mark)
        begun_after, window = self.documents.deletion(group, session).left(kept)
        is_told = mark is None or begun_after < mark.turn
        said = window[:-1] if _is_newest(question.message, window) else window
        turns: Sequence[Turn] = ()
        if settings.conversation.enabled:
            turns = replayed(said, after, settings.history.replayed_turns, settings.consolidation.memory_window)
        if question.most_turns is not None:
            turns = turns[-question.most_turns :]
        names = PART_NAMES if question.parts is None else question.parts
        recalled = Recalled(why_none="it is not in payload.parts")
        if "recalled" in names:
            recalled = self.recaller.recall(group, session, question.message, turns, now)
        if "conversation" not in names:  # the asker keeps it, with the recollections of earlier messages
            new = [one for one in recalled.recollections if one.state != "in_view" and one.shown_as is None]
            recalled = replace(recalled, recollections=new)
        budget = question.budget_tokens
        most = settings.recall.budget_tokens or sys.maxsize
        if budget and {*names} != {"recalled"}:
            most = min(most, budget // 2)
        older = Older(len(said) - len(turns), self._why_older(after, turns))
        why_no_turns = (
            "nothing was said in this session" if settings.conversation.enabled else "conversation.enabled is off"
        )
        working_folder = f"{session_folder(group, session)}/"
        working = working_part(working_folder, (), "working.enabled is false")
        if settings.working.enabled:
            working = working_part(working_folder, self.working_memory.inventory(group, session, now))
        is_summarised = is_told and mark is not None and mark.part is not None
        made: dict[PartName, list[Part]] = {
            "identity": [file_part("## Your Identity", file.file, file) for file in self._identity(agent)],
            **parts_of_files(group, self._read, budget, self._summary(group, session, is_told=is_told)),
            "recalled": [recalled_part(group, recalled.recollections, recalled.why_none, most)],
            "session": [self._session(group, session, is_summarised=is_summarised)],
            "working": [working],
            "conversation": [
                conversation_part(
                    turns_file(group, session), turns, older, settings.history.budget_tokens, why_no_turns
                )
            ],
        }
        if specialists:
            made["specialists"] = [specialists_part(specialists)]
        parts = in_order(made, names)
        head = f"Group: {group}\n" if question.parts is None else ""
        context = build_context(head, parts, stable_parts_of(parts), question.message_tokens, budget_tokens=budget)
        for part in context.titled(RECALLED):
            recalled = recalled.shown(part.recalled, part.missing)
        log.debug(
            "context.built",
            group=group,
            session=session,
            tokens=context.tokens,
            budget_tokens=context.budget_tokens,
            turns=len(window),
            history_tokens=sum(part.text_tokens for part in context.titled(CONVERSATION)),
        )
        return context, recalled

    def _identity(self, agent: Agent | None) -> list[GroupText | FileProblem]:
        """Return an agent's own text and its existing files."""
        if agent is None:
            return []
        found = (self._read(file) for file in agent.files)
        return [GroupText(agent.source, agent.text), *(each for each in found if each is not None)]

    def _conversation(self, group: str, session: str, mark: Watermark | None) -> tuple[int, Sequence[Turn]]:
        """Return the number of the last consolidated turn, and the turns that may be replayed."""
        if not self.settings.conversation.enabled:
            return 0, ()
        memory_window = self.settings.consolidation.memory_window
        window = self.turn_logs.window(group, session)
        after = begins_after(window.last_number, mark, memory_window)
        if memory_window and window.turns and window.turns[0].number > after + 1:
            return after, self.turn_logs.since(group, session, after, window=window)
        return after, window.turns

    def _why_older(self, after: int, turns: Sequence[Turn]) -> str:
        """Return why older turns are not replayed."""
        newest = f"the newest {len(turns)} turns are replayed"
        if not self.settings.consolidation.memory_window:
            return f"{newest} (consolidation.memory_window is 0)"
        if after and len(turns) > self.settings.history.replayed_turns:
            return f"turns up to {after} are consolidated: HISTORY.md and summary.md tell of them"
        return f"{newest} (history.replayed_turns)"

    def _summary(self, group: str, session: str, *, is_told: bool) -> Loaded:
        """Return summary.md without the parts of other sessions.

        Args:
            is_told: whether the session's own part is shown; false for a context that began after it was consolidated.
        """
        loaded = self._read(f"groups/{group}/{SUMMARY}")
        if not isinstance(loaded, GroupText):
            return loaded
        others = self.watermarks.sessions(group) - {session if is_told else ""}
        return loaded.without_parts(others) if others else loaded

    def _session(self, group: str, session: str, *, is_summarised: bool) -> Part:
        """Return the part of the session document.

        Args:
            is_summarised: whether summary.md has the conversation, so that the document need not.
        """
        source = session_file(group, session)
        if not self.settings.document.in_context:
            return session_part(source, None, "document.in_context is false")
        try:
            told = self.documents.digest(group, session)
        except WorldFailed as error:
            log.warning("session.passed_over", group=group, session=session, error=str(error))
            return session_part(source, None, "it cannot be read: the host needs a plain file there")
        return session_part(source, replace(told, prose=(), said=()) if is_summarised else told)

    def _read(self, file: str) -> Loaded:
        """Return a file's text; a file that cannot be served becomes part of the answer, not an error."""
        try:
            return self.files.read(file)
        except FileProblem as problem:
            log.warning("group_file.refused", file=problem.file, why=problem.message)
            return problem


def result_of(context: Context, recalled: Recalled, seq: int) -> dict[str, Any]:
    """Return a `ContextResult` without messages."""
    missing = {id_ for part in context.titled(RECALLED) for id_ in part.missing}
    begun = _begun(context.stable)
    whole = begun.copy()
    whole.update(context.system[len(context.stable) :].encode())
    return {
        "system": context.system,
        "messages": [],
        "hash": whole.hexdigest()[:32],
        "stable_hash": begun.hexdigest()[:32],
        "stable_characters": len(context.stable),
        "seq": seq,
        "sections": context.sections,
        "tokens": context.tokens,
        "budget_tokens": context.budget_tokens,
        "is_over_budget": context.is_over_budget,
        "recalled": recalled.rows(missing),
    }


@lru_cache(16)
def _begun(stable: str) -> hashlib._Hash:
    """Return the SHA-256 of a beginning; it seldom changes, and hashing 64 KiB takes 0.1 ms."""
    return hashlib.sha256(stable.encode())


def _is_newest(message: str | None, turns: Sequence[Turn]) -> bool:
    """Return whether the newest turn is the message, which is already in `messages`."""
    if message is None or not turns or turns[-1].role != "user":
        return False
    said = neutralise(message).text.strip()
    newest = neutralise(turns[-1].content).text.strip()
    return newest == said or newest == redact(said)[0]
