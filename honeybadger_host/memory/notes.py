"""MEMORY.md as notes: where one ends and the next begins, who signed it. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

HEADING: Final = "## "
SIGNED: Final = re.compile(r"## (?P<section>.*) \((?P<author>[^(),]+), (?P<at>\d{4}-\d\d-\d\d \d\d:\d\d)\)\s*")
"""The first line of a note that the host wrote."""
PREFACE: Final = -1
"""Place of the text above the notes."""
NOBODY: Final = ""
"""Author of what nobody signed: what people write into the file themselves."""


@dataclass(frozen=True)
class NoteBook:
    """A MEMORY.md, cut at its second-level headings.

    Args:
        preface: what stands before the first heading; may be empty.
        notes: oldest first, each with its heading and the blank line behind it.
    """

    preface: str
    notes: Sequence[str]

    @cached_property
    def by_author(self) -> dict[str, list[int]]:
        """Author -> places of the notes, newest first; the preface is the oldest of what nobody signed."""
        found: dict[str, list[int]] = {}
        for place in range(len(self.notes) - 1, -1, -1):
            found.setdefault(author_of(self.notes[place]), []).append(place)
        if self.preface.strip():
            found.setdefault(NOBODY, []).append(PREFACE)
        return found

    def at(self, place: int) -> str:
        """Return the text at a place."""
        return self.preface if place == PREFACE else self.notes[place]


def parse_notes(text: str) -> NoteBook:
    """Return the parts of a MEMORY.md; joined in order they are the text again."""
    first, *rest = f"\n{text}".split(f"\n{HEADING}")  # a regular expression takes ten times as long for 1 MiB
    if not rest:
        return NoteBook(text, ())
    notes = [f"{HEADING}{note}\n" for note in rest]
    notes[-1] = notes[-1][:-1]
    return NoteBook(f"{first[1:]}\n" if first else "", notes)


def author_of(note: str) -> str:
    """Return who signed a note, `NOBODY` when nobody did."""
    signed = SIGNED.match(note.partition("\n")[0])
    return signed["author"] if signed else NOBODY
