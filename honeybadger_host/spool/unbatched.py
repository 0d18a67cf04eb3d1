"""Work outside the batches: queries, requests that wait for future input, and turns of agents.

Each query runs on a thread; a waiting request takes none. A turn runs for minutes; its result is decided and written
with a later batch.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import anyio
from anyio.abc import TaskGroup

from honeybadger_agent import wire
from honeybadger_agent.wire import Refusal
from honeybadger_host.handler_kinds import Asked, CutShort, QueryHandler, TurnHandler, WaitingHandler
from honeybadger_host.log import log
from honeybadger_host.memory.injection_ledger import Served
from honeybadger_host.spool.answers import Answers
from honeybadger_host.spool.inbox import Inbox, turns_queue
from honeybadger_host.spool.rate_limits import RETRY_SECONDS
from honeybadger_host.spool.request import Answered, Asking, QueuedRequest
from honeybadger_host.spool.turn_queue import TurnQueue, Withdrawn
from honeybadger_host.threads import Threads

MAX_WAITING = 1000  # waiting requests of one sender; more are refused. Each is answered within minutes
# Queries that run at the same time, each on a thread; Python computes in one of them at a time. A group leaves one for
# others, and while it has as many under way, none of its requests is taken.
QUERIES_AT_ONCE = 4


class Unbatched:
    """Runs each request that no batch decides. Event loop.

    Args:
        note: called with the context that a query served, before its reply is written.
        come_back: called with a turn that ran, for its decision.
        wake: wakes the pipeline.
        keep: see `Pipeline.keep_answer`.
    """

    def __init__(
        self,
        answers: Answers,
        turn_queue: TurnQueue,
        note: Callable[[Served], None],
        come_back: Callable[[QueuedRequest], None],
        wake: Callable[[], None],
        keep: Callable[[Asked, Mapping[str, Any]], Awaitable[None]],
    ) -> None:
        self._answers = answers
        self._turn_queue = turn_queue
        self._note = note
        self._come_back = come_back
        self._wake = wake
        self._keep = keep
        self._answering, self._replying = Threads(QUERIES_AT_ONCE), Threads(1)
        self._queries: Counter[str] = Counter()
        self._lanes = defaultdict[str, asyncio.Semaphore](lambda: asyncio.Semaphore(QUERIES_AT_ONCE - 1))
        self._waiting: Counter[Inbox] = Counter()

    @property
    def busy(self) -> set[str]:
        """The queues from which nothing is taken now. Any thread."""
        queries = dict(self._queries)  # in one step: the event loop changes it meanwhile
        turns = {turns_queue(group) for group in self._turn_queue.under_way}  # their next turn waits for the one before
        return turns | {group for group, count in queries.items() if count >= QUERIES_AT_ONCE}

    @property
    def is_waiting(self) -> bool:
        """Whether a request is waiting for future input."""
        return bool(self._waiting)

    async def settle(self) -> None:
        """Return when the queries that have begun so far are answered. One caller at a time."""
        await self._answering.settle()
        await self._replying.settle()

    def begin(self, request: QueuedRequest, asking: Asking, tasks: TaskGroup, waiting: TaskGroup) -> None:
        """Start a request.

        Args:
            waiting: the task group of waiting requests, which is cancelled when the host ends.
        """
        match asking.handler:
            case TurnHandler() as turn:
                scope = self._turn_queue.enter(asking.asked, has_lane=request.inbox.is_turns)
                tasks.start_soon(self._run_turn, request, asking, turn, scope)
            case QueryHandler() as query:
                self._queries[request.inbox.group] += 1
                tasks.start_soon(self._answer, request, asking, query)
            case WaitingHandler() as handler:
                request.has_run = True
                self._waiting[request.inbox] += 1
                waiting.start_soon(self.wait, request, asking, handler, self._waiting[request.inbox] > MAX_WAITING)

    # ------------------------------------------------------------------------------------------------------ queries

    async def _answer(self, request: QueuedRequest, asking: Asking, handler: QueryHandler) -> None:
        """Answer one query on a separate thread."""
        group = request.inbox.group
        try:
            async with self._lanes[group]:
                await self._answering.run(self.answer_query, request, asking, handler)
            self._answers.tell()
        finally:
            self._queries[group] -= 1
            if self._queries[group] == QUERIES_AT_ONCE - 1:
                self._wake()
            if not self._queries[group]:
                del self._queries[group], self._lanes[group]

    def answer_query(self, request: QueuedRequest, asking: Asking, handler: QueryHandler) -> None:
        with self._answers.refusing(request):
            answer = handler.ask(asking.asked, datetime.now(UTC))
            request.state = Answered(wire.dump_reply(request.stem, answer.result))
            if answer.served is not None:
                self._note(answer.served)
        self._answers.reply_alone(request)

    async def wait(
        self, request: QueuedRequest, asking: Asking, handler: WaitingHandler, is_one_too_many: bool = False
    ) -> None:
        """Answer one request when its handler does. If cancelled, the request stays in its inbox."""
        inbox, request.data = request.inbox, None
        try:
            with self._answers.refusing(request):
                if is_one_too_many:
                    raise Refusal(
                        "rate_limited",
                        f"{MAX_WAITING} requests of this sender wait already: let some of them be answered first",
                        retry_after_seconds=RETRY_SECONDS,
                    )
                result = await handler.answer(asking.asked)
                if handler.is_kept:
                    await self._keep(asking.asked, result)
                request.state = Answered(wire.dump_reply(request.stem, result))
            await self._replying.run(self._answers.reply_alone, request)
            self._answers.tell()
        finally:
            self._waiting[inbox] -= 1
            if not self._waiting[inbox]:
                del self._waiting[inbox]
                self._wake()

    # -------------------------------------------------------------------------------------------------------- turns

    async def _run_turn(
        self, request: QueuedRequest, asking: Asking, handler: TurnHandler, scope: anyio.CancelScope
    ) -> None:
        """Run one turn, whose lane is taken, and pass it back to the pipeline. If cancelled, it stays in its inbox."""
        with scope:
            try:
                with self._answers.refusing(request):
                    inbox = request.inbox if request.inbox.is_turns else None
                    asking.handler = await self._turn_queue.run(asking.asked, handler, inbox)
            except CutShort as error:
                request.refuse(
                    Refusal("internal", f"{error}: it is kept in data/dead/, report it"), dead_reason=str(error)
                )
            except Withdrawn:
                log.info("turn.withdrawn", **request.named)
                self._let_go(request)
                self._wake()
                return
            except anyio.get_cancelled_exc_class():
                log.info("turn.interrupted", **request.named)
                self._let_go(request)
                raise
            request.has_run = True
            self._come_back(request)

    def _let_go(self, request: QueuedRequest) -> None:
        """Release a turn that did not run; its file is found again."""
        request.inbox.release(request.name)
        self._turn_queue.leave(request.turn)
