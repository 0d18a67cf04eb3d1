"""Request type -> handler: the table that the pipeline works with.

May import everything below it in the order of docs/architecture.md, and the agent's turn. It does not know the spool.

Reading order: `notes`, `conversation`, `withdrawing`, `entries/`, `undo`;
`context`; `search`; `sessions`, `working_memory`; `messages`; `turns/` and `delegation`; `tasks`
and `task_runs`; `review/`; `importing`; `redaction` (screens them all); `host`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from honeybadger_agent.turn.orchestrator import TurnLimits
from honeybadger_host.context.earlier import EarlierContexts
from honeybadger_host.context.maker import ContextMaker
from honeybadger_host.context.recall import ContextRecall
from honeybadger_host.handler_kinds import Asked, ChangeHandler, Handler, Keeps
from honeybadger_host.handlers import (
    conversation,
    delegation,
    host,
    importing,
    messages,
    notes,
    search,
    sessions,
    tasks,
    undo,
)
from honeybadger_host.handlers.context import get_context
from honeybadger_host.handlers.entries import changing_many, editing, listing, saving, superseding
from honeybadger_host.handlers.entries.places import EntryPlaces
from honeybadger_host.handlers.redaction import Screen
from honeybadger_host.handlers.review import proposals
from honeybadger_host.handlers.review.proposals import reviewed
from honeybadger_host.handlers.turns import chat_turn
from honeybadger_host.handlers.turns.chat_turn import AgentRuntime, TurnDependencies
from honeybadger_host.handlers.withdrawing import Withdrawing
from honeybadger_host.handlers.working_memory import switched_off, working_table
from honeybadger_host.journal.changes import WholeFiles
from honeybadger_host.journal.journal import Journal
from honeybadger_host.memory.entries.store import EntryFiles
from honeybadger_host.memory.injection_ledger import InjectionLedger
from honeybadger_host.memory.markdown.group_files import GroupFiles
from honeybadger_host.memory.session_document_store import Sessions
from honeybadger_host.memory.turn_log_store import TurnLogs, Watermarks
from honeybadger_host.memory.working_memory_store import WorkingMemoryStore
from honeybadger_host.search.index import Index
from honeybadger_host.settings import Settings
from honeybadger_host.work.messages import Arrivals


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The parts of memory that handlers use.

    Args:
        journal: only read here.
        written_seq: every change up to this number is in the files.
        arrivals: wakes the readers that wait for a message.
    """

    files: GroupFiles
    turn_logs: TurnLogs
    whole_files: WholeFiles
    entry_files: EntryFiles
    working_memory: WorkingMemoryStore
    sessions: Sessions
    index: Index
    ledger: InjectionLedger
    watermarks: Watermarks
    journal: Journal
    written_seq: Callable[[], int]
    arrivals: Arrivals = field(default_factory=Arrivals)


@dataclass(frozen=True, slots=True)
class Jobs:
    """Work outside the pipeline that the operator asks for.

    Args:
        consolidate: see `Consolidations`; None: nothing is consolidated.
        dream: see `Dreams`.
        forget: see `Forgetter`, which keeps the answers to its requests.
        keep: see `Pipeline.keep_answer`.
    """

    consolidate: proposals.Consolidates | None
    dream: proposals.Dreams
    forget: Callable[[Asked], Awaitable[Mapping[str, Any]]]
    keep: Keeps


def build_table(
    settings: Settings,
    dependencies: Dependencies,
    jobs: Jobs,
    turn: TurnDependencies,
    task_dependencies: tasks.TaskDependencies,
) -> Mapping[str, Handler]:
    """Return the handler of every request type the host serves."""
    runtime, screen = turn.runtime, turn.screen
    home, journal = dependencies.entry_files.home, dependencies.journal
    maker = ContextMaker(
        settings,
        dependencies.files,
        dependencies.turn_logs,
        dependencies.sessions,
        dependencies.working_memory,
        ContextRecall(
            dependencies.index,
            dependencies.ledger,
            dependencies.files,
            settings.recall,
            settings.history.budget_tokens,
        ),
        dependencies.watermarks,
    )
    earlier = EarlierContexts(journal.path, dependencies.ledger)
    context = get_context(maker, runtime.agents.identity_of, dependencies.written_seq, journal.has_changed, earlier)

    def is_agent(sender: str) -> bool:
        return sender in runtime.agents.current

    turn_log: dict[str, Handler] = {
        "append_turn": conversation.append_turn(
            dependencies.turn_logs, dependencies.sessions, screen, runtime.speakers
        ),
        "append_turns": conversation.append_turns(
            dependencies.turn_logs, dependencies.sessions, screen, runtime.speakers
        ),
        "get_turns": conversation.get_turns(dependencies.turn_logs, dependencies.sessions),
        "get_history": conversation.get_history(
            dependencies.turn_logs,
            dependencies.sessions,
            default_budget_tokens=settings.history.budget_tokens,
            memory_window=settings.consolidation.memory_window,
        ),
    }
    withdrawing = Withdrawing(dependencies.turn_logs, dependencies.sessions, dependencies.watermarks)
    turn_log["withdraw_turns"] = withdrawing.handler()
    if not settings.conversation.enabled:
        turn_log = {name: switched_off(handler, conversation.OFF) for name, handler in turn_log.items()}
    places = EntryPlaces(dependencies.entry_files, dependencies.whole_files, dependencies.index.lookups)
    writes: dict[str, ChangeHandler[Any]] = {
        "update_memory": notes.update_memory(dependencies.files, screen),
        "save_memory": saving.save_memory(places, screen, dependencies.index, is_agent),
        "edit_memory": editing.edit_memory(places, screen, is_agent),
        "delete_memory": saving.delete_memory(places),
    }
    writes["change_many"] = changing_many.change_many(dict(writes), dependencies.whole_files)
    waiting = frozenset(group for group, how in settings.memory.writes.items() if how == "review")
    return {
        "ping": host.ping(runtime.agents.tools_of),
        "list_groups": host.list_groups(home, dependencies.files, dependencies.sessions, dependencies.index, journal),
        **{name: reviewed(handler, dependencies.whole_files, screen, waiting) for name, handler in writes.items()},
        "edit_note": notes.edit_note(dependencies.whole_files, screen),
        "archive_memory": superseding.archive_memory(places),
        "read_group_files": notes.read_group_files(dependencies.files),
        **turn_log,
        "get_context": context,
        "preview_context": context,
        "get_memory": saving.get_memory(dependencies.entry_files, dependencies.index),
        "list_memory_entries": listing.list_memory_entries(dependencies.entry_files, dependencies.index),
        "list_memory_categories": listing.list_memory_categories(dependencies.entry_files),
        "search_memory": search.search_memory(dependencies.index, journal.path, dependencies.files),
        **working_table(dependencies.working_memory, dependencies.whole_files, screen, is_on=settings.working.enabled),
        "undo": undo.undo(journal.path, dependencies.whole_files, withdrawing),
        "rewind": undo.rewind(journal.path, dependencies.ledger, dependencies.whole_files),
        "import_records": importing.import_records(
            journal.path,
            dependencies.turn_logs if settings.conversation.enabled else None,
            dependencies.entry_files,
            dependencies.whole_files,
            screen,
            runtime.speakers,
        ),
        "forget": host.forget(jobs.forget),
        "list_proposals": proposals.list_proposals(home, dependencies.entry_files),
        "decide_proposal": proposals.decide_proposal(
            journal.path, dependencies.entry_files, dependencies.whole_files, writes
        ),
        "consolidate": proposals.consolidate(dependencies.turn_logs, jobs.consolidate, jobs.keep),
        "dream": proposals.dream(home, dependencies.entry_files, jobs.dream, jobs.keep),
        "load_session": sessions.load_session(dependencies.sessions),
        "update_session": sessions.update_session(dependencies.sessions, screen),
        "compact_session": sessions.compact_session(dependencies.sessions),
        "delete_session": sessions.delete_session(dependencies.sessions),
        "list_sessions": sessions.list_sessions(dependencies.sessions),
        "record_feedback": sessions.record_feedback(dependencies.turn_logs, screen),
        "send_message": messages.send_message(home, lambda: runtime.agents.current, journal, screen),
        "get_messages": messages.get_messages(home, journal, dependencies.arrivals),
        "stop_turn": chat_turn.stop_turn(runtime.stop, jobs.keep),
        "chat": chat_turn.chat(turn),
        "delegate_to_agent": delegation.delegate_to_agent(turn),
        "list_available_agents": delegation.list_available_agents(runtime.agents),
        **tasks.task_table(task_dependencies),
    }


def turn_dependencies(settings: Settings, dependencies: Dependencies, runtime: AgentRuntime) -> TurnDependencies:
    return TurnDependencies(
        runtime,
        dependencies.turn_logs,
        dependencies.sessions,
        Screen(settings.security.secrets),
        TurnLimits(settings.turns.steps, settings.turns.total_tokens, settings.turns.seconds),
        settings.conversation.enabled,
    )
