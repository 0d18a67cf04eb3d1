"""The lines of a log from its end: the newest cost no more in a long log than in a short one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

# A longer line is nothing that the host wrote: twice what the largest request can make of one.
MAX_LINE_LENGTH: Final = 32 * 1024 * 1024
_BLOCK: Final = 64 * 1024


def lines_back(fd: int, size: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield the lines of a file from the last to the first: where each begins, how long it is, and what it holds.

    A line longer than `MAX_LINE_LENGTH` is cut there, so memory never holds more than one such line.
    """
    start = size
    parts: list[bytes] = []  # of a line that begins before `start`, the last part first
    length = 0
    while start > 0:
        block = os.pread(fd, min(_BLOCK, start), max(0, start - _BLOCK))
        start = max(0, start - _BLOCK)
        head, *lines = block.split(b"\n")
        byte = start + len(block)
        for part in reversed(lines):
            byte -= len(part)
            parts.append(part)
            yield byte, length + len(part), b"".join(reversed(parts))
            byte -= 1
            parts, length = [], 0
        length += len(head)
        parts = [*parts, head] if length <= MAX_LINE_LENGTH else [head]
    yield 0, length, b"".join(reversed(parts))
