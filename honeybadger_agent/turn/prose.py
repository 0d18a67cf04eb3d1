"""Results as text for a model: a few lines for every tool, shorter than its JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from honeybadger_agent import wire
from honeybadger_agent.cli.explaining import about_message, also, kinds_of, origin_told, similar_told, waiting_told
from honeybadger_agent.quoting import quoted
from honeybadger_agent.wording import count_of


def text_of(tool: str, result: wire.Wire) -> str:
    """Return a result as text, never empty: its prose, else its members, each on a line."""
    if isinstance(result, wire.NoteResult | wire.EntryResult) and result.proposal is not None:
        return waiting_told(result.proposal)
    if tool in PROSE:
        return PROSE[tool](result)
    return "\n".join(f"{name}: {_value(value)}" for name, value in members_of(result).items()) or "Done."


def members_of(result: wire.Wire) -> dict[str, Any]:
    """Return the members of a result that differ from their defaults, as JSON values by name."""
    return result.model_dump(mode="json", exclude_defaults=True, exclude_none=True)


def _value(value: object) -> str:
    """Return a value in which no line looks like a line for another member."""
    match value:
        case str() if value == _line(value):
            return value
        case [dict(), *_]:
            return "".join(f"\n- {_json(row)}" for row in value)
        case _:
            return _json(value)


def _note(result: wire.NoteResult) -> str:
    return f"Saved in {result.file}, section {result.section}.{_neutralised(result.neutralised)}"


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
        result.edited_by and f"edited by {result.edited_by}",
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


WEAK = "weak match"  # the last remark on a hit that matches the query only weakly


def _search(result: wire.SearchResult) -> str:
    lines = [_hit(hit) for hit in result.hits] or ["Nothing matches."]
    return "\n".join(lines if result.is_complete else [*lines, "(Files are still being indexed: there may be more.)"])


def _hit(hit: wire.Hit) -> str:
    weak = WEAK if hit.why_weak else None
    about = (hit.category, hit.time, hit.author, origin_told(hit), *map(also, hit.also), weak)
    return (
        f"[{hit.id}] ({', '.join(_line(part) for part in about if part)}) {quoted(_line(hit.text))}{' …' * hit.is_cut}"
    )


def _working_entry(result: wire.WorkingEntryResult) -> str:
    about = (result.category, f"until {result.expires_at}", f"by {result.by}", ", ".join(result.tags))
    return f"[{_line(result.key)}] ({_line('; '.join(part for part in about if part))})\n{result.data}"


def _messages(result: wire.MessagesResult) -> str:
    rows = [f"[{one.seq}] ({about_message(one)}) {quoted(one.content)}" for one in result.messages]
    return "\n".join([*rows, f"Go on with after={result.after}." if rows else "No messages."])


def _delegated(result: wire.DelegationResult) -> str:
    state = "answers" if result.state == "done" else f"did not come to an end: {result.stopped_by}"
    return f"{result.agent} {state}:\n{result.content}"


# Name of a tool -> function from its result to prose. Results of all other tools are shown as a list of their members.
PROSE: Mapping[str, Callable[[Any], str]] = {
    "update_memory": _note,
    "read_group_files": _group_files,
    "get_history": _history,
    "get_context": _context,
    "save_memory": _saved_entry,
    "get_memory": _entry,
    "edit_memory": _edited_entry,
    "delete_memory": _deleted_entry,
    "search_memory": _search,
    "get_from_working_memory": _working_entry,
    "get_messages": _messages,
    "delegate_to_agent": _delegated,
}


def _line(text: str) -> str:
    """Return text on one line, so that it cannot forge another row."""
    return " ".join(text.split())


def _json(value: object) -> str:
    return orjson.dumps(value).decode()


def _neutralised(changed: Mapping[str, int]) -> str:
    counts = kinds_of(changed)
    return f" Made harmless in it: {counts}." if counts else ""
