"""Agents on other machines: requests in a follower's folders go to the owner, and replies come back.

A carrier (`honeybadger_agent.relay`) takes them there, the same as for an agent on a machine without a host. The
owner's machine finds each request in a folder of the same group and sender, under the same id, so a request that is
sent again after a lost answer is done once, as any other is. The agent's file stays until its reply is written.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import orjson
from nats.aio.msg import Msg

from honeybadger_agent import wire
from honeybadger_agent.mailbox import REPLIES, REQUESTS, TURNS, BadName, Mailbox, checked_id
from honeybadger_agent.relay import (
    BOX_HEADER,
    ID_HEADER,
    MAX_AT_ONCE,
    MAX_BYTES,
    REPLY_PREFIX,
    Carrier,
    Key,
)
from honeybadger_agent.wire import Refusal
from honeybadger_host.cluster.log import UNCLEAR_SECONDS, Names
from honeybadger_host.cluster.servers import NET_SECONDS, PAUSE_SECONDS, Servers
from honeybadger_host.errors import SettingsError
from honeybadger_host.files.safe_files import Changing, NotRegular, Signature, identity_of, read_incoming
from honeybadger_host.log import log
from honeybadger_host.spool.inbox import STREAM, SUFFIX, Inbox, OpenInbox, open_box
from honeybadger_host.spool.rate_limits import BURST_SECONDS, Buckets
from honeybadger_host.spool.senders import SenderList
from honeybadger_host.spool.spool import Spool
from honeybadger_host.spool.watcher import HAS_INOTIFY, Watcher

# For a sender on another machine if `limits.requests_per_second` is not set: a fifteenth of what an owner serves.
REQUESTS_PER_SECOND = 100.0


class Forwarding:
    """Carries the requests in the inboxes of this machine to the owner.

    File events name the folders to look into at once. All folders are looked into every second.
    """

    def __init__(self, home: Path, servers: Servers, names: Names, *, watches: bool) -> None:
        self._servers, self._asking = servers, names.subject("ask")
        self._spool = Spool(home / "data" / "ipc", senders=None)
        self._carrier = Carrier(servers.client, self._look, NET_SECONDS)
        self._taken: dict[Key, tuple[Inbox, str]] = {}
        self._has_new = asyncio.Event()  # set when there may be a new inbox
        self._watcher = Watcher(self._hint) if HAS_INOTIFY and watches else None
        if self._watcher is not None:
            self._spool.listen = self._watcher.listen

    async def run(self) -> None:
        """Carry until it is cancelled; requests under way are sent again at the next start."""
        try:
            await asyncio.gather(self._carrier.run(), self._sweep())
        finally:
            if self._watcher is not None:
                self._watcher.close()

    def _hint(self, folder: str, _: str) -> None:
        """Look into a folder. The watcher's thread."""
        if folder in self._spool.inboxes:
            self._spool.mark(folder)
            self._servers.soon(self._carrier.woken.set)
        else:
            self._servers.soon(self._has_new.set)

    async def _sweep(self) -> None:
        while True:
            self._has_new.clear()
            self._spool.mark(None)
            self._carrier.woken.set()
            if self._watcher is not None:
                self._watcher.ensure(dict.fromkeys(self._spool.folders, False))
            await asyncio.sleep(PAUSE_SECONDS)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._has_new.wait(), NET_SECONDS)

    def _look(self) -> Iterator[_Lying]:
        now = time.monotonic()
        for key in self._taken.keys() - self._carrier.under_way.keys():
            inbox, name = self._taken.pop(key)
            inbox.release(name)
        self._spool.look(now)
        room = MAX_AT_ONCE - len(self._carrier.under_way)
        for name, inbox in self._spool.take(room // 2, most_turns=room // 2):
            one = _Lying(inbox, name, f"{self._asking}.{inbox.group}.{inbox.sender}")
            self._taken[one.subject, one.box, one.request_id] = inbox, name
            yield one


class _Lying:
    """A request in an inbox of this machine."""

    def __init__(self, inbox: Inbox, name: str, subject: str) -> None:
        self.subject, self.box, self.request_id = subject, inbox.folder, name.removesuffix(SUFFIX)
        self._inbox, self._name = inbox, name
        self._opened: OpenInbox | None = None
        self._signature: Signature | None = None

    def read(self) -> bytes | None:
        opened = self._opened = open_box(self._inbox)
        if self.box == TURNS:
            os.close(opened.open_stream(self.request_id))
        try:
            found = read_incoming(opened.requests_fd, self._name, MAX_BYTES)
        except (FileNotFoundError, NotRegular, Changing):
            return None
        self._signature = found.signature
        is_foreign = self._inbox.uid not in (None, found.uid)
        return None if found.links > 1 or is_foreign else found.data

    def answer(self, reply: bytes) -> None:
        assert self._opened is not None  # noqa: S101  it was read
        self._opened.reply(self._name, reply)
        self._opened.remove(self._name, self._signature)

    def close(self, *, is_begun: bool) -> None:
        if self._opened is not None:
            if not is_begun:
                self._opened.remove_reply(f"{self.request_id}{STREAM}")
            self._opened.close()
            self._opened = None


@dataclass(slots=True)
class _Taken:
    """A request of another machine that was put into a folder here.

    Args:
        digest: of its bytes; a request with the same digest is not put into the folder again.
        reply_to: subject on which the last asker waits for the reply.
        asked_at: time of the last asking, in monotonic seconds.
    """

    digest: bytes
    reply_to: str
    asked_at: float
    task: asyncio.Task[None] | None = None


class Answering:
    """Gives the host of this machine, which owns the home, the requests of other machines, and sends the replies.

    Args:
        senders: those that closed mode serves; None: every sender is served.
        per_second: average number of requests of a sender in a second; 0: `REQUESTS_PER_SECOND`.
    """

    def __init__(
        self,
        home: Path,
        servers: Servers,
        names: Names,
        senders: SenderList | None = None,
        per_second: float = 0,
    ) -> None:
        per_second = per_second or REQUESTS_PER_SECOND
        self._buckets = Buckets(per_second, per_second * BURST_SECONDS)
        self._home, self._servers, self._names, self._senders = home, servers, names, senders
        self._taken: dict[tuple[str, str, str], _Taken] = {}  # requests by group, sender and id

    async def run(self) -> None:
        """Answer until it is cancelled."""
        subscription = await self._servers.client.subscribe(f"{self._names.subject('ask')}.*.*", cb=self._take)
        try:
            await asyncio.Event().wait()
        finally:
            await subscription.unsubscribe()
            tasks = [taken.task for taken in self._taken.values() if taken.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _take(self, message: Msg) -> None:
        *_, group, sender = message.subject.split(".")
        headers = message.headers or {}
        request_id, box = headers.get(ID_HEADER, ""), headers.get(BOX_HEADER, "")
        try:
            inbox = Inbox(group, sender, str(Mailbox.of(self._home, group, sender).root), folder=box)
            checked_id(request_id)
            if box not in (REQUESTS, TURNS):
                raise BadName(f"{box!r} is not a box")
            if not message.reply.startswith(REPLY_PREFIX):  # the owner may publish there, even to the log
                raise BadName(f"{message.reply!r} is not where replies go")
            self._put(inbox, request_id, message)
        except Refusal as refusal:
            await self._servers.client.publish(message.reply, wire.dump_error(request_id, refusal))
        except (BadName, OSError) as error:
            log.warning("cluster.not_taken", group=group, sender=sender, id=request_id[:100], error=str(error))

    def _put(self, inbox: Inbox, request_id: str, message: Msg) -> None:
        """Put a request into its folder unless it lies there. Raises Refusal, OSError."""
        who, now, digest = (inbox.group, inbox.sender), time.monotonic(), blake2b(message.data).digest()
        key = *who, request_id
        taken = self._taken.get(key)
        if taken is None or taken.digest != digest:
            if taken is not None and taken.task is not None:
                why = f"another request with the id {request_id} is not answered yet: take another id"
                raise Refusal("conflict", why, field="id")
            if self._senders is not None:
                with contextlib.suppress(SettingsError):  # the sweep logs it
                    self._senders.refresh()
                if who not in self._senders.current:
                    why = f"the home is closed and does not know {inbox.sender} in {inbox.group}: "
                    raise Refusal("forbidden", f"{why}`honeybadger-host sender add` there")
            if self._buckets.take(who, now):
                return  # the sender asks again. It may have been done, so it is not refused
            Mailbox(Path(inbox.path)).create()
            with contextlib.closing(open_box(inbox)) as opened:
                opened.remove_reply(f"{request_id}{SUFFIX}")
                opened.write(opened.requests_fd, f"{request_id}{SUFFIX}", message.data)
            taken = self._taken[key] = _Taken(digest, message.reply, now)
        taken.reply_to, taken.asked_at = message.reply, now
        if taken.task is None:
            taken.task = asyncio.create_task(self._answer(inbox, key, taken))

    async def _answer(self, inbox: Inbox, key: tuple[str, str, str], taken: _Taken) -> None:
        """Send the reply to the last asker, unless nobody has asked for `UNCLEAR_SECONDS`.

        It is kept as long, to be sent again: its first copy may have been lost.
        """
        name, pause, kept = f"{key[2]}{SUFFIX}", 0.002, 0.0
        try:
            while identity_of(f"{inbox.path}/{REPLIES}/{name}") is None:
                if time.monotonic() > taken.asked_at + UNCLEAR_SECONDS:
                    return  # nobody waits for the reply; the request is served all the same
                await asyncio.sleep(pause)
                pause = min(pause * 1.3, 0.1)
            with contextlib.closing(open_box(inbox)) as opened:
                reply = read_incoming(opened.replies_fd, name, MAX_BYTES).data
            if len(reply) > MAX_BYTES:
                why = f"the reply has over {MAX_BYTES} bytes, which do not go to another machine: ask for less"
                reply = wire.dump_error(key[2], Refusal("too_large", why))
            await self._servers.client.publish(taken.reply_to, reply)
            kept = UNCLEAR_SECONDS if orjson.loads(reply)["ok"] else 0.0  # a refused request may be repeated
        except (OSError, Changing) as error:
            log.debug("cluster.not_answered", group=key[0], sender=key[1], id=key[2], error=str(error))
        finally:
            taken.task = None
            asyncio.get_running_loop().call_later(kept, self._forget, inbox, key, taken)

    def _forget(self, inbox: Inbox, key: tuple[str, str, str], taken: _Taken) -> None:
        if self._taken.get(key) is taken and taken.task is None:
            del self._taken[key]
            with contextlib.suppress(OSError), contextlib.closing(open_box(inbox)) as opened:
                opened.remove_reply(f"{key[2]}{SUFFIX}")
