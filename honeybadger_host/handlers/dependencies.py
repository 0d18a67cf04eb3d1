"""Everything that the handlers of one host use."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from honeybadger_host.agents import Agents
from honeybadger_host.handler_kinds import Asked
from honeybadger_host.handlers.redaction import Texts
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


@dataclass(frozen=True)
class Dependencies:
    """The parts of a home that handlers use.

    Args:
        journal: only read here.
        written_seq: every change up to this number is in the files.
        arrivals: wakes the readers that wait for a message.
    """

    settings: Settings
    agents: Agents
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

    @cached_property
    def home(self) -> Path:
        return self.entry_files.home

    def texts(self, asked: Asked) -> Texts:
        """Return what cleans the texts of a request. Raises Refusal if its session looks like a credential."""
        texts = Texts(asked, self.settings.security.secrets)
        texts.path("session", asked.session)
        return texts
