"""A rule: anchors that are found by fast string search, and a pattern that is tried only at an anchor.

Ordinary text has few anchors, so it costs little more than the search. A pattern reads a bounded distance from its
anchor, or only what it matches, so the time is linear in the length of the text.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

Match: TypeAlias = re.Match[str]
Span: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Found:
    """One credential: `text[start:end]`, without the words around it."""

    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Rule:
    """How one kind of credential is recognised.

    Args:
        anchors: beginnings of a match; in lower case for a rule that ignores case.
        pattern: matched at an anchor; the next anchor is sought after the match.
        span_of: the final check: returns where the secret is, None when it is not one.
    """

    kind: str
    anchors: tuple[str, ...]
    pattern: re.Pattern[str]
    span_of: Callable[[Match], Span | None]

    def find(self, text: str, anchor: str, haystack: str) -> Iterator[Found]:
        """Yield the credentials that begin with an anchor.

        Args:
            haystack: the text, in lower case for a rule that ignores case.
        """
        at = haystack.find(anchor)
        while at >= 0:
            go_on = at + len(anchor)
            if match := self.pattern.match(text, at):
                go_on = max(go_on, match.end())
                if span := self.span_of(match):
                    go_on = max(go_on, span[1])
                    yield Found(self.kind, *span)
            at = haystack.find(anchor, go_on)


def secret_span(match: Match) -> Span:
    """Return the span of the group `secret`, or of the whole match when there is no such group."""
    return match.span("secret") if "secret" in match.re.groupindex else match.span()


def with_digit(match: Match) -> Span | None:
    """Accept matches with a digit: names that begin like a token have none."""
    start, end = span = secret_span(match)
    return span if any(character.isdigit() for character in match.string[start:end]) else None


def mixed_span(match: Match) -> Span | None:
    """Accept matches in which digits, capitals and small letters alternate; for prefixes that names have, too."""
    start, end = span = secret_span(match)
    digit_changes, changes = _changes(match.string[start:end])
    return span if digit_changes and changes >= max(3, (end - start) // 8) else None


def random_span(match: Match) -> Span | None:
    """Accept random values."""
    start, end = span = secret_span(match)
    return span if is_random(match.string[start:end]) else None


def is_random(value: str) -> bool:
    """Return whether a value looks random, whatever comes before it.

    In random letters and digits the kind of character changes at 45 of 100 places, in hexadecimal at 47; at 27 or more
    a digit is involved. In words joined by signs or capitals (`projects/db-2024/settingsForTest1`) it is far fewer.
    """
    digit_changes, changes = _changes(value)
    return digit_changes >= max(3, len(value) // 10) and changes >= len(value) // 5 and _entropy_bits(value) >= 3.0


def _changes(value: str) -> tuple[int, int]:
    """Return the count of digits next to a letter, and that plus the count of capitals after a small letter."""
    digit_changes = sum(1 for _ in _DIGIT_CHANGE.finditer(value))
    return digit_changes, digit_changes + sum(1 for _ in _CASE_CHANGE.finditer(value))


_DIGIT_CHANGE: Final = re.compile(r"(?<=[0-9])(?=[A-Za-z])|(?<=[A-Za-z])(?=[0-9])")
_CASE_CHANGE: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def _entropy_bits(value: str) -> float:
    """Return the bits per character, from the frequencies within the value."""
    return -sum(n / len(value) * math.log2(n / len(value)) for n in Counter(value).values())
