"""Message type -> handler: the table the daemon hands to the door."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from honeybadger_host.domain import Handler
from honeybadger_host.handlers import conversation, entries, host, notes, sessions, undo
from honeybadger_host.handlers.screening import Screen
from honeybadger_host.handlers.working import WorkingRoom, inventory_of, working_table
from honeybadger_host.memory.conversation import Conversations
from honeybadger_host.memory.entry_files import EntryFiles
from honeybadger_host.memory.group_files import GroupFiles
from honeybadger_host.memory.sessions import Sessions
from honeybadger_host.memory.shelves import Shelves
from honeybadger_host.memory.whole_files import WholeFiles
from honeybadger_host.settings import Settings


def build_table(
    settings: Settings,
    files: GroupFiles,
    conversations: Conversations,
    whole_files: WholeFiles,
    entry_files: EntryFiles,
    shelves: Shelves,
    journal: Path,
    documents: Sessions,
) -> Mapping[str, Handler]:
    """Return the handler of every request type the host serves.

    Args:
        journal: its file, for what looks back.
    """
    history_budget = settings.history.budget_tokens
    screen = Screen(settings.security.secrets)
    return {
        "ping": host.ping(),
        "update_memory": notes.update_memory(screen),
        "read_group_files": notes.read_group_files(files),
        "append_turn": conversation.append_turn(conversations, documents, screen),
        "get_history": conversation.get_history(conversations, default_budget_tokens=history_budget),
        "get_context": conversation.get_context(
            files,
            conversations,
            inventory_of(shelves, settings.working),
            default_budget_tokens=settings.context.budget_tokens,
            history_budget_tokens=history_budget,
        ),
        "save_memory": entries.save_memory(entry_files, whole_files, screen),
        "get_memory": entries.get_memory(entry_files),
        "delete_memory": entries.delete_memory(entry_files, whole_files),
        "list_memory_categories": entries.list_memory_categories(entry_files),
        **working_table(WorkingRoom(shelves, whole_files, settings.working), screen),
        "undo": undo.undo(journal, whole_files),
        "load_session": sessions.load_session(documents),
        "update_session": sessions.update_session(documents, screen),
        "compact_session": sessions.compact_session(documents),
        "delete_session": sessions.delete_session(documents),
        "list_sessions": sessions.list_sessions(documents),
    }
