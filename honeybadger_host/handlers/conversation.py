"""Conversation: `append_turn`, `get_history`, `get_context` (AM1, HB5, HB6, HB9)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import structlog

from honeybadger_agent.mailbox import OPERATOR
from honeybadger_agent.turn.thinking import Visible
from honeybadger_agent.wire import AppendTurn, GetContext, GetHistory, PreviewContext, Refusal
from honeybadger_host.domain import (
    GLOBAL_GROUP_FILE,
    NOBODY,
    ROOT_GLOBAL_FILE,
    Asked,
    ChangeHandler,
    Identity,
    Outcome,
    QueryHandler,
    Turn,
    TurnAdded,
)
from honeybadger_host.errors import FileProblem, WorldFailed
from honeybadger_host.handlers.context_recall import Recalled, Recaller
from honeybadger_host.handlers.context_text import Loaded, Parts, build_context
from honeybadger_host.handlers.redaction import Screen
from honeybadger_host.handlers.working_memory import InventoryOf
from honeybadger_host.memory.budget import format_history
from honeybadger_host.memory.group_files import GroupFiles, GroupText
from honeybadger_host.memory.session_document_store import Sessions
from honeybadger_host.memory.turn_log import Conversations, dump_turn, turns_file
from honeybadger_host.memory.working_memory import Inventory
from honeybadger_host.text.neutralise import estimate_tokens, is_blank, neutralise, one_line
from honeybadger_host.text.time_stamps import time_stamp

log = structlog.get_logger()


def prepare_turn(conversations: Conversations, documents: Sessions) -> Callable[[Asked], None]:
    """Return what loads a session before turns are added to it."""

    def prepare(asked: Asked) -> None:
        conversations.load(asked.group, asked.session)
        try:
            documents.prepare(asked.group, asked.session)
        except WorldFailed as error:  # a turn does not need the document: it is in the log, whatever became of that
            log.warning("session.passed_over", group=asked.group, session=asked.session, error=str(error))

    return prepare


def append_turn(conversations: Conversations, documents: Sessions, screen: Screen) -> ChangeHandler[None]:
    """Return the handler of `append_turn`; a turn that brings the session's document over a limit compacts it."""

    def decide(asked: Asked, prepared: None, now: datetime) -> Outcome:
        payload = asked.payload
        assert isinstance(payload, AppendTurn)  # noqa: S101  the table pairs type and payload
        text, thoughts = payload.content, 0
        if payload.role == "assistant":
            visible = Visible.of(text)
            text, thoughts = visible.text, visible.count
        if is_blank(neutralise(text).text):
            what = "holds nothing but thinking" if thoughts else "is blank"
            raise Refusal("invalid", f"payload.content {what}: nothing was appended", field="payload.content")
        screen.session(asked)
        speaker = speaker_of(payload.sender, asked.sender if payload.role == "assistant" else payload.role)
        content, changed = screen.text(asked, "payload.content", text)
        turn = Turn(
            number=conversations.next_number(asked.group, asked.session),
            at=now,
            role=payload.role,
            sender=speaker if payload.sender is None else screen.name(asked, "payload.sender", speaker),
            by=asked.sender,
            content=content,
            token_count=estimate_tokens(content),
            tools_used=tuple(screen.name(asked, "payload.tools_used", name) for name in payload.tools_used or ()),
            input_tokens=payload.input_tokens,
            output_tokens=payload.output_tokens,
        )
        change = TurnAdded(asked.group, asked.session, turn, dump_turn(turn, asked.request_id))
        result: dict[str, Any] = {"turn": turn.number, "token_count": turn.token_count}
        if changed or thoughts:
            result["neutralised"] = {**changed, **({"thinking": thoughts} if thoughts else {})}
        return Outcome(result, (change, *documents.after_turns([change], now)))

    return ChangeHandler(decide, prepare_turn(conversations, documents))


def get_history(conversations: Conversations, *, default_budget_tokens: int) -> QueryHandler:
    """Return the handler of `get_history`."""

    def answer(asked: Asked, now: datetime) -> Mapping[str, Any]:
        payload = asked.payload
        assert isinstance(payload, GetHistory)  # noqa: S101  the table pairs type and payload
        budget = default_budget_tokens if payload.budget_tokens is None else payload.budget_tokens
        turns = conversations.load(asked.group, asked.session).turns
        if payload.max_messages is not None:
            turns = turns[-payload.max_messages :]
        history = format_history(turns, budget)
        return {
            "text": history.text,
            "messages": [_message(turn) for turn in history.turns],
            "tokens": history.tokens,
            "dropped": history.dropped,
            "shortened": history.is_shortened,
        }

    return QueryHandler(answer)


def load_parts(
    files: GroupFiles,
    turns: Sequence[Turn],
    group: str,
    session: str,
    message: str | None,
    recalled: Recalled,
    working: Inventory | None = None,
    identity: Identity = NOBODY,
) -> Parts:
    """Read what a context is made of; a file that cannot be served is part of the answer, not an error."""

    def read(load: Callable[[str], GroupText | None], name: str) -> Loaded:
        try:
            return load(name)
        except FileProblem as problem:
            log.warning("group_file.refused", file=problem.file, why=problem.message)
            return problem

    global_files = [(file, read(files.read, file)) for file in (ROOT_GLOBAL_FILE, GLOBAL_GROUP_FILE)]
    return Parts(
        group=group,
        identity=[
            *([GroupText(identity.source, identity.text)] if identity.text else []),
            *(found for file in identity.files if (found := read(files.read, file)) is not None),
        ],
        persona=read(files.persona, group),
        memory=read(files.memory, group),
        summary=read(files.summary, group),
        global_files=global_files,
        turns=turns,
        turns_file=turns_file(group, session),
        message=message,
        working=working,
        recalled=recalled.recollections,
        not_recalled=recalled.why_none,
    )


def get_context(
    files: GroupFiles,
    conversations: Conversations,
    inventory: InventoryOf,
    recaller: Recaller,
    identity_of: Callable[[str], Identity],
    *,
    default_budget_tokens: int,
) -> QueryHandler:
    """Return the handler of `get_context`, and of `preview_context`, which notes nothing.

    Args:
        identity_of: sender -> who it is, when it is an agent of this home.
    """

    def answer(asked: Asked, now: datetime) -> Mapping[str, Any]:
        payload = asked.payload
        assert isinstance(payload, GetContext)  # noqa: S101  the table pairs type and payload
        is_preview = isinstance(payload, PreviewContext)
        identity = identity_of(asked.sender)
        if isinstance(payload, PreviewContext):
            identity = _previewed(asked, payload, identity_of)
        budget = default_budget_tokens if payload.budget_tokens is None else payload.budget_tokens
        turns = conversations.load(asked.group, asked.session).turns
        recalled = recaller.recall(asked.group, asked.session, payload.message, turns, now, keeps=not is_preview)
        working = inventory(asked.group, asked.session, now)
        context = build_context(
            load_parts(
                files,
                turns,
                asked.group,
                asked.session,
                payload.message,
                recalled,
                working,
                identity,
            ),
            budget_tokens=budget,
            history_budget_tokens=recaller.history_budget_tokens,
            recall_budget_tokens=recaller.settings.budget_tokens,
        )
        before, after = context.history_tokens
        log.debug(
            "context.built",
            group=asked.group,
            session=asked.session,
            tokens=context.tokens,
            budget_tokens=budget,
            history_tokens_before=before,
            history_tokens=after,
        )
        return {
            "system": context.system,
            "messages": [] if context.message is None else [{"role": "user", "content": context.message}],
            "sections": [row.model_dump(exclude_none=True) for row in context.sections],
            "tokens": context.tokens,
            "budget_tokens": context.budget_tokens,
            "is_over_budget": context.is_over_budget,
            "recalled": recalled.considered(context.forgotten),
        }

    return QueryHandler(answer)


def _previewed(asked: Asked, payload: PreviewContext, identity_of: Callable[[str], Identity]) -> Identity:
    """Return whose context the operator looks at. Raises Refusal."""
    if asked.sender != OPERATOR:
        raise Refusal("forbidden", "preview_context is the operator's: honeybadger-host context <group>", field="type")
    if payload.agent is None:
        return NOBODY
    if (identity := identity_of(payload.agent)) == NOBODY:
        why = f"there is no agent {payload.agent!r}: `honeybadger-host status` lists them"
        raise Refusal("not_found", why, field="payload.agent")
    return identity


def speaker_of(sender: str | None, default: str) -> str:
    """Return the name shown for a turn. Raises Refusal: it could forge another speaker's line."""
    if sender is None:
        return default
    name = one_line(sender)
    if name.changed or is_blank(name.text) or "[" in name.text or "]" in name.text:
        raise Refusal("invalid", "payload.sender must be one visible line without [ and ]", field="payload.sender")
    return name.text


def _message(turn: Turn) -> dict[str, Any]:
    at = time_stamp(turn.at, "milliseconds")
    return {"role": turn.role, "content": turn.content, "sender": turn.sender, "turn": turn.number, "at": at}
