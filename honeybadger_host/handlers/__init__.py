"""Request type -> handler: the table that the pipeline works with.

May import everything below it in the order of docs/architecture.md, and the agent's turn. It does not know the spool.
A query is a function (dependencies, request, time) -> answer; a change is two: one prepares, one decides.

Reading order: `dependencies`; `notes`, `speakers`, `conversation`, `withdrawing`, `entries/`, `undo`, `rewind`;
`context`; `search`; `sessions`, `working_memory`; `messages`; `turns/` and `delegation`; `tasks`
and `task_runs`; `review/`; `importing`; `redaction` (screens them all); `host`.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import anyio

from honeybadger_agent.wire import Refusal
from honeybadger_host.context.maker import ContextMaker
from honeybadger_host.context.recall import ContextRecall
from honeybadger_host.handler_kinds import (
    Asked,
    ChangeHandler,
    Handler,
    Outcome,
    QueryHandler,
    TurnHandler,
    WaitingHandler,
    without_preparation,
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
from honeybadger_host.handlers.rewind import prepare_rewind, rewind
from honeybadger_host.handlers.turns import chat_turn
from honeybadger_host.handlers.turns.chat_turn import AgentRuntime

_Decide = Callable[[Dependencies, Asked, Any, datetime], Outcome]
_Prepare = Callable[[Dependencies, Asked], Any]


@dataclass(frozen=True, slots=True)
class Jobs:
    """Work outside the pipeline that the operator asks for.

    Args:
        consolidate: see `Consolidations`; None: nothing is consolidated.
        dream: see `Dreams`.
        forget: see `Forgetter`, which keeps the answers to its requests.
    """

    consolidate: proposals.Consolidates | None
    dream: proposals.Dreams
    forget: Callable[[Asked], Awaitable[Mapping[str, Any]]]


def build_table(
    deps: Dependencies, jobs: Jobs, runtime: AgentRuntime, task_dependencies: tasks.TaskDependencies
) -> Mapping[str, Handler]:
    """Return the handler of every request type the host serves."""
    slots = [anyio.CapacityLimiter(delegation.AT_ONCE) for _ in range(delegation.MAX_DEPTH + 1)]
    return {
        **_queries(deps),
        **_writes(deps),
        **_changes(deps),
        **_turn_log(deps),
        **_working_memory(deps),
        **_jobs(deps, jobs, runtime),
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


def _change(deps: Dependencies, decide: _Decide, prepare: _Prepare) -> ChangeHandler[Any]:
    return ChangeHandler(partial(decide, deps), partial(prepare, deps))


def _of_session(deps: Dependencies, decide: _Decide, load: Callable[[str, str], object]) -> ChangeHandler[Any]:
    """Return a handler that needs its session loaded, by group and name."""
    return ChangeHandler(partial(decide, deps), lambda asked: load(asked.group, asked.session))


def _writes(deps: Dependencies) -> Mapping[str, Handler]:
    """Return the handlers whose changes wait in groups that are reviewed, and the one that decides about them."""
    saved = partial(saving.prepare_save_memory, similar=Similar(deps.index))
    writes: dict[str, ChangeHandler[Any]] = {
        "update_memory": without_preparation(partial(notes.update_memory, deps)),
        "save_memory": _change(deps, saving.save_memory, saved),
        "edit_memory": _change(deps, editing.edit_memory, editing.prepare_edit_memory),
        "delete_memory": _change(deps, saving.delete_memory, saving.prepare_delete_memory),
    }
    ordinary = dict(writes)
    writes["change_many"] = ChangeHandler(
        partial(changing_many.change_many, ordinary, deps.whole_files),
        partial(changing_many.prepare_change_many, ordinary),
    )
    waiting = frozenset(group for group, how in deps.settings.memory.writes.items() if how == "review")
    return {
        **{name: reviewed(handler, deps.whole_files, deps.texts, waiting) for name, handler in writes.items()},
        "decide_proposal": ChangeHandler(
            proposals.decide_proposal, partial(proposals.prepare_decide_proposal, deps, writes)
        ),
    }


def _changes(deps: Dependencies) -> Mapping[str, Handler]:
    return {
        "edit_note": _change(deps, notes.edit_note, notes.prepare_edit_note),
        "archive_memory": _change(deps, superseding.archive_memory, superseding.prepare_archive_memory),
        "undo": _change(deps, undo.undo, undo.prepare_undo),
        "rewind": _change(deps, rewind, prepare_rewind),
        "import_records": _change(deps, importing.import_records, importing.prepare_import_records),
        "update_session": _of_session(deps, sessions.update_session, deps.sessions.load),
        "delete_session": _of_session(deps, sessions.delete_session, deps.sessions.load),
        "record_feedback": _of_session(deps, sessions.record_feedback, deps.turn_logs.load),
        "send_message": _change(deps, messages.send_message, messages.prepare_send_message),
    }


def _turn_log(deps: Dependencies) -> Mapping[str, Handler]:
    table: Mapping[str, Handler] = {
        "append_turn": _change(deps, conversation.append_turn, conversation.prepare_append_turn),
        "append_turns": _change(deps, conversation.append_turns, conversation.prepare_append_turns),
        "get_turns": QueryHandler(partial(conversation.get_turns, deps)),
        "get_history": QueryHandler(partial(conversation.get_history, deps)),
        "withdraw_turns": _change(deps, withdrawing.withdraw_turns, withdrawing.prepare_withdraw_turns),
    }
    return table if deps.settings.conversation.enabled else _switched_off(table, conversation.OFF)


def _working_memory(deps: Dependencies) -> Mapping[str, Handler]:
    table: Mapping[str, Handler] = {
        "save_to_working_memory": _change(deps, working_memory.save, working_memory.prepare_save),
        "get_from_working_memory": QueryHandler(partial(working_memory.get, deps)),
        "search_working_memory": QueryHandler(partial(working_memory.search, deps)),
        "list_working_memory": QueryHandler(partial(working_memory.list_entries, deps)),
    }
    return table if deps.settings.working.enabled else _switched_off(table, working_memory.OFF)


def _jobs(deps: Dependencies, jobs: Jobs, runtime: AgentRuntime) -> Mapping[str, Handler]:
    readers = anyio.CapacityLimiter(messages.READ_AT_ONCE)
    return {
        "forget": WaitingHandler(partial(host.forget, jobs.forget)),
        "consolidate": WaitingHandler(partial(proposals.consolidate, deps, jobs.consolidate), is_kept=True),
        "dream": WaitingHandler(partial(proposals.dream, deps, jobs.dream), is_kept=True),
        "get_messages": WaitingHandler(partial(messages.get_messages, deps, readers)),
        "stop_turn": WaitingHandler(partial(chat_turn.stop_turn, runtime.stop), is_kept=True),
    }


def _switched_off(table: Mapping[str, Handler], why: str) -> Mapping[str, Handler]:
    """Return a table with handlers of the same kinds that always refuse."""

    def refuse(asked: Asked, now: datetime) -> Any:
        raise Refusal("invalid", why, field="type")

    return {
        name: without_preparation(refuse) if isinstance(handler, ChangeHandler) else QueryHandler(refuse)
        for name, handler in table.items()
    }
