"""The turns under way: one of a group at a time, a few groups at once.

A turn is counted in the journal when it begins, and each answer of its model before its tools run. So what a crash cuts
short goes on behind the last answer; what was cut short too often is dead.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import structlog

from honeybadger_agent.wire import Refusal
from honeybadger_host.domain import Asked, ChangeHandler, TurnHandler, TurnUnderWay
from honeybadger_host.errors import WorldFailed
from honeybadger_host.spool.inbox import Box, turns_queue
from honeybadger_host.spool.spool import Spool
from honeybadger_host.storage.journal import Journal
from honeybadger_host.storage.journal_schema import TurnKey

log = structlog.get_logger()

_LONGEST_ID = 60
"""Characters of a turn's id in the names of its tools' requests; the digest behind it tells turns apart."""

ResultT = TypeVar("ResultT")


class CutShort(Exception):
    """A turn was begun too often and never ended: it is not tried again."""

    def __init__(self, attempts: int) -> None:
        super().__init__(f"the host ended {attempts} times while it ran")
        self.attempts = attempts


class Withdrawn(Exception):
    """Its sender removed a turn before it was begun: nothing is done, and nobody waits for a reply."""


class Lanes:
    """Which groups have a turn under way. Event loop.

    Args:
        writer_slot: held while something is written to the journal.
        at_once: how many turns run at the same time.
        attempts: how often a turn may be begun.
    """

    def __init__(
        self, spool: Spool, journal: Journal, writer_slot: anyio.CapacityLimiter, *, at_once: int, attempts: int
    ) -> None:
        self._spool = spool
        self._journal = journal
        self._writer_slot = writer_slot
        self._at_once = at_once
        self._attempts = attempts
        self._running: dict[str, anyio.CancelScope] = {}
        self._is_stopping = False
        self.ended = anyio.Event()
        """Set when none is under way, after `stop`."""

    @property
    def room(self) -> int:
        """How many more may begin."""
        return 0 if self._is_stopping else max(0, self._at_once - len(self._running))

    @property
    def busy(self) -> list[str]:
        """The queues whose next turn waits for the one before. Any thread."""
        return [turns_queue(group) for group in list(self._running)]

    @property
    def running(self) -> int:
        return len(self._running)

    def stop(self) -> None:
        """Let no turn begin any more."""
        self._is_stopping = True
        if not self._running:
            self.ended.set()

    def cancel(self) -> None:
        """End the turns under way; the next start goes on with them."""
        for scope in list(self._running.values()):
            scope.cancel()

    def enter(self, group: str) -> anyio.CancelScope:
        """Take a group's lane; `leave` gives it back, when the turn is answered."""
        scope = self._running[group] = anyio.CancelScope()
        return scope

    def leave(self, group: str) -> None:
        self._running.pop(group, None)
        if self._is_stopping and not self._running:
            self.ended.set()

    async def run(self, box: Box, asked: Asked, digest: bytes, handler: TurnHandler) -> ChangeHandler[Any]:
        """Run a turn; return what decides the changes it ends with.

        Args:
            digest: SHA-256 of the request.
        Raises:
            Refusal, WorldFailed: it could not be done; asked again it goes on where it was.
            CutShort: it will not be done.
            Withdrawn: it was taken back.
        """
        turn = TurnKey(asked.group, asked.sender, asked.request_id)
        stream = await anyio.to_thread.run_sync(self._open_stream, box, turn.request)
        try:
            return await self._run(turn, asked, digest, handler, stream)
        finally:
            if stream is not None:
                os.close(stream)

    async def _run(
        self, turn: TurnKey, asked: Asked, digest: bytes, handler: TurnHandler, stream: int | None
    ) -> ChangeHandler[Any]:
        begun = await self._write(lambda: self._journal.begin_turn(turn, digest))
        if begun.attempts > self._attempts:
            raise CutShort(begun.attempts - 1)
        if begun.attempts > 1:
            log.warning("turn.resumed", group=turn.group, sender=turn.sender, id=turn.request, attempt=begun.attempts)

        async def keep(step: bytes) -> None:
            await self._write(lambda: self._journal.keep_step(turn, step))

        def show(line: bytes) -> None:
            nonlocal stream
            if stream is not None:
                try:
                    os.write(stream, line)  # into the page cache: it is for looking on, the reply has everything
                except OSError:
                    stream = None

        try:
            return await handler.run(asked, TurnUnderWay(_name(turn, digest), begun.attempts, begun.steps, keep, show))
        except anyio.get_cancelled_exc_class():
            await self._give_up(turn)
            raise
        except (Refusal, WorldFailed):
            await self._give_up(turn)
            raise

    async def _write(self, what: Callable[[], ResultT]) -> ResultT:
        return await anyio.to_thread.run_sync(what, limiter=self._writer_slot)

    async def _give_up(self, turn: TurnKey) -> None:
        """Count no attempt: it was not the end of the host that ended it."""
        with anyio.CancelScope(shield=True), contextlib.suppress(WorldFailed):
            await self._write(lambda: self._journal.give_up_turn(turn))

    def _open_stream(self, box: Box, stem: str) -> int | None:
        """Make the stream of a turn, then look whether the turn is still wanted.

        In this order: a sender that removes its message and then finds nothing of the stream's name knows that the turn
        never begins. So no turn begins without that name; what else stands there only hides the answer until its reply.
        Raises Withdrawn, WorldFailed.
        """
        opened = self._spool.open(box)
        if opened is None:
            raise WorldFailed(f"{box.path} cannot be opened")
        stream = None
        try:
            try:
                stream = opened.open_stream(stem)
            except OSError as error:
                if not opened.has_stream(stem):
                    raise WorldFailed(f"replies/{stem}.stream cannot be made: {error.strerror}") from error
                log.warning("turn.not_shown", group=box.group, sender=box.sender, id=stem, error=error.strerror)
            if opened.is_gone(f"{stem}.json"):
                if stream is not None:
                    os.close(stream)
                    opened.remove_stream(stem)
                raise Withdrawn
            return stream
        finally:
            opened.close()


def _name(turn: TurnKey, digest: bytes) -> str:
    """Return what the requests of a turn's tools begin with, unlike those of any other turn."""
    told_apart = hashlib.sha256(f"{turn.sender}\0{turn.request}\0".encode() + digest).hexdigest()[:12]
    return f"{turn.request[:_LONGEST_ID]}.{told_apart}"
