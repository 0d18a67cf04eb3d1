"""Carries the mailbox of an agent on a machine without a host to the host that owns the home, over NATS.

A request is sent on a subject that names group and sender, and the servers let a key publish to its own subject alone:
who you are is where you write. The reply comes back into the mailbox, so whoever waits there knows nothing of it.
Only here is `nats` imported, the extra `cluster`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import nats.errors
import nkeys
from nats.aio.client import Client

from honeybadger_agent import wire
from honeybadger_agent.errors import NoMailbox
from honeybadger_agent.mailbox import REPLIES, REQUEST_ID, REQUESTS, TURNS, BadName, Box, Mailbox, checked_name
from honeybadger_agent.stream import open_regular
from honeybadger_agent.wire import Refusal

# Size limit of a request or a reply, in bytes: a server takes 1 MiB with all headers by default.
MOST_BYTES: Final = 900 << 10
BOX_HEADER: Final = "Hb-Box"
ID_HEADER: Final = "Hb-Id"
ANSWER_SECONDS: Final = 2.0  # seconds until a request is sent again: its owner may have died with it
# An answer goes to no other subject: the owner may publish everywhere, and whoever asks names the subject.
REPLY_PREFIX: Final = "_INBOX."
_AGAIN_SECONDS: Final = 0.2
_CLOSE_SECONDS: Final = 2.0
_MAX_AT_ONCE: Final = 64
_MAX_IGNORED: Final = 1000
_HOME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def asking_subject(home: str) -> str:
    """Return where requests to the owner of a home go; `.<group>.<sender>` follows."""
    return f"hb.{home}.ask"


def credentials_of(path: str) -> dict[str, Any]:
    """Return how to connect with a file: credentials with a JWT, or the seed of a key.

    Raises OSError; ValueError: it is neither, or other users can read or write it.
    """
    with open(path, encoding="utf-8") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        text = file.read().strip()
    if mode & stat.S_IRWXO:
        raise ValueError(f"its mode is {mode:o}: every user of this machine can take the key; chmod 600 {path}")
    if "BEGIN NATS USER JWT" in text:  # three letters alone may stand in a seed
        return {"user_credentials": path}
    try:
        nkeys.from_seed(bytearray(text.encode()))
    except nkeys.NkeysError as error:
        raise ValueError(f"neither a key's seed nor a JWT: {error}") from None
    return {"nkeys_seed_str": text}


class NoServer(Exception):
    """Each server was tried, and none was to be had."""


async def connect(
    client: Client, *, servers: Sequence[str], error_cb: Callable[[Exception], Awaitable[None]], **options: Any
) -> None:
    """Connect, for good: a server that is silent for four seconds is left for another one.

    With `tls://` nothing is read or sent before the TLS handshake: a server's first line, which would say whether it
    wants TLS, can be anybody's on the way.
    Raises NoServer; ValueError: some of the servers are without TLS.
    """
    with_tls = [server.lower().startswith("tls://") for server in servers]
    if any(with_tls) and not all(with_tls):
        raise ValueError(
            "some servers are named with tls:// and some without: a key would go to both, so name all alike"
        )
    logging.getLogger("asyncio").addFilter(_is_heard)  # once, however often this is called
    failed, is_begun = 0, False

    async def note(error: Exception) -> None:
        nonlocal failed
        await error_cb(error)
        # A server that ends a connection is there, and what it said of the key may have been lost.
        failed += isinstance(error, OSError) and not isinstance(error, ConnectionResetError | BrokenPipeError)
        if failed >= len(servers) and not is_begun:  # the library itself would try for ever
            raise NoServer(f"no server can be reached at {', '.join(servers)}: {error}")

    await client.connect(
        servers=list(servers),
        error_cb=note,
        connect_timeout=2,
        reconnect_time_wait=1,
        max_reconnect_attempts=-1,
        ping_interval=1,
        max_outstanding_pings=3,
        tls_handshake_first=all(with_tls),
        **options,
    )
    is_begun = True


def _is_heard(record: logging.LogRecord) -> bool:
    """Leave out what asyncio says at the end of each connection with TLS, which nobody can mend."""
    return "eof_received" not in str(record.msg)


@dataclass(frozen=True, slots=True)
class Place:
    """The subjects of a sender's requests.

    Args:
        home: the identity of the home, as `honeybadger-host cluster init` prints it.
        credentials: the file of the sender's key; empty: none.
    """

    servers: str
    home: str
    group: str
    sender: str
    credentials: str = ""

    @property
    def subject(self) -> str:
        return f"{asking_subject(self.home)}.{self.group}.{self.sender}"

    @property
    def inbox(self) -> str:
        """Return the subject of replies, before a dot and an unguessable part: only this sender may read there."""
        return f"{REPLY_PREFIX}{self.group}.{self.sender}"

    def options(self) -> dict[str, Any]:
        """Return what a connection needs. Raises NoMailbox: a name or the file cannot be used."""
        try:
            checked_name("group", self.group)
            checked_name("sender", self.sender)
            if not _HOME.fullmatch(self.home):
                raise BadName(
                    f"home {self.home!r}: with a server it is the identity of the home, which `honeybadger-host "
                    f"cluster status` prints on its machines"
                )
            key = credentials_of(self.credentials) if self.credentials else {}
        except BadName as error:
            raise NoMailbox(str(error)) from None
        except (OSError, ValueError) as error:
            raise NoMailbox(f"credentials {self.credentials} cannot be used: {error}") from None
        return {"servers": self.servers.split(","), "inbox_prefix": self.inbox, **key}


class Relay:
    """Carries the requests of a mailbox to the owner of a home, and the replies back, on a separate thread.

    Attributes:
        trouble: why nothing is answered just now; empty: nothing is known to be wrong.
        ignored: files that are no requests by their names, each once, in the order they were seen.
    """

    _is_patient = True
    """Servers that are not there are waited for."""

    def __init__(self, mailbox: Mailbox, place: Place, *, look_seconds: float) -> None:
        """Begin. Raises NoMailbox.

        Args:
            look_seconds: how often the mailbox is looked into when nobody wakes it.
        """
        self.mailbox, self._place, self._look_seconds = mailbox, place, look_seconds
        self.trouble = f"not connected to {place.servers} yet"
        self.ignored: dict[str, None] = {}
        self._refusal: Refusal | None = None
        """Subjects that the servers refused since the last connection."""
        self._unclear: set[str] = set()
        """Ids that a host may have taken, or may get in this moment."""
        self._sent_before: set[str] = set()
        """Requests sent before a refusal, or on an earlier connection: they are not refused."""
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._options = place.options()
        self._client = Client()
        self._loop = asyncio.new_event_loop()
        self._woken = asyncio.Event()
        self._task = self._loop.create_task(self._run())
        self._thread = threading.Thread(target=self._serve, name="relay", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Look into the mailbox now. Any thread."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._woken.set)

    def give_up(self, request_id: str, box: Box) -> bool:
        """Send a request no more; return whether it is sure that no host got it. Any thread."""
        with contextlib.suppress(OSError):
            self.mailbox.path(box, request_id).unlink()
        until = time.monotonic() + _AGAIN_SECONDS  # an attempt that is under way ends with an answer: there is no host
        while request_id in self._unclear:  # it is entered before the file is read
            if time.monotonic() > until:
                return False
            time.sleep(0.005)
        return True

    def close(self) -> None:
        """End; what was not answered stays in the mailbox. May be called again, by any thread, the relay's own, too."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._task.cancel)
        if threading.current_thread() is not self._thread:  # garbage may be collected there, and a finalizer closes
            self._thread.join(_CLOSE_SECONDS)

    def _serve(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._task)
        self._loop.close()

    async def _run(self) -> None:
        connecting: asyncio.Task[None] | None = None
        try:
            while True:
                if connecting is None or (connecting.done() and self._client.is_closed):
                    self._client = Client()
                    connecting = asyncio.create_task(self._connect(self._client))
                self._woken.clear()
                for box, request_id in self._waiting():
                    if len(self._under_way) < _MAX_AT_ONCE and request_id not in self._under_way:
                        self._under_way[request_id] = asyncio.create_task(self._carry(box, request_id))
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._woken.wait(), self._look_seconds)
        finally:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self._client.close(), _CLOSE_SECONDS / 2)
            rest = asyncio.all_tasks() - {asyncio.current_task()}
            for task in rest:
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)

    async def _connect(self, client: Client) -> None:
        try:
            await connect(client, error_cb=self._note, reconnected_cb=self._begin, **self._options)
            await self._begin()
        except Exception as error:  # noqa: BLE001  also of the library: it is said to whoever waits
            await self._note(error)
            await asyncio.sleep(_AGAIN_SECONDS)
            with contextlib.suppress(Exception):
                await client.close()

    async def _begin(self) -> None:
        self.trouble, self._refusal = "", None
        self._sent_before = set(self._unclear)
        self._woken.set()

    async def _note(self, error: Exception) -> None:
        said = str(error) or type(error).__name__
        told = f"the servers {self._place.servers}: {said}"
        if "permissions violation" in said.lower():
            self.trouble = told
            why = f"this key may not ask as {self._place.sender} in {self._place.group}: {said}; see its permissions"
            self._refusal = Refusal("forbidden", why)
        elif "authorization" in said.lower():
            self._refuse(f"{told}; the credentials are not accepted")
        elif self._refusal is None:  # else it is known why the connection ended
            self.trouble = told
            if isinstance(error, NoServer):
                self.trouble = said
                if not self._is_patient:
                    self._refuse(said)
        self._woken.set()

    def _refuse(self, why: str) -> None:
        self.trouble = why
        self._refusal = Refusal("unavailable", why)
        self._sent_before |= self._unclear

    def _waiting(self) -> Iterator[tuple[Box, str]]:
        boxes: tuple[Box, Box] = (REQUESTS, TURNS)
        for box in boxes:
            with contextlib.suppress(OSError):
                for name in sorted(os.listdir(self.mailbox.root / box)):
                    if not name.endswith(".json"):
                        continue
                    if REQUEST_ID.fullmatch(name.removesuffix(".json")):
                        yield box, name.removesuffix(".json")
                    elif len(self.ignored) < _MAX_IGNORED:
                        self.ignored[f"{box}/{name}"] = None

    async def _carry(self, box: Box, request_id: str) -> None:
        path, stream = self.mailbox.path(box, request_id), self.mailbox.stream_path(request_id)
        is_unclear = was_unclear = request_id in self._unclear
        pause = 0.0
        try:
            refusal = None if request_id in self._sent_before else self._refusal
            if refusal is None and not self._client.is_connected:
                await asyncio.sleep(_AGAIN_SECONDS)
                return
            self._unclear.add(request_id)
            if box == TURNS:  # who takes the message back from now on finds that it was begun
                stream.touch(0o600)
            if (fd := open_regular(path)) is None:
                return
            with os.fdopen(fd, "rb") as file:
                data, seen = file.read(MOST_BYTES + 1), os.fstat(fd)
            if len(data) > MOST_BYTES:
                refusal = Refusal("too_large", f"the request has over {MOST_BYTES} bytes, which no server passes on")
            if refusal is not None:
                reply = wire.dump_error(request_id, refusal)
            else:
                is_unclear = True
                reply = await self._ask(box, request_id, data)
                self.trouble = ""
            self.mailbox.publish(request_id, reply, REPLIES, is_durable=False)
            is_unclear = False
            with contextlib.suppress(OSError):
                now = os.lstat(path)
                if (now.st_ino, now.st_size, now.st_mtime_ns) == (seen.st_ino, seen.st_size, seen.st_mtime_ns):
                    path.unlink()
        except nats.errors.NoRespondersError:
            is_unclear, pause = was_unclear, _AGAIN_SECONDS
            self.trouble = f"no host owns the home {self._place.home} just now, or it has another identity"
        except (nats.errors.Error, OSError) as error:
            pause = _AGAIN_SECONDS
            if self._refusal is None:
                self.trouble = f"{str(error) or type(error).__name__}, from the host that owns the home"
        finally:
            if not is_unclear:
                self._unclear.discard(request_id)
                with contextlib.suppress(OSError):
                    stream.unlink()
            try:
                await asyncio.sleep(pause)  # it may be taken back meanwhile
            finally:
                self._under_way.pop(request_id, None)
                self._woken.set()

    async def _ask(self, box: Box, request_id: str, data: bytes) -> bytes:
        headers = {BOX_HEADER: box, ID_HEADER: request_id}
        answer = await self._client.request(self._place.subject, data, timeout=ANSWER_SECONDS, headers=headers)
        return answer.data


class OwnRelay(Relay):
    """The same for one program: its mailbox is a folder that goes with it."""

    _is_patient = False

    def __init__(self, place: Place) -> None:
        """Begin. Raises NoMailbox."""
        place.options()
        self._folder = tempfile.mkdtemp(prefix="honeybadger-")
        mailbox = Mailbox(Path(self._folder) / place.group / place.sender)
        mailbox.create()
        super().__init__(mailbox, place, look_seconds=0.2)

    def close(self) -> None:
        super().close()
        shutil.rmtree(self._folder, ignore_errors=True)
