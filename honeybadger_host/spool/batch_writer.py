"""Makes the decisions of a batch durable: one commit of the journal, then the files.

A change whose file cannot be written is refused before the commit, with all changes based on it.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from honeybadger_host.documents.projections import Batch, Projections
from honeybadger_host.errors import WorldFailed
from honeybadger_host.journal.changes import MARKED, Added, Change, FileWritten
from honeybadger_host.journal.schema import Receipt, Row, TurnKey
from honeybadger_host.log import log
from honeybadger_host.spool.answers import Answers
from honeybadger_host.spool.request import QueuedRequest

FULL_DISK_SECONDS = 5.0  # seconds that a batch waits for space on a full disk before it is answered with `unavailable`


@dataclass(slots=True)
class BatchWriter:
    """Commits the decisions of batches. Only the writer's thread uses it.

    Args:
        answers: refuses a request whose change cannot be made, e.g. because the disk is full.
        stopping: set when the host stops: then no batch waits for space on a full disk.
    """

    answers: Answers
    projections: Projections
    stopping: threading.Event
    _full_since: float | None = None

    def commit_and_project(self, requests: Sequence[QueuedRequest]) -> Sequence[Change]:
        """Return the changes that were committed."""
        journal, refuse = self.answers.journal, self.answers.refuse_for_world
        at = journal.last_at = max(journal.last_at, time.time_ns() // 1_000_000)
        rows: list[Row] = []
        receipts: list[Receipt] = []
        ended: list[TurnKey] = []
        written: list[Change] = []
        # File -> why a change of it was refused. Later changes of the batch that build on it are refused, too.
        spoiled: dict[str, WorldFailed] = {}
        batch = Batch(self.projections)
        for request in requests:
            decided = request.answered
            try:
                for change in decided.changes:
                    for file in _built_upon(change) if spoiled else ():
                        if file in spoiled:
                            raise spoiled[file]
                    batch.make_way(change)
            except WorldFailed as error:
                refuse(request, error)
                spoiled |= dict.fromkeys((change.file for change in decided.changes), error)
                continue
            group, sender, request_id, last = request.inbox.group, request.inbox.sender, request.stem, decided.number
            for seq, change in enumerate(decided.changes, last - len(decided.changes) + 1):
                place = change.file, batch.place(change)
                data = bytes(memoryview(change.data))  # kept for a while: orjson's bytes take 4 to 10 times the memory
                rows.append(Row(seq, at, change.group, sender, request_id, change.row_kind, *place, data))
            written += decided.changes
            receipts.append(Receipt(last, at, group, sender, request_id, decided.digest, decided.reply))
            if request.has_run or request.answer_to is not None:
                ended.append(request.turn)
        self.answers.passed("placed")
        try:
            self._commit(rows, receipts, ended)
        except WorldFailed as error:
            for request in requests:
                if request.answered.changes:  # else it is refused, or changes nothing
                    refuse(request, error)
            return ()
        self.answers.passed("committed")
        self.projections.write(rows)
        return written

    def _commit(self, rows: Sequence[Row], receipts: Sequence[Receipt], ended: Sequence[TurnKey]) -> None:
        """Commit; on a full disk try again for `FULL_DISK_SECONDS`. Raises WorldFailed, StorageFailed."""
        if not receipts:
            return
        while True:
            try:
                self.answers.journal.commit(rows, receipts, ended)
            except WorldFailed as error:
                now = time.monotonic()
                if self._full_since is None:
                    self._full_since = now
                    log.error("journal.waiting", error=str(error))
                if now - self._full_since >= FULL_DISK_SECONDS or self.stopping.wait(0.2):
                    raise
            else:
                if self._full_since is not None:
                    log.info("journal.recovered", seconds=round(time.monotonic() - self._full_since, 1))
                    self._full_since = None
                self.answers.counters.commits += 1
                return


def _built_upon(change: Change) -> tuple[str, ...]:
    """Return the files whose earlier changes in the batch this change was decided on."""
    if isinstance(change, FileWritten) and change.upon is not None:
        return change.file, change.upon
    return () if isinstance(change, Added) and change.row_kind not in ("history", *MARKED) else (change.file,)
