"""Agents on a machine that follows: what they drop into their folders goes to the owner, and its replies come back.

The owner's machine finds each request in a folder of the same group and sender, under the same id, so a request that is
sent again after a lost answer is done once, as any other is. The agent's file stays until its reply is written.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import nats.errors
import orjson
import structlog
from nats.aio.msg import Msg

from honeybadger_agent import wire
from honeybadger_agent.mailbox import NAME, OPERATOR, REQUESTS, TURNS, BadName, Mailbox, checked_id
from honeybadger_agent.wire import Refusal
from honeybadger_host.cluster.log import Names
from honeybadger_host.cluster.servers import Servers
from honeybadger_host.spool.inbox import Inbox, open_box
from honeybadger_host.storage.files import Changing, Incoming, NotRegular

log = structlog.get_logger()

MOST_BYTES: Final = 900 << 10
"""Of a request or a reply: a server takes 1 MiB with all headers unless it is told otherwise."""
_BOX_HEADER: Final = "Hb-Box"
_ID_HEADER: Final = "Hb-Id"
_ANSWER_SECONDS: Final = 2.0
"""Then it is asked again: the owner may be another one by now, and what the last one took died with it."""
_KEPT_SECONDS: Final = 10.0
"""So long a reply is given again: its first copy may have been lost on its way."""
_AGAIN_SECONDS: Final = 0.2
_LOOK_SECONDS: Final = 0.05
_LOOK_PAUSE: Final = 10
"""So many times as long as a look into all folders kept the processor busy, the next one waits."""
_MOST_AT_ONCE: Final = 512


class Forwarding:
    """Sends on what lies in the inboxes of this machine, until it is closed."""

    def __init__(self, home: Path, servers: Servers, names: Names) -> None:
        """Begin."""
        self._ipc, self._servers, self._names = home / "data" / "ipc", servers, names
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._task = servers.start(self._run())

    def close(self) -> None:
        """Stop; what is under way is met again."""
        self._servers.cancel(self._task)

    async def _run(self) -> None:
        try:
            while True:
                begun = time.thread_time()  # on a busy machine a look takes long and costs little
                for inbox, name in self._waiting():
                    path = f"{inbox.requests}/{name}"
                    if path not in self._under_way and len(self._under_way) < _MOST_AT_ONCE:
                        self._under_way[path] = asyncio.create_task(self._forward(inbox, name, path))
                await asyncio.sleep(max(_LOOK_SECONDS, _LOOK_PAUSE * (time.thread_time() - begun)))
        finally:
            for task in self._under_way.values():
                task.cancel()
            await asyncio.gather(*self._under_way.values(), return_exceptions=True)

    def _waiting(self) -> Iterator[tuple[Inbox, str]]:
        """Yield the requests of every inbox, in the order of their names."""
        for group in _names_in(self._ipc):
            for sender in _names_in(self._ipc / group):
                if NAME.fullmatch(group) and NAME.fullmatch(sender):
                    inbox = Inbox(group, sender, str(self._ipc / group / sender))
                    for one in inbox.both:
                        for name in _names_in(Path(one.requests)):
                            if name.endswith(".json"):
                                yield one, name

    async def _forward(self, inbox: Inbox, name: str, path: str) -> None:
        try:
            opened = open_box(inbox)
            try:
                found = opened.read(name, MOST_BYTES)
                if found.size > MOST_BYTES or found.links > 1 or (inbox.sender == OPERATOR and not _is_ours(found)):
                    return  # it is refused, or served, when this machine owns the home
                reply = await self._ask(inbox, name.removesuffix(".json"), found.data)
                opened.reply(name, reply)
                opened.remove(name, found.signature)
            finally:
                opened.close()
        except (OSError, NotRegular, Changing, nats.errors.Error) as error:
            log.debug("cluster.not_forwarded", path=path, error=str(error))
            await asyncio.sleep(_AGAIN_SECONDS)
        finally:
            self._under_way.pop(path, None)

    async def _ask(self, inbox: Inbox, request_id: str, data: bytes) -> bytes:
        subject = f"{self._names.asking}.{inbox.group}.{inbox.sender}"
        headers = {_BOX_HEADER: inbox.folder, _ID_HEADER: request_id}
        answer = await self._servers.client.request(subject, data, timeout=_ANSWER_SECONDS, headers=headers)
        return answer.data


class Answering:
    """Lets the host of this machine, which owns the home, serve what others send on."""

    def __init__(self, home: Path, servers: Servers, names: Names) -> None:
        """Begin."""
        self._home, self._servers, self._names = home, servers, names
        self._under_way: set[asyncio.Task[None]] = set()
        self._taken: dict[tuple[str, str, str], bytes] = {}
        """Group, sender, id -> what was put into a folder; it is not put there again when it is sent again."""
        self._task = servers.start(self._run())

    def close(self) -> None:
        self._servers.cancel(self._task)

    async def _run(self) -> None:
        subscription = await self._servers.client.subscribe(f"{self._names.asking}.*.*", cb=self._take)
        try:
            await asyncio.Event().wait()
        finally:
            await subscription.unsubscribe()
            for task in self._under_way:
                task.cancel()
            await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _take(self, message: Msg) -> None:
        *_, group, sender = message.subject.split(".")
        headers = message.headers or {}
        request_id, box = headers.get(_ID_HEADER, ""), headers.get(_BOX_HEADER, "")
        try:
            mailbox = Mailbox.of(self._home, group, sender)
            checked_id(request_id)
            if box not in (REQUESTS, TURNS):
                raise BadName(f"{box!r} is not a box")
            key = group, sender, request_id
            if self._taken.get(key) != message.data:
                mailbox.create()
                mailbox.discard_reply(request_id)
                mailbox.publish(request_id, message.data, REQUESTS if box == REQUESTS else TURNS, is_durable=False)
                self._taken[key] = message.data
        except (BadName, OSError) as error:
            log.warning("cluster.not_taken", group=group, sender=sender, id=request_id, error=str(error))
            return
        task = asyncio.create_task(self._answer(message, mailbox, key))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _answer(self, message: Msg, mailbox: Mailbox, key: tuple[str, str, str]) -> None:
        until, pause = time.monotonic() + _ANSWER_SECONDS, 0.002
        while (reply := mailbox.reply(key[2])) is None:
            if time.monotonic() > until:
                return
            await asyncio.sleep(pause)
            pause = min(pause * 1.3, 0.1)
        if len(reply) > MOST_BYTES:
            why = f"the reply has {len(reply)} bytes, {MOST_BYTES} go to another machine: ask for less"
            reply = wire.dump_error(key[2], Refusal("too_large", why))
        await message.respond(reply)
        is_done = bool(orjson.loads(reply)["ok"])  # what was refused may be asked again, and done
        asyncio.get_running_loop().call_later(_KEPT_SECONDS if is_done else 0, self._forget, key, message.data, mailbox)

    def _forget(self, key: tuple[str, str, str], data: bytes, mailbox: Mailbox) -> None:
        if self._taken.get(key) == data:
            del self._taken[key]
            mailbox.discard_reply(key[2])


def _is_ours(found: Incoming) -> bool:
    """Return whether a file is of the host's user: nobody else is the operator."""
    return found.uid == os.geteuid()


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
