"""MEMORY.md as notes: where one ends and the next begins, who signed it, how it stands in a context. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from honeybadger_agent.quoting import quoted, set_apart
from honeybadger_host.text.neutralise import estimate_tokens

_HEADING: Final = "## "
_SIGNATURE: Final = re.compile(r" \((?P<author>[^(),]+), (?P<at>\d{4}-\d\d-\d\d \d\d:\d\d)\)\s*")
SIGNED: Final = re.compile(rf"## (?P<section>.*){_SIGNATURE.pattern}")
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
    def authors(self) -> Sequence[str]:
        """The author of each note, `NOBODY` where it is not signed."""
        return [author_of(note) for note in self.notes]

    @cached_property
    def by_author(self) -> dict[str, list[int]]:
        """Author -> places of the notes, newest first; the preface is the oldest of what nobody signed."""
        found: dict[str, list[int]] = {}
        for place in range(len(self.notes) - 1, -1, -1):
            found.setdefault(self.authors[place], []).append(place)
        if self.preface.strip():
            found.setdefault(NOBODY, []).append(PREFACE)
        return found

    @cached_property
    def counts(self) -> Counter[str]:
        """Author -> how many notes."""
        return Counter(self.authors)

    def shown(self, place: int) -> str:
        """Return a note, or the preface, as it stands in a context: no line of it looks like one of a context's own."""
        return self._shown(place)[0]

    def cost(self, place: int) -> int:
        """Return the estimated tokens of `shown`, one for rounding included."""
        return self._shown(place)[1]

    @property
    def text(self) -> str:
        """The whole file, as it stands in a context."""
        return "".join(map(self.shown, range(PREFACE, len(self.notes))))

    @cached_property
    def _known(self) -> dict[int, tuple[str, int]]:
        return {}

    def _shown(self, place: int) -> tuple[str, int]:
        if (known := self._known.get(place)) is None:
            text = self.preface if place == PREFACE else self.notes[place]
            is_signed = place != PREFACE and self.authors[place] != NOBODY
            text = _quoted_note(text) if is_signed else set_apart(text)
            known = self._known[place] = (text, estimate_tokens(text) + 1)
        return known


def parse_notes(text: str) -> NoteBook:
    """Return the parts of a MEMORY.md; joined in order they are the text again."""
    first, *rest = f"\n{text}".split(f"\n{_HEADING}")  # a regular expression takes ten times as long for 1 MiB
    if not rest:
        return NoteBook(text, ())
    notes = [f"{_HEADING}{note}\n" for note in rest]
    notes[-1] = notes[-1][:-1]
    return NoteBook(f"{first[1:]}\n" if first else "", notes)


def author_of(note: str) -> str:
    """Return who signed a note, `NOBODY` when nobody did."""
    heading = note.partition("\n")[0]
    at = heading.rfind(" (")
    return _signer(heading[at:]) if at >= 0 else NOBODY


@lru_cache(maxsize=4096)
def _signer(signature: str) -> str:
    """Signatures repeat: the same author, the same minute."""
    signed = _SIGNATURE.fullmatch(signature)
    return signed["author"] if signed else NOBODY


def _quoted_note(note: str) -> str:
    """Return a signed note: its content is quoted behind the `- `, whatever its lines are indented by."""
    heading, end, body = note.partition("\n")
    section = quoted(heading.removeprefix(_HEADING))
    content = body.rstrip("\n")
    dash = "- " if content.startswith("- ") else ""
    text = quoted(content.removeprefix(dash).replace("\n  ", "\n"))
    return f"{_HEADING}{section}{end}{dash}{text}{body[len(content) :]}"
