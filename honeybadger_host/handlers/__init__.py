"""Message type -> handler: the table the daemon hands to the door."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from honeybadger_agent.turn.orchestrator import TurnLimits
from honeybadger_host.domain import NOBODY, Handler, QueryHandler, TurnHandler
from honeybadger_host.handlers import (
    conversation,
    editing,
    entries,
    host,
    listing,
    notes,
    search,
    sessions,
    turns,
    undo,
)
from honeybadger_host.handlers.context import ContextHandler
from honeybadger_host.handlers.context_recall import Recaller
from honeybadger_host.handlers.redaction import Screen
from honeybadger_host.handlers.working_memory import WorkingRoom, inventory_of, switched_off, working_table
from honeybadger_host.memory.entry_store import EntryFiles
from honeybadger_host.memory.group_files import GroupFiles
from honeybadger_host.memory.injection_ledger import InjectionLedger
from honeybadger_host.memory.session_document_store import Sessions
from honeybadger_host.memory.turn_log import Conversations
from honeybadger_host.memory.working_memory_store import Shelves
from honeybadger_host.search.index import Index
from honeybadger_host.settings import Settings
from honeybadger_host.storage.atomic_files import WholeFiles


@dataclass(frozen=True, slots=True)
class Rooms:
    """What the handlers reach of memory.

    Args:
        journal: its file, for what looks back.
    """

    files: GroupFiles
    conversations: Conversations
    whole_files: WholeFiles
    entry_files: EntryFiles
    shelves: Shelves
    sessions: Sessions
    index: Index
    ledger: InjectionLedger
    journal: Path


def build_table(settings: Settings, rooms: Rooms, desk: turns.Desk | None = None) -> Mapping[str, Handler]:
    """Return the handler of every request type the host serves.

    Args:
        desk: None: nobody is an agent of this home, and no turns are run.
    """
    history_budget = settings.history.budget_tokens
    screen = Screen(settings.security.secrets)
    context = ContextHandler(
        rooms.files,
        rooms.conversations,
        rooms.sessions,
        inventory_of(rooms.shelves, settings.working),
        Recaller(rooms.index, rooms.ledger, settings.recall, history_budget),
        (lambda sender: NOBODY) if desk is None else desk.agents.identity_of,
        settings.context.budget_tokens,
        settings.history.replayed_turns if settings.conversation.enabled else 0,
        settings.document.in_context,
    )
    turn_log: dict[str, Handler] = {
        "append_turn": conversation.append_turn(rooms.conversations, rooms.sessions, screen),
        "get_history": conversation.get_history(rooms.conversations, default_budget_tokens=history_budget),
    }
    if not settings.conversation.enabled:
        turn_log = {name: switched_off(handler, conversation.OFF) for name, handler in turn_log.items()}
    return {
        "ping": host.ping((lambda sender: None) if desk is None else desk.agents.tools_of),
        "update_memory": notes.update_memory(rooms.files, screen),
        "read_group_files": notes.read_group_files(rooms.files),
        **turn_log,
        "get_context": QueryHandler(context.answer),
        "preview_context": QueryHandler(context.answer),
        "save_memory": entries.save_memory(
            rooms.entry_files, rooms.whole_files, screen, rooms.index.lookups.known, rooms.index.lookups.named
        ),
        "get_memory": entries.get_memory(rooms.entry_files, rooms.index),
        "edit_memory": editing.edit_memory(rooms.entry_files, rooms.whole_files, screen, rooms.index.lookups.named),
        "delete_memory": entries.delete_memory(rooms.entry_files, rooms.whole_files),
        "list_memory_entries": listing.list_memory_entries(rooms.entry_files, rooms.index),
        "list_memory_categories": entries.list_memory_categories(rooms.entry_files),
        "search_memory": search.search_memory(rooms.index),
        **working_table(WorkingRoom(rooms.shelves, rooms.whole_files, settings.working), screen),
        "undo": undo.undo(rooms.journal, rooms.whole_files),
        "load_session": sessions.load_session(rooms.sessions),
        "update_session": sessions.update_session(rooms.sessions, screen),
        "compact_session": sessions.compact_session(rooms.sessions),
        "delete_session": sessions.delete_session(rooms.sessions),
        "list_sessions": sessions.list_sessions(rooms.sessions),
        "stop_turn": turns.stop_turn(None if desk is None else desk.stop),
        **({} if desk is None else {"chat": _chat(settings, rooms, desk, screen)}),
    }


def _chat(settings: Settings, rooms: Rooms, desk: turns.Desk, screen: Screen) -> TurnHandler:
    limits = TurnLimits(settings.turns.steps, settings.turns.total_tokens, settings.turns.seconds)
    return turns.chat(
        turns.TurnRoom(desk, rooms.conversations, rooms.sessions, screen, limits, settings.conversation.enabled)
    )
