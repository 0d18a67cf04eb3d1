"""The four kinds of handler, their arguments and their results. Pure."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeAlias

from typing_extensions import TypeVar

from honeybadger_host.journal.changes import Change
from honeybadger_host.journal.schema import TurnKey
from honeybadger_host.memory.injection_ledger import Served

PayloadT = TypeVar("PayloadT", default=Any)


@dataclass(frozen=True, slots=True)
class Asked(Generic[PayloadT]):
    """A request that was read and parsed. Group and sender are the names of its folders.

    Args:
        payload: the request's model; the table of handlers pairs types and handlers.
        digest: SHA-256 of the request's bytes.
    """

    group: str
    sender: str
    request_id: str
    session: str
    payload: PayloadT
    digest: bytes = b""

    @property
    def key(self) -> TurnKey:
        """Return its name in the journal."""
        return TurnKey(self.group, self.sender, self.request_id)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A handler's decision: the answer, and the changes to commit with it."""

    result: Mapping[str, Any]
    changes: tuple[Change, ...] = ()


DEFAULT_ROWS = 50  # rows of a reply to a request that gives no limit
MAX_REPLY_BYTES = 1 << 20  # bytes of turns or entries in one reply, about


@dataclass(frozen=True, slots=True)
class ChangeHandler:
    """Decides what a request changes.

    Args:
        decide: (asked, now) -> outcome; runs on a worker thread, one request after another; may read, never writes.
            Through the stores it sees all that was decided before. The time has whole milliseconds, the precision of
            everything that is kept. Raises `wire.Refusal`, WorldFailed.
    """

    decide: Callable[[Asked, datetime], Outcome]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a query.

    Args:
        served: the context in it, to be recorded; None: the answer is no context.
    """

    result: Mapping[str, Any]
    served: Served | None = None


@dataclass(frozen=True, slots=True)
class QueryHandler:
    """Answers without changing anything.

    Args:
        answer: (asked, now) -> result; runs on a worker thread; may read, never writes. Raises `wire.Refusal`.
    """

    answer: Callable[[Asked, datetime], Mapping[str, Any] | Answer]

    def ask(self, asked: Asked, now: datetime) -> Answer:
        """Return the answer as an `Answer`. Raises `wire.Refusal`."""
        answer = self.answer(asked, now)
        return answer if isinstance(answer, Answer) else Answer(answer)


@dataclass(frozen=True, slots=True)
class WaitingHandler:
    """Answers when something has arrived, or after a time limit. It holds no batch and no thread while it waits.

    Args:
        answer: asked -> result; runs on the event loop. Raises `wire.Refusal`, WorldFailed. It is cancelled when the
            host stops: the request stays in its inbox, and the next start asks again.
        is_kept: the answer gets a receipt, because the request changed something; see `Pipeline.keep_answer`.
    """

    answer: Callable[[Asked], Awaitable[Mapping[str, Any]]]
    is_kept: bool = False


@dataclass(slots=True)
class Stop:
    """The way to end a turn early.

    Args:
        scope: the turn's answer is made in it; a stop cancels the scope.
        cancel: cancels the scope.
        by: who asked for it first; empty: nobody.
    """

    scope: AbstractContextManager[object, bool]
    cancel: Callable[[], object]
    by: str = ""

    def ask(self, by: str) -> None:
        self.by = self.by or by
        self.cancel()


@dataclass(frozen=True, slots=True)
class TurnUnderWay:
    """A turn of an agent, while it runs.

    Args:
        name: unique among turns; at most 80 characters that request ids may have.
        attempt: from 1; higher if the host was killed during earlier attempts.
        steps: the steps that earlier attempts kept, oldest first.
        keep: makes one more step durable, a line of JSON. Raises WorldFailed, StorageFailed.
        show: passes a line of JSON to the program that waits for the answer; lost if that is impossible.
        stop: ends the turn early.
    """

    name: str
    attempt: int
    steps: Sequence[bytes]
    keep: Callable[[bytes], Awaitable[None]]
    show: Callable[[bytes], None]
    stop: Stop


class CutShort(Exception):
    """A turn that was interrupted too often: it is not tried again."""

    def __init__(self, attempts: int) -> None:
        super().__init__(f"the host ended {attempts} times while it ran")


@dataclass(frozen=True, slots=True)
class TurnHandler:
    """Runs an agent's turn, which may take minutes.

    A turn that came through `requests/` is part of another turn and does not wait in a turn queue.
    Args:
        run: (asked, turn) -> the handler that decides the changes at the end of the turn; runs on the event loop.
            Raises `wire.Refusal`, WorldFailed.
    """

    run: Callable[[Asked, TurnUnderWay], Awaitable[ChangeHandler]]


Handler: TypeAlias = ChangeHandler | QueryHandler | WaitingHandler | TurnHandler
