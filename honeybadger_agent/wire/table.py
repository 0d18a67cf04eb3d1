"""The protocol's two tables: what `requests/` takes, and what `turns/` takes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from honeybadger_agent.wire.base import Result, Wire
from honeybadger_agent.wire.context import ContextResult, GetContext, PreviewContext
from honeybadger_agent.wire.conversation import AppendTurn, GetHistory, HistoryResult, TurnResult
from honeybadger_agent.wire.entries import (
    CategoriesResult,
    DeleteMemory,
    EditMemory,
    EntriesResult,
    EntryResult,
    GetMemory,
    ListMemoryCategories,
    ListMemoryEntries,
    SavedEntry,
    SaveMemory,
)
from honeybadger_agent.wire.host import Ping, PingResult, Undo, UndoResult
from honeybadger_agent.wire.notes import GroupFilesResult, NoteResult, ReadGroupFiles, UpdateMemory
from honeybadger_agent.wire.search import SearchMemory, SearchResult
from honeybadger_agent.wire.sessions import (
    CompactResult,
    CompactSession,
    DeletedResult,
    DeleteSession,
    ListSessions,
    LoadSession,
    SessionResult,
    SessionsResult,
    SessionState,
    UpdateSession,
)
from honeybadger_agent.wire.turns import Chat, ChatResult, StopResult, StopTurn
from honeybadger_agent.wire.working import (
    GetFromWorkingMemory,
    ListWorkingMemory,
    SaveToWorkingMemory,
    SearchWorkingMemory,
    WorkingEntryResult,
    WorkingHits,
    WorkingList,
    WorkingSaved,
)


@dataclass(frozen=True, slots=True)
class RequestType:
    """One row of the protocol's table.

    Args:
        changes: whether it changes memory, that is, goes through the journal and keeps a receipt.
    """

    name: str
    payload: type[Wire]
    result: type[Result]
    changes: bool


REQUEST_TYPES: Final[Mapping[str, RequestType]] = {
    kind.name: kind
    for kind in (
        RequestType("ping", Ping, PingResult, changes=False),
        RequestType("update_memory", UpdateMemory, NoteResult, changes=True),
        RequestType("read_group_files", ReadGroupFiles, GroupFilesResult, changes=False),
        RequestType("append_turn", AppendTurn, TurnResult, changes=True),
        RequestType("get_history", GetHistory, HistoryResult, changes=False),
        RequestType("get_context", GetContext, ContextResult, changes=False),
        RequestType("preview_context", PreviewContext, ContextResult, changes=False),
        RequestType("save_memory", SaveMemory, SavedEntry, changes=True),
        RequestType("get_memory", GetMemory, EntryResult, changes=False),
        RequestType("edit_memory", EditMemory, SavedEntry, changes=True),
        RequestType("delete_memory", DeleteMemory, EntryResult, changes=True),
        RequestType("list_memory_entries", ListMemoryEntries, EntriesResult, changes=False),
        RequestType("list_memory_categories", ListMemoryCategories, CategoriesResult, changes=False),
        RequestType("search_memory", SearchMemory, SearchResult, changes=False),
        RequestType("save_to_working_memory", SaveToWorkingMemory, WorkingSaved, changes=True),
        RequestType("get_from_working_memory", GetFromWorkingMemory, WorkingEntryResult, changes=False),
        RequestType("search_working_memory", SearchWorkingMemory, WorkingHits, changes=False),
        RequestType("list_working_memory", ListWorkingMemory, WorkingList, changes=False),
        RequestType("undo", Undo, UndoResult, changes=True),
        RequestType("load_session", LoadSession, SessionResult, changes=False),
        RequestType("update_session", UpdateSession, SessionState, changes=True),
        RequestType("compact_session", CompactSession, CompactResult, changes=True),
        RequestType("delete_session", DeleteSession, DeletedResult, changes=True),
        RequestType("list_sessions", ListSessions, SessionsResult, changes=False),
        RequestType("stop_turn", StopTurn, StopResult, changes=False),
    )
}
"""What `requests/` takes."""

TURN_TYPES: Final[Mapping[str, RequestType]] = {
    kind.name: kind for kind in (RequestType("chat", Chat, ChatResult, changes=True),)
}
"""What `turns/` takes."""
