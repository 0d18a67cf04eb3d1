"""What two texts differ in, line by line. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final, NamedTuple

_MOST_COMPARED: Final = 1_000_000
"""Pairs of lines; what differs in more is taken for one piece, which takes no time."""


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
    if len(old) * len(new) > _MOST_COMPARED:
        return [Hunk(start, old, new)]
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    return [Hunk(start + a, old[a:b], new[c:d]) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]
