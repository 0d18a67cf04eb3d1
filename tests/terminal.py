"""A terminal that a command runs in: a real pseudo-terminal, and an emulator that shows what a person would see."""

import contextlib
import fcntl
import os
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pyte

from tests.hosting import PATIENCE, Child, forge_of, frozen_environment

COLUMNS, ROWS = 300, 100
"""Tall enough that nothing a test does scrolls away."""


def _hears_ctrl_c() -> None:
    """Undo what a shell does to what it starts in the background: it is deaf to SIGINT, and so are its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Terminal:
    """A command on a terminal of its own, from `__enter__` to its end.

    Args:
        command: it is the leader of a session whose terminal this is, so Ctrl-C reaches it as a signal.
    """

    def __init__(
        self, command: Sequence[str], cwd: Path, env: Mapping[str, str] | None = None, *, columns: int = COLUMNS
    ) -> None:
        self.raw = b""
        self.screen = pyte.Screen(columns, ROWS)
        self._stream = pyte.ByteStream(self.screen)
        self._master, self._slave = os.openpty()
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
        name = os.ttyname(self._slave)
        self.before = termios.tcgetattr(self._slave)
        variables = {
            "HOME": str(cwd),
            "TERM": "xterm-256color",
            "PROMPT_TOOLKIT_NO_CPR": "1",  # it would complain when a test does not look for two seconds
            **(env or {}),
        }
        self._process: subprocess.Popen[bytes] | Child
        if (found := forge_of(command)) is not None:
            tty = Path(name)
            forged, rest = found
            self._process = forged.fork(rest, variables, stdin=tty, stdout=tty, stderr=tty, cwd=cwd, on_terminal=True)
            return
        self._process = subprocess.Popen(
            ["sh", "-c", f'exec "$0" "$@" <{name} >{name} 2>&1', *command],  # opened by a leader, so it controls
            cwd=cwd,
            env=frozen_environment(**variables),
            start_new_session=True,
            preexec_fn=_hears_ctrl_c,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(20)
        os.close(self._master)
        os.close(self._slave)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def text(self) -> str:
        """The text on the screen, without spaces at the ends of lines. (pyte's own way draws every empty cell.)"""
        rows: list[Mapping[int, Any]] = [self.screen.buffer.get(y, {}) for y in range(ROWS)]
        return "\n".join(
            "".join(row[x].data for x in range(max(row, default=-1) + 1)).rstrip() for row in rows
        ).rstrip()

    @property
    def settings(self) -> list[object]:
        """How the terminal treats what is typed."""
        return list(termios.tcgetattr(self._slave))

    def type(self, text: str) -> None:
        """Type something; `\\r` is Enter, `\\x03` Ctrl-C, `\\x04` Ctrl-D."""
        os.write(self._master, text.encode())

    def enter(self, text: str) -> None:
        """Type a line and Enter."""
        self.type(f"{text}\r")

    def say(self, text: str, shows: str, *, times: int = 1) -> None:
        """Type a line and Enter, and wait for what it shows."""
        self.enter(text)
        self.wait_for(shows, times=times)

    def wait_for(self, text: str, timeout: float = PATIENCE, *, times: int = 1) -> None:
        """Wait until `text` stands on the screen so often."""
        self._wait(lambda: self.text.count(text) >= times, timeout, f"{text!r} {times} times")

    def wait_for_prompt(self, timeout: float = PATIENCE) -> None:
        """Wait until the last line is a prompt: what is typed before may be read by nobody, as Ctrl-D."""
        self._wait(lambda: self.text.endswith(">"), timeout, "a prompt")

    def _wait(self, is_there: Callable[[], bool], timeout: float, what: str) -> None:
        deadline = time.monotonic() + timeout
        while not is_there():
            if not self._read(0.05) and time.monotonic() > deadline:
                raise AssertionError(f"not within {timeout:g} s: {what} on\n{self.text}")

    def end(self, timeout: float = PATIENCE) -> int:
        """Wait for the end of the command and return its exit code."""
        deadline = time.monotonic() + timeout
        while self._process.poll() is None:
            if not self._read(0.05) and time.monotonic() > deadline:
                raise AssertionError(f"it goes on after {timeout:g} s:\n{self.text}")
        while self._read(0):
            pass
        return self._process.wait()

    def _read(self, seconds: float) -> bool:
        if not select.select([self._master], [], [], seconds)[0]:
            return False
        with contextlib.suppress(OSError):
            data = os.read(self._master, 1 << 16)
            self.raw += data
            self._stream.feed(data)
            return bool(data)
        return False
