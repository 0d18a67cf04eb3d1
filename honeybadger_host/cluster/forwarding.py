"""Agents on other machines: requests in a follower's folders go to the owner, and replies come back.

An agent on a machine without a host sends the same itself (`honeybadger_agent.relay`), and the owner serves it alike.
The owner's machine finds each request in a folder of the same group and sender, under the same id, so a request that is
sent again after a lost answer is done once, as any other is. The agent's file stays until its reply is written.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

import nats.errors
import orjson
import structlog
from nats.aio.msg import Msg

from honeybadger_agent import wire
from honeybadger_agent.mailbox import NAME, OPERATOR, REQUESTS, TURNS, BadName, Mailbox, checked_id
from honeybadger_agent.relay import ANSWER_SECONDS, BOX_HEADER, ID_HEADER, MOST_BYTES, REPLY_PREFIX
from honeybadger_agent.wire import Refusal
from honeybadger_host.cluster.log import Names
from honeybadger_host.cluster.servers import Servers
from honeybadger_host.errors import SettingsError
from honeybadger_host.files.safe_files import Changing, Incoming, NotRegular
from honeybadger_host.spool.inbox import Inbox, open_box
from honeybadger_host.spool.rate_limits import BURST_SECONDS, Buckets
from honeybadger_host.spool.senders import SenderList
from honeybadger_host.spool.watcher import HAS_INOTIFY, Watcher

log = structlog.get_logger()

# For this long a reply is sent again to whoever asks: its first copy may have been lost. For this long a reply is
# awaited that nobody asks for any more.
_KEPT_SECONDS: Final = 10.0
_AGAIN_SECONDS: Final = 0.2
_NET_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.05
_LOOK_PAUSE: Final = 10  # multiple of the CPU time of a look into all folders before the next
# Of a sender elsewhere, where `limits.requests_per_second` says nothing: a fifteenth of what an owner serves.
REQUESTS_PER_SECOND = 100.0
_MAX_AT_ONCE: Final = 512  # requests under way: of this machine, and of a sender elsewhere


class Forwarding:
    """Sends on what lies in the inboxes of this machine, until it is closed.

    Events say where to look at once. All is looked at now and then, and often where folders are not watched.
    """

    def __init__(self, home: Path, servers: Servers, names: Names, *, watches: bool) -> None:
        """Begin."""
        self._ipc, self._servers, self._names = home / "data" / "ipc", servers, names
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._inboxes: dict[str, Inbox] = {}
        """Subject by the folder of the requests."""
        self._watcher = Watcher(self._hint) if HAS_INOTIFY and watches else None
        self._hinted: set[str] = set()
        self._woken = asyncio.Event()
        self._task = servers.start(self._run())

    def close(self) -> None:
        """Stop; requests under way are sent again at the next start."""
        self._servers.cancel(self._task)

    def _hint(self, folder: str, _: str) -> None:
        """Look into a folder; empty: into all. Any thread."""
        self._servers.soon(self._note, folder)

    def _note(self, folder: str) -> None:
        self._hinted.add(folder)
        self._woken.set()

    async def _run(self) -> None:
        look_at = not_before = 0.0
        try:
            while True:
                self._woken.clear()
                hinted, self._hinted = self._hinted, set()
                if not hinted.issubset(self._inboxes):  # also a folder that senders are in
                    look_at = not_before
                if time.monotonic() >= look_at:
                    begun = time.thread_time()  # on a busy machine a look takes long and costs little
                    is_watched = self._discover()
                    for inbox in self._inboxes.values():
                        self._look_into(inbox)
                    rest = _LOOK_PAUSE * (time.thread_time() - begun)
                    not_before = time.monotonic() + max(_LOOK_SECONDS, rest)
                    look_at = not_before + (_NET_SECONDS + rest if is_watched else 0.0)
                else:
                    for folder in hinted.intersection(self._inboxes):
                        self._look_into(self._inboxes[folder])
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._woken.wait(), max(look_at - time.monotonic(), 0.001))
        finally:
            if self._watcher is not None:
                self._watcher.close()
            for task in self._under_way.values():
                task.cancel()
            await asyncio.gather(*self._under_way.values(), return_exceptions=True)

    def _discover(self) -> bool:
        """Find the inboxes; return whether events tell of all that comes."""
        self._inboxes.clear()
        folders = {str(self._ipc): True}
        for group in _names_in(self._ipc):
            folders[f"{self._ipc}/{group}"] = True
            for sender in _names_in(self._ipc / group):
                if NAME.fullmatch(group) and NAME.fullmatch(sender):
                    inbox = Inbox(group, sender, f"{self._ipc}/{group}/{sender}")
                    self._inboxes |= {one.requests: one for one in inbox.both}
                    folders[inbox.path] = True
        if self._watcher is None:
            return False
        self._watcher.ensure(folders | dict.fromkeys(self._inboxes, False), time.monotonic())
        return self._watcher.is_alive() and not self._watcher.unwatched

    def _look_into(self, inbox: Inbox) -> None:
        """Begin with what lies in an inbox, in the order of names."""
        if self._watcher is not None:
            self._watcher.listen(inbox.requests)
        for name in _names_in(Path(inbox.requests)):
            path = f"{inbox.requests}/{name}"
            if name.endswith(".json") and path not in self._under_way and len(self._under_way) < _MAX_AT_ONCE:
                self._under_way[path] = asyncio.create_task(self._forward(inbox, name, path))

    async def _forward(self, inbox: Inbox, name: str, path: str) -> None:
        stem, is_turn = name.removesuffix(".json"), inbox.folder == TURNS
        try:
            opened = open_box(inbox)
            try:
                if is_turn:  # who takes the message back from now on finds that it was begun
                    os.close(opened.open_stream(stem))
                found = opened.read(name, MOST_BYTES)
                if found.size > MOST_BYTES or found.links > 1 or (inbox.sender == OPERATOR and not _is_ours(found)):
                    return  # it is refused, or served, when this machine owns the home
                reply = await self._ask(inbox, stem, found.data)
                opened.reply(name, reply)
                opened.remove(name, found.signature)
            except nats.errors.TimeoutError:
                is_turn = False  # the owner may have begun
                raise
            finally:
                if is_turn:
                    opened.remove_stream(stem)
                opened.close()
        except (OSError, NotRegular, Changing, nats.errors.Error) as error:
            log.debug("cluster.not_forwarded", path=path, error=str(error))
            await asyncio.sleep(_AGAIN_SECONDS)
            self._note(inbox.requests)
        finally:
            if len(self._under_way) == _MAX_AT_ONCE:
                self._note("")
            self._under_way.pop(path, None)

    async def _ask(self, inbox: Inbox, request_id: str, data: bytes) -> bytes:
        subject = f"{self._names.asking}.{inbox.group}.{inbox.sender}"
        headers = {BOX_HEADER: inbox.folder, ID_HEADER: request_id}
        answer = await self._servers.client.request(subject, data, timeout=ANSWER_SECONDS, headers=headers)
        return answer.data


@dataclass(slots=True, eq=False)
class _Taken:
    """A request of another machine that lies in a folder here, or did.

    Args:
        digest: of its bytes; what has the same is not put into the folder again.
        reply_to: where who asked last waits for the reply.
        asked_at: when that was, in monotonic seconds.
    """

    digest: bytes
    reply_to: str
    asked_at: float
    task: asyncio.Task[None] | None = None


class Answering:
    """Lets the host of this machine, which owns the home, serve what others send: hosts, and agents without one.

    Args:
        known: of closed mode, whether a sender is served; None: all are.
        per_second: requests of a sender in a second, on average; 0: `REQUESTS_PER_SECOND`.
    """

    def __init__(
        self,
        home: Path,
        servers: Servers,
        names: Names,
        known: Callable[[str, str], bool] | None = None,
        per_second: float = 0,
    ) -> None:
        """Begin."""
        per_second = per_second or REQUESTS_PER_SECOND
        self._buckets = Buckets(per_second, per_second * BURST_SECONDS)
        self._home, self._servers, self._names, self._known = home, servers, names, known
        self._taken: dict[tuple[str, str, str], _Taken] = {}
        """Requests by group, sender and id."""
        self._waiting: Counter[tuple[str, str]] = Counter()
        """Group and sender -> requests without a reply."""
        self._task = servers.start(self._run())

    def close(self) -> None:
        self._servers.cancel(self._task)

    async def _run(self) -> None:
        subscription = await self._servers.client.subscribe(f"{self._names.asking}.*.*", cb=self._take)
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
        now = time.monotonic()
        try:
            mailbox = Mailbox.of(self._home, group, sender)
            checked_id(request_id)
            if box not in (REQUESTS, TURNS):
                raise BadName(f"{box!r} is not a box")
            if not message.reply.startswith(REPLY_PREFIX):
                raise BadName(f"{message.reply!r} is not where replies go")  # as the owner, it could be the log
            key, digest = (group, sender, request_id), blake2b(message.data).digest()
            taken = self._taken.get(key)
            if taken is not None and taken.digest == digest:
                taken.reply_to, taken.asked_at = message.reply, now
            else:
                is_full = self._waiting[group, sender] >= _MAX_AT_ONCE
                if is_full or self._buckets.take((group, sender), now):
                    return  # it is asked again, and may have been done: so it is not refused
                self._check(group, sender, message.data)
                if taken is not None and taken.task is not None:
                    taken.task.cancel()
                mailbox.create()
                mailbox.discard_reply(request_id)
                mailbox.publish(request_id, message.data, REQUESTS if box == REQUESTS else TURNS, is_durable=False)
                taken = self._taken[key] = _Taken(digest, message.reply, now)
        except Refusal as refusal:
            await self._servers.client.publish(message.reply, wire.dump_error(request_id, refusal))
            return
        except (BadName, OSError) as error:
            log.warning("cluster.not_taken", group=group, sender=sender, id=request_id[:100], error=str(error))
            return
        if taken.task is None:
            self._waiting[group, sender] += 1
            taken.task = asyncio.create_task(self._answer(taken, mailbox, key))

    def _check(self, group: str, sender: str, data: bytes) -> None:
        """Raise Refusal when a request is not even put into a folder."""
        if self._known is not None and not self._known(group, sender):
            raise Refusal(
                "forbidden",
                f"the home is closed and does not know {sender} in {group}: `honeybadger-host sender add` there",
            )
        if len(data) > MOST_BYTES:
            raise Refusal("too_large", f"the request has {len(data)} bytes, {MOST_BYTES} go to another machine")

    async def _answer(self, taken: _Taken, mailbox: Mailbox, key: tuple[str, str, str]) -> None:
        """Send the reply to the last requester, until nobody asks any more."""
        pause, kept = 0.002, 0.0
        try:
            while (reply := mailbox.reply(key[2])) is None:
                if time.monotonic() > taken.asked_at + _KEPT_SECONDS:
                    break  # it lies in the folder, and is served; nobody waits for the reply
                await asyncio.sleep(pause)
                pause = min(pause * 1.3, 0.1)
            else:
                if len(reply) > MOST_BYTES:
                    why = f"the reply has {len(reply)} bytes, {MOST_BYTES} go to another machine: ask for less"
                    reply = wire.dump_error(key[2], Refusal("too_large", why))
                await self._servers.client.publish(taken.reply_to, reply)
                kept = _KEPT_SECONDS if orjson.loads(reply)["ok"] else 0.0  # a refused request may be repeated
        except OSError as error:
            log.debug("cluster.not_answered", group=key[0], sender=key[1], id=key[2], error=str(error))
        finally:
            taken.task = None
            self._waiting[key[:2]] -= 1
            if not self._waiting[key[:2]]:
                del self._waiting[key[:2]]
            asyncio.get_running_loop().call_later(kept, self._forget, key, taken, mailbox)

    def _forget(self, key: tuple[str, str, str], taken: _Taken, mailbox: Mailbox) -> None:
        if self._taken.get(key) is taken and taken.task is None:
            del self._taken[key]
            mailbox.discard_reply(key[2])


def registered(home: Path) -> Callable[[str, str], bool]:
    """Return a function that says whether closed mode lists a sender of a group now. Raises SettingsError."""
    senders = SenderList(home)

    def is_known(group: str, sender: str) -> bool:
        with contextlib.suppress(SettingsError):  # the sweep says it
            senders.refresh()
        return (group, sender) in senders.current

    return is_known


def _is_ours(found: Incoming) -> bool:
    """Return whether a file is of the host's user: nobody else is the operator."""
    return found.uid == os.geteuid()


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
