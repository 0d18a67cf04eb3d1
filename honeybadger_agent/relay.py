"""Carries the mailbox of an agent on a machine without a host to the host that owns the home, over NATS.

A request is sent on a subject that names group and sender, and the servers let a key publish to its own subject only:
so the subject proves who asks. The reply comes back into the mailbox, so a client notices no difference. Only this
module imports `nats`, the extra `cluster`.
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
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import nats.errors
import nkeys
from nats.aio.client import Client

from honeybadger_agent import wire
from honeybadger_agent.errors import NoMailbox
from honeybadger_agent.exchange import open_regular
from honeybadger_agent.mailbox import REPLIES, REQUEST_ID, REQUESTS, TURNS, BadName, Box, Mailbox, checked_name
from honeybadger_agent.wire import Refusal

# Size limit of a request or a reply, in bytes: a server takes 1 MiB with all headers by default.
MAX_BYTES = 900 << 10
BOX_HEADER = "Hb-Box"
ID_HEADER = "Hb-Id"
# Seconds without an answer until a request is sent again: the owner may have died. `close` waits as long.
ANSWER_SECONDS = 2.0
# Answers go to subjects with this prefix only: the owner may publish everywhere, and the sender chooses the subject.
REPLY_PREFIX = "_INBOX."
_RETRY_SECONDS = 0.2  # pause before a failed attempt is repeated
MAX_AT_ONCE = 512  # requests of one carrier that are under way
_HOME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def credentials_of(path: str) -> dict[str, Any]:
    """Return the options of a connection with a file: credentials with a JWT, or the seed of a key.

    Raises OSError; ValueError: it is neither, or other users can read or write it.
    """
    with open(path, encoding="utf-8") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        text = file.read().strip()
    if mode & stat.S_IRWXO:
        raise ValueError(f"its mode is {mode:o}: every user of this machine can take the key; chmod 600 {path}")
    if "BEGIN NATS USER JWT" in text:  # not `JWT` alone, which a seed may contain
        return {"user_credentials": path}
    try:
        nkeys.from_seed(bytearray(text.encode()))
    except nkeys.NkeysError as error:
        raise ValueError(f"neither a key's seed nor a JWT: {error}") from None
    return {"nkeys_seed_str": text}


class NoServer(Exception):
    """No server could be reached."""


async def connect(
    client: Client, *, servers: Sequence[str], error_cb: Callable[[Exception], Awaitable[None]], **options: Any
) -> None:
    """Connect and stay connected: a server that is silent for four seconds is replaced by another one.

    With `tls://` nothing is read or sent before the TLS handshake: anybody on the way could send the first line, which
    says whether the server wants TLS.
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
        # A server that ends a connection can be reached; its message about the key may have been lost.
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
    """Return whether to log a record: not asyncio's warning at the end of each TLS connection, which is harmless."""
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
        return f"hb.{self.home}.ask.{self.group}.{self.sender}"

    def options(self) -> dict[str, Any]:
        """Return the options of a connection. Raises NoMailbox if a name or the file cannot be used."""
        checked_name("group", self.group)
        checked_name("sender", self.sender)
        if not _HOME.fullmatch(self.home):
            raise BadName(
                f"home {self.home!r}: with a server it is the identity of the home, which `honeybadger-host "
                f"cluster status` prints on its machines"
            )
        try:
            key = credentials_of(self.credentials) if self.credentials else {}
        except (OSError, ValueError) as error:
            raise NoMailbox(f"credentials {self.credentials} cannot be used: {error}") from None
        # Replies come there, before a dot and an unguessable part: only this sender may read them.
        inbox = f"{REPLY_PREFIX}{self.group}.{self.sender}"
        return {"servers": self.servers.split(","), "inbox_prefix": inbox, **key}


class Waiting(Protocol):
    """A request that waits in a folder."""

    subject: str
    box: str
    request_id: str

    def read(self) -> bytes | None:
        """Return the request, up to one byte more than the limit, or None if it is gone, or may not be carried.

        From now on the message can no longer be taken back: its answer counts as begun. Raises OSError.
        """

    def answer(self, reply: bytes) -> None:
        """Write the reply, then remove the request unless another one has its name. Raises OSError."""

    def close(self, *, is_begun: bool) -> None:
        """End an attempt.

        Args:
            is_begun: a host may have begun to answer.
        """


Key: TypeAlias = tuple[str, str, str]  # subject, box and id of a request


class Carrier:
    """Carries requests from folders to the owner of a home, and its replies back. One event loop.

    Args:
        look: returns the waiting requests; those under way may be among them.
        look_seconds: how often `look` is called if nobody wakes the carrier.

    Attributes:
        client: the connection.
        woken: set to look for requests now.
        trouble: why requests are not answered now; empty: no reason is known.
        refusal: the answer to requests that were not sent before; None: they are sent.
        unclear: requests that a host may have taken, or may be getting now.
        sent_before: requests that are not refused: a host may have taken them.
    """

    def __init__(self, client: Client, look: Callable[[], Iterable[Waiting]], look_seconds: float) -> None:
        self.client, self._look, self._look_seconds = client, look, look_seconds
        self.woken = asyncio.Event()
        self.trouble = ""
        self.refusal: Refusal | None = None
        self.unclear: set[Key] = set()
        self.sent_before: set[Key] = set()
        self.under_way: dict[Key, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Carry until it is cancelled."""
        try:
            while True:
                self.woken.clear()
                for one in self._look():
                    key = one.subject, one.box, one.request_id
                    if key not in self.under_way and len(self.under_way) < MAX_AT_ONCE:
                        self.under_way[key] = asyncio.create_task(self._carry(one, key))
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self.woken.wait(), self._look_seconds)
        finally:
            tasks = [*self.under_way.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _carry(self, one: Waiting, key: Key) -> None:
        try:
            while True:
                if await self._is_done(one, key):
                    return
                await asyncio.sleep(_RETRY_SECONDS)  # it may be taken back meanwhile
        finally:
            del self.under_way[key]
            self.woken.set()

    async def _is_done(self, one: Waiting, key: Key) -> bool:
        """Try once; return whether a request is answered or gone."""
        is_unclear = was_unclear = key in self.unclear
        try:
            refusal = None if key in self.sent_before else self.refusal
            if refusal is None and not self.client.is_connected:
                return False
            self.unclear.add(key)
            if (data := one.read()) is None:
                return True
            if len(data) > MAX_BYTES:
                refusal = Refusal("too_large", f"the request has over {MAX_BYTES} bytes, which no server passes on")
            if refusal is not None:
                reply = wire.dump_error(one.request_id, refusal)
            else:
                is_unclear = True
                headers = {BOX_HEADER: one.box, ID_HEADER: one.request_id}
                answer = await self.client.request(one.subject, data, timeout=ANSWER_SECONDS, headers=headers)
                reply, self.trouble = answer.data, ""
            one.answer(reply)
            is_unclear = False
            return True
        except nats.errors.NoRespondersError:
            is_unclear = was_unclear
            self.trouble = "no host owns the home just now, or it has another identity"
        except (nats.errors.Error, OSError) as error:
            if self.refusal is None:
                self.trouble = f"{str(error) or type(error).__name__}, from the host that owns the home"
        finally:
            if not is_unclear:
                self.unclear.discard(key)
            one.close(is_begun=is_unclear)
        return False


@dataclass(slots=True)
class _Sent:
    """A request in the mailbox of a relay."""

    mailbox: Mailbox
    subject: str
    box: str
    request_id: str
    seen: os.stat_result | None = None

    def read(self) -> bytes | None:
        if self.box == TURNS:
            self.mailbox.stream_path(self.request_id).touch(0o600)
        if (fd := open_regular(self.mailbox.path(self.box, self.request_id))) is None:
            return None
        with os.fdopen(fd, "rb") as file:
            self.seen = os.fstat(fd)
            return file.read(MAX_BYTES + 1)

    def answer(self, reply: bytes) -> None:
        self.mailbox.publish(self.request_id, reply, REPLIES, is_durable=False)
        path = self.mailbox.path(self.box, self.request_id)
        with contextlib.suppress(OSError):
            if self.seen is not None and os.path.samestat(os.lstat(path), self.seen):
                path.unlink()

    def close(self, *, is_begun: bool) -> None:
        if not is_begun:
            self.mailbox.stream_path(self.request_id).unlink(missing_ok=True)


class Relay:
    """Carries the requests of a mailbox to the owner of a home, and the replies back, on a separate thread."""

    def __init__(self, mailbox: Mailbox, place: Place, *, look_seconds: float, is_patient: bool = True) -> None:
        """Start the thread. Raises NoMailbox.

        Args:
            look_seconds: how often the mailbox is listed if nobody wakes the relay.
            is_patient: requests wait for servers that cannot be reached; else they are refused.
        """
        self.mailbox, self._place, self._is_patient = mailbox, place, is_patient
        self._options = place.options()
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._carrier = Carrier(Client(), self._look, look_seconds)
        self._carrier.trouble = f"not connected to {place.servers} yet"
        self._task = self._loop.create_task(self._run())
        self._thread = threading.Thread(target=self._serve, name="relay", daemon=True)
        self._thread.start()

    @property
    def trouble(self) -> str:
        """Return why requests are not answered now; empty: no reason is known."""
        return self._carrier.trouble

    def wake(self) -> None:
        """Look into the mailbox now. Any thread."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._carrier.woken.set)

    def give_up(self, request_id: str, box: Box) -> bool:
        """Stop sending a request; return whether it is certain that no host got it. Any thread."""
        with contextlib.suppress(OSError):
            self.mailbox.path(box, request_id).unlink()
        until = time.monotonic() + _RETRY_SECONDS  # an attempt that is under way ends with an answer: there is no host
        while (self._place.subject, box, request_id) in self._carrier.unclear:  # it is entered before the file is read
            if time.monotonic() > until:
                return False
            time.sleep(0.005)
        return True

    def close(self) -> None:
        """Stop; unanswered requests stay in the mailbox. May be called again. Any thread, also the relay's own."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._task.cancel)
        if threading.current_thread() is not self._thread:  # a finalizer may run there
            self._thread.join(ANSWER_SECONDS)

    def _serve(self) -> None:
        with self._runner, contextlib.suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._task)

    async def _run(self) -> None:
        connecting = asyncio.create_task(self._stay_connected())
        try:
            await self._carrier.run()
        finally:
            connecting.cancel()
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self._carrier.client.close(), ANSWER_SECONDS / 2)

    async def _stay_connected(self) -> None:
        """Connect, and connect again if the servers ended the connection for good."""
        client = self._carrier.client
        while True:
            try:
                await connect(client, error_cb=self._note, reconnected_cb=self._begin, **self._options)
                await self._begin()
                while not client.is_closed:  # noqa: ASYNC110  the library does not report every end
                    await asyncio.sleep(_RETRY_SECONDS)
            except Exception as error:  # noqa: BLE001  also the library's errors: the waiting client gets them
                await self._note(error)
                await asyncio.sleep(_RETRY_SECONDS)
                with contextlib.suppress(Exception):
                    await client.close()
            self._carrier.client = client = Client()

    async def _begin(self) -> None:
        self._carrier.trouble, self._carrier.refusal = "", None
        self._carrier.sent_before = set(self._carrier.unclear)
        self._carrier.woken.set()

    async def _note(self, error: Exception) -> None:
        said = str(error) or type(error).__name__
        told = f"the servers {self._place.servers}: {said}"
        if "permissions violation" in said.lower():
            self._carrier.trouble = told
            why = f"this key may not ask as {self._place.sender} in {self._place.group}: {said}; see its permissions"
            self._carrier.refusal = Refusal("forbidden", why)
        elif "authorization" in said.lower():
            self._refuse(f"{told}; the credentials are not accepted")
        elif self._carrier.refusal is None:  # else it is known why the connection ended
            self._carrier.trouble = told
            if isinstance(error, NoServer):
                self._carrier.trouble = said
                if not self._is_patient:
                    self._refuse(said)
        self._carrier.woken.set()

    def _refuse(self, why: str) -> None:
        self._carrier.trouble = why
        self._carrier.refusal = Refusal("unavailable", why)
        self._carrier.sent_before |= self._carrier.unclear

    def _look(self) -> Iterator[_Sent]:
        boxes: tuple[Box, Box] = (REQUESTS, TURNS)
        for box in boxes:
            with contextlib.suppress(OSError):
                for name in sorted(os.listdir(self.mailbox.root / box)):
                    request_id = name.removesuffix(".json")
                    if request_id != name and REQUEST_ID.fullmatch(request_id):
                        yield _Sent(self.mailbox, self._place.subject, box, request_id)


def own_relay(place: Place) -> tuple[Relay, Callable[[], None]]:
    """Return a relay with a temporary mailbox for one program, and the function that ends both. Raises NoMailbox."""
    place.options()
    folder = Path(tempfile.mkdtemp(prefix="honeybadger-"))
    mailbox = Mailbox(folder / place.group / place.sender)
    mailbox.create()
    relay = Relay(mailbox, place, look_seconds=_RETRY_SECONDS, is_patient=False)

    def close() -> None:
        relay.close()
        shutil.rmtree(folder, ignore_errors=True)

    return relay, close
