"""`Client` and `SyncClient`: publish a request, wait for its reply, return the result or raise.

Both share their code: coroutines that wait in only two places, `_pause` and `_aside`. `Client` awaits them;
`SyncClient` runs them to the end, since its own versions of the two never suspend.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

from pydantic import ValidationError

from honeybadger_agent import wire
from honeybadger_agent.errors import (
    BY_CODE,
    AgentError,
    Conflict,
    Invalid,
    NoMailbox,
    NotFound,
    ReplyTimeout,
    Unavailable,
)
from honeybadger_agent.exchange import Exchange, OnLine
from honeybadger_agent.home import box_at, box_in, named
from honeybadger_agent.mailbox import (
    REPLIES,
    REQUESTS,
    TURNS,
    BadName,
    Box,
    checked_id,
    checked_session,
    new_id,
)
from honeybadger_agent.tools import made, signature_of
from honeybadger_agent.wire import TURN_TYPES, Chat, ChatResult, Request, ResultT
from honeybadger_agent.wording import AGENT_EXTRA

if TYPE_CHECKING:
    from honeybadger_agent.methods import AwaitedMethods, Methods
    from honeybadger_agent.relay import Place, Relay
else:
    Methods = AwaitedMethods = object  # they are added below, from the request types

P = ParamSpec("P")
T = TypeVar("T")
# The payload of a request: a model, or any JSON object for types this package does not know.
Payload = wire.Wire | Mapping[str, Any]

# Seconds within which a host that runs answers what takes it milliseconds, however busy the machine is.
SOON_SECONDS = 3.0
CHAT_SECONDS = 300.0  # seconds to wait for an answer: agents ask their models more than once


def synced(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """Return a method of a client that runs a coroutine, which never suspends, to its end."""

    @functools.wraps(method)
    def ask(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            method(self, *args, **kwargs).send(None)
        except StopIteration as end:
            return cast(T, end.value)
        raise RuntimeError("a synchronous client waited for an event loop")

    return ask


class _Clients(ABC):
    """The part that both clients share: request types, the mailbox, publishing a request and waiting for its reply."""

    def __init__(
        self,
        home: str | os.PathLike[str] | None = None,
        group: str | None = None,
        sender: str | None = None,
        *,
        box: str | os.PathLike[str] | None = None,
        server: str | None = None,
        credentials: str | os.PathLike[str] | None = None,
        session: str | None = None,
        timeout_seconds: float = 10.0,
        sent: Callable[[], None] | None = None,
    ) -> None:
        """Find the mailbox and make its folders if they are missing. A home is never made.

        Args:
            home: home folder of the host. Default: `HONEYBADGER_HOME`, else the nearest home that is the current
                folder or above it, else the user's default home (`honeybadger_agent.home`).
            group: default `HONEYBADGER_GROUP`, else `main`.
            sender: default `HONEYBADGER_SENDER`, else `user`.
            box: instead of these three, the sender's folder itself, as it is mounted into a container
                (default `HONEYBADGER_BOX`).
            server: where several machines keep the home, its NATS servers, as `nats://machine-1:4222,…`, for an agent
                on a machine without a host (extra: cluster). `home` is then the identity of the home. Default, when
                neither `home` nor `box` is given: `HONEYBADGER_SERVER`.
            credentials: with `server`, the file of the sender's key. Default `HONEYBADGER_CREDENTIALS`.
            session: the conversation that requests belong to. Default `HONEYBADGER_SESSION`, else `main`.
            timeout_seconds: how long to wait for a reply.
            sent: called, perhaps on another thread, after a request was published: for a host in the same process.
        Raises:
            NoHome: there is no home where it was looked for.
            NoMailbox: the folder cannot be made or written, or a name is not allowed.
            Invalid: the session is not a name the protocol allows.
        """
        self._relay: Relay | None = None
        server, box = server_or_box(server, box, home, group, sender)
        if server is not None:
            place = place_of(server, home, group, sender, credentials)
            from honeybadger_agent.relay import own_relay

            self._relay, close = own_relay(place)
            weakref.finalize(self, close)
            self.mailbox, sent = self._relay.mailbox, self._relay.wake
        else:
            self.mailbox = box_at(box) if box is not None else box_in(home, group, sender)
        try:
            self.mailbox.create()
        except OSError as error:
            raise NoMailbox(
                f"cannot make the mailbox {self.mailbox.root}: {error.filename}: {error.strerror}; in closed mode the "
                f"operator makes it with `honeybadger-host sender add`, and it must be mounted writable"
            ) from error
        self.session = _checked(checked_session, named(session, "SESSION", "main"), "session")
        self.timeout_seconds = timeout_seconds
        self._sent = sent

    @abstractmethod
    async def _pause(self, seconds: float) -> None: ...

    @abstractmethod
    async def _aside(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run work that waits for a disk."""

    async def _request(
        self, type_name: str, payload: Payload, *, request_id: str | None = None, timeout_seconds: float | None = None
    ) -> wire.Reply:
        """Publish any request and return its reply, good or bad. Raises `ReplyTimeout`, `NoMailbox`, `Invalid`."""
        return await self._reply(await self._aside(self._send, type_name, payload, request_id, timeout_seconds))

    async def _chat(
        self,
        content: str,
        *,
        sender: str | None = None,
        agent: str | None = None,
        request_id: str | None = None,
        timeout_seconds: float = CHAT_SECONDS,
        on_line: OnLine | None = None,
    ) -> ChatResult:
        """Say something to an agent of the group and return its answer.

        The turn continues when the caller stops waiting: `answer` waits for it again, and so does the same message with
        the same `request_id`, which is never answered twice.

        Args:
            sender: who speaks, as shown in the history. Default: the sender's folder.
            agent: which agent answers. Default: the host's choice.
            on_line: gets the answer while it is being written. After a restart of the host it begins again, with a line
                `began` whose `attempt` is above 1.
        Raises:
            Unavailable: the model failed; nothing was said, and the same `request_id` continues the turn.
            ReplyTimeout, and the other errors of `honeybadger_agent.errors`.
        """
        said = made(Chat, content, sender, agent)
        exchange = await self._aside(self._send, said.type_name, said, request_id, timeout_seconds)
        return result_of(await self._reply(exchange, on_line), said)

    async def _wait_again(
        self, request_id: str, *, timeout_seconds: float = CHAT_SECONDS, on_line: OnLine | None = None
    ) -> ChatResult:
        """Wait again for the answer to a message that was sent before. Raises `NotFound` if it no longer exists."""
        exchange = await self._aside(self._said_before, request_id, timeout_seconds)
        return result_of(await self._reply(exchange, on_line), Chat)

    async def _take_back(self, request_id: str) -> bool:
        """Take back a message if no agent has begun to answer it; return whether it was taken back.

        False: an agent is answering or has answered it (`answer` waits for that), or there is no such message.
        Raises: `NoMailbox`, `Invalid`.
        """
        return await self._aside(self._withdrawn, request_id)

    async def _result(
        self, request: Request[ResultT], request_id: str | None, timeout_seconds: float | None
    ) -> ResultT:
        seconds = self.timeout_seconds + request.may_take if timeout_seconds is None else timeout_seconds
        exchange = await self._aside(self._send, request.type_name, request, request_id, seconds)
        return result_of(await self._reply(exchange), request)

    async def _reply(self, exchange: Exchange, on_line: OnLine | None = None) -> wire.Reply:
        try:
            with contextlib.closing(exchange.looks(on_line)) as looks:
                for wait in looks:
                    await self._pause(wait)
            return exchange.reply()
        except ReplyTimeout as late:
            if self._relay is None or not (trouble := self._relay.trouble):
                raise
            if await self._aside(self._relay.give_up, late.request_id, exchange.box):
                raise Unavailable(f"{trouble}; nothing was done of {late.request_id}: try again later") from None
            state = f"a host may have taken it, and does not answer: {trouble}"
            raise ReplyTimeout(late.request_id, late.waited_seconds, state, is_query=late.is_query) from None
        finally:
            exchange.end()

    def _send(self, type_name: str, payload: Payload, request_id: str | None, timeout: float | None) -> Exchange:
        asked_before = request_id is not None
        request_id = new_id() if request_id is None else _checked(checked_id, request_id, "id")
        session = _checked(checked_session, self.session, "session")
        try:
            data = wire.dump_request(request_id, type_name, payload, session=session)
        except TypeError as error:
            raise Invalid(f"payload cannot be sent as JSON: {error}", field="payload") from None
        box: Box = TURNS if type_name in TURN_TYPES else REQUESTS
        kind, seconds = wire.REQUEST_TYPES.get(type_name), self.timeout_seconds if timeout is None else timeout
        exchange = Exchange(self.mailbox, request_id, seconds, box, is_query=kind is not None and not kind.changes)
        if asked_before and self._lies(request_id, data, box):
            exchange.again = data
            return exchange
        exchange.publish(data)
        if self._sent is not None:
            self._sent()
        return exchange

    def _lies(self, request_id: str, data: bytes, box: Box) -> bool:
        """Return whether the same request is in its box already: published again, it would be answered twice.

        Otherwise an existing reply is removed: it may be of another request with this id, and the host writes the right
        one again. Raises Conflict if another request waits under this id, which would be replaced unread.
        """
        try:
            waiting = self.mailbox.waiting(request_id, box)
        except OSError:
            waiting = None  # publishing reports the error
        if waiting == data:
            return True
        if waiting is not None and not self.mailbox.path(REPLIES, request_id).exists():
            raise Conflict(
                f"another request with the id {request_id} lies in {self.mailbox.root / box} and is not answered yet: "
                f"take another id; nothing was sent",
                field="id",
            )
        self.mailbox.discard_reply(request_id)
        return False

    def _said_before(self, request_id: str, timeout: float) -> Exchange:
        """Return the exchange of a turn that was asked before. Raises `Invalid`, `NotFound`, `NoMailbox`."""
        _checked(checked_id, request_id, "id")
        is_waiting = self.mailbox.is_waiting(request_id, TURNS)  # first: the host removes it after its reply is written
        if not is_waiting and not self.mailbox.path(REPLIES, request_id).exists():
            raise NotFound(
                f"nothing is known of {request_id} in {self.mailbox.root}: its answer was taken before, or is older "
                f"than replies are kept, or the message was taken back; what was said is in the history, and the same "
                f"message with this id brings its answer back for 7 days"
            )
        return Exchange(self.mailbox, request_id, timeout, TURNS)

    def _withdrawn(self, request_id: str) -> bool:
        try:
            return self.mailbox.withdraw(_checked(checked_id, request_id, "id"))
        except OSError as error:
            path = self.mailbox.path(TURNS, request_id)
            raise NoMailbox(f"{path} cannot be taken back: {error.strerror}; it may be answered") from error


class Client(_Clients, AwaitedMethods):
    """An agent's memory, for asyncio programs.

    Its methods are those of `SyncClient`, awaited. Each raises errors of `honeybadger_agent.errors`. An error takes
    nothing back: a request that timed out may still be served. The same request with `request_id=error.request_id` is
    never applied twice.
    """

    request = _Clients._request
    chat = _Clients._chat
    answer = _Clients._wait_again
    withdraw = _Clients._take_back

    async def call(
        self, request: Request[ResultT], *, request_id: str | None = None, timeout_seconds: float | None = None
    ) -> ResultT:
        """Send a request of `honeybadger_agent.wire` and return its result."""
        return await self._result(request, request_id, timeout_seconds)

    __call__ = call

    async def _pause(self, seconds: float) -> None:
        import asyncio  # takes 60 ms, only in programs with a loop

        await asyncio.sleep(seconds)

    async def _aside(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        import asyncio

        return await asyncio.to_thread(work, *args, **kwargs)


class SyncClient(_Clients, Methods):
    """An agent's memory, for programs without an event loop.

    Each method raises errors of `honeybadger_agent.errors`. An error takes nothing back: a request that timed out may
    still be served. The same request with `request_id=error.request_id` is never applied twice.
    """

    request = synced(_Clients._request)
    chat = synced(_Clients._chat)
    answer = synced(_Clients._wait_again)
    withdraw = synced(_Clients._take_back)

    def call(
        self, request: Request[ResultT], *, request_id: str | None = None, timeout_seconds: float | None = None
    ) -> ResultT:
        """Send a request of `honeybadger_agent.wire` and return its result."""
        return synced(_Clients._result)(self, request, request_id, timeout_seconds)

    __call__ = call

    async def _pause(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251  no loop is waiting

    async def _aside(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return work(*args, **kwargs)


def server_or_box(
    server: str | None, box: str | os.PathLike[str] | None, home: object, group: object, sender: object
) -> tuple[str | None, str | os.PathLike[str] | None]:
    """Return servers and folder, as given or, where nothing else is, as the environment names one of them."""
    if server is None and box is None and home is None:
        server = os.environ.get("HONEYBADGER_SERVER") or None
        if server is None and group is None and sender is None:
            box = os.environ.get("HONEYBADGER_BOX") or None
    return server, box


def place_of(
    server: str | None,
    home: str | os.PathLike[str] | None,
    group: str | None,
    sender: str | None,
    credentials: str | os.PathLike[str] | None,
) -> Place:
    """Return the subjects of a sender's requests over NATS. Raises `AgentError` if the extra is missing."""
    try:
        from honeybadger_agent.relay import Place
    except ImportError as error:
        raise AgentError(f"a server needs the extra cluster ({error}): {AGENT_EXTRA.format('cluster')}") from None
    home = os.fspath(home) if home is not None else os.environ.get("HONEYBADGER_HOME", "")
    key = os.fspath(credentials) if credentials is not None else os.environ.get("HONEYBADGER_CREDENTIALS", "")
    server = named(server, "SERVER", "nats://127.0.0.1:4222")
    return Place(server, home, named(group, "GROUP", "main"), named(sender, "SENDER", "user"), key)


def _add_method(kind: type[Request[Any]]) -> None:
    """Give both clients the method of a request type; `methods.pyi` has it for type checkers."""

    async def ask(self: _Clients, /, *values: object, **members: object) -> wire.Result:
        result: wire.Result = await self._result(made(kind, *values, **members), None, None)
        return result

    ask.__name__, ask.__doc__ = kind.type_name, kind.__doc__
    signature, me = signature_of(kind), inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    ask.__signature__ = signature.replace(parameters=[me, *signature.parameters.values()])  # type: ignore[attr-defined]
    setattr(_Clients, kind.type_name, ask)
    setattr(SyncClient, kind.type_name, synced(ask))


for _kind in wire.REQUEST_TYPES.values():
    if _kind.audience != "operator":
        _add_method(_kind)


def result_of(reply: wire.Reply, request: Request[ResultT] | type[Request[ResultT]]) -> ResultT:
    """Return the result of a good reply to a request of this type; raise the error of a bad one."""
    if reply.error is not None:
        raise BY_CODE[reply.error.code](
            reply.error.message, field=reply.error.field, retry_after_seconds=reply.error.retry_after_seconds
        )
    if not reply.ok or reply.result is None:
        raise AgentError(f"the reply to {reply.id} has neither a result nor an error")
    try:
        return cast(ResultT, request.result_type.model_validate(reply.result))
    except ValidationError as error:
        why = wire.refusal_of(error, "result.").message
        raise AgentError(f"the reply to {reply.id} is not a {request.result_type.__name__}: {why}") from None


def _checked(check: Callable[[str], str], name: str, field: str) -> str:
    try:
        return check(name)
    except BadName as error:
        raise Invalid(str(error), field=field) from None
