"""The connection to the NATS servers: a thread with an event loop, because threads write the journal."""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

import nats.errors
import orjson
from nats.aio.client import Client
from nats.aio.subscription import Subscription
from nats.js import api
from nats.js.errors import APIError, NotFoundError

from honeybadger_agent.relay import ANSWER_SECONDS, connect, credentials_of
from honeybadger_host.cluster.records import Message
from honeybadger_host.errors import SettingsError
from honeybadger_host.log import log

ResultT = TypeVar("ResultT")

EXPECTED_HEADER = "Nats-Expected-Last-Sequence"
EXPECTED_OF_SUBJECT_HEADER = "Nats-Expected-Last-Subject-Sequence"
# Never use `Nats-Expected-Last-Msg-Id`: in 2.15.1 a wrong value stops a replicated stream for good.
EXPECTED_SUBJECT_HEADER = "Nats-Expected-Last-Subject-Sequence-Subject"
MIN_VERSION = (2, 12)
FETCH_SECONDS = 0.3
PAUSE_SECONDS = 0.1  # before something is tried or looked at again
_NO_RESPONDERS = "503"
NET_SECONDS = 1.0  # between two looks at everything, also at what no message and no event has told
_OTHERS_SECONDS = 1.0  # between two answers to one question
_FETCHED_AT_ONCE = 256
# One server answers with the first code, three with the second: the number is taken by another's message, or by our own
# whose answer was lost. Messages have no `Nats-Msg-Id`: what a server takes for a repetition may have other bytes.
_WRONG_SEQUENCE = (10071, 10164)


class Unreachable(Exception):
    """The servers did not answer or have no quorum; the request may have been done."""


class WrongSequence(Exception):
    """Error code: the message was expected at another position."""


class Servers:
    """The servers of a cluster. Any thread; each call waits for its answer, and raises Unreachable without one."""

    def __init__(self, urls: Sequence[str], credentials: str = "") -> None:
        """Connect. Raises SettingsError if they refuse us; Unreachable."""
        self.replicas = 3 if len(urls) >= 3 else 1
        self._urls, self._credentials = list(urls), credentials
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cluster", daemon=True)
        self._thread.start()
        self.client = Client()
        self._js = self.client.jetstream(timeout=ANSWER_SECONDS)
        self._said = ""  # the last error of the connection
        self._work: list[Future[None]] = []
        try:
            self._call(self._connect())
        except BaseException as error:
            self.close()
            if isinstance(error, Unreachable) and _is_refusal(self._said):
                raise self._wrong(self._said) from None
            if isinstance(error, Unreachable) and self._said:
                raise Unreachable(f"no server can be used of {', '.join(self._urls)}: {self._said}") from None
            raise

    async def _connect(self) -> None:
        try:
            options = credentials_of(self._credentials) if self._credentials else {}
        except (OSError, ValueError) as error:
            raise SettingsError(f"setting cluster.credentials: {self._credentials} cannot be used: {error}") from None
        try:
            await connect(self.client, servers=self._urls, error_cb=self._note_error, **options)
        except ValueError as error:
            raise self._wrong(str(error)) from None
        version = self.client.connected_server_version
        self.version = f"{version.major}.{version.minor}.{version.patch}"
        if (version.major, version.minor) < MIN_VERSION:
            raise SettingsError(
                f"nats-server {self.version} is too old: {MIN_VERSION[0]}.{MIN_VERSION[1]} or later takes one message "
                "for each place"
            )

    def _wrong(self, why: str) -> SettingsError:
        return SettingsError(
            f"the servers {', '.join(self._urls)} cannot be used: {why}; see cluster.servers and cluster.credentials"
        )

    async def _note_error(self, error: Exception) -> None:
        said = str(error) or type(error).__name__
        log.debug("cluster.connection", error=said)
        if "certificate verify failed" in said.lower():
            said += "; SSL_CERT_FILE names the authority that signed the servers' certificates"
        if "permissions violation" in said.lower():
            said += ": mend the permissions of the key in nats.conf"
        if not _is_refusal(self._said):  # a refusal is the cause, later errors follow from it
            self._said = said

    def _call(self, asked: Coroutine[Any, Any, ResultT], rounds: int = 2) -> ResultT:
        """Return a result that takes at most this number of questions and answers."""
        seconds = rounds * ANSWER_SECONDS
        try:
            answer = asyncio.run_coroutine_threadsafe(asyncio.wait_for(asked, seconds), self._loop)
            return answer.result(seconds + ANSWER_SECONDS)
        except (NotFoundError, SettingsError, Unreachable):
            raise
        except APIError as error:
            if error.err_code in _WRONG_SEQUENCE:
                raise WrongSequence(str(error)) from None
            raise Unreachable(_told(error)) from error
        except (nats.errors.TimeoutError, TimeoutError) as error:
            # The servers do not answer a forbidden question: the connection has said why.
            raise Unreachable(f"no answer in time ({self._said or 'the connection reports no error'})") from error
        except Exception as error:  # a bug of the library counts as a missing answer
            raise Unreachable(f"{type(error).__name__}: {error}") from error

    def soon(self, call: Callable[[], None]) -> None:
        """Call a function on the connection's event loop. Any thread."""
        with contextlib.suppress(RuntimeError):  # it is closed
            self._loop.call_soon_threadsafe(call)

    def start(self, work: Coroutine[Any, Any, None]) -> Future[None]:
        """Start work on the connection's event loop; it ends with the connection at the latest."""
        self._work.append(asyncio.run_coroutine_threadsafe(work, self._loop))
        return self._work[-1]

    def cancel(self, work: Future[None]) -> None:
        """Cancel work that was started, and wait for its end."""
        work.cancel()
        with contextlib.suppress(Unreachable):
            for _ in range(3):  # one round to cancel it, one for its tasks, one to end
                self._call(asyncio.sleep(0))

    def close(self) -> None:
        for work in self._work:
            self.cancel(work)
        with contextlib.suppress(Unreachable):
            self._call(self.client.close(), 1)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(3)
        if not self._thread.is_alive():
            self._runner.close()

    # ---------------------------------------------------------------------------------------------------- messages

    def publish(self, subject: str, data: bytes, headers: Mapping[str, str]) -> int:
        """Publish a message; return its number once a quorum has it. Raises WrongSequence."""
        return self._call(self._js.publish(subject, data, headers=dict(headers))).seq

    def message(self, stream: str, *, seq: int | None = None, newest: str | None = None) -> Message | None:
        """Return a message as the stream's leader has it; None: there is none, or not any more.

        Args:
            seq: the number of the message; None: the newest one of a subject.
            newest: that subject.
        """
        try:
            found = self._call(self._js.get_msg(stream, seq=seq, subject=newest))
        except NotFoundError:
            return None
        return Message(found.seq or 0, found.subject or "", found.headers or {}, found.data or b"")

    def fetch(self, stream: str, after: int) -> list[Message]:
        """Return the next messages after one, oldest first; if there are none, wait `FETCH_SECONDS` first.

        Any replica answers, even one that does not have all messages yet.
        """
        found = self._call(self._fetch(stream, after), 4)
        if not found:
            time.sleep(FETCH_SECONDS)
        return found

    async def _fetch(self, stream: str, after: int) -> list[Message]:
        found, asked = list[Message](), orjson.dumps({"seq": after + 1, "batch": _FETCHED_AT_ONCE})
        async with self._answers(f"$JS.API.DIRECT.GET.{stream}", asked) as answers:
            while True:
                one = await answers.next_msg(ANSWER_SECONDS)
                headers = one.headers or {}
                if headers.get("Status") == _NO_RESPONDERS:
                    raise Unreachable(f"no server answers for the stream {stream}")
                if "Status" in headers:  # that was all
                    return found
                found.append(Message(int(headers["Nats-Sequence"]), headers["Nats-Subject"], headers, one.data))

    @contextlib.asynccontextmanager
    async def _answers(self, subject: str, asked: bytes) -> AsyncIterator[Subscription]:
        """Ask a question; the answers arrive at the subscription."""
        inbox = self.client.new_inbox()
        subscription = await self.client.subscribe(inbox)
        try:
            await self.client.publish(subject, asked, reply=inbox)
            yield subscription
        finally:
            await subscription.unsubscribe()

    # ---------------------------------------------------------------------------------------------------- questions

    def ask(self, subject: str, data: bytes) -> bytes | None:
        """Return the answer, or None if nobody answers."""
        with contextlib.suppress(Unreachable):
            return self._call(self.client.request(subject, data, timeout=ANSWER_SECONDS)).data
        return None

    def ask_all(self, subject: str, until: Callable[[bytes], bool] = lambda data: False) -> list[bytes]:
        """Return the answers that arrive soon; stop early at one for which `until` is true."""

        async def asked() -> list[bytes]:
            found: list[bytes] = []
            async with self._answers(subject, b"") as answers:
                with contextlib.suppress(nats.errors.TimeoutError):
                    while not (found and until(found[-1])):
                        answer = await answers.next_msg(_OTHERS_SECONDS if found else ANSWER_SECONDS)
                        if not answer.data:
                            break  # nobody listens
                        found.append(answer.data)
            return found

        return self._call(asked(), 4)

    # ----------------------------------------------------------------------------------------------------- streams

    def make_stream(self, name: str, subject: str, *, max_age: float = 0, of_each: int = -1, first: int = 0) -> None:
        """Make a stream that is not there.

        Args:
            first: number of its first message; 0: 1.
            max_age: seconds after which a message goes; 0: never.
            of_each: messages of each subject that are kept; -1: all.
        """
        making = self._js.add_stream(
            name=name,
            subjects=[subject],
            storage=api.StorageType.FILE,
            num_replicas=self.replicas,
            max_age=max_age,
            max_msgs_per_subject=of_each,
            allow_direct=True,
            first_seq=first or None,
        )
        self._call(making)

    def end_of(self, stream: str) -> tuple[int, int, int] | None:
        """Return the first and the last number of a stream and its bytes, or None if there is no such stream."""
        try:
            found = self._call(self._js.stream_info(stream))
        except NotFoundError:
            return None
        if found.cluster is not None and not found.cluster.leader:  # after a restart it may appear empty
            raise Unreachable(f"the stream {stream} has no leader just now")
        return found.state.first_seq, found.state.last_seq, found.state.bytes

    def streams(self, prefix: str, subjects: str = ">") -> list[str]:
        """Return the names of streams with a prefix and any of the subjects, at most 1,024."""
        asked = self.client.request("$JS.API.STREAM.NAMES", orjson.dumps({"subject": subjects}), timeout=ANSWER_SECONDS)
        found = orjson.loads(self._call(asked).data)
        if "error" in found:
            raise Unreachable(str(found["error"].get("description")))
        return [name for name in found["streams"] or () if name.startswith(prefix)]

    def purge(self, stream: str, up_to: int) -> None:
        """Remove messages up to a number."""
        self._call(self._js.purge_stream(stream, seq=up_to + 1))

    def remove_stream(self, stream: str) -> None:
        with contextlib.suppress(NotFoundError):
            self._call(self._js.delete_stream(stream))


def _told(error: APIError) -> str:
    """Return a server's message; if it explains little, with advice."""
    if error.description is None and error.code is None:  # nobody is there to answer
        return "no server answers for JetStream: see that nats.conf has it, and their logs (a full disk turns it off)"
    return f"{error.description or type(error).__name__} ({error.err_code})"


def _is_refusal(said: str) -> bool:
    return "authorization" in said.lower()
