"""A request file on its way through the host, and how its bytes become a request.

A file is read once and parsed once. Its folders name the group and the sender.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import structlog

from honeybadger_agent import wire
from honeybadger_agent.mailbox import GLOBAL_GROUP, OPERATOR, REQUEST_ID, TURNS, is_system_sender
from honeybadger_agent.wire import TURN_TYPES, NotARequest, Refusal
from honeybadger_agent.wire.refusals import check_numbers
from honeybadger_host.files.safe_files import Changing, NotRegular, Signature, printable
from honeybadger_host.handler_kinds import Asked, Handler
from honeybadger_host.journal.changes import Change
from honeybadger_host.journal.schema import TurnKey
from honeybadger_host.observe import Counters, Throttle
from honeybadger_host.spool import rate_limits
from honeybadger_host.spool.inbox import Inbox, OpenInbox

log = structlog.get_logger()

_LINK_REFUSED_SECONDS = 60.0  # how long the other names of a refused file are refused; longer than a pass takes
UNFINISHED_SECONDS = 2.0  # how long a file that ends too early or has two names is read again
# In a group that went to another home the operator is refused turns and these, too: its agents never see the result.
_FOR_ITS_AGENTS: Final = ("consolidate", "dream", "import_records", "run_task")
_LOOK_AGAIN_SECONDS = 0.05  # seconds until the next look at a file that is still being written


@dataclass(slots=True)
class Asking:
    """A request that was read and parsed, and has no answer yet.

    Args:
        prepared: what its handler loaded for the decision.
    """

    asked: Asked
    handler: Handler
    prepared: object = None


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that cannot be served.

    Args:
        dead_reason: its bytes go to the dead letters, for this reason.
        is_cut_short: it is a turn that is not tried again.
    """

    refusal: Refusal
    dead_reason: str | None = None
    is_cut_short: bool = False


@dataclass(frozen=True, slots=True)
class Decided:
    """A change that its handler decided; it is done when it is committed, and refused when it cannot be.

    Args:
        seq: number of its last change; None when there are none.
        reply: the bytes of the answer.
    """

    changes: Sequence[Change]
    seq: int | None
    digest: bytes
    reply: bytes


@dataclass(frozen=True, slots=True)
class Answered:
    """A query that was answered, or a request that was done before."""

    reply: bytes
    outcome: str = "ok"


@dataclass(frozen=True, slots=True)
class Over:
    """A request over the limit of its inbox, which was not read."""


# Asking becomes one of the next three; Decided may still become Refused.
State: TypeAlias = Asking | Refused | Decided | Answered | Over


@dataclass(slots=True)
class QueuedRequest:
    """One request file on its way.

    Args:
        stem: the file's name without `.json`, printable.
        first_seen: when its file was first looked at, monotonic seconds.
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
    state: State = field(default_factory=Over)
    type: str = "?"
    data: bytes | None = None
    size: int = 0
    signature: Signature | None = None
    owner: int | None = None
    has_run: bool = False
    answer_to: Callable[[bytes], object] | None = None

    @property
    def is_turn(self) -> bool:
        """Return whether it came through `turns/`."""
        return self.inbox.front is not None

    @property
    def turn(self) -> TurnKey:
        """Return its name in the journal if it is a turn."""
        return TurnKey(self.inbox.group, self.inbox.sender, self.stem)

    @property
    def named(self) -> dict[str, str]:
        """Return the members with which a log line names the request."""
        return {"group": self.inbox.group, "sender": self.inbox.sender, "id": self.stem}

    def refuse(self, refusal: Refusal, *, dead_reason: str | None = None, is_cut_short: bool = False) -> QueuedRequest:
        self.state = Refused(refusal, dead_reason, is_cut_short)
        return self


@dataclass(slots=True)
class RequestBatch:
    """The requests of one pass of the pipeline, with their open inboxes."""

    requests: list[QueuedRequest]
    opened: dict[Inbox, OpenInbox | None] = field(default_factory=dict)
    """None: it cannot be opened now."""

    def close(self) -> None:
        for opened in self.opened.values():
            if opened is not None:
                opened.close()


class _NotYet(Exception):
    """A file to read again later.

    Args:
        else_why: the fault of a file that stays as it is; None: it is read again without end.
        is_linked: it has several names.
    """

    def __init__(self, else_why: str | None, again_in: float = _LOOK_AGAIN_SECONDS, *, is_linked: bool = False) -> None:
        self.else_why = else_why
        self.again_in = again_in
        self.is_linked = is_linked


class _Unserved(Exception):
    """A file that becomes a dead letter, and why."""

    def __init__(self, code: wire.ErrorCode, why: str) -> None:
        super().__init__(why)
        self.code = code


@dataclass(slots=True)
class RequestReader:
    """Reads and parses request files.

    Args:
        handlers: request type -> handler.
        forbids: (sender, request type) -> why this sender may not ask for it, None when it may.
        moved: group -> why only the operator may ask there, None when all may.
        throttle: limits the log lines about an unreadable inbox, by kind of error.
    """

    handlers: Mapping[str, Handler]
    forbids: Callable[[str, str], str | None]
    moved: Callable[[str], str | None]
    counters: Counters
    throttle: Throttle
    _refused_links: dict[tuple[int, int], float] = field(default_factory=dict)
    """Inode and time of change of files that were refused because they have several names -> until when (monotonic
    seconds) their other names are refused."""

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
        except _NotYet as error:
            if error.else_why is None or now - first_seen < UNFINISHED_SECONDS:
                inbox.wait_for(name, first_seen, now + error.again_in)
                return None
            if error.is_linked and request.signature is not None:
                self._refuse_other_names(request.signature, now)
            return _dead(request, "invalid", error.else_why)
        except _Unserved as error:
            return _dead(request, error.code, str(error))
        except Refusal as refusal:
            request.refuse(refusal)
        return request

    def _load(self, opened: OpenInbox, request: QueuedRequest) -> None:
        """Read the file and check all but its text. Raises FileNotFoundError, _NotYet, _Unserved."""
        inbox, name, most = request.inbox, request.name, rate_limits.MAX_REQUEST_BYTES
        try:
            incoming = opened.read(name, most)
        except FileNotFoundError:
            raise
        except (Changing, NotRegular, OSError) as error:
            request.signature = opened.look(name)
            raise self._unread(request, error) from None
        request.data = incoming.data if incoming.links <= 1 else None
        request.size, request.signature = incoming.size, incoming.signature
        if inbox.uid is not None and incoming.uid != inbox.uid:
            request.owner = incoming.uid
            raise _Unserved(
                "forbidden", f"the file belongs to uid {incoming.uid}, this box to {inbox.uid}: send it as its owner"
            )
        if incoming.size > most:
            raise _Unserved("too_large", f"the request has {incoming.size} bytes, the limit is {most}: send less")
        if incoming.links > 1:  # link and unlink, as maildir delivers
            raise _NotYet(_linked(name, f"{incoming.links} names"), is_linked=True)
        if self._refused_links.get((incoming.signature.inode, incoming.signature.mtime_ns), 0.0) > request.received:
            request.data = None
            raise _Unserved("invalid", _linked(name, "2 names"))
        if not REQUEST_ID.fullmatch(name[:-5]):
            raise _Unserved(
                "invalid", f"{name!a} is not a request id: 1-100 characters of A-Z a-z 0-9 . _ - before .json"
            )

    def _refuse_other_names(self, signature: Signature, now: float) -> None:
        """Refuse the other names of a file: when this one is removed, it looks like a file with a single name."""
        self._refused_links = {key: until for key, until in self._refused_links.items() if until > now}
        self._refused_links[signature.inode, signature.mtime_ns] = now + _LINK_REFUSED_SECONDS

    def _unread(self, request: QueuedRequest, error: Changing | NotRegular | OSError) -> Exception:
        """Return what to raise for a file that could not be read."""
        name = request.name
        match error:
            case Changing():
                return _NotYet(f"{name!a} changes all the time: rename into the box what is finished")
            case NotRegular():
                return _Unserved("invalid", f"{name!a} is {error}, a request is a regular file: it was not read")
            case OSError(errno=errno.EMFILE | errno.ENFILE | errno.ENOMEM | errno.EIO):
                self._say_unread(request, error)
                return _NotYet(None, again_in=rate_limits.RETRY_SECONDS)
            case _:
                return _Unserved("invalid", f"{name!a} cannot be read: {error.strerror}")

    def _say_unread(self, request: QueuedRequest, error: OSError) -> None:
        inbox = request.inbox
        self.counters.note_error(f"reading {request.stem}: {error.strerror}")
        if (left_out := self.throttle.passes("read", inbox.path, error.errno)) is not None:
            log.error(
                "pipeline.read_failed",
                group=inbox.group,
                sender=inbox.sender,
                name=ascii(request.name),
                error=error.strerror,
                left_out=left_out,
            )

    def _parse(self, request: QueuedRequest) -> None:
        """Parse the bytes of a request and set its state to `Asking`. Raises _NotYet, _Unserved, Refusal."""
        assert request.data is not None  # noqa: S101  it was read
        try:
            envelope = wire.parse_request(request.data, request.stem)
        except NotARequest as error:
            raise _NotYet(error.message) if error.is_unfinished else _Unserved("invalid", error.message) from None
        types, others = (TURN_TYPES, wire.REQUEST_TYPES) if request.is_turn else (wire.REQUEST_TYPES, TURN_TYPES)
        request.type = envelope.type if envelope.type in types else "unknown"
        inbox = request.inbox
        if inbox.group == GLOBAL_GROUP:
            raise _forbidden("group", f"group {GLOBAL_GROUP!r} is reserved: send from a group of your own")
        if is_system_sender(inbox.sender):
            why = "is reserved for what the host itself writes down: send under a name of your own"
            raise _forbidden("sender", f"sender {inbox.sender!r} {why}")
        if envelope.group not in (None, inbox.group):
            raise _forbidden("group", f"group must be {inbox.group!r}: you are where you write")
        if envelope.sender not in (None, inbox.sender):
            raise _forbidden("sender", f"sender must be {inbox.sender!r}: you are where you write")
        if envelope.type in others:
            where, place = ("requests", TURNS) if request.is_turn else (TURNS, "requests")
            raise Refusal("invalid", f"type {envelope.type} belongs into {where}/, this is {place}/", field="type")
        kind = types.get(envelope.type)
        if kind is not None and kind.audience == "operator" and inbox.sender != OPERATOR:
            raise _forbidden("type", f"only the operator may ask for {envelope.type}: see honeybadger-host --help")
        is_refused = inbox.sender != OPERATOR or request.is_turn or envelope.type in _FOR_ITS_AGENTS
        if is_refused and (went := self.moved(inbox.group)) is not None:
            raise Refusal("not_found", went, field="group")
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
        digest = hashlib.sha256(request.data).digest()
        asked = Asked(inbox.group, inbox.sender, envelope.id, envelope.session, payload, digest)
        request.state = Asking(asked, handler)


def _forbidden(field: str, why: str) -> Refusal:
    return Refusal("forbidden", why, field=field)


def _linked(name: str, names: str) -> str:
    return f"{name!a} has {names} (hard links), it was not read: rename into the box"


def _dead(request: QueuedRequest, code: wire.ErrorCode, why: str) -> QueuedRequest:
    return request.refuse(Refusal(code, why), dead_reason=why)
