"""`Client` and `SyncClient`: publish a request, wait for its reply, return the result or raise.

A reply is waited for by looking into the sender's own `replies/` in growing steps (0.5 ms to 25 ms): that works on
every file system and across container mounts, where file events do not.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson
from pydantic import ValidationError

from honeybadger_agent import tools, wire
from honeybadger_agent.errors import BY_CODE, AgentError, Conflict, Invalid, NoMailbox, NotFound, ReplyTimeout
from honeybadger_agent.mailbox import (
    REPLIES,
    REQUESTS,
    SESSION,
    TURNS,
    BadName,
    Box,
    Mailbox,
    checked_id,
    id_time,
    new_id,
)
from honeybadger_agent.stream import StreamTail
from honeybadger_agent.tools import Call
from honeybadger_agent.wire import TURN_TYPES, Chat, ChatResult, StreamLine

ResultT = TypeVar("ResultT", bound=wire.Wire)
Payload = wire.Wire | Mapping[str, Any]
"""What a request carries: a model, or for types this package does not know any JSON object."""

OnLine = Callable[[StreamLine], None]
"""Gets each line of an answer that is being written, between two looks for the reply; it must not take long."""

CHAT_SECONDS: Final = 300.0
"""How long an answer is waited for: agents ask their models more than once."""

_FIRST_WAIT_SECONDS = 0.0005
_LONGEST_WAIT_SECONDS = 0.025


@dataclass(frozen=True, slots=True)
class _Exchange:
    """One request on its way: what both clients share, without any waiting in it."""

    mailbox: Mailbox
    request_id: str
    timeout_seconds: float
    box: Box = REQUESTS

    def waits(self) -> Iterator[float]:
        """Yield the pauses between two looks until the time is over."""
        began = time.monotonic()
        wait = _FIRST_WAIT_SECONDS
        while (left := self.timeout_seconds - (time.monotonic() - began)) > 0:
            yield min(wait, left)
            wait = min(wait * 1.3, _LONGEST_WAIT_SECONDS)

    def take(self) -> wire.Reply | None:
        """Return the reply and remove it; None while there is none. Raises `NoMailbox`, `AgentError`."""
        try:
            data = self.mailbox.reply(self.request_id)
        except OSError as error:
            raise NoMailbox(
                f"request {self.request_id} was sent, but its reply cannot be read: "
                f"{self.mailbox.path(REPLIES, self.request_id)}: {error.strerror}"
            ) from error
        if data is None:
            return None
        try:
            reply = wire.Reply.model_validate(orjson.loads(data))
        except orjson.JSONDecodeError:
            return None  # a file system that shows a name before the bytes, as some network mounts do: look again
        except ValidationError as error:
            raise self._not_a_reply(wire.refusal_of(error).message) from None
        self.mailbox.discard_reply(self.request_id)
        return reply

    def look(self, tail: StreamTail, on_line: OnLine | None) -> wire.Reply | None:
        """Return the reply of a turn, None while there is none, after everything that was written until then."""
        reply = self.take()
        if on_line is not None:
            for line in tail.read():
                on_line(line)
        return reply

    def take_at_last(self) -> wire.Reply:
        """Return the reply after the time is over. Raises `ReplyTimeout` when it is not there even now."""
        if (reply := self.take()) is not None:
            return reply
        if self.mailbox.path(REPLIES, self.request_id).exists():
            raise self._not_a_reply("not JSON")
        box = self.mailbox.root / self.box if self.mailbox.is_waiting(self.request_id, self.box) else None
        raise ReplyTimeout(
            self.request_id,
            self.timeout_seconds,
            waiting_in=None if box is None else str(box),
            has_begun=self.box == TURNS and self._stream_path().exists(),
        )

    def tail(self) -> StreamTail:
        """Return what reads the answer while it is being written; the caller closes it."""
        return StreamTail(self._stream_path())

    def _stream_path(self) -> Path:
        return self.mailbox.root / REPLIES / f"{self.request_id}.stream"

    def _not_a_reply(self, why: str) -> AgentError:
        return AgentError(f"{self.mailbox.path(REPLIES, self.request_id)} is not a reply this client reads: {why}")


class _Clients:
    """What both clients share: where the mailbox is, how a request is published and a reply becomes a result."""

    def __init__(
        self,
        home: str | os.PathLike[str] | None = None,
        group: str | None = None,
        sender: str | None = None,
        *,
        box: str | os.PathLike[str] | None = None,
        session: str | None = None,
        timeout_seconds: float = 10.0,
        sent: Callable[[], None] | None = None,
    ) -> None:
        """Find the mailbox and make its folders when they are missing.

        Args:
            home: home folder of the host. Default: `HONEYBADGER_HOME`, else the current folder.
            group: default `HONEYBADGER_GROUP`, else `main`.
            sender: default `HONEYBADGER_SENDER`, else `user`.
            box: instead of these three, the sender's folder itself, as it is mounted into a container
                (default `HONEYBADGER_BOX`).
            session: the conversation that requests belong to. Default `HONEYBADGER_SESSION`, else `main`.
            timeout_seconds: how long to wait for a reply.
            sent: called, perhaps on another thread, when a request lies in its box: for a host in the same process.
        Raises:
            NoMailbox: the folder cannot be made or written, or a name is not allowed.
            Invalid: the session is not a name the protocol allows.
        """
        environment = os.environ
        box = box or (environment.get("HONEYBADGER_BOX") if home is None and group is None and sender is None else None)
        try:
            self.mailbox = (
                Mailbox(Path(box))
                if box
                else Mailbox.of(
                    home or environment.get("HONEYBADGER_HOME") or ".",
                    group or environment.get("HONEYBADGER_GROUP") or "main",
                    sender or environment.get("HONEYBADGER_SENDER") or "user",
                )
            )
            self.mailbox.create()
        except BadName as error:
            raise NoMailbox(str(error)) from None
        except OSError as error:
            raise NoMailbox(
                f"cannot make the mailbox {self.mailbox.root}: {error.filename}: {error.strerror}; in closed mode the "
                f"operator makes it with `honeybadger-host sender add`, and it must be mounted writable"
            ) from error
        self.session = _checked_session(session or environment.get("HONEYBADGER_SESSION") or "main")
        self.timeout_seconds = timeout_seconds
        self._sent = sent

    def _send(self, type_name: str, payload: Payload, request_id: str | None, timeout: float | None) -> _Exchange:
        asked_before = request_id is not None
        request_id = new_id() if request_id is None else _checked_id(request_id)
        session = _checked_session(self.session)
        try:
            data = wire.dump_request(request_id, type_name, payload, session=session, sent_at=_sent_at(request_id))
        except TypeError as error:
            raise Invalid(f"payload cannot be sent as JSON: {error}", field="payload") from None
        box: Box = TURNS if type_name in TURN_TYPES else REQUESTS
        exchange = _Exchange(self.mailbox, request_id, self.timeout_seconds if timeout is None else timeout, box)
        if asked_before and self._lies(request_id, data, box):
            return exchange
        try:
            self.mailbox.publish(request_id, data, box)
        except OSError as error:
            raise NoMailbox(f"cannot write into {self.mailbox.root}: {error.strerror}; nothing was sent") from error
        if self._sent is not None:
            self._sent()
        return exchange

    def _lies(self, request_id: str, data: bytes, box: Box) -> bool:
        """Return whether the request lies in its box already: published again, it would be answered twice.

        Else a reply that is there may be to another request of this id, and is removed: the host knows which it is.
        Raises Conflict: another one waits there, which would be replaced unread.
        """
        try:
            waiting = self.mailbox.waiting(request_id, box)
        except OSError:
            waiting = None  # publishing says what is wrong
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

    def _said_before(self, request_id: str, timeout: float) -> _Exchange:
        """Return the exchange of a turn that was asked before. Raises `Invalid`, `NotFound`, `NoMailbox`."""
        _checked_id(request_id)
        is_waiting = self.mailbox.is_waiting(request_id, TURNS)  # first: the host removes it after its reply stands
        if not is_waiting and not self.mailbox.path(REPLIES, request_id).exists():
            raise NotFound(
                f"nothing is known of {request_id} in {self.mailbox.root}: its answer was taken before, or is older "
                f"than replies are kept; what was said is in the history, and the same message with this id brings "
                f"its answer back for 7 days"
            )
        return _Exchange(self.mailbox, request_id, timeout, TURNS)


class Client(_Clients):
    """An agent's memory, for asyncio programs.

    Every method raises what `honeybadger_agent.errors` lists, and takes nothing back: a request that timed out may
    still be served. `call(…, request_id=error.request_id)` asks again and is never applied twice.
    """

    async def request(
        self, type_name: str, payload: Payload, *, request_id: str | None = None, timeout_seconds: float | None = None
    ) -> wire.Reply:
        """Publish any request and return its reply, good or bad. Raises `ReplyTimeout`, `NoMailbox`, `Invalid`."""
        import asyncio  # 60 ms that a program without a loop should not pay; one with a loop has paid already

        exchange = await asyncio.to_thread(self._send, type_name, payload, request_id, timeout_seconds)
        for wait in exchange.waits():
            if (reply := exchange.take()) is not None:
                return reply
            await asyncio.sleep(wait)
        return exchange.take_at_last()

    async def call(
        self, call: Call[ResultT], *, request_id: str | None = None, timeout_seconds: float | None = None
    ) -> ResultT:
        """Send what a function of `honeybadger_agent.tools` built and return its result."""
        reply = await self.request(call.type_name, call.payload, request_id=request_id, timeout_seconds=timeout_seconds)
        return result_of(reply, call.result)

    async def chat(
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

        The turn goes on when the caller stops waiting: `answer` waits for it again, and the same message with the same
        `request_id` is never answered twice.

        Args:
            sender: who speaks, as shown in the history. Default: the sender's folder.
            agent: which agent answers. Default: the host's choice.
            on_line: gets the answer while it is being written. After a restart of the host it begins anew, with a line
                `began` whose `attempt` is above 1.
        Raises:
            Unavailable: the model failed; nothing was said, the same `request_id` goes on where it was.
            ReplyTimeout, and what else `honeybadger_agent.errors` lists.
        """
        import asyncio

        payload = _said(content, sender, agent)
        return await self._answered(
            await asyncio.to_thread(self._send, "chat", payload, request_id, timeout_seconds), on_line
        )

    async def answer(
        self, request_id: str, *, timeout_seconds: float = CHAT_SECONDS, on_line: OnLine | None = None
    ) -> ChatResult:
        """Wait again for the answer to a message that was sent before. Raises `NotFound`: it is not there any more."""
        import asyncio

        return await self._answered(await asyncio.to_thread(self._said_before, request_id, timeout_seconds), on_line)

    async def _answered(self, exchange: _Exchange, on_line: OnLine | None) -> ChatResult:
        import asyncio

        with contextlib.closing(exchange.tail()) as tail:
            for wait in exchange.waits():
                if (reply := exchange.look(tail, on_line)) is not None:
                    break
                await asyncio.sleep(wait)
            else:
                reply = exchange.take_at_last()
        return result_of(reply, ChatResult)

    async def ping(self) -> wire.PingResult:
        return await self.call(tools.ping())

    async def update_memory(self, content: str, section: str | None = None) -> wire.NoteResult:
        return await self.call(tools.update_memory(content, section))

    async def read_group_files(self) -> wire.GroupFilesResult:
        return await self.call(tools.read_group_files())

    async def append_turn(
        self, role: wire.Role, content: str, sender: str | None = None, tools_used: Sequence[str] | None = None
    ) -> wire.TurnResult:
        return await self.call(tools.append_turn(role, content, sender, tools_used))

    async def get_history(
        self, budget_tokens: int | None = None, max_messages: int | None = None
    ) -> wire.HistoryResult:
        return await self.call(tools.get_history(budget_tokens, max_messages))

    async def get_context(self, message: str | None = None, budget_tokens: int | None = None) -> wire.ContextResult:
        return await self.call(tools.get_context(message, budget_tokens))

    async def search_memory(
        self,
        query: str | None = None,
        *,
        category: str | None = None,
        tags: Sequence[str] | None = None,
        since: str | None = None,
        until: str | None = None,
        limit: int | None = None,
        scope: wire.SearchScope | None = None,
    ) -> wire.SearchResult:
        return await self.call(tools.search_memory(query, category, tags, since, until, limit, scope))

    async def save_memory(
        self,
        content: str,
        category: str | None = None,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        title: str | None = None,
        aliases: Sequence[str] | None = None,
        name: str | None = None,
    ) -> wire.SavedEntry:
        return await self.call(tools.save_memory(content, category, tags, metadata, title, aliases, name))

    async def get_memory(self, entry_id: str) -> wire.EntryResult:
        return await self.call(tools.get_memory(entry_id))

    async def edit_memory(self, entry_id: str, **members: Any) -> wire.SavedEntry:
        """Change what is named; the members are those of `tools.edit_memory`."""
        return await self.call(tools.edit_memory(entry_id, **members))

    async def delete_memory(self, entry_id: str) -> wire.EntryResult:
        return await self.call(tools.delete_memory(entry_id))

    async def list_memory_categories(self) -> wire.CategoriesResult:
        return await self.call(tools.list_memory_categories())

    async def list_memory_entries(
        self,
        category: str | None = None,
        *,
        depth: int | None = None,
        name: str | None = None,
        limit: int | None = None,
        offset: int | None = None,
    ) -> wire.EntriesResult:
        return await self.call(tools.list_memory_entries(category, depth, name, limit, offset))

    async def save_to_working_memory(
        self,
        key: str,
        data: str,
        ttl_minutes: float | None = None,
        category: str | None = None,
        tags: Sequence[str] | None = None,
    ) -> wire.WorkingSaved:
        return await self.call(tools.save_to_working_memory(key, data, ttl_minutes, category, tags))

    async def get_from_working_memory(self, key: str) -> wire.WorkingEntryResult:
        return await self.call(tools.get_from_working_memory(key))

    async def search_working_memory(
        self, query: str, category: str | None = None, tags: Sequence[str] | None = None
    ) -> wire.WorkingHits:
        return await self.call(tools.search_working_memory(query, category, tags))

    async def list_working_memory(self) -> wire.WorkingList:
        return await self.call(tools.list_working_memory())

    async def load_session(self) -> wire.SessionResult:
        return await self.call(tools.load_session())

    async def update_session(self, **members: Any) -> wire.SessionState:
        """Change what is named; the members are those of `tools.update_session`."""
        return await self.call(tools.update_session(**members))

    async def compact_session(self) -> wire.CompactResult:
        return await self.call(tools.compact_session())

    async def delete_session(self, expected_version: str | None = None) -> wire.DeletedResult:
        return await self.call(tools.delete_session(expected_version))

    async def list_sessions(self, limit: int | None = None, offset: int | None = None) -> wire.SessionsResult:
        return await self.call(tools.list_sessions(limit, offset))


class SyncClient(_Clients):
    """The same as `Client` for programs without an event loop."""

    def request(
        self, type_name: str, payload: Payload, *, request_id: str | None = None, timeout_seconds: float | None = None
    ) -> wire.Reply:
        """Publish any request and return its reply, good or bad. Raises `ReplyTimeout`, `NoMailbox`, `Invalid`."""
        exchange = self._send(type_name, payload, request_id, timeout_seconds)
        for wait in exchange.waits():
            if (reply := exchange.take()) is not None:
                return reply
            time.sleep(wait)
        return exchange.take_at_last()

    def call(
        self, call: Call[ResultT], *, request_id: str | None = None, timeout_seconds: float | None = None
    ) -> ResultT:
        """Send what a function of `honeybadger_agent.tools` built and return its result."""
        reply = self.request(call.type_name, call.payload, request_id=request_id, timeout_seconds=timeout_seconds)
        return result_of(reply, call.result)

    def chat(
        self,
        content: str,
        *,
        sender: str | None = None,
        agent: str | None = None,
        request_id: str | None = None,
        timeout_seconds: float = CHAT_SECONDS,
        on_line: OnLine | None = None,
    ) -> ChatResult:
        """Say something to an agent of the group and return its answer; see `Client.chat`."""
        payload = _said(content, sender, agent)
        return self._answered(self._send("chat", payload, request_id, timeout_seconds), on_line)

    def answer(
        self, request_id: str, *, timeout_seconds: float = CHAT_SECONDS, on_line: OnLine | None = None
    ) -> ChatResult:
        """Wait again for the answer to a message that was sent before. Raises `NotFound`: it is not there any more."""
        return self._answered(self._said_before(request_id, timeout_seconds), on_line)

    def _answered(self, exchange: _Exchange, on_line: OnLine | None) -> ChatResult:
        with contextlib.closing(exchange.tail()) as tail:
            for wait in exchange.waits():
                if (reply := exchange.look(tail, on_line)) is not None:
                    break
                time.sleep(wait)
            else:
                reply = exchange.take_at_last()
        return result_of(reply, ChatResult)

    def ping(self) -> wire.PingResult:
        return self.call(tools.ping())

    def update_memory(self, content: str, section: str | None = None) -> wire.NoteResult:
        return self.call(tools.update_memory(content, section))

    def read_group_files(self) -> wire.GroupFilesResult:
        return self.call(tools.read_group_files())

    def append_turn(
        self, role: wire.Role, content: str, sender: str | None = None, tools_used: Sequence[str] | None = None
    ) -> wire.TurnResult:
        return self.call(tools.append_turn(role, content, sender, tools_used))

    def get_history(self, budget_tokens: int | None = None, max_messages: int | None = None) -> wire.HistoryResult:
        return self.call(tools.get_history(budget_tokens, max_messages))

    def get_context(self, message: str | None = None, budget_tokens: int | None = None) -> wire.ContextResult:
        return self.call(tools.get_context(message, budget_tokens))

    def search_memory(
        self,
        query: str | None = None,
        *,
        category: str | None = None,
        tags: Sequence[str] | None = None,
        since: str | None = None,
        until: str | None = None,
        limit: int | None = None,
        scope: wire.SearchScope | None = None,
    ) -> wire.SearchResult:
        return self.call(tools.search_memory(query, category, tags, since, until, limit, scope))

    def save_memory(
        self,
        content: str,
        category: str | None = None,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        title: str | None = None,
        aliases: Sequence[str] | None = None,
        name: str | None = None,
    ) -> wire.SavedEntry:
        return self.call(tools.save_memory(content, category, tags, metadata, title, aliases, name))

    def get_memory(self, entry_id: str) -> wire.EntryResult:
        return self.call(tools.get_memory(entry_id))

    def edit_memory(self, entry_id: str, **members: Any) -> wire.SavedEntry:
        """Change what is named; the members are those of `tools.edit_memory`."""
        return self.call(tools.edit_memory(entry_id, **members))

    def delete_memory(self, entry_id: str) -> wire.EntryResult:
        return self.call(tools.delete_memory(entry_id))

    def list_memory_categories(self) -> wire.CategoriesResult:
        return self.call(tools.list_memory_categories())

    def list_memory_entries(
        self,
        category: str | None = None,
        *,
        depth: int | None = None,
        name: str | None = None,
        limit: int | None = None,
        offset: int | None = None,
    ) -> wire.EntriesResult:
        return self.call(tools.list_memory_entries(category, depth, name, limit, offset))

    def save_to_working_memory(
        self,
        key: str,
        data: str,
        ttl_minutes: float | None = None,
        category: str | None = None,
        tags: Sequence[str] | None = None,
    ) -> wire.WorkingSaved:
        return self.call(tools.save_to_working_memory(key, data, ttl_minutes, category, tags))

    def get_from_working_memory(self, key: str) -> wire.WorkingEntryResult:
        return self.call(tools.get_from_working_memory(key))

    def search_working_memory(
        self, query: str, category: str | None = None, tags: Sequence[str] | None = None
    ) -> wire.WorkingHits:
        return self.call(tools.search_working_memory(query, category, tags))

    def list_working_memory(self) -> wire.WorkingList:
        return self.call(tools.list_working_memory())

    def load_session(self) -> wire.SessionResult:
        return self.call(tools.load_session())

    def update_session(self, **members: Any) -> wire.SessionState:
        """Change what is named; the members are those of `tools.update_session`."""
        return self.call(tools.update_session(**members))

    def compact_session(self) -> wire.CompactResult:
        return self.call(tools.compact_session())

    def delete_session(self, expected_version: str | None = None) -> wire.DeletedResult:
        return self.call(tools.delete_session(expected_version))

    def list_sessions(self, limit: int | None = None, offset: int | None = None) -> wire.SessionsResult:
        return self.call(tools.list_sessions(limit, offset))


def result_of(reply: wire.Reply, model: type[ResultT]) -> ResultT:
    """Return the result of a good reply as `model`; raise the error of a bad one."""
    if reply.error is not None:
        raise BY_CODE[reply.error.code](
            reply.error.message, field=reply.error.field, retry_after_seconds=reply.error.retry_after_seconds
        )
    if not reply.ok or reply.result is None:
        raise AgentError(f"the reply to {reply.id} has neither a result nor an error")
    try:
        return model.model_validate(reply.result)
    except ValidationError as error:
        why = wire.refusal_of(error, "result.").message
        raise AgentError(f"the reply to {reply.id} is not a {model.__name__}: {why}") from None


def _said(content: str, sender: str | None, agent: str | None) -> Chat:
    try:
        return Chat(content=content, sender=sender, agent=agent)
    except ValidationError as error:
        refusal = wire.refusal_of(error, "payload.")
        raise BY_CODE[refusal.code](refusal.message, field=refusal.field) from None


def _checked_id(request_id: str) -> str:
    try:
        return checked_id(request_id)
    except BadName as error:
        raise Invalid(str(error), field="id") from None


def _checked_session(session: str) -> str:
    if not SESSION.fullmatch(session):
        raise Invalid(
            f"session {session[:100]!r} is not a name: 1-100 characters of A-Z a-z 0-9 . _ : -", field="session"
        )
    return session


def _sent_at(request_id: str) -> str | None:
    """Return the time an id carries, and not the clock's, so that a retry has the same bytes."""
    made = id_time(request_id)
    try:
        return None if made is None else datetime.fromtimestamp(made, UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError):  # beyond the year 9999
        return None
