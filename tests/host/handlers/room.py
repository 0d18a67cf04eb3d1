"""The handlers over a home, and of the pipeline what they need: a batch is decided, journaled, written."""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import orjson
import pytest

from honeybadger_agent.mailbox import HUMAN
from honeybadger_agent.wire import REQUEST_TYPES, Refusal
from honeybadger_host.agents import Agents
from honeybadger_host.documents.in_use import DocumentsInUse
from honeybadger_host.documents.projections import Batch, Projections
from honeybadger_host.files.file_cache import KeptFiles
from honeybadger_host.files.unsynced import Unsynced
from honeybadger_host.handler_kinds import Answer, Asked, ChangeHandler, Outcome, QueryHandler, WaitingHandler
from honeybadger_host.handlers import build_table
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.handlers.tasks import TaskDependencies
from honeybadger_host.handlers.turns.chat_turn import AgentRuntime
from honeybadger_host.journal.changes import Change, Store, UnitOfWork, WholeFiles
from honeybadger_host.journal.journal import Journal
from honeybadger_host.journal.schema import Row
from honeybadger_host.memory.compaction import CompactionLimits
from honeybadger_host.memory.entries.store import EntryFiles
from honeybadger_host.memory.markdown.group_files import GroupFiles
from honeybadger_host.memory.peoples_files import document_group
from honeybadger_host.memory.session_document import SESSIONS
from honeybadger_host.memory.session_document_store import Sessions
from honeybadger_host.memory.turn_log_store import TurnLogs, Watermarks
from honeybadger_host.memory.working_memory_store import WorkingMemoryStore
from honeybadger_host.settings import Model, Settings
from honeybadger_host.threads import Threads
from honeybadger_host.work.task_files import TaskStates
from tests.host.indexes import index_of, ledger_of, made

NOW = datetime(2026, 11, 21, 6, 5, 59, 123000, tzinfo=UTC)


async def _unused(*asked: object) -> Any:
    """Everything that runs beside the handlers, which no test of theirs gets to."""
    raise AssertionError(asked)


class Room:
    """Everything on real files; closed when the test ends (`indexes.py`)."""

    def __init__(self, home: Path, settings: Settings | None = None, limits: CompactionLimits | None = None) -> None:
        self.home = home
        self.settings = (settings or Settings()).model_copy(update={"model": Model(name="scripted:story.json")})
        self.limits = limits or CompactionLimits()
        self.journal = Journal.open(home / "journal.db")
        made.append(self.journal)
        self.index = index_of(home)
        self.ledger = ledger_of(home)
        self.now = NOW
        self.wall_ahead = 0.0
        self.monotonic = 0.0
        self.asked = 0
        self.under_way: dict[str, Asked] = {}
        self.restart()

    def restart(self) -> None:
        """Forget everything that is only in memory."""
        home = self.home
        self.turn_logs = TurnLogs(home, window_turns=50, clock=lambda: self.monotonic)
        in_use = DocumentsInUse(
            home,
            self.journal,
            Unsynced(home),
            group_of=document_group,
            author_of=lambda uid: HUMAN,
            wall=lambda: time.time() + self.wall_ahead,
            clock=lambda: time.monotonic() + self.wall_ahead,
            rules=lambda file: (
                self.sessions.rules if file.startswith(f"{SESSIONS}/") and file.endswith(".json") else None
            ),
        )
        self.projections = Projections(in_use)
        if not self.journal.has_adopted:
            in_use.adopt(())
        self.working_memory = WorkingMemoryStore(home, self.projections.read)
        self.whole_files = WholeFiles(home, self.projections.saves.current)
        self.sessions = Sessions(self.turn_logs, self.whole_files, self.limits, self.projections.render)
        self.task_states = TaskStates(self.journal.task_records())
        stores: list[Store] = [self.turn_logs, self.whole_files, self.working_memory, self.sessions, self.task_states]
        self.unit = UnitOfWork(stores)
        dependencies = Dependencies(
            settings=self.settings,
            agents=Agents(home, "assistant"),
            files=GroupFiles(home),
            turn_logs=self.turn_logs,
            whole_files=self.whole_files,
            entry_files=EntryFiles(home),
            working_memory=self.working_memory,
            sessions=self.sessions,
            index=self.index,
            ledger=self.ledger,
            watermarks=Watermarks(KeptFiles(home)),
            journal=self.journal,
            written_seq=lambda: self.journal.committed_seq,
        )
        runtime = AgentRuntime(
            dependencies, _unused, lambda group, agent: True, lambda folder: None, _unused, _unused, Threads(1)
        )
        task_dependencies = TaskDependencies(
            dependencies, self.task_states, "Europe/Berlin", under_way=lambda: self.under_way
        )
        curator = cast(Any, SimpleNamespace(uses=SimpleNamespace(memory_window=0)))  # nothing is consolidated
        self.table = build_table(dependencies, curator, _unused, runtime, task_dependencies)

    def asking(
        self,
        type_: str,
        payload: Mapping[str, Any],
        folder: str = "researcher",
        session: str = "main",
        group: str = "main",
    ) -> Asked:
        self.asked += 1
        return Asked(group, folder, f"r{self.asked}", session, REQUEST_TYPES[type_].model_validate(payload))

    def handler(self, type_: str) -> ChangeHandler:
        handler = self.table[type_]
        assert isinstance(handler, ChangeHandler)
        return handler

    def decide(
        self, type_: str, by: str = "researcher", /, in_session: str = "main", in_group: str = "main", **payload: Any
    ) -> Outcome:
        """Decide one request, and forget it."""
        handler, asked = self.handler(type_), self.asking(type_, payload, by, in_session, in_group)
        return handler.decide(asked, self.now)

    def change(self, type_: str, folder: str = "researcher", /, **payload: Any) -> Mapping[str, Any]:
        """Decide one request and write it; return its result."""
        outcome = self.decide(type_, folder, **payload)
        self.unit.apply(outcome.changes)
        self.write(outcome.changes)
        REQUEST_TYPES[type_].result_type.model_validate(dict(outcome.result))
        return outcome.result

    def refused(self, type_: str, folder: str = "researcher", /, **payload: Any) -> Refusal:
        with pytest.raises(Refusal) as caught:
            self.decide(type_, folder, **payload)
        return caught.value

    def ask(self, type_: str, session: str = "main", group: str = "main", /, **payload: Any) -> dict[str, Any]:
        handler, asked = self.table[type_], self.asking(type_, payload, session=session, group=group)
        if isinstance(handler, WaitingHandler):
            answer = Answer(anyio.run(handler.answer, asked))
        else:
            assert isinstance(handler, QueryHandler)
            answer = handler.ask(asked, self.now)
        if answer.served is not None:
            self.ledger.note(answer.served)
        result = orjson.dumps(answer.result)
        REQUEST_TYPES[type_].result_type.model_validate_json(result)
        return dict(orjson.loads(result))

    def write(self, changes: Sequence[Change]) -> None:
        """Journal and write what was applied, and end the batch."""
        rows = []
        batch = Batch(self.projections)
        at = int((time.time() + self.wall_ahead) * 1000)
        for change in changes:
            batch.make_way(change)
            seq, self.journal.next_seq = self.journal.next_seq, self.journal.next_seq + 1
            place = change.file, batch.place(change)
            rows.append(Row(seq, at, "main", "researcher", f"q{seq}", change.row_kind, *place, change.data))
        if rows:
            self.journal.commit(rows, [])
            self.projections.write(rows)
        for change in changes:
            self.index.touch(change.file)
        self.unit.end_batch(changes)
