"""Results as text for a model: a few lines for every tool, shorter than its JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import orjson

from honeybadger_agent import wire
from honeybadger_agent.cli.explaining import about_message, also, kinds_of, origin_told, similar_told, waiting_told
from honeybadger_agent.quoting import quoted
from honeybadger_agent.wording import count_of


def text_of(tool: str, result: wire.Wire) -> str:
    """Return a result as text, never empty; as JSON for a type without prose of its own."""
    if isinstance(result, wire.NoteResult | wire.EntryResult) and result.proposal is not None:
        return waiting_told(result.proposal)
    return PROSE[tool](result) if tool in PROSE else _json(result.model_dump(mode="json", exclude_none=True))


def _note(result: wire.NoteResult) -> str:
    warning = f" Tell the user: {result.warning}." if result.warning else ""
    return f"Saved in {result.file}, section {result.section}.{_neutralised(result.neutralised)}{warning}"


def _group_files(result: wire.GroupFilesResult) -> str:
    files = (("CLAUDE.md", result.persona), ("MEMORY.md", result.memory), ("summary.md", result.summary))
    parts = [f"=== {name} ===\n{text.rstrip()}" for name, text in files if text is not None]
    missing = [name for name, text in files if text is None and name not in {bad.file for bad in result.problems}]
    parts += [f"{name}: there is none." for name in missing]
    parts += [f"{bad.file} {bad.message}" for bad in result.problems]
    return "\n\n".join(parts)


def _history(result: wire.HistoryResult) -> str:
    dropped = f"({count_of(result.dropped, 'earlier turn')} did not fit.)\n" if result.dropped else ""
    return dropped + result.text if result.text else "Nothing was said in this session yet."


def _context(result: wire.ContextResult) -> str:
    return result.system or "The group has no persona, no memory and no conversation yet."


def _saved_entry(result: wire.NewEntry) -> str:
    known = f"Known already, now said {count_of(result.reinforced + 1, 'time')}" if result.reinforced else "Saved"
    similar = "; ".join(map(similar_told, result.similar or ()))
    nearly = f" Nearly the same is there, and stays: {similar}." if similar else ""
    return f"{known}: [{result.id}] in {result.file}.{_neutralised(result.neutralised)}{nearly}"


def _entry(result: wire.EntryResult) -> str:
    kind: str = result.category or result.kind
    facts = [
        kind,
        result.name and f"named {result.name}",
        result.updated and f"updated {result.updated}",
        result.by and f"by {result.by}",
        (told := origin_told(result)) and f"from: {told}",
        result.tags and f"tags: {', '.join(result.tags)}",
        result.aliases and f"aliases: {', '.join(result.aliases)}",
        result.metadata and f"metadata: {_json(result.metadata)}",
        result.valid_until and f"valid until {result.valid_until}",
        result.supersedes and f"supersedes {', '.join(result.supersedes)}",
        result.archived and f"archived{f', superseded by {result.superseded_by}' if result.superseded_by else ''}",
        result.version and f"version {result.version}",
    ]
    title = f" {_line(result.title)}" if result.title else ""
    return f"[{result.id}]{title} ({'; '.join(_line(fact) for fact in facts if fact)})\n{result.content}"


def _edited_entry(result: wire.SavedEntry) -> str:
    return f"Changed: [{result.id}] in {result.file}.{_neutralised(result.neutralised)}"


def _deleted_entry(result: wire.EntryResult) -> str:
    return f"Deleted: {_entry(result)}"


def _categories(result: wire.CategoriesResult) -> str:
    rows = [
        f"{row.category}: {row.entries}" + (f" ({row.total} with those below)" if row.total != row.entries else "")
        for row in result.categories
    ]
    return "\n".join(rows) or "There are no entries yet."


WEAK: Final = "weak match"
"""The last remark on a hit that matches the query only weakly."""


def _search(result: wire.SearchResult) -> str:
    lines = [_hit(hit) for hit in result.hits] or ["Nothing matches."]
    return "\n".join(lines if result.is_complete else [*lines, "(Files are still being indexed: there may be more.)"])


def _hit(hit: wire.Hit) -> str:
    weak = WEAK if hit.why_weak else None
    about = (hit.category, hit.time, hit.author, origin_told(hit), *map(also, hit.also), weak)
    return (
        f"[{hit.id}] ({', '.join(_line(part) for part in about if part)}) {quoted(_line(hit.text))}{' …' * hit.is_cut}"
    )


def _working_saved(result: wire.WorkingSaved) -> str:
    did = "Replaced" if result.replaced else "Kept"
    return f"{did}: {_line(result.key)}, until {result.expires_at}.{_neutralised(result.neutralised)}"


def _label(entry: wire.WorkingLabel) -> str:
    tags = f"tags: {', '.join(entry.tags)}" if entry.tags else None
    about = (
        entry.category,
        f"until {entry.expires_at}",
        count_of(entry.characters, "character"),
        f"by {entry.by}",
        tags,
    )
    return f"[{_line(entry.key)}] ({_line('; '.join(part for part in about if part))})"


def _working_entry(result: wire.WorkingEntryResult) -> str:
    return f"{_label(result)}\n{result.data}"


def _working_hits(result: wire.WorkingHits) -> str:
    return "\n".join(f"{_label(hit)} {quoted(_line(hit.text))}" for hit in result.hits) or "Nothing matches."


def _working_list(result: wire.WorkingList) -> str:
    return "\n".join(_label(entry) for entry in result.entries) or "Working memory is empty."


def _session(result: wire.SessionResult) -> str:
    environment = result.last_known_environment
    parts = [
        f"Session {result.session_id}, version {result.version}"
        + ("; nothing was said or kept in it yet." if result.is_new else f"; {count_of(result.turns, 'turn')}."),
        _part("Summary", result.long_term_summary),
        _part("Facts", _rows(result.facts)),
        _part(
            "Tasks",
            _rows(
                f"[{task.id}] {task.description}: {task.status}, {task.progress:.0%}" for task in result.active_tasks
            ),
        ),
        _part("State", _json(result.system_state) if result.system_state else ""),
        _part("Environment", _json(environment.model_dump()) if environment.last_update else ""),
        _part("Recent history", "\n".join(f"[{said.role}]: {said.content}" for said in result.recent_history)),
    ]
    return "\n\n".join(part for part in parts if part)


def _session_state(result: wire.SessionState) -> str:
    return (
        f"Session {result.session}, version {result.version}: {count_of(result.entries, 'message')}, "
        f"{count_of(result.tokens, 'token')}, {count_of(result.facts, 'fact')}, {count_of(result.tasks, 'task')}."
        f"{_neutralised(result.neutralised)}"
    )


def _compacted(result: wire.CompactResult) -> str:
    did = (
        f"Into the summary: {count_of(result.summarised, 'message')}; removed: "
        f"{count_of(result.facts_removed, 'fact')}, {count_of(result.tasks_removed, 'task')}."
        if result.is_changed
        else "Nothing was to be compacted."
    )
    return f"{did} {_session_state(result)}"


def _deleted_session(result: wire.DeletedResult) -> str:
    did = f"Deleted {result.file}." if result.is_deleted else f"{result.file} is not there: nothing to delete."
    begins = " The next context begins afresh." if result.context_begins_after else ""
    return did + begins + "".join(f"\n- {_line(kept)}" for kept in result.kept)


def _sessions(result: wire.SessionsResult) -> str:
    rows = [
        f"{row.session}: {count_of(row.turns, 'turn')}, changed {row.updated_at}"
        + (f"; {row.problem}" if row.problem else "")
        for row in result.sessions
    ]
    more = result.total - len(rows)
    return (
        "\n".join([*rows, *([f"({count_of(more, 'more session')}.)"] if more > 0 and rows else [])])
        or "There are no sessions."
    )


def _feedback(result: wire.FeedbackResult) -> str:
    return f"Recorded{f' for turn {result.turn}' if result.turn else ''}.{_neutralised(result.neutralised)}"


def _sent(result: wire.SentMessage) -> str:
    return f"Sent as message {result.seq}.{_neutralised(result.neutralised)}"


def _messages(result: wire.MessagesResult) -> str:
    rows = [f"[{one.seq}] ({about_message(one)}) {quoted(one.content)}" for one in result.messages]
    return "\n".join([*rows, f"Go on with after={result.after}." if rows else "No messages."])


def _task(task: wire.Task) -> str:
    coming = f" Next runs: {', '.join(task.next)}." if task.next else " It will not run."
    return (
        f"Task {task.id} ({_line(task.name)}): {task.state}, {task.schedule}.{coming}{_neutralised(task.neutralised)}"
    )


def _tasks(result: wire.TaskList) -> str:
    rows = [
        f"{task.id}: {task.name} ({task.schedule}), {task.state}"
        + (f" ({task.why})" if task.why else "")
        + (f", next {task.next[0]}" if task.next else "")
        for task in result.tasks
    ]
    details = [_json(task.task) for task in result.tasks if task.task is not None]
    return "\n".join([f"{count_of(len(rows), 'scheduled task')}.", *[_rows([row]) for row in rows], *details])


def _delegated(result: wire.DelegationResult) -> str:
    state = "answers" if result.state == "done" else f"did not come to an end: {result.stopped_by}"
    return f"{result.agent} {state}:\n{result.content}"


def _agents(result: wire.AgentsResult) -> str:
    rows = _rows(f"{one.agent} ({one.name}): {one.description}" for one in result.agents)
    return rows or "There is nobody to give a task to."


PROSE: Final[Mapping[str, Callable[[Any], str]]] = {
    "update_memory": _note,
    "read_group_files": _group_files,
    "get_history": _history,
    "get_context": _context,
    "save_memory": _saved_entry,
    "get_memory": _entry,
    "edit_memory": _edited_entry,
    "delete_memory": _deleted_entry,
    "list_memory_categories": _categories,
    "search_memory": _search,
    "save_to_working_memory": _working_saved,
    "get_from_working_memory": _working_entry,
    "search_working_memory": _working_hits,
    "list_working_memory": _working_list,
    "load_session": _session,
    "update_session": _session_state,
    "compact_session": _compacted,
    "delete_session": _deleted_session,
    "list_sessions": _sessions,
    "record_feedback": _feedback,
    "send_message": _sent,
    "get_messages": _messages,
    "schedule_task": _task,
    "pause_task": _task,
    "resume_task": _task,
    "cancel_task": _task,
    "list_tasks": _tasks,
    "delegate_to_agent": _delegated,
    "list_available_agents": _agents,
}
"""Name of a tool -> function from its result model to text."""


def _line(text: str) -> str:
    """Return text on one line, so that it cannot forge another row."""
    return " ".join(text.split())


def _rows(texts: Iterable[str]) -> str:
    return "\n".join(f"- {_line(text)}" for text in texts)


def _part(title: str, text: str) -> str:
    return f"## {title}\n{text}" if text else ""


def _json(value: Mapping[str, Any]) -> str:
    return orjson.dumps(value).decode()


def _neutralised(changed: Mapping[str, int]) -> str:
    """Say what the host changed in a text before it stored it; empty when nothing."""
    counts = kinds_of(changed)
    return f" Made harmless in it: {counts}." if counts else ""
