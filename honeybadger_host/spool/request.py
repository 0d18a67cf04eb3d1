"""A request file on its way through the host, and how its bytes become a request.

A file is read once and parsed once. Its folders name the group and the sender.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from honeybadger_agent import wire
from honeybadger_agent.mailbox import GLOBAL_GROUP, OPERATOR, REQUEST_ID, TURNS, is_system_sender
from honeybadger_agent.wire import TURN_TYPES, NotARequest, Refusal, check_numbers
from honeybadger_host.files.safe_files import Changing, NotRegular, Signature, printable, read_incoming
from honeybadger_host.handler_kinds import Asked, Handler
from honeybadger_host.journal.changes import Change
from honeybadger_host.journal.schema import TurnKey
from honeybadger_host.log import log
from honeybadger_host.observe import Counters, Throttle
from honeybadger_host.spool import rate_limits
from honeybadger_host.spool.dead_letters import MAX_BURIED_BYTES
from honeybadger_host.spool.inbox import Inbox, OpenInbox
from honeybadger_host.text.json_values import BOM
from honeybadger_host.text.redaction import redact_line

UNFINISHED_SECONDS = 2.0  # how long a file that ends too early or has two names is read again
_REREAD_SECONDS = 0.05  # seconds until the next look at a file that is still being written


@dataclass(slots=True)
class Asking:
    """A request that was read and parsed, and has no answer yet."""

    asked: Asked
    handler: Handler


@dataclass(frozen=True, slots=True)
class Answered:
    """A request with its answer. A decided one is done when its receipt is committed with its changes.

    Args:
        reply: the bytes of the answer.
        outcome: `ok`, `repeated` if it was done before, or the code of a refusal.
        why: the message of a refusal.
        number: of its last change, or of its receipt alone; 0: it was not decided now.
        digest: of the request's bytes, if it was decided.
        dead_reason: its bytes go to the dead letters, for this reason.
    """

    reply: bytes
    outcome: str = "ok"
    why: str | None = None
    number: int = 0
    changes: Sequence[Change] = ()
    digest: bytes = b""
    dead_reason: str | None = None

    @property
    def seq(self) -> int | None:
        """Number of its last change, or None if it has none."""
        return self.number if self.changes else None


@dataclass(slots=True)
class QueuedRequest:
    """One request file on its way.

    Args:
        stem: the file's name without `.json`, printable.
        first_seen: when its file was first looked at, monotonic seconds.
        state: None: it is over the limit of its inbox, and was not read.
        owner: uid of its file, if it is not that of the inbox.
        signature: of the file, whether it could be read or not.
        has_run: it was done outside the batches: a turn that has run, or a request that waited.
        answer_to: called with the reply, on the event loop, if the host itself asks: then there is no file.
    """

    inbox: Inbox
    name: str
    stem: str
    received: float
    first_seen: float
    state: Asking | Answered | None = None
    type: str = "?"
    data: bytes | None = None
    size: int = 0
    signature: Signature | None = None
    owner: int | None = None
    has_run: bool = False
    answer_to: Callable[[bytes], object] | None = None

    @property
    def turn(self) -> TurnKey:
        """Return its name in the journal if it is a turn."""
        return TurnKey(self.inbox.group, self.inbox.sender, self.stem)

    @property
    def answered(self) -> Answered:
        """Return its answer. It must have one."""
        assert isinstance(self.state, Answered), self.stem  # noqa: S101
        return self.state

    @property
    def named(self) -> dict[str, str]:
        """Return the members with which a log line names the request."""
        return {"group": self.inbox.group, "sender": self.inbox.sender, "id": self.stem}

    def refuse(self, refusal: Refusal, *, dead_reason: str | None = None) -> None:
        """Answer it with a refusal, without credentials: a member's name may look like one."""
        why = redact_line(refusal.message)
        field_name = None if refusal.field is None else redact_line(refusal.field)
        clean = Refusal(refusal.code, why, field=field_name, retry_after_seconds=refusal.retry_after_seconds)
        self.state = Answered(wire.dump_error(self.stem, clean), clean.code, why, dead_reason=dead_reason)


@dataclass(slots=True)
class RequestBatch:
    """The requests of one pass of the pipeline, with their open inboxes; None: it cannot be opened now.

    Args:
        over: how many of them are over a limit.
    """

    requests: list[QueuedRequest] = field(default_factory=list)
    over: int = 0
    opened: dict[Inbox, OpenInbox | None] = field(default_factory=dict)

    def close(self) -> None:
        for opened in self.opened.values():
            if opened is not None:
                opened.close()


class _Unserved(Exception):
    """A file that becomes a dead letter, or is read again first.

    Args:
        why: the reason; empty: it is read again without end.
        again_in: seconds until it is read again, if it was found less than `UNFINISHED_SECONDS` ago; None: it is not.
    """

    def __init__(self, why: str, code: wire.ErrorCode = "invalid", *, again_in: float | None = None) -> None:
        self.why, self.code, self.again_in = why, code, again_in


@dataclass(slots=True)
class RequestReader:
    """Reads and parses request files.

    Args:
        handlers: request type -> handler.
        forbids: (sender, request type) -> why this sender may not ask for it, None when it may.
        throttle: limits the log lines about an unreadable inbox, by kind of error.
    """

    handlers: Mapping[str, Handler]
    forbids: Callable[[str, str], str | None]
    counters: Counters
    throttle: Throttle

    def read(self, opened: OpenInbox, name: str, now: float) -> QueuedRequest | None:
        """Read and parse one file, once; None if it is gone, or somebody is still writing it."""
        inbox = opened.inbox
        first_seen = inbox.waiting.pop(name, (now, 0.0))[0] if inbox.waiting else now
        request = QueuedRequest(inbox, name, printable(name[:-5]), now, first_seen)
        if name in inbox.over:
            inbox.over.discard(name)
            return request
        try:
            self._load(opened, request)
            self._parse(request)
        except FileNotFoundError:
            inbox.release(name)
            self.counters.vanished += 1
            return None
        except _Unserved as error:
            request.signature = request.signature or opened.look(name)
            is_old = error.why and now - first_seen >= UNFINISHED_SECONDS
            if error.again_in is not None and not is_old:
                inbox.wait_for(name, first_seen, now + error.again_in)
                return None
            request.refuse(Refusal(error.code, error.why), dead_reason=error.why)
        except Refusal as refusal:
            request.refuse(refusal)
        return request

    def _load(self, opened: OpenInbox, request: QueuedRequest) -> None:
        """Read the file and check all but its text. Raises FileNotFoundError, _Unserved."""
        inbox, name, most = request.inbox, request.name, rate_limits.MAX_REQUEST_BYTES
        try:
            incoming = read_incoming(opened.requests_fd, name, MAX_BURIED_BYTES)
        except FileNotFoundError:
            raise
        except Changing:
            raise _Unserved(
                f"{name!r} changes all the time: rename into the box what is finished", again_in=_REREAD_SECONDS
            ) from None
        except NotRegular as error:
            raise _Unserved(f"{name!r} is {error}, a request is a regular file: it was not read") from None
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO):
                raise _Unserved(f"{name!r} cannot be read: {error.strerror}") from None
            self.counters.note_error(f"reading {request.stem}: {error.strerror}")
            if (left_out := self.throttle.passes("read", inbox.path, error.errno)) is not None:
                log.error(
                    "pipeline.read_failed",
                    group=inbox.group,
                    sender=inbox.sender,
                    name=ascii(name),
                    error=error.strerror,
                    left_out=left_out,
                )
            raise _Unserved("", again_in=rate_limits.RETRY_SECONDS) from None
        request.data = incoming.data.removeprefix(BOM) if incoming.links <= 1 else None
        request.size, request.signature = incoming.size, incoming.signature
        if inbox.uid is not None and incoming.uid != inbox.uid:
            request.owner = incoming.uid
            raise _Unserved(
                f"the file belongs to uid {incoming.uid}, this box to {inbox.uid}: send it as its owner", "forbidden"
            )
        if incoming.size > most:
            raise _Unserved(f"the request has {incoming.size} bytes, the limit is {most}: send less", "too_large")
        if incoming.links > 1:  # link and unlink, as maildir delivers
            raise _Unserved(
                f"{name!r} has {incoming.links} names (hard links), it was not read: rename into the box",
                again_in=_REREAD_SECONDS,
            )
        if not REQUEST_ID.fullmatch(name[:-5]):
            raise _Unserved(f"{name!r} is not a request id: 1-100 characters of A-Z a-z 0-9 . _ - before .json")

    def _parse(self, request: QueuedRequest) -> None:
        """Parse the bytes of a request and set its state to `Asking`. Raises _Unserved, Refusal."""
        assert request.data is not None  # noqa: S101  it was read
        try:
            envelope = wire.parse_request(request.data, request.stem)
        except NotARequest as error:
            raise _Unserved(error.message, again_in=_REREAD_SECONDS if error.is_unfinished else None) from None
        types, others = (TURN_TYPES, wire.REQUEST_TYPES) if request.inbox.is_turns else (wire.REQUEST_TYPES, TURN_TYPES)
        request.type = envelope.type if envelope.type in types else "unknown"
        inbox = request.inbox
        if inbox.group == GLOBAL_GROUP:
            raise _forbidden("group", f"group {GLOBAL_GROUP!r} is reserved: send from a group of your own")
        if is_system_sender(inbox.sender):
            raise _forbidden(
                "sender",
                f"sender {inbox.sender!r} is reserved for what the host itself writes down: send under a name of your "
                "own",
            )
        if envelope.group not in (None, inbox.group):
            raise _forbidden("group", f"group must be {inbox.group!r}: you are where you write")
        if envelope.sender not in (None, inbox.sender):
            raise _forbidden("sender", f"sender must be {inbox.sender!r}: you are where you write")
        if envelope.type in others:
            where, place = ("requests", TURNS) if request.inbox.is_turns else (TURNS, "requests")
            raise Refusal("invalid", f"type {envelope.type} belongs into {where}/, this is {place}/", field="type")
        kind = types.get(envelope.type)
        if kind is not None and kind.audience == "operator" and inbox.sender != OPERATOR:
            raise _forbidden("type", f"only the operator may ask for {envelope.type}: see honeybadger-host --help")
        if (why_not := self.forbids(inbox.sender, envelope.type)) is not None:
            raise _forbidden("type", why_not)
        payload = wire.parse_payload(envelope, types)
        try:
            check_numbers(request.data)
        except ValueError as error:
            raise Refusal("invalid", str(error), field="payload") from None
        handler = self.handlers.get(envelope.type)
        if handler is None:
            raise Refusal("invalid", f"type {envelope.type} is not served by this host", field="type")
        request.state = Asking(
            Asked(
                inbox.group,
                inbox.sender,
                envelope.id,
                envelope.session,
                payload,
                hashlib.sha256(request.data).digest(),
            ),
            handler,
        )


def _forbidden(field: str, why: str) -> Refusal:
    return Refusal("forbidden", why, field=field)
