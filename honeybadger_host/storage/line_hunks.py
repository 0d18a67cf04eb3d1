"""The difference of two texts, line by line, and how one is made from the other. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import Final, NamedTuple

_MAX_COMPARED: Final = 1_000_000  # pairs of lines; what differs in more is taken for one piece, which takes no time


class Hunk(NamedTuple):
    """Lines that stand in place of others.

    Args:
        at: number of the first line, from 0, in the text before.
    """

    at: int
    removed: Sequence[bytes]
    added: Sequence[bytes]


def lines_of(text: bytes) -> list[bytes]:
    """Return the lines of a text with their ends; joined they are the text again."""
    lines = [line + b"\n" for line in text.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def hunks_between(before: Sequence[bytes], after: Sequence[bytes]) -> list[Hunk]:
    """Return what turns some lines into others, in order; empty when they are the same."""
    start, end = 0, 0
    shorter = min(len(before), len(after))
    while start < shorter and before[start] == after[start]:
        start += 1
    while end < shorter - start and before[-1 - end] == after[-1 - end]:
        end += 1
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    if not old and not new:
        return []
    if len(old) * len(new) > _MAX_COMPARED:
        return [Hunk(start, old, new)]
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    return [Hunk(start + a, old[a:b], new[c:d]) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]


def signed_lines(hunks: Iterable[Hunk]) -> list[tuple[str, bytes]]:
    """Return the lines that go and come, in order, each behind its sign."""
    return [(sign, line) for hunk in hunks for sign, side in (("-", hunk.removed), ("+", hunk.added)) for line in side]


def apply_hunks(before: Sequence[bytes], hunks: Sequence[Hunk]) -> list[bytes]:
    """Return the lines that hunks make of some. Raises ValueError: these are not the lines they were made of."""
    lines = list(before)
    for hunk in reversed(hunks):
        end = hunk.at + len(hunk.removed)
        if end > len(lines) or lines[hunk.at : end] != list(hunk.removed):
            raise ValueError(f"line {hunk.at + 1} is not as it was")
        lines[hunk.at : end] = hunk.added
    return lines


def reversed_hunks(hunks: Sequence[Hunk]) -> list[Hunk]:
    """Return the hunks that make the lines before of those after."""
    shift = 0
    found: list[Hunk] = []
    for hunk in hunks:
        found.append(Hunk(hunk.at + shift, hunk.added, hunk.removed))
        shift += len(hunk.added) - len(hunk.removed)
    return found


class Overlapping(ValueError):
    """Lines that hunks are about were changed.

    Args:
        line: the first of them, from 0, in the text before the change.
    """

    def __init__(self, line: int) -> None:
        super().__init__(f"line {line + 1} is not as it was")
        self.line = line


def is_there_again(hunk: Hunk, since: Sequence[Hunk]) -> bool:
    """Return whether a hunk only puts lines back, and somebody has put the same lines there since."""
    size = len(hunk.added)
    return not hunk.removed and any(
        not other.removed and other.at == hunk.at and other.added[:size] == hunk.added for other in since
    )


def carried_over(hunks: Sequence[Hunk], since: Sequence[Hunk]) -> list[Hunk]:
    """Return the hunks of a text as they are for what others have made of it since. Raises Overlapping.

    What came in the place of lines that are put back stands below them.
    """
    return [hunk._replace(at=hunk.at + sum(_shift(hunk, other) for other in since)) for hunk in hunks]


def _shift(hunk: Hunk, other: Hunk) -> int:
    """Return by how many lines another hunk moves one."""
    start, end = hunk.at, hunk.at + len(hunk.removed)
    other_start, other_end = other.at, other.at + len(other.removed)
    if other_start < end and start < other_end:
        raise Overlapping(max(start, other_start))
    is_above = other_end <= start and not (start == end == other_start == other_end)
    return len(other.added) - len(other.removed) if is_above else 0
