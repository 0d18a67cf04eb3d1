"""Request type -> handler: the table that the pipeline works with.

May import everything below it in the order of docs/architecture.md, and the agent's turn. It does not know the spool.
A query, or a change, is a function (dependencies, request, time) -> answer, or outcome; both read and never write.

Reading order: `dependencies`; `notes`, `speakers`, `conversation`, `withdrawing`, `entries/`, `undo`, `rewind`;
`context`; `search`; `sessions`, `working_memory`; `messages`; `turns/` and `delegation`; `tasks`
and `task_runs`; `review/`; `importing`; `redaction` (screens them all); `host`.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import anyio

from honeybadger_agent.wire import Refusal
from honeybadger_host.context.maker import ContextMaker
from honeybadger_host.context.recall import ContextRecall
from honeybadger_host.curation.runner import Curator
from honeybadger_host.handler_kinds import (
    Asked,
    ChangeHandler,
    Handler,
    QueryHandler,
    TurnHandler,
    WaitingHandler,
)
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
    withdrawing,
    working_memory,
)
from honeybadger_host.handlers.context import get_context
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.handlers.entries import changing_many, editing, listing, saving, superseding
from honeybadger_host.handlers.entries.similar import Similar
from honeybadger_host.handlers.review import proposals
from honeybadger_host.handlers.review.writes import reviewed
from honeybadger_host.handlers.rewind import rewind
from honeybadger_host.handlers.turns import chat_turn
from honeybadger_host.handlers.turns.chat_turn import AgentRuntime


def build_table(
    deps: Dependencies,
    curator: Curator,
    forget: Callable[[Asked], Awaitable[Mapping[str, Any]]],
    runtime: AgentRuntime,
    task_dependencies: tasks.TaskDependencies,
) -> Mapping[str, Handler]:
    """Return the handler of every request type the host serves.

    Args:
        forget: see `Forgetter`, which keeps the answers to its requests.
    """
    slots = [anyio.CapacityLimiter(delegation.AT_ONCE) for _ in range(delegation.MAX_DEPTH + 1)]
    readers = anyio.CapacityLimiter(messages.READ_AT_ONCE)
    return {
        **_queries(deps),
        **_writes(deps),
        **_changes(deps),
        **_turn_log(deps),
        **_working_memory(deps),
        "forget": WaitingHandler(partial(host.forget, forget)),
        "consolidate": WaitingHandler(partial(proposals.consolidate, deps, curator), is_kept=True),
        "dream": WaitingHandler(partial(proposals.dream, deps, curator), is_kept=True),
        "get_messages": WaitingHandler(partial(messages.get_messages, deps, readers)),
        "stop_turn": WaitingHandler(partial(chat_turn.stop_turn, runtime.stop), is_kept=True),
        "chat": TurnHandler(partial(chat_turn.chat, runtime)),
        "delegate_to_agent": TurnHandler(partial(delegation.delegate_to_agent, runtime, slots)),
        **tasks.task_table(task_dependencies),
    }


def _queries(deps: Dependencies) -> Mapping[str, Handler]:
    settings = deps.settings
    recall = ContextRecall(deps.index, deps.ledger, deps.files, settings.recall, settings.history.budget_tokens)
    maker = ContextMaker(
        settings, deps.files, deps.turn_logs, deps.sessions, deps.working_memory, recall, deps.watermarks
    )
    context = QueryHandler(partial(get_context, maker, deps))
    return {
        "ping": QueryHandler(partial(host.ping, deps)),
        "list_groups": QueryHandler(partial(host.list_groups, deps)),
        "read_group_files": QueryHandler(partial(notes.read_group_files, deps)),
        "get_context": context,
        "preview_context": context,
        "get_memory": QueryHandler(partial(saving.get_memory, deps)),
        "list_memory_entries": QueryHandler(partial(listing.list_memory_entries, deps)),
        "list_memory_categories": QueryHandler(partial(listing.list_memory_categories, deps)),
        "search_memory": QueryHandler(partial(search.search_memory, deps.index, deps.journal.path, deps.files)),
        "list_proposals": QueryHandler(partial(proposals.list_proposals, deps)),
        "load_session": QueryHandler(partial(sessions.load_session, deps)),
        "list_sessions": QueryHandler(partial(sessions.list_sessions, deps)),
        "list_available_agents": QueryHandler(partial(delegation.list_available_agents, deps)),
    }


def _writes(deps: Dependencies) -> Mapping[str, Handler]:
    """Return the handlers whose changes wait in groups that are reviewed, and the one that decides about them."""
    ordinary = {
        "update_memory": ChangeHandler(partial(notes.update_memory, deps)),
        "save_memory": ChangeHandler(partial(saving.save_memory, deps, Similar(deps.index))),
        "edit_memory": ChangeHandler(partial(editing.edit_memory, deps)),
        "delete_memory": ChangeHandler(partial(saving.delete_memory, deps)),
    }
    many = ChangeHandler(partial(changing_many.change_many, ordinary, deps.whole_files))
    writes = {**ordinary, "change_many": many}
    waiting = frozenset(group for group, how in deps.settings.memory.writes.items() if how == "review")
    return {
        **{name: reviewed(deps, handler, waiting) for name, handler in writes.items()},
        "decide_proposal": ChangeHandler(partial(proposals.decide_proposal, deps, writes)),
    }


def _changes(deps: Dependencies) -> Mapping[str, Handler]:
    return {
        "edit_note": ChangeHandler(partial(notes.edit_note, deps)),
        "archive_memory": ChangeHandler(partial(superseding.archive_memory, deps)),
        "undo": ChangeHandler(partial(undo.undo, deps)),
        "rewind": ChangeHandler(partial(rewind, deps)),
        "import_records": ChangeHandler(partial(importing.import_records, deps)),
        "update_session": ChangeHandler(partial(sessions.update_session, deps)),
        "delete_session": ChangeHandler(partial(sessions.delete_session, deps)),
        "record_feedback": ChangeHandler(partial(sessions.record_feedback, deps)),
        "send_message": ChangeHandler(partial(messages.send_message, deps)),
    }


def _turn_log(deps: Dependencies) -> Mapping[str, Handler]:
    table: Mapping[str, Handler] = {
        "append_turn": ChangeHandler(partial(conversation.append_turn, deps)),
        "append_turns": ChangeHandler(partial(conversation.append_turns, deps)),
        "get_turns": QueryHandler(partial(conversation.get_turns, deps)),
        "get_history": QueryHandler(partial(conversation.get_history, deps)),
        "withdraw_turns": ChangeHandler(partial(withdrawing.withdraw_turns, deps)),
    }
    return table if deps.settings.conversation.enabled else _switched_off(table, conversation.OFF)


def _working_memory(deps: Dependencies) -> Mapping[str, Handler]:
    table: Mapping[str, Handler] = {
        "save_to_working_memory": ChangeHandler(partial(working_memory.save, deps)),
        "get_from_working_memory": QueryHandler(partial(working_memory.get, deps)),
        "search_working_memory": QueryHandler(partial(working_memory.search, deps)),
        "list_working_memory": QueryHandler(partial(working_memory.list_entries, deps)),
    }
    return table if deps.settings.working.enabled else _switched_off(table, working_memory.OFF)


def _switched_off(table: Mapping[str, Handler], why: str) -> Mapping[str, Handler]:
    """Return a table with handlers of the same kinds that always refuse."""

    def refuse(*asked: object) -> Any:
        raise Refusal("invalid", why, field="type")

    return {
        name: ChangeHandler(refuse) if isinstance(handler, ChangeHandler) else QueryHandler(refuse)
        for name, handler in table.items()
    }
