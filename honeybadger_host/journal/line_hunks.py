"""The difference of two texts, line by line, and how one is made from the other. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

# Pairs of equal lines in two texts that are compared within seconds; 50,000 lines that differ take 0.2 s. Texts with
# more pairs repeat few lines over and over, and differ as a whole.
_MAX_EQUAL_PAIRS = 1_000_000
_MAX_ALIKE_BYTES = 4096  # size limit of texts that are compared character by character: 5 ms
_MIN_RUN_BYTES = 3  # fewer characters in a row are alike by chance


class Hunk(NamedTuple):
    """Lines that replace others.

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
    """Return the hunks that turn some lines into others, in order; none if they are equal."""
    start, end = 0, 0
    shorter = min(len(before), len(after))
    while start < shorter and before[start] == after[start]:
        start += 1
    while end < shorter - start and before[-1 - end] == after[-1 - end]:
        end += 1
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    if not old and not new:
        return []
    places = Counter(new)
    if sum(places[line] for line in old if not _is_blank(line)) > _MAX_EQUAL_PAIRS:
        return [Hunk(start, old, new)]
    matcher = SequenceMatcher(_is_blank, old, new, autojunk=False)  # a blank line alone says nothing of its place
    return [Hunk(start + a, old[a:b], new[c:d]) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]


def _is_blank(line: bytes) -> bool:
    return not line.strip()


def alike(one: bytes, other: bytes) -> int:
    """Return the number of characters, in runs, that both texts share in the same order; 0 for long ones."""
    if not one or not other or len(one) + len(other) > _MAX_ALIKE_BYTES:
        return 0
    blocks = SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks if block.size >= _MIN_RUN_BYTES or block.a == block.b == 0)


def signed_lines(hunks: Iterable[Hunk]) -> list[tuple[str, bytes]]:
    """Return the lines that go and come, in order, each behind its sign."""
    return [(sign, line) for hunk in hunks for sign, side in (("-", hunk.removed), ("+", hunk.added)) for line in side]


def text_with(text: bytes, hunks: Sequence[Hunk]) -> bytes:
    """Return a text with hunks applied. Raises ValueError: its lines are not those that the hunks were made of."""
    lines = lines_of(text)
    for hunk in reversed(hunks):
        end = hunk.at + len(hunk.removed)
        if end > len(lines) or lines[hunk.at : end] != list(hunk.removed):
            raise ValueError(f"line {hunk.at + 1} is not as it was")
        lines[hunk.at : end] = hunk.added
    return b"".join(lines)


def reversed_hunks(hunks: Sequence[Hunk]) -> list[Hunk]:
    """Return the hunks that make the lines before of those after."""
    shift = 0
    found: list[Hunk] = []
    for hunk in hunks:
        found.append(Hunk(hunk.at + shift, hunk.added, hunk.removed))
        shift += len(hunk.added) - len(hunk.removed)
    return found
