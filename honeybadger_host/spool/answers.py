"""Answers to requests: write the reply, remove the request, log it, and set aside a request that cannot be served."""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import anyio

from honeybadger_agent.wire import Refusal
from honeybadger_host.errors import JournalError, StorageFailed, WorldFailed
from honeybadger_host.handler_kinds import CutShort
from honeybadger_host.journal.journal import Journal
from honeybadger_host.log import log
from honeybadger_host.observe import LOG_PAUSE_SECONDS, Counters, RequestLog, Throttle
from honeybadger_host.spool.dead_letters import DeadLetters
from honeybadger_host.spool.inbox import STREAM, OpenInbox
from honeybadger_host.spool.rate_limits import RETRY_SECONDS
from honeybadger_host.spool.request import QueuedRequest
from honeybadger_host.spool.spool import Spool
from honeybadger_host.spool.turn_queue import Withdrawn
from honeybadger_host.text.redaction import redact_line


@dataclass(slots=True)
class Answers:
    """Writes replies. Any thread, but one request is answered by one thread only.

    Args:
        throttle: limits the log lines about replies that cannot be written, by inbox and kind of error.
        passed: called with the name of each point that a batch passes, for tests that stop there.
        told: set at the next `tell`.
    """

    spool: Spool
    dead_letters: DeadLetters
    journal: Journal
    counters: Counters
    throttle: Throttle
    request_log: RequestLog
    passed: Callable[[str], None]
    told: anyio.Event = field(default_factory=anyio.Event)

    # -- waiting for a reply ----------------------------------------------------------------------------------------

    def tell(self) -> None:
        """Wake everybody in this process who waits for a reply: some were written. Event loop."""
        self.told.set()
        self.told = anyio.Event()

    # ----------------------------------------------------------------------------------------------------- refusing

    @contextlib.contextmanager
    def refusing(self, request: QueuedRequest) -> Iterator[None]:
        """Turn an exception of a handler into the answer to its request, unless it ends a turn or the host."""
        try:
            yield
        except Refusal as refusal:
            request.refuse(refusal)
        except (WorldFailed, JournalError) as error:
            self.refuse_for_world(request, error)
        except (CutShort, Withdrawn, StorageFailed):
            raise
        except Exception as error:
            log.error("pipeline.failed", **request.named, type=request.type, exc_info=error)
            self.counters.note_error(redact_line(f"{request.type}: {type(error).__name__}: {error}"))
            request.refuse(
                Refusal("internal", "the host failed on this request; it is kept in data/dead/: report it"),
                dead_reason=f"the host failed: {type(error).__name__}",
            )

    def refuse_for_world(self, request: QueuedRequest, error: WorldFailed | JournalError) -> None:
        """Refuse a request with `unavailable`, e.g. on a full disk. The message does not name the home's path."""
        self.counters.note_error(str(error))
        what = str(error).replace(f"{self.journal.path.parent.parent}/", "")
        request.refuse(Refusal("unavailable", f"{what}; nothing was changed, try again later"))

    # ------------------------------------------------------------------------------------------------------ replies

    def reply(self, opened: OpenInbox, request: QueuedRequest) -> None:
        """Answer and remove one request. If the reply cannot be written, the request stays and is tried again."""
        inbox, answered = request.inbox, request.answered
        self.passed("answering")
        try:
            if answered.dead_reason is not None:
                self.dead_letters.bury(
                    inbox,
                    request.name,
                    request.data,
                    redact_line(answered.dead_reason),
                    size=request.size,
                    owner=request.owner,
                )
            opened.reply(request.name, answered.reply)
        except OSError as error:
            inbox.reply_fault = error.strerror
            self.counters.note_error(f"reply to {request.stem}: {error.strerror}")
            if (left_out := self.throttle.passes("reply", inbox.path, error.errno)) is not None:
                log.error(
                    "pipeline.reply_failed",
                    **request.named,
                    error=error.strerror,
                    left_out=left_out,
                    now_what="the request stays in its box and is tried again",
                )
            self._try_again(request)
            return
        inbox.reply_fault = None
        self.passed("replied")
        if inbox.is_turns:
            opened.remove_reply(f"{request.stem}{STREAM}")
        if opened.remove(request.name, request.signature):
            inbox.release(request.name)
        else:
            self._try_again(request)  # it has a receipt, or changed nothing
        self.passed("unlinked")
        self._note_answered(request)

    def _try_again(self, request: QueuedRequest) -> None:
        """Let a request that stays in its inbox be taken later; the pause doubles, up to a minute."""
        now = time.monotonic()
        pause = min(max(now - request.first_seen, RETRY_SECONDS), LOG_PAUSE_SECONDS)
        request.inbox.wait_for(request.name, request.first_seen, now + pause)

    def hand_over(self, request: QueuedRequest, answer_to: Callable[[bytes], object]) -> None:
        """Answer a change that the host itself asked for. Event loop."""
        self._note_answered(request)
        answer_to(request.answered.reply)

    def _note_answered(self, request: QueuedRequest) -> None:
        answered, seconds = request.answered, time.monotonic() - request.received
        self.counters.answered(request.type, answered.outcome, None if request.has_run else seconds)
        self.request_log.add(
            **request.named,
            type=request.type,
            outcome=answered.outcome,
            seq=answered.seq,
            ms=round(seconds * 1000, 2),
            why=answered.why,
        )

    def reply_alone(self, request: QueuedRequest) -> None:
        """Answer a request that is in no batch."""
        opened = self.spool.open(request.inbox)
        if opened is None:
            request.inbox.release(request.name)
            return
        with contextlib.closing(opened):
            self.reply(opened, request)
        self.request_log.flush()
