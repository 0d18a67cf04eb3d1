"""The path of a request: scan, read, decide, commit, project, reply, unlink.

Two stages, each for a batch of requests, fair over the groups, each on its thread:

    decide   list, open and read once, parse once, look up receipts, then the handlers: they read memory and write
             nothing; later requests see the changes decided before them
    write    one journal commit, then files, replies, unlinks

One stage at a time: two threads that make short system calls side by side spend more on handing the interpreter to each
other than they gain (9,500 requests/s with the stages overlapped, 12,000 without). Queries run outside the stages, on
other threads, after the earlier changes of their group are written. A turn runs outside them, too; its result is
decided and written with a later batch.
"""

import asyncio
import contextlib
import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import anyio
from anyio.abc import TaskGroup

from honeybadger_agent import wire
from honeybadger_agent.mailbox import OPERATOR, REQUESTS
from honeybadger_agent.wire import Refusal
from honeybadger_host.documents.projections import Projections
from honeybadger_host.handler_kinds import Asked, ChangeHandler, TurnHandler, WaitingHandler
from honeybadger_host.journal.changes import Change, UnitOfWork
from honeybadger_host.journal.schema import Receipt, Row
from honeybadger_host.log import log
from honeybadger_host.memory.injection_ledger import Served
from honeybadger_host.settings import Settings
from honeybadger_host.spool.answers import Answers
from honeybadger_host.spool.batch_writer import BatchWriter
from honeybadger_host.spool.inbox import Inbox, OpenInbox
from honeybadger_host.spool.rate_limits import Limiter
from honeybadger_host.spool.request import Answered, Asking, QueuedRequest, RequestBatch, RequestReader
from honeybadger_host.spool.turn_queue import TurnQueue
from honeybadger_host.spool.unbatched import Unbatched
from honeybadger_host.text.time_stamps import to_milliseconds
from honeybadger_host.threads import Threads

# Maximum number of requests in a commit: more gain 3 %, and make new requests wait longer. Each may be of
# another inbox, with two descriptors, and 1024 are all that a process may have by default.
BATCH_REQUESTS = 128
REPEATED = "repeated"  # the outcome of a request that was done before


class Pipeline:
    """Serves the inboxes until `stop`; `wake` starts a pass over those that the spool has marked.

    Args:
        note: called with the context that a query served, before its reply is written.
        idle: called when no request waits.
    """

    def __init__(
        self,
        settings: Settings,
        requests: RequestReader,
        answers: Answers,
        projections: Projections,
        unit: UnitOfWork,
        *,
        note: Callable[[Served], None],
        idle: Callable[[], object],
    ) -> None:
        self._requests, self._answers, self._unit, self._idle = requests, answers, unit, idle
        self._spool, self._journal, self.passed = answers.spool, answers.journal, answers.passed
        self.limiter = Limiter(settings.limits.requests_per_second)  # reading thread
        self._stopping = threading.Event()
        self._writer = BatchWriter(answers, projections, self._stopping)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._event = anyio.Event()
        # `writer`: the one thread that writes the journal and the files.
        self._reader, self.writer = Threads(1), Threads(1)
        # Held from the time changes get their numbers until they are committed.
        self._order = anyio.Lock(fast_acquire=True)  # else each batch waits for a round of the event loop
        self.turn_queue = TurnQueue(self._spool, self._journal, self.writer, at_once=settings.turns.at_once)
        self.unbatched = Unbatched(answers, self.turn_queue, note, self._hand_in, self.wake, self.keep_answer)
        # Turns that ran, and changes that the host itself asked for: to be decided in the next batches.
        self._ready: list[QueuedRequest] = []
        self.ended = anyio.Event()  # set after `stop`, when all requests that were taken are answered

    # ------------------------------------------------------------------------------------------------------- waking

    def wake(self) -> None:
        """Start a pass over the marked inboxes. Event loop."""
        self._event.set()

    def _hand_in(self, request: QueuedRequest) -> None:
        """Let a request that is in no inbox, or was taken before, be decided. Event loop."""
        self._ready.append(request)
        self.wake()

    def look_into(self, inbox_path: str) -> None:
        """Mark the inbox of a sender's folder and wake. Any thread."""
        self._spool.mark(f"{inbox_path}/{REQUESTS}")
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.wake)

    def stop(self) -> None:
        """Take no more requests; `run` returns when all that were taken are written and answered."""
        self._stopping.set()
        self.turn_queue.cancel()
        self._event.set()

    async def run(self) -> None:
        """Serve until `stop`."""
        self._loop = asyncio.get_running_loop()
        async with anyio.create_task_group() as tasks, anyio.create_task_group() as waiting:
            while not self._stopping.is_set():
                await self._event.wait()
                await self._serve_waiting(tasks, waiting)
            waiting.cancel_scope.cancel()
        self.ended.set()

    async def run_once(self, inbox_path: str) -> None:
        """Serve the requests of one inbox and their consequences, and nothing else; instead of `run`."""
        self._spool.discover()
        self._spool.mark_only(inbox_path)
        async with anyio.create_task_group() as tasks:
            await self._serve_waiting(tasks, tasks)
            while self.unbatched.is_waiting:
                await self._event.wait()
                await self._serve_waiting(tasks, tasks)

    async def change(self, asked: Asked, type_name: str, handler: ChangeHandler) -> bytes:
        """Decide and write a change as if the host had sent it as a request, once for each id; return the reply.

        It ends the turn of that name, if one is under way in the journal. If the caller is cancelled, the change may
        still be made.
        """
        reply: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        inbox, name, now = Inbox(asked.group, asked.sender, ""), asked.request_id, time.monotonic()
        self._hand_in(
            QueuedRequest(inbox, name, name, now, now, Asking(asked, handler), type_name, answer_to=reply.set_result)
        )
        return await asyncio.shield(reply)

    async def keep_answer(
        self,
        asked: Asked,
        result: Mapping[str, Any],
        also: Callable[[sqlite3.Connection], None] = lambda connection: None,
    ) -> None:
        """Keep the receipt of a request done outside the batches: a repetition gets this answer.

        Args:
            also: changes to commit with it, all or nothing.
        Raises WorldFailed, StorageFailed.
        """
        async with self._order:
            seq = self._journal.next_seq
            self._journal.next_seq += 1
        receipt = Receipt(seq, 0, *asked.key, asked.digest, wire.dump_reply(asked.request_id, result))
        await self.writer.run(self._journal.keep_receipt, receipt, also)
        self.passed("kept")

    async def commit_edits(self, commit: Callable[[int], list[Row]]) -> list[Row]:
        """Commit edits of people while no other change gets a number; return the edits.

        Args:
            commit: commits them; called on the writer's thread with the number of the first edit.
        """
        async with self._order:
            try:
                return await self.writer.run(commit, self._journal.next_seq)
            finally:  # also if it fails behind the commit
                self._journal.next_seq = max(self._journal.next_seq, self._journal.committed_seq + 1)

    async def turn(self, asked: Asked, type_name: str, handler: TurnHandler) -> bytes | None:
        """Run a turn that the host itself asks for, after the turns of people; write its result as `change` does.

        Returns the reply; None: the host is stopping, and the next start continues the turn.
        Raises Refusal, WorldFailed if it could not be done; a repetition continues it.
        Raises CutShort if it was interrupted too often and is given up.
        """
        self.wake()
        scope = await self.turn_queue.enter_behind(asked)
        try:
            with scope:
                decides = await self.turn_queue.run(asked, handler, None)
                return await self.change(asked, type_name, decides)
            return None
        finally:
            self.turn_queue.leave(asked.key)
            self.wake()

    async def _serve_waiting(self, tasks: TaskGroup, waiting: TaskGroup) -> None:
        while not self._stopping.is_set():
            begun = time.monotonic()
            self._event = anyio.Event()  # clear, then scan: what comes during the scan sets it again
            with contextlib.closing(RequestBatch()) as received:
                async with self._order:
                    await self._reader.run(self._receive, received)
                    if not received.requests and not received.opened:
                        self.turn_queue.let_in()
                        break
                    is_only_asked = all(isinstance(request.state, Asking) for request in received.requests)
                    if not is_only_asked:
                        await self.writer.run(self._write, received)
                        self._answers.tell()
            for request in received.requests:
                if isinstance(request.state, Asking):
                    self.unbatched.begin(request, request.state, tasks, waiting)
                elif request.answer_to is not None:
                    self._answers.hand_over(request, request.answer_to)
                elif request.has_run:
                    self.turn_queue.leave(request.turn)
            self.turn_queue.let_in()
            if is_only_asked and not self._spool.has_more and not self._event.is_set():
                break  # nothing was written and nothing has come: no look on a thread
            if received.over and received.over == len(received.requests):
                # Pause for as long as the pass took: a host that refuses a flood without a pause is late for others.
                with anyio.move_on_after(time.monotonic() - begun):
                    await self._event.wait()

    # ------------------------------------------------------------------------------------------------------ receive

    def _receive(self, received: RequestBatch) -> None:
        """List the marked inboxes and fill a batch with decided requests; it stays empty if none waits."""
        now = time.monotonic()
        self._spool.look(now)
        taken = self._spool.take(BATCH_REQUESTS, except_groups=self.unbatched.busy, most_turns=self.turn_queue.room)
        received.requests += self._ready[:BATCH_REQUESTS]
        del self._ready[:BATCH_REQUESTS]  # in place: the event loop appends meanwhile
        if not taken and not received.requests:
            self._idle()
        for name, inbox in taken:
            opened = self._open(received, inbox)
            if opened is None:
                inbox.release(name)
            elif (request := self._requests.read(opened, name, now)) is not None:
                received.requests.append(request)
        self._look_up_receipts(received.requests)
        self._decide(received)

    def _open(self, received: RequestBatch, inbox: Inbox) -> OpenInbox | None:
        """Open an inbox, once per batch; None if that is impossible now."""
        if inbox not in received.opened:
            received.opened[inbox] = self._spool.open(inbox)
        return received.opened[inbox]

    def _look_up_receipts(self, requests: Sequence[QueuedRequest]) -> None:
        """Give each repeated request its first answer."""
        by_box: defaultdict[Inbox, list[tuple[QueuedRequest, Asking]]] = defaultdict(list)
        for request in requests:
            match request.state:
                case Asking(handler=ChangeHandler() | TurnHandler() | WaitingHandler()) as asking:
                    by_box[request.inbox].append((request, asking))
        for inbox, asked in by_box.items():
            done = self._journal.receipts_of(inbox.group, inbox.sender, [request.stem for request, _ in asked])
            for request, asking in asked:
                match done.get(request.stem):
                    case (digest, reply) if digest == asking.asked.digest:
                        request.state = Answered(reply, REPEATED)
                    case (_, _):
                        request.refuse(
                            Refusal("conflict", "another request of this sender had this id: use a new id", field="id")
                        )

    # ------------------------------------------------------------------------------------------------------- decide

    def _decide(self, received: RequestBatch) -> None:
        """Decide every change of requests that are not over a limit."""
        now = to_milliseconds(datetime.now(UTC))
        for request in received.requests:
            is_new = not request.has_run and request.answer_to is None
            is_repeated = isinstance(request.state, Answered) and request.state.outcome == REPEATED
            if is_new and not is_repeated and self._is_over(request):
                received.over += 1
            match request.state:
                case Asking(handler=ChangeHandler() as handler) as asking:
                    with self._answers.refusing(request):
                        outcome = handler.decide(asking.asked, now)
                    if request.state is not asking:
                        continue
                    self._unit.apply(outcome.changes)  # later decisions see them
                    self._journal.next_seq += len(outcome.changes) or 1  # a receipt alone has a number, too
                    last = self._journal.next_seq - 1
                    reply = wire.dump_reply(request.stem, outcome.result, last if outcome.changes else None)
                    request.state = Answered(reply, number=last, changes=outcome.changes, digest=asking.asked.digest)

    def _is_over(self, request: QueuedRequest) -> bool:
        """Refuse a request over a limit of its sender, without receipt or dead letter; return whether it is over.

        The operator's rate has no limit.
        """
        inbox, now = request.inbox, time.monotonic()
        is_pending = request.state is None
        if inbox.sender == OPERATOR and not is_pending:
            return False
        over = self.limiter.admit(inbox.group, inbox.sender, now, is_pending=is_pending)
        if over is None:
            return False
        limit, refusal = over
        request.refuse(refusal)
        if self._answers.throttle.passes("limit", inbox.group, inbox.sender, limit) is not None:
            log.warning("limit.reached", group=inbox.group, sender=inbox.sender, limit=limit, why=refusal.message)
        return True

    # -------------------------------------------------------------------------------------------------------- write

    def _write(self, received: RequestBatch) -> None:
        """Commit the decided changes, write their files, and answer everything but queries."""
        answered = [request for request in received.requests if isinstance(request.state, Answered)]
        decided = [request for request in answered if request.answered.number]
        written: Sequence[Change] = ()
        try:
            if decided:
                written = self._writer.commit_and_project(decided)
        finally:
            self._unit.end_batch(written)
        self.passed("projected")
        for request in answered:
            if request.answer_to is None:
                opened = self._open(received, request.inbox)
                if opened is None:  # its file is found again with the folder, and gets this answer
                    request.inbox.release(request.name)
                else:
                    self._answers.reply(opened, request)
        self._answers.request_log.flush()
