"""Session documents: loaded, updated, compacted, deleted, listed (CM1-CM4); `record_feedback` (RB13)."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from honeybadger_agent.wire import (
    DeleteSession,
    EnvironmentUpdate,
    ListSessions,
    RecordFeedback,
    Refusal,
    TaskUpdate,
    UpdateSession,
)
from honeybadger_agent.wording import count_of
from honeybadger_host.errors import WorldFailed
from honeybadger_host.files.safe_files import MAX_JSON_BYTES
from honeybadger_host.handler_kinds import DEFAULT_ROWS, Asked, Outcome
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.handlers.entries.answers import check_version
from honeybadger_host.handlers.redaction import Texts, check_size, with_neutralised
from honeybadger_host.journal.changes import Added
from honeybadger_host.memory.feedback import Feedback, dump_feedback
from honeybadger_host.memory.session_document import (
    Environment,
    Json,
    SessionDocument,
    Task,
    members_of,
    session_file,
    version_of,
)
from honeybadger_host.memory.session_document_store import Sessions
from honeybadger_host.memory.turn_log import turns_file
from honeybadger_host.text.neutralise import is_blank, neutralise, one_line
from honeybadger_host.text.time_stamps import time_stamp

MAX_FACTS = 1000
MAX_TASKS = 200
_KEPT = (  # by `delete_session`
    "notes, entries and proposals of the group: they are not the session's",
    "what HISTORY.md and summary.md tell of it, if it was consolidated: edit them",
    "working memory of the session: its entries expire by themselves",
    "what was said, in its log: search finds it, get_turns with whole reads it; `honeybadger-host forget` deletes it",
    "the recent conversation in contexts and get_history, unless begin_again leaves it out",
)


def load_session(deps: Dependencies, asked: Asked, now: datetime) -> Mapping[str, Any]:
    view = deps.sessions.read(asked.group, asked.session)
    return {
        **members_of(view.document),
        "version": version_of(view.document),
        "turns": view.document.turns,
        "tokens": view.document.tokens,
        "file": session_file(asked.group, asked.session),
        "is_new": view.is_new,
    }


def update_session(deps: Dependencies, asked: Asked[UpdateSession], now: datetime) -> Outcome:
    if not asked.payload.model_fields_set - {"expected_version"}:
        raise Refusal("invalid", "the payload says nothing to change; nothing was changed", field="payload")
    payload, documents = asked.payload, deps.sessions
    texts = deps.texts(asked)
    document = documents.view(asked.group, asked.session).document
    check_version("the document", payload.expected_version, version_of(document))
    updated = _updated(document, payload, texts, now, documents.limits.max_prose_characters)
    result = {
        "session": asked.session,
        "file": session_file(asked.group, asked.session),
        "version": version_of(updated),
        "turns": updated.turns,
        "entries": len(updated.recent_history),
        "tokens": updated.tokens,
        "facts": len(updated.facts),
        "tasks": len(updated.active_tasks),
    }
    return Outcome(with_neutralised(result, texts.changed), (documents.write(asked.group, asked.session, updated),))


def delete_session(deps: Dependencies, asked: Asked[DeleteSession], now: datetime) -> Outcome:
    """Delete a document: earlier turns stay in the log but do not come back."""
    document = deps.sessions.view(asked.group, asked.session).document
    check_version("the document", asked.payload.expected_version, version_of(document))
    changes, begins_after = deps.sessions.remove(
        asked.group, asked.session, asked.sender, now, begins_again=asked.payload.begin_again or False
    )
    result = {
        "session": asked.session,
        "is_deleted": bool(changes),
        "file": session_file(asked.group, asked.session),
        "log": turns_file(asked.group, asked.session) if document.turns else None,
        "context_begins_after": begins_after,
        "kept": [*_KEPT],
    }
    return Outcome(result, changes)


def list_sessions(deps: Dependencies, asked: Asked[ListSessions], now: datetime) -> Mapping[str, Any]:
    """Return the sessions; a document that cannot be read is named and hides no other."""
    names = deps.sessions.names(asked.group)
    first = asked.payload.offset or 0
    shown = names[first : first + (asked.payload.limit or DEFAULT_ROWS)]
    return {"sessions": [_row(deps.sessions, asked.group, *found) for found in shown], "total": len(names)}


def _row(documents: Sessions, group: str, session: str, changed: float) -> dict[str, Any]:
    at = time_stamp(datetime.fromtimestamp(changed, UTC), "milliseconds")
    head: dict[str, Any] = {"session": session, "updated_at": at}
    try:
        view = documents.read(group, session)
    except WorldFailed as error:
        return {**head, "turns": 0, "entries": None, "tokens": None, "has_file": True, "problem": str(error)}
    document = view.document
    if view.skipped:
        head["problem"] = (
            f"{turns_file(group, session)}: {count_of(view.skipped, 'line')} skipped, not a turn; "
            f"the newest {view.fault}"
        )
    return {
        **head,
        "turns": document.turns,
        "entries": len(document.recent_history),
        "tokens": document.tokens,
        "has_file": view.data is not None,
    }


# -------------------------------------------------------------------------------------------------------------- update


def _updated(
    document: SessionDocument, payload: UpdateSession, texts: Texts, now: datetime, max_prose: int
) -> SessionDocument:
    """Return the document with the payload's changes. Raises Refusal; then nothing was changed."""
    seconds = int(now.timestamp())
    changed: dict[str, object] = {}
    if payload.system_state is not None:
        state = _merged(document.system_state, texts.tree("payload.system_state", payload.system_state))
        changed["system_state"] = state
        check_size("payload.system_state", len(orjson.dumps(state)), MAX_JSON_BYTES, "bytes")
    if payload.add_facts or payload.remove_facts:
        changed["facts"] = _facts(document.facts, payload, texts)
    if payload.long_term_summary is not None:
        summary = texts.lines("payload.long_term_summary", payload.long_term_summary).strip("\n")
        check_size("payload.long_term_summary", len(summary), max_prose, "characters")
        changed["long_term_summary"] = summary
    if payload.active_tasks or payload.remove_tasks:
        changed["active_tasks"] = _tasks(document.active_tasks, payload, texts, seconds)
    if (update := payload.last_known_environment) is not None:
        changed["last_known_environment"] = _environment(document.last_known_environment, update, texts, seconds)
    if payload.tool_calls:
        calls = [
            (texts.line(f"payload.tool_calls.{at}.tool", item.tool), item.calls)
            for at, item in enumerate(payload.tool_calls)
            if item.calls
        ]
        changed["tool_stats"] = document.tool_stats.counted(calls, sum(item.failures for item in payload.tool_calls))
    return document.model_copy(update=changed)


def _merged(state: Json, patch: Json) -> dict[str, object]:
    """Return a JSON merge patch applied (RFC 7396): null removes, objects merge, anything else replaces."""
    merged = dict(state)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            before = merged.get(key)
            merged[key] = _merged(before if isinstance(before, dict) else {}, value)
        else:
            merged[key] = value
    return merged


def _facts(facts: Sequence[str], payload: UpdateSession, texts: Texts) -> tuple[str, ...]:
    """Return the facts without those removed and with those added, each once."""
    kept = dict.fromkeys(facts)
    for at, fact in enumerate(payload.remove_facts or ()):
        member = f"payload.remove_facts.{at}"
        if fact in kept:
            del kept[fact]
        elif (line := texts.line(member, fact)) in kept:
            del kept[line]
        else:
            raise Refusal(
                "not_found", f"{member} is not one of the facts, word for word; nothing was changed", field=member
            )
    for at, fact in enumerate(payload.add_facts or ()):
        kept[texts.line(f"payload.add_facts.{at}", fact)] = None
    check_size("payload.add_facts", len(kept), MAX_FACTS, "facts")
    return tuple(kept)


def _tasks(tasks: Sequence[Task], payload: UpdateSession, texts: Texts, now: int) -> tuple[Task, ...]:
    """Return the tasks without those removed, with those changed in their places and the new ones at the end."""
    kept = {task.id: task for task in tasks}
    for at, id_ in enumerate(payload.remove_tasks or ()):
        if kept.pop(id_, None) is None:
            member = f"payload.remove_tasks.{at}"
            raise Refusal("not_found", f"{member} is not a task of this session; nothing was changed", field=member)
    for at, update in enumerate(payload.active_tasks or ()):
        member = f"payload.active_tasks.{at}"
        id_ = texts.line(f"{member}.id", update.id)
        kept[id_] = _task(kept.get(id_), id_, update, member, texts, now)
    check_size("payload.active_tasks", len(kept), MAX_TASKS, "tasks")
    return tuple(kept.values())


def _task(known: Task | None, id_: str, update: TaskUpdate, member: str, texts: Texts, now: int) -> Task:
    if known is None:
        if update.description is None:
            raise Refusal(
                "invalid",
                f"{member}.description is missing: the task is new; nothing was changed",
                field=f"{member}.description",
            )
        known = Task(id=id_, status="Running", created_at=now)
    changed = {**update.model_dump(include={"status", "progress"}, exclude_none=True), "updated_at": now}
    if update.description is not None:
        changed["description"] = texts.line(f"{member}.description", update.description)
    return known.model_copy(update=changed)


def _environment(known: Environment, update: EnvironmentUpdate, texts: Texts, now: int) -> Environment:
    member = "payload.last_known_environment"
    changed: dict[str, object] = {"last_update": now}
    if update.workspace is not None:
        changed["workspace"] = one_line(texts.lines(f"{member}.workspace", update.workspace)).text
    if update.system_snapshot is not None:
        changed["system_snapshot"] = snapshot = texts.tree(f"{member}.system_snapshot", update.system_snapshot)
        check_size(f"{member}.system_snapshot", len(orjson.dumps(snapshot)), MAX_JSON_BYTES, "bytes")
    return known.model_copy(update=changed)


def record_feedback(deps: Dependencies, asked: Asked[RecordFeedback], now: datetime) -> Outcome:
    payload = asked.payload
    texts = deps.texts(asked)
    content = texts.text("payload.content", payload.content or "")
    if payload.kind == "correction" and is_blank(neutralise(content).text):
        raise Refusal(
            "invalid",
            "payload.content is needed for a correction: say what was wrong, and what to do instead",
            field="payload.content",
        )
    last = deps.turn_logs.next_number(asked.group, asked.session) - 1
    if payload.turn is not None and payload.turn > last:
        raise Refusal(
            "not_found",
            f"session {asked.session} has no turn {payload.turn}, its newest is {last}: leave `turn` out for that",
            field="payload.turn",
        )
    feedback = Feedback(
        at=now,
        kind=payload.kind,
        content=content,
        session=asked.session,
        turn=payload.turn or last or None,
        by=asked.sender,
        request=asked.request_id,
    )
    result = with_neutralised({"turn": feedback.turn}, texts.changed)
    return Outcome(result, (Added.of("feedback", asked.group, dump_feedback(feedback)),))
