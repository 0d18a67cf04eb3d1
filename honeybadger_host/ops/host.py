"""The parts of a running host, by name."""

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from honeybadger_host.curation.runner import Curator
from honeybadger_host.documents.projections import Projections
from honeybadger_host.files.group_folders import GroupFolders
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.journal.journal import Journal
from honeybadger_host.memory.peoples_files import ChangedFiles
from honeybadger_host.models import Models
from honeybadger_host.observe import Counters, Throttle
from honeybadger_host.ops.clock import Ages
from honeybadger_host.ops.forget import Forgetter
from honeybadger_host.settings import Settings
from honeybadger_host.spool.pipeline import Pipeline
from honeybadger_host.spool.replies import ReplyRetention
from honeybadger_host.spool.senders import SenderList
from honeybadger_host.spool.spool import Spool
from honeybadger_host.work.push import Pusher
from honeybadger_host.work.scheduler import Scheduler

FOLLOWS = "follows"  # the mode in the status of a host while another machine owns the home


@dataclass(slots=True)
class Host:
    """A host: `compose.build` makes it, `daemon.run` runs it, `close` ends it.

    Args:
        has_events: whether events report every edit in a group's folder, in its categories and in its tasks.
        opened: the resources that `close` closes.
    """

    home: Path
    settings: Settings
    journal: Journal
    projections: Projections
    memory: Dependencies
    group_folders: GroupFolders
    changed_files: ChangedFiles
    spool: Spool
    replies: ReplyRetention
    pipeline: Pipeline
    curator: Curator
    forgetter: Forgetter
    scheduler: Scheduler
    pusher: Pusher
    counters: Counters
    throttle: Throttle
    senders: SenderList | None
    models: Models
    ages: Ages
    started: float
    has_events: bool = False
    opened: ExitStack = field(default_factory=ExitStack)

    def close(self) -> None:
        self.opened.close()
