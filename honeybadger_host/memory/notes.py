"""MEMORY.md as notes: where one ends and the next begins. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from honeybadger_host.text import estimate_tokens

_START: Final = re.compile(r"^## ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class NoteBook:
    """A MEMORY.md, cut at its second-level headings.

    Args:
        preface: what stands before the first heading; may be empty.
        notes: oldest first, each with its heading and the blank line before it.
        costs: estimate of each note in tokens.
    """

    preface: str
    notes: Sequence[str]
    costs: Sequence[int]


def parse_notes(text: str) -> NoteBook:
    """Return the parts of a MEMORY.md; joined in order they are the text again."""
    starts = [match.start() for match in _START.finditer(text)]
    if not starts:
        return NoteBook(text, (), ())
    notes = tuple(text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True))
    return NoteBook(text[: starts[0]], notes, tuple(map(estimate_tokens, notes)))
