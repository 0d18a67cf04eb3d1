"""Pushes messages to programs and webhooks that the operator configured: at least once, in the order of each group.

The journal keeps the last delivered message of each target. A delivery that a kill interrupted is repeated under the
same id, so that the receiver can recognise it. A failed delivery is repeated with growing pauses, and later messages
wait for it: none is left out.
"""

import contextlib
import functools
import hashlib
import hmac
import os
import signal
import ssl
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import orjson

from honeybadger_host.errors import WorldFailed
from honeybadger_host.files.home import MESSAGES_FOLDER
from honeybadger_host.journal.journal import Journal
from honeybadger_host.log import log
from honeybadger_host.settings import Push
from honeybadger_host.threads import Threads
from honeybadger_host.work.messages import ANY_GROUP, Arrivals, Message, members_of, read_messages
from honeybadger_host.work.task_files import MAX_WHY_LENGTH

DELIVERY_SECONDS = 30.0  # how long one delivery may take
FIRST_PAUSE_SECONDS = 1.0  # after a failed delivery; each further failure doubles it
MAX_PAUSE_SECONDS = 600.0  # the pause does not grow beyond this
_SINCE = ""  # means all groups: the newest message when the host first saw a target


class NotDelivered(Exception):
    """A message could not be delivered, and why."""


@dataclass(slots=True)
class Target:
    """A target of messages: a program or a webhook.

    Args:
        places: group -> number of the last message that was delivered.
        failed: group and number of the message that cannot be delivered now, and why; None: none failed.
    """

    push: Push
    places: dict[str, int]
    failed: tuple[str, int, str] | None = None
    failed_since: float = 0.0
    again_at: float = 0.0

    @property
    def key(self) -> str:
        """Return the target's name in the journal: the same at every position in the settings."""
        return hashlib.sha256(orjson.dumps([self.push.command, self.push.webhook])).hexdigest()[:16]

    @property
    def name(self) -> str:
        """Return the target as people see it, without arguments and query, which may hold secrets."""
        if self.push.command:
            return f"command {self.push.command[0]}"
        url = urlsplit(self.push.webhook)
        return f"webhook {url.scheme}://{url.hostname}{f':{url.port}' if url.port else ''}{url.path}"


@dataclass(slots=True)
class Pusher:
    """Pushes messages to all targets, independently of each other."""

    home: Path
    pushes: list[Push]
    journal: Journal
    writer: Threads
    arrivals: Arrivals
    targets: list[Target] = field(init=False)

    def __post_init__(self) -> None:
        kept = self.journal.pushed()
        self.targets = [Target(push, {_SINCE: self.journal.committed_seq}) for push in self.pushes]
        for target in self.targets:
            target.places = kept.get(target.key, target.places)

    @property
    def status(self) -> list[dict[str, Any]]:
        """The state of each target: its groups, and the failure it waits for, if any."""
        now = time.monotonic()
        return [
            {
                "target": target.name,
                "groups": target.push.groups,
                "failed": None
                if target.failed is None
                else {
                    **dict(zip(("group", "seq", "why"), target.failed, strict=True)),
                    "for_seconds": round(now - target.failed_since, 1),
                    "again_in_seconds": round(max(0.0, target.again_at - now), 1),
                },
            }
            for target in self.targets
        ]

    async def run(self) -> None:
        """Push until cancelled."""
        await self._keep()  # so that messages that come while the host is down are pushed later
        async with anyio.create_task_group() as tasks:
            for target in self.targets:
                tasks.start_soon(self._serve, target)

    async def _serve(self, target: Target) -> None:
        pause = FIRST_PAUSE_SECONDS
        while True:
            came = self.arrivals.next(ANY_GROUP)  # before reading: a message that comes later sets it
            group, seq = "", 0
            try:
                waiting = await anyio.to_thread.run_sync(self._waiting, target)
                for group, message in waiting:
                    seq = message.seq
                    await self._deliver(target.push, group, message)
                    target.places[group] = seq
                    await self._keep()
                    pause = FIRST_PAUSE_SECONDS
                    if target.failed is not None:
                        log.info("push.recovered", target=target.name, group=group, seq=seq)
                        target.failed = None
                if not waiting:
                    await came.wait()
            except (NotDelivered, OSError, WorldFailed) as error:
                self._failed(target, group, seq, str(error), pause)
                await anyio.sleep(pause)
                pause = min(2 * pause, MAX_PAUSE_SECONDS)

    def _failed(self, target: Target, group: str, seq: int, why: str, pause: float) -> None:
        now = time.monotonic()
        if target.failed is None:
            target.failed_since = now
        target.failed, target.again_at = (group, seq, why), now + pause
        log.warning("push.failed", target=target.name, group=group, seq=seq, why=why, again_in_seconds=pause)

    def _waiting(self, target: Target) -> list[tuple[str, Message]]:
        """Return the oldest message of each group that was not delivered, with the group. Raises WorldFailed."""
        found: list[tuple[str, Message]] = []
        for group in target.push.groups or [path.stem for path in (self.home / MESSAGES_FOLDER).glob("*.jsonl")]:
            after = target.places.get(group, target.places[_SINCE])
            waiting, _ = read_messages(self.home, group, after, 1, lambda message: True)
            found += ((group, message) for message in waiting)
        return sorted(found, key=lambda each: each[1].seq)

    async def _keep(self) -> None:
        places = {target.key: target.places for target in self.targets}
        await self.writer.run(self.journal.keep_pushed, places)

    async def _deliver(self, push: Push, group: str, message: Message) -> None:
        """Deliver a message. Raises NotDelivered, OSError."""
        message_id = f"{self.journal.identity}-{message.seq}"
        data = orjson.dumps({"id": message_id, "group": group, **members_of(message)}, option=orjson.OPT_APPEND_NEWLINE)
        with anyio.move_on_after(DELIVERY_SECONDS):
            if push.command:
                await _run(push.command, data, self.home)
            else:
                await _post(push.webhook, data, _headers(push, message_id, data, self.home))
            return
        raise NotDelivered(f"it took longer than {DELIVERY_SECONDS:g} s")


async def _run(command: list[str], data: bytes, home: Path) -> None:
    """Run a program with the message on its standard input. Raises NotDelivered."""
    with tempfile.TemporaryFile() as said:
        try:
            process = await anyio.open_process(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=said, cwd=home, start_new_session=True
            )
        except (OSError, ValueError) as error:  # ValueError: a zero byte in an argument
            raise NotDelivered(f"it cannot be run: {getattr(error, 'strerror', error)}") from None
        try:
            assert process.stdin is not None  # noqa: S101  a pipe was asked for
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # it need not read
                await process.stdin.send(data)
                await process.stdin.aclose()
            code = await process.wait()
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # with all processes that it started
            with anyio.CancelScope(shield=True):
                await process.aclose()
        if code:
            said.seek(max(0, said.seek(0, os.SEEK_END) - MAX_WHY_LENGTH))
            last = " ".join(said.read().decode(errors="replace").split())
            raise NotDelivered(f"exit code {code}" + (f": {last}" if last else ""))


def _headers(push: Push, message_id: str, data: bytes, home: Path) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "Idempotency-Key": message_id, "User-Agent": "honeybadger-host"}
    if push.key_file:
        try:
            key = (home / push.key_file).read_bytes().strip()
        except OSError as error:
            raise NotDelivered(f"key_file {push.key_file} cannot be read: {error.strerror}") from None
        if not key:
            raise NotDelivered(f"key_file {push.key_file} is empty: write a secret into it, or leave key_file out")
        headers["X-Honeybadger-Signature"] = f"sha256={hmac.new(key, data, hashlib.sha256).hexdigest()}"
    return headers


async def _post(url: str, data: bytes, headers: dict[str, str]) -> None:
    """POST once and read only the status of the answer. Raises NotDelivered."""
    import httpx2  # an extra; 60 ms

    certificates = await anyio.to_thread.run_sync(_certificates)
    try:
        async with (
            httpx2.AsyncClient(timeout=None, trust_env=False, verify=certificates) as client,
            client.stream("POST", url, content=data, headers=headers) as answer,
        ):
            status = answer.status_code
    except httpx2.ConnectError as error:
        raise NotDelivered(f"it cannot be reached: {error}") from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise NotDelivered(f"no HTTP answer: {error or type(error).__name__}") from None
    if not 200 <= status < 300:
        moved = ": redirects are not followed, name the new place" if 300 <= status < 400 else ""
        raise NotDelivered(f"it answers {status}{moved}")


@functools.cache
def _certificates() -> ssl.SSLContext:
    """Return the certificates that webhooks are checked with; read once, which takes 33 ms."""
    import httpx2

    return httpx2.create_ssl_context(trust_env=False)
