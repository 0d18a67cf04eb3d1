"""MEMORY.md as notes: where one ends and the next begins. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_HEADING: Final = "## "


@dataclass(frozen=True, slots=True)
class NoteBook:
    """A MEMORY.md, cut at its second-level headings.

    Args:
        preface: what stands before the first heading; may be empty.
        notes: oldest first, each with its heading and the blank line behind it.
    """

    preface: str
    notes: Sequence[str]


def parse_notes(text: str) -> NoteBook:
    """Return the parts of a MEMORY.md; joined in order they are the text again."""
    first, *rest = f"\n{text}".split(f"\n{_HEADING}")  # a regular expression takes ten times as long for 1 MiB
    if not rest:
        return NoteBook(text, ())
    notes = [f"{_HEADING}{note}\n" for note in rest]
    notes[-1] = notes[-1][:-1]
    return NoteBook(f"{first[1:]}\n" if first else "", notes)
