"""The reading process itself: reads and analyses the files it is told, and ends when nobody is there to tell it more.

It keeps nothing, writes no file, and knows nothing of the index: it may be killed at any time.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
from collections.abc import Iterator, Sequence
from typing import Any, Final

from honeybadger_host import __version__
from honeybadger_host.search.frames import frame, take_frame
from honeybadger_host.search.language.analyzer import ANALYZER_VERSION
from honeybadger_host.search.numbering import Numbering
from honeybadger_host.search.parser import PlainReading, PlainTask, plain_reading, read, task_from

VERSION: Final = f"{__version__}/{ANALYZER_VERSION}"
"""A host whose package was replaced under it does not take what the new one analyses."""
_BYTES_AT_ONCE: Final = 1 << 18
"""Bytes of files that go into one answer: the host writes it in one go, for which a search may wait."""
_BLOCK: Final = 1 << 20
_NICER: Final = 5
"""Requests come first."""
_FIRST_TO_GO: Final = "500"
"""When memory is short the kernel ends this one and not the host, which goes on alone."""


def main() -> None:
    """Answer until the pipe from the host is closed: it ended, however that came about."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # they are meant for the host, which ends this one
    questions, answers = os.dup(0), os.dup(1)
    os.dup2(2, 1)  # whatever a library prints is no answer
    with contextlib.suppress(OSError):
        os.nice(_NICER)  # a hardened service may not change it
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write(_FIRST_TO_GO)
    gc.freeze()
    gc.set_threshold(100_000)  # nothing here makes circles; looking for them took a tenth of the time
    with contextlib.suppress(BrokenPipeError):
        asked = _asked(questions)
        home: str = next(asked, "")
        _answer(answers, VERSION)
        numbering = Numbering()
        for tasks in asked:
            for readings in _readings(home, tasks, numbering):
                _answer(answers, (*numbering.news(), readings))
                numbering.shorten()


def _readings(home: str, tasks: Sequence[PlainTask], numbering: Numbering) -> Iterator[list[PlainReading]]:
    """Yield what was read, in order, a part of it at a time, with numbers for terms."""
    readings: list[PlainReading] = []
    size = 0
    for task in tasks:
        reading = read(home, task_from(task))
        readings.append(plain_reading(reading, numbering.numbers))
        size += reading.size
        if size >= _BYTES_AT_ONCE:
            yield readings
            readings, size = [], 0
    if readings:
        yield readings


def _asked(fd: int) -> Iterator[Any]:
    received = bytearray()
    while block := os.read(fd, _BLOCK):
        received += block
        while (value := take_frame(received)) is not None:
            yield value


def _answer(fd: int, value: object) -> None:
    data = memoryview(frame(value))
    while data:
        data = data[os.write(fd, data) :]
