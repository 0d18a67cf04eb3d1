"""The tool table: what an agent can do with its memory, typed, with descriptions a model can read.

Each function builds a `Call`; a client sends it and returns the result model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from pydantic import ValidationError

from honeybadger_agent import wire
from honeybadger_agent.errors import BY_CODE

ResultT = TypeVar("ResultT", bound=wire.Wire)


@dataclass(frozen=True, slots=True)
class Call(Generic[ResultT]):
    """One request that was not sent yet, and the model of its result."""

    type_name: str
    payload: wire.Wire
    result: type[ResultT]


def ping() -> Call[wire.PingResult]:
    """Ask whether the memory host is there."""
    return Call("ping", wire.Ping(), wire.PingResult)


def update_memory(content: str, section: str | None = None) -> Call[wire.NoteResult]:
    """Save a note to the group's persistent memory. Use this when the user asks you to remember something."""
    return Call("update_memory", _payload(wire.UpdateMemory, content=content, section=section), wire.NoteResult)


def read_group_files() -> Call[wire.GroupFilesResult]:
    """Read the group's persona, its remembered facts and its conversation summary as they are now."""
    return Call("read_group_files", wire.ReadGroupFiles(), wire.GroupFilesResult)


def append_turn(
    role: wire.Role,
    content: str,
    sender: str | None = None,
    tools_used: Sequence[str] | None = None,
    input_tokens: int | None = None,
    output_tokens: int | None = None,
    at: str | None = None,
) -> Call[wire.TurnResult]:
    """Append what was just said to the conversation, once per message."""
    payload = _payload(
        wire.AppendTurn,
        role=role,
        content=content,
        sender=sender,
        tools_used=tools_used,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        at=at,
    )
    return Call("append_turn", payload, wire.TurnResult)


def get_history(budget_tokens: int | None = None, max_messages: int | None = None) -> Call[wire.HistoryResult]:
    """Read the newest part of the conversation that fits a token budget."""
    payload = _payload(wire.GetHistory, budget_tokens=budget_tokens, max_messages=max_messages)
    return Call("get_history", payload, wire.HistoryResult)


def get_context(message: str | None = None, budget_tokens: int | None = None) -> Call[wire.ContextResult]:
    """Get the whole context for the next answer: persona, remembered facts, summary, recent conversation."""
    payload = _payload(wire.GetContext, message=message, budget_tokens=budget_tokens)
    return Call("get_context", payload, wire.ContextResult)


def save_memory(
    content: str,
    category: str | None = None,
    tags: Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    title: str | None = None,
    aliases: Sequence[str] | None = None,
    name: str | None = None,
) -> Call[wire.SavedEntry]:
    """Save one durable fact, preference or lesson as an entry that later conversations find by search.

    Use this for what stays true: one entry for each thing, in words understood without this conversation. Categories:
    user-preferences/... for what the user likes and wants, user-preferences/inferred for what you concluded without
    being told, anti-patterns/{domain} for what went wrong, as "Don't X because Y - instead Z",
    project-context/{project} for facts about a project or system, general for the rest. Saving what is known already
    reinforces the entry and makes no second one.
    """
    payload = _payload(
        wire.SaveMemory,
        content=content,
        category=category,
        tags=tags,
        metadata=metadata,
        title=title,
        aliases=aliases,
        name=name,
    )
    return Call("save_memory", payload, wire.SavedEntry)


def get_memory(id: str) -> Call[wire.EntryResult]:  # noqa: A002  the protocol's name
    """Read one entry of long-term memory as a whole, by the id that search or recall showed in [brackets]."""
    return Call("get_memory", _payload(wire.GetMemory, id=id), wire.EntryResult)


def edit_memory(
    id: str,  # noqa: A002  the protocol's name
    content: str | None = None,
    category: str | None = None,
    name: str | None = None,
    title: str | None = None,
    aliases: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    expected_version: str | None = None,
) -> Call[wire.SavedEntry]:
    """Correct an entry of long-term memory in place: its text, category or labels. What you leave out stays as it is.

    Use this when something that was remembered has changed, or was said imprecisely. Read it first with get_memory and
    give its version as expected_version: then nobody else's change is overwritten.
    """
    payload = _payload(
        wire.EditMemory,
        id=id,
        content=content,
        category=category,
        name=name,
        title=title,
        aliases=aliases,
        tags=tags,
        metadata=metadata,
        expected_version=expected_version,
    )
    return Call("edit_memory", payload, wire.SavedEntry)


def delete_memory(id: str) -> Call[wire.EntryResult]:  # noqa: A002  the protocol's name
    """Remove an entry of long-term memory that is wrong or out of date. Use this when the user asks you to forget.

    Search first for its id. When only a part of it changed, correct it with edit_memory.
    """
    return Call("delete_memory", _payload(wire.DeleteMemory, id=id), wire.EntryResult)


def list_memory_categories() -> Call[wire.CategoriesResult]:
    """List the categories of long-term memory with their counts. Use this before saving, to reuse a category."""
    return Call("list_memory_categories", wire.ListMemoryCategories(), wire.CategoriesResult)


def list_memory_entries(
    category: str | None = None,
    depth: int | None = None,
    name: str | None = None,
    limit: int | None = None,
    offset: int | None = None,
) -> Call[wire.EntriesResult]:
    """List the entries of long-term memory by category and name, with sizes, without their text."""
    payload = _payload(wire.ListMemoryEntries, category=category, depth=depth, name=name, limit=limit, offset=offset)
    return Call("list_memory_entries", payload, wire.EntriesResult)


def save_to_working_memory(
    key: str,
    data: str,
    ttl_minutes: float | None = None,
    category: str | None = None,
    tags: Sequence[str] | None = None,
) -> Call[wire.WorkingSaved]:
    """Keep an intermediate result out of the conversation for some minutes, in the scratch space of this session.

    Use this for large tool results, parts you are assembling, or drafts. It expires (5 minutes by default): what is to
    last belongs into the persistent memory. The same key again replaces what it held.
    """
    payload = _payload(
        wire.SaveToWorkingMemory,
        key=key,
        data=data,
        ttl_minutes=ttl_minutes,
        category=category,
        tags=tags,
    )
    return Call("save_to_working_memory", payload, wire.WorkingSaved)


def get_from_working_memory(key: str) -> Call[wire.WorkingEntryResult]:
    """Get one entry of the scratch space. Use this when the inventory shows a key whose content you need."""
    payload = _payload(wire.GetFromWorkingMemory, key=key)
    return Call("get_from_working_memory", payload, wire.WorkingEntryResult)


def search_working_memory(
    query: str, category: str | None = None, tags: Sequence[str] | None = None
) -> Call[wire.WorkingHits]:
    """Search the scratch space of this session by words. Use this when you do not know which key holds something."""
    payload = _payload(wire.SearchWorkingMemory, query=query, category=category, tags=tags)
    return Call("search_working_memory", payload, wire.WorkingHits)


def list_working_memory() -> Call[wire.WorkingList]:
    """List the keys in the scratch space of this session, with expiry, category and tags, without their data."""
    return Call("list_working_memory", wire.ListWorkingMemory(), wire.WorkingList)


def load_session() -> Call[wire.SessionResult]:
    """Load this session's working document: state, facts, recent history, summary, tasks, tool and token statistics.

    Use this at the start of a session to see where you left off, and before you change facts, tasks or the summary.
    """
    return Call("load_session", wire.LoadSession(), wire.SessionResult)


def update_session(
    system_state: Mapping[str, Any] | None = None,
    add_facts: Sequence[str] | None = None,
    remove_facts: Sequence[str] | None = None,
    long_term_summary: str | None = None,
    active_tasks: Sequence[Mapping[str, Any]] | None = None,
    remove_tasks: Sequence[str] | None = None,
    last_known_environment: Mapping[str, Any] | None = None,
    tool_calls: Sequence[Mapping[str, Any]] | None = None,
    expected_version: str | None = None,
) -> Call[wire.SessionState]:
    """Change this session's working document; what you leave out stays as it is.

    Use this when a task starts, moves on or ends, when you learn something that matters for this session, or when the
    environment changes. Messages are not added here: append_turn does that. For what should outlive the session use
    update_memory. Give the version you loaded as expected_version when you replace the summary.
    """
    payload = _payload(
        wire.UpdateSession,
        system_state=system_state,
        add_facts=add_facts,
        remove_facts=remove_facts,
        long_term_summary=long_term_summary,
        active_tasks=active_tasks,
        remove_tasks=remove_tasks,
        last_known_environment=last_known_environment,
        tool_calls=tool_calls,
        expected_version=expected_version,
    )
    return Call("update_session", payload, wire.SessionState)


def compact_session() -> Call[wire.CompactResult]:
    """Compact this session's document now: old messages into the summary, duplicate facts and ended tasks out.

    The host does this by itself when the history grows over its limits; use this after a task is finished.
    """
    return Call("compact_session", wire.CompactSession(), wire.CompactResult)


def delete_session(expected_version: str | None = None, begin_again: bool | None = None) -> Call[wire.DeletedResult]:
    """Delete this session's document. Use this only when the user asks to forget the session.

    The log of what was said is kept, and contexts still show it unless begin_again is true.
    """
    payload = _payload(wire.DeleteSession, expected_version=expected_version, begin_again=begin_again)
    return Call("delete_session", payload, wire.DeletedResult)


def list_sessions(limit: int | None = None, offset: int | None = None) -> Call[wire.SessionsResult]:
    """List the group's sessions, the last changed first. Use this to find an earlier conversation."""
    payload = _payload(wire.ListSessions, limit=limit, offset=offset)
    return Call("list_sessions", payload, wire.SessionsResult)


def stop_turn(turn: str | None = None, sender: str | None = None) -> Call[wire.StopResult]:
    """End the answer to a message, by its id; without one the answer that is being written in this session."""
    return Call("stop_turn", _payload(wire.StopTurn, turn=turn, sender=sender), wire.StopResult)


def search_memory(
    query: str | None = None,
    category: str | None = None,
    tags: Sequence[str] | None = None,
    since: str | None = None,
    until: str | None = None,
    limit: int | None = None,
    scope: wire.SearchScope | None = None,
) -> Call[wire.SearchResult]:
    """Search everything this group remembers: saved memories, notes, and all that was said in earlier conversations.

    Use this before you say that you do not know something about the user, the project or what was agreed. Ask in plain
    words, as `When did Ann change jobs?`; dates in the question count. `since` and `until` narrow it to a time.
    """
    payload = _payload(
        wire.SearchMemory,
        query=query,
        category=category,
        tags=tags,
        since=since,
        until=until,
        limit=limit,
        scope=scope,
    )
    return Call("search_memory", payload, wire.SearchResult)


TOOLS: Final[Mapping[str, Callable[..., Call[Any]]]] = {
    tool.__name__: tool
    for tool in (
        ping,
        update_memory,
        read_group_files,
        append_turn,
        get_history,
        get_context,
        save_memory,
        get_memory,
        edit_memory,
        delete_memory,
        list_memory_categories,
        list_memory_entries,
        save_to_working_memory,
        get_from_working_memory,
        search_working_memory,
        list_working_memory,
        load_session,
        update_session,
        compact_session,
        delete_session,
        list_sessions,
        search_memory,
        stop_turn,
    )
}
"""Name -> function; its docstring is the description for a model, `wire.REQUEST_TYPES[name].payload` its schema."""

PayloadT = TypeVar("PayloadT", bound=wire.Wire)


def _payload(model: type[PayloadT], **members: Any) -> PayloadT:
    """Build a payload, refusing here what the host would refuse, in its words. Raises `Invalid`, `TooLarge`."""
    try:
        return model(**{name: _plain(member) for name, member in members.items()})
    except ValidationError as error:
        refusal = wire.refusal_of(error, "payload.")
        raise BY_CODE[refusal.code](refusal.message, field=refusal.field) from None


def _plain(member: object) -> object:
    """Return anybody's sequence or mapping as the list or object that it is in JSON; a text is no list of letters."""
    match member:
        case str() | bytes():
            return member
        case Mapping():
            return dict(member)
        case Sequence() | AbstractSet():
            return [dict(item) if isinstance(item, Mapping) else item for item in member]
        case _:
            return member
