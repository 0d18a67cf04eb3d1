"""A process that reads and analyses files for the index, so that the host's own threads answer requests meanwhile.

Python runs one thread at a time: while the host reads thousands of files itself, every request waits for its turn.
Source: docs/decisions/024-reading-process.md.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from honeybadger_host.search.frames import NoFrame, frame, take_frame
from honeybadger_host.search.numbering import Glossary
from honeybadger_host.search.parser import Reading, Task, plain_task, reading_from
from honeybadger_host.search.reading_child import VERSION

_CODE: Final = "import sys; sys.path[:] = sys.argv[2:]; from honeybadger_host.search.reading_child import main; main()"
_ANSWER_SECONDS: Final = 60.0
"""Without a sign for so long it hangs: an answer takes 30 ms, on a slow network file system seconds."""
_REST_SECONDS: Final = 600.0
"""So long after a failure it is not started again."""
_END_SECONDS: Final = 2.0
_BLOCK: Final = 1 << 20
_PIPE_BYTES: Final = 1 << 20
"""More than an answer has, so that the next one is begun while this one is taken."""


class ReadingFailed(Exception):
    """The process cannot be started, ended, or does not answer as it should; the message says which."""


class ReadingProcess:
    """The process, started when it is asked for the first time. One thread at a time.

    Args:
        command: what is run; None: this interpreter, with what this process has imported from.
        answer_seconds: without an answer for so long it has failed.
    """

    def __init__(
        self,
        home: Path,
        *,
        command: Sequence[str] | None = None,
        answer_seconds: float = _ANSWER_SECONDS,
        rest_seconds: float = _REST_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._home = home
        self._command = command
        self._answer_seconds = answer_seconds
        self._rest_seconds = rest_seconds
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ready = False
        self._to_send = bytearray()
        self._received = bytearray()
        self._asked: deque[int] = deque()
        """How many readings are still to come, for every question."""
        self._glossary = Glossary()
        self._deadline = 0.0
        self._rests_until = 0.0

    @property
    def pid(self) -> int | None:
        """Its number while it runs."""
        return None if self._process is None else self._process.pid

    @property
    def may_start(self) -> bool:
        """Whether it has not failed a short time ago."""
        return self._clock() >= self._rests_until

    @property
    def questions(self) -> int:
        """How many questions are not answered in full."""
        return len(self._asked)

    def start(self) -> None:
        """Start it; it is ready a moment later. Raises ReadingFailed."""
        command = _command() if self._command is None else self._command
        try:
            process = self._process = subprocess.Popen(  # noqa: S603  our own interpreter, our own code
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                process_group=0,  # Ctrl-C in a terminal is for the host
            )
        except (OSError, ValueError) as error:
            raise self._failed(f"it cannot be started: {error}") from None
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
        if process.stdout is not None:
            with contextlib.suppress(OSError, AttributeError):
                fcntl.fcntl(process.stdout.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._deadline = self._clock() + self._answer_seconds
        self._to_send += frame(str(self._home))

    def is_ready(self) -> bool:
        """Return whether it was started and can be asked. Raises ReadingFailed."""
        if not self._is_ready and self._process is not None:
            version = self._next(0)
            if version is not None:
                if version != VERSION:
                    raise self._failed(f"it is {version!a}, this host is {VERSION}: restart the host")
                self._is_ready = True
        return self._is_ready

    def ask(self, tasks: Sequence[Task]) -> None:
        """Ask for files to be read. What is asked first is answered first."""
        if not self._asked:
            self._deadline = self._clock() + self._answer_seconds
        self._asked.append(len(tasks))
        self._to_send += frame([plain_task(task) for task in tasks])

    def take(self, seconds: float) -> tuple[list[Reading], Glossary] | None:
        """Return the next readings of the first question, and the table that their terms are numbers of.

        None when none came in so many seconds.

        Raises ReadingFailed.
        """
        answer = self._next(seconds)
        if answer is None:
            return None
        try:
            first, words, plain = answer
            readings = [reading_from(each) for each in plain]
            if first == 0:
                self._glossary = Glossary()
            if not self._asked or not 0 < len(readings) <= self._asked[0] or first != len(self._glossary.words):
                raise ValueError("nobody asked for that")
        except (TypeError, ValueError) as error:
            raise self._failed(f"it answered nonsense: {error}") from None
        self._glossary.words += words
        self._asked[0] -= len(readings)
        if not self._asked[0]:
            self._asked.popleft()
        return readings, self._glossary

    def end(self) -> None:
        """End it. It holds nothing that could be lost."""
        process, self._process = self._process, None
        self._is_ready = False
        self._to_send.clear()
        self._received.clear()
        self._asked.clear()
        self._glossary = Glossary()
        if process is not None:
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # in a file system that hangs it cannot be ended
                process.wait(_END_SECONDS)
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()

    def _next(self, seconds: float) -> Any | None:
        """Return what comes next in so many seconds; send meanwhile what is to be sent. Raises ReadingFailed."""
        until = self._clock() + seconds
        while True:
            try:
                value = take_frame(self._received)
            except NoFrame as error:
                raise self._failed(f"it answered nonsense: {error}") from None
            now = self._clock()
            if value is not None:
                self._deadline = now + self._answer_seconds
                return value
            if not self._exchange(max(0.0, until - now)):
                if now >= self._deadline:
                    raise self._failed(f"it did not answer for {self._answer_seconds:g} s")
                if now >= until:
                    return None

    def _exchange(self, seconds: float) -> bool:
        """Wait until there is something to receive, or room to send; do it, and return whether there was."""
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise self._failed("it was not started")
        poll = select.poll()
        poll.register(process.stdout, select.POLLIN)
        if self._to_send:
            poll.register(process.stdin, select.POLLOUT)
        ready = dict(poll.poll(seconds * 1000))
        try:
            if process.stdin.fileno() in ready:
                del self._to_send[: os.write(process.stdin.fileno(), self._to_send)]
            if process.stdout.fileno() in ready:
                block = os.read(process.stdout.fileno(), _BLOCK)
                if not block:
                    raise self._failed(self._how_it_ended())
                self._received += block
        except BlockingIOError:
            return False
        except OSError:
            raise self._failed(self._how_it_ended()) from None
        return bool(ready)

    def _how_it_ended(self) -> str:
        process = self._process
        if process is None or process.stderr is None:
            return "it ended"
        try:
            code = process.wait(1)
        except subprocess.TimeoutExpired:
            return "it closed its pipe"
        said = b""
        with contextlib.suppress(OSError):
            said = os.read(process.stderr.fileno(), 1 << 16)
        last = said.decode(errors="replace").strip().rpartition("\n")[2]
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"it was ended by {signal.Signals(-code).name}"
        return f"it ended with code {code}" + (f": {last[:300]}" if last else "")

    def _failed(self, why: str) -> ReadingFailed:
        """End what is left of it, and do not start it again for a while."""
        self.end()
        self._rests_until = self._clock() + self._rest_seconds
        return ReadingFailed(why)


def _command() -> list[str]:
    """Return how this interpreter is run with the modules that this process has, whatever the environment says."""
    return [sys.executable, "-I", "-X", f"utf8={sys.flags.utf8_mode}", "-c", _CODE, "honeybadger-reading", *sys.path]
