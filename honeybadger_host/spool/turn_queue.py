"""The turns under way: one of a group at a time, a few groups at once.

The journal counts the attempts of a turn, and keeps each answer of its model before the tools run. So a turn that a
crash interrupts continues after its last answer; one that was interrupted too often becomes a dead letter.
"""

import contextlib
import os
from dataclasses import dataclass, field
from typing import Literal

import anyio.to_thread

from honeybadger_agent.wire import Refusal, StopResult, StopTurn, dump_error
from honeybadger_host.errors import WorldFailed
from honeybadger_host.handler_kinds import Asked, ChangeHandler, CutShort, Stop, TurnHandler, TurnUnderWay
from honeybadger_host.journal.journal import Journal
from honeybadger_host.journal.schema import TurnKey, turn_name
from honeybadger_host.log import log
from honeybadger_host.spool.inbox import STREAM, SUFFIX, Inbox
from honeybadger_host.spool.spool import Spool
from honeybadger_host.threads import Threads

ATTEMPTS = 3  # how often a turn is begun that crashes of the host interrupt


class Withdrawn(Exception):
    """A turn that was taken back before it began: nothing is done, and nobody waits for a reply."""


@dataclass(slots=True, eq=False)
class _Running:
    """A turn, from the moment it is taken until it is answered.

    Args:
        has_lane: it is the one turn of its group; False: another turn asked for it, and it does not count.
    """

    asked: Asked
    has_lane: bool
    answering: anyio.CancelScope
    stop: Stop
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    left: anyio.Event = field(default_factory=anyio.Event)


class TurnQueue:
    """The turns under way, by group. Event loop.

    Args:
        writer: the thread that writes the journal.
        at_once: how many turns run at the same time.
    """

    def __init__(self, spool: Spool, journal: Journal, writer: Threads, *, at_once: int) -> None:
        self._spool = spool
        self._journal = journal
        self._writer = writer
        self._at_once = at_once
        self._running: dict[TurnKey, _Running] = {}
        # Turns that the host itself asks for, in the order they came; the event is set when one may begin.
        self._behind: dict[TurnKey, tuple[Asked, anyio.Event]] = {}
        self._taken_back: set[TurnKey] = set()  # turns that `stop_turn` is answering: they must not begin
        self._is_stopping = False
        self.ended = anyio.Event()  # set after `stop`, when no turn is under way

    @property
    def room(self) -> int:
        """Return how many more turns may begin."""
        return 0 if self._is_stopping else max(0, self._at_once - len(self.under_way))

    @property
    def under_way(self) -> dict[str, Asked]:
        """The messages that are being answered, by group. Any thread."""
        return {running.asked.group: running.asked for running in list(self._running.values()) if running.has_lane}

    async def enter_behind(self, asked: Asked) -> anyio.CancelScope:
        """Wait for a lane behind the turns of people, and take it; see `let_in`."""
        key, may_begin = asked.key, anyio.Event()
        self._behind[key] = asked, may_begin
        try:
            await may_begin.wait()
        except BaseException:
            if self._behind.pop(key, None) is None:
                self.leave(key)
            raise
        return self._running[key].scope

    def let_in(self) -> None:
        """Give lanes to waiting turns of the host, one per group; with several lanes one stays free for people."""
        kept_free = 1 if self._at_once > 1 else 0
        for key, (asked, may_begin) in list(self._behind.items()):
            if self.room <= kept_free:
                return
            if key.group not in self.under_way and not self._spool.has_turn(key.group):
                del self._behind[key]
                self.enter(asked)
                may_begin.set()

    def stop(self) -> None:
        """Let no turn begin any more."""
        self._is_stopping = True
        if not self.under_way:
            self.ended.set()

    def cancel(self) -> None:
        """End the turns under way; the next start continues them."""
        for running in list(self._running.values()):
            running.scope.cancel()

    def enter(self, asked: Asked, *, has_lane: bool = True) -> anyio.CancelScope:
        """Begin a turn and take the lane of its group; `leave` gives it back when the turn is answered.

        Args:
            has_lane: False: another turn asked for it.
        """
        answering = anyio.CancelScope()
        running = self._running[asked.key] = _Running(asked, has_lane, answering, Stop(answering, answering.cancel))
        return running.scope

    def leave(self, turn: TurnKey) -> None:
        if (running := self._running.pop(turn, None)) is not None:
            running.left.set()
        if self._is_stopping and not self.under_way:
            self.ended.set()

    async def stop_turn(self, asked: Asked, sender: str | None, session: str | None) -> StopResult:
        """End a turn and wait until it is answered. Raises Refusal if there is no such turn.

        Args:
            asked: a request of the type `stop_turn`.
            sender: only a turn of this sender; None: of any.
            session: if the request names no turn, only a turn of this session; None: of any.
        """
        payload: StopTurn = asked.payload
        turn = self.under_way.get(asked.group)
        if (
            turn is not None
            and sender in (None, turn.sender)
            and payload.turn in (None, turn.request_id)
            and (payload.turn is not None or session in (None, turn.session))
        ):
            running = self._running[turn.key]
            running.stop.ask(asked.sender)
            await running.left.wait()
            return _stopped(asked, turn.request_id, "stopped" if running.answering.cancelled_caught else "finished")
        if payload.turn is None:
            raise Refusal("not_found", "no turn runs here that could be stopped")
        for inbox in self._spool.inboxes.values():
            is_meant = inbox.is_turns and inbox.group == asked.group and sender in (None, inbox.sender)
            if is_meant and await self._take_back(inbox, payload.turn, asked.sender):
                return _stopped(asked, payload.turn, "taken_back")
        raise Refusal(
            "not_found",
            f"no turn {payload.turn} waits or runs here: it was answered, taken back, or never sent",
            field="payload.turn",
        )

    async def _take_back(self, inbox: Inbox, request: str, by: str) -> bool:
        """Answer a turn that has not begun, so that it never does; return whether there was one."""
        turn = TurnKey(inbox.group, inbox.sender, request)
        self._taken_back.add(turn)
        try:
            return await anyio.to_thread.run_sync(self._refuse_waiting, inbox, request, by)
        finally:
            self._taken_back.discard(turn)

    def _refuse_waiting(self, inbox: Inbox, request: str, by: str) -> bool:
        name = f"{request}{SUFFIX}"
        opened = self._spool.open(inbox)
        if opened is None:
            return False
        try:
            if (seen := opened.look(name)) is None:
                return False
            refusal = Refusal("unavailable", f"{by} asked to stop this before it began: nothing was said")
            opened.reply(name, dump_error(request, refusal))
            opened.remove_reply(f"{request}{STREAM}")  # of an attempt before a restart
            if not opened.remove(name, seen):
                raise WorldFailed(f"{request} cannot be removed")
        except OSError as error:
            raise WorldFailed(f"the reply to {request} cannot be written: {error.strerror}") from error
        finally:
            opened.close()
        return True

    async def run(self, asked: Asked, handler: TurnHandler, inbox: Inbox | None) -> ChangeHandler:
        """Run a turn; return what decides the changes it ends with.

        Args:
            inbox: gets the stream of the answer; None: no stream is written.
        Raises:
            Refusal, WorldFailed: it could not be done; a repetition continues it.
            CutShort: it was interrupted too often and is given up.
            Withdrawn: it was taken back.
        """
        if asked.key in self._taken_back:
            raise Withdrawn
        stream = None
        if inbox is not None:
            stream = await anyio.to_thread.run_sync(self._open_stream, inbox, asked.request_id)
        try:
            return await self._run(asked, handler, stream)
        finally:
            if stream is not None:
                os.close(stream)

    async def _run(self, asked: Asked, handler: TurnHandler, stream: int | None) -> ChangeHandler:
        turn = asked.key
        begun = await self._writer.run(self._journal.begin_turn, turn, asked.digest)
        if begun.attempts > ATTEMPTS:
            await self._writer.run(self._journal.commit, (), (), [turn])  # sent again, it starts over
            raise CutShort(begun.attempts - 1)
        if begun.attempts > 1:
            log.warning("turn.resumed", group=turn.group, sender=turn.sender, id=turn.request, attempt=begun.attempts)

        async def keep(step: bytes) -> None:
            await self._writer.run(self._journal.keep_step, turn, step)

        def show(line: bytes) -> None:
            if stream is not None:
                with contextlib.suppress(OSError):  # the reply has everything, too
                    os.write(stream, line)

        try:
            name, stop = turn_name(turn, asked.digest), self._running[turn].stop
            return await handler.run(asked, TurnUnderWay(name, begun.attempts, begun.steps, keep, show, stop))
        except (anyio.get_cancelled_exc_class(), Refusal, WorldFailed):
            with anyio.CancelScope(shield=True), contextlib.suppress(WorldFailed):  # not a crash: not counted
                await self._writer.run(self._journal.give_up_turn, turn)
            raise

    def _open_stream(self, inbox: Inbox, stem: str) -> int:
        """Make the stream of a turn, then look whether the turn is still wanted.

        The order matters: a sender that removes its message and then finds no file of the stream's name knows that the
        turn never begins.
        Raises Withdrawn, WorldFailed.
        """
        opened = self._spool.open(inbox)
        if opened is None:
            raise WorldFailed(f"{inbox.path} cannot be opened")
        with contextlib.closing(opened):
            try:
                stream = opened.open_stream(stem)
            except OSError as error:
                raise WorldFailed(f"replies/{stem}.stream cannot be made: {error.strerror}") from error
            if opened.look(f"{stem}{SUFFIX}") is None:
                os.close(stream)
                opened.remove_reply(f"{stem}{STREAM}")
                raise Withdrawn
            return stream


def _stopped(asked: Asked, turn: str, state: Literal["stopped", "finished", "taken_back"]) -> StopResult:
    log.info("turn.stopped", group=asked.group, id=turn, by=asked.sender, state=state)
    return StopResult(turn=turn, state=state)
