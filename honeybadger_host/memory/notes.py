"""MEMORY.md as notes: where one ends and the next begins, who signed it, how it stands in a context. Pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from honeybadger_agent.quoting import quoted, set_apart
from honeybadger_host.storage.files import BOM
from honeybadger_host.text.neutralise import estimate_tokens

_HEADING: Final = "## "
_SIGNATURE: Final = re.compile(r" \((?P<author>[^(),]+), (?P<at>\d{4}-\d\d-\d\d \d\d:\d\d)\)\s*")
SIGNED: Final = re.compile(rf"## (?P<section>.*){_SIGNATURE.pattern}")
"""The first line of a note that the host wrote."""
PREFACE: Final = -1
"""Place of the text above the notes."""
PINNED: Final = "(pinned)"
NOBODY: Final = ""
"""Author of what nobody signed: what people write into the file themselves."""


@dataclass(slots=True)
class NotesOf:
    """What one author wrote, newest first.

    Args:
        places: in the file.
        made: as far as was asked for, the notes as they stand in a context, and the estimated tokens of each with all
            newer ones. Replaced as a whole: several threads may read one book.
    """

    places: list[int]
    made: tuple[list[str], list[int]] = ([], [])


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
    def by_author(self) -> dict[str, NotesOf]:
        """Author -> notes, the author of the newest first; the preface is the oldest of what nobody signed."""
        places: defaultdict[str, list[int]] = defaultdict(list)
        for place in range(len(self.notes) - 1, -1, -1):
            places[author_of(self.notes[place])].append(place)
        if self.preface.strip():
            places[NOBODY].append(PREFACE)
        return {author: NotesOf(found) for author, found in places.items()}

    @cached_property
    def counts(self) -> Counter[str]:
        """Author -> how many notes."""
        return +Counter({author: sum(at != PREFACE for at in notes.places) for author, notes in self.by_author.items()})

    def newest(self, author: str, room: float) -> tuple[list[str], list[int]]:
        """Return texts and running totals of an author's newest notes, up to the first over the room or further.

        Args:
            room: estimated tokens; each note costs one more, for rounding.
        """
        notes = self.by_author[author]
        texts, totals = notes.made
        total = totals[-1] if totals else 0
        if total <= room and len(texts) < len(notes.places):
            texts, totals = list(texts), list(totals)
            for place in notes.places[len(texts) :]:
                texts.append(self.shown(place))
                total += estimate_tokens(texts[-1]) + 1
                totals.append(total)
                if total > room:
                    break
            notes.made = texts, totals
        return texts, totals

    def shown(self, place: int) -> str:
        """Return a note, or the preface, as it stands in a context: no line of it looks like one of a context's own."""
        if place == PREFACE:
            return set_apart(self.preface)
        note = self.notes[place]
        return _quoted_note(note) if author_of(note) != NOBODY else set_apart(note)

    @cached_property
    def text(self) -> str:
        """The whole file, as it stands in a context."""
        return "".join(map(self.shown, range(PREFACE, len(self.notes))))


def parse_notes(text: str) -> NoteBook:
    """Return the parts of a MEMORY.md; joined in order they are the text again."""
    first, *rest = f"\n{text}".split(f"\n{_HEADING}")  # a regular expression takes ten times as long for 1 MiB
    if not rest:
        return NoteBook(text, ())
    notes = [f"{_HEADING}{note}\n" for note in rest]
    notes[-1] = notes[-1][:-1]
    return NoteBook(f"{first[1:]}\n" if first else "", notes)


def note_spans(data: bytes) -> list[tuple[int, int]]:
    """Return begin and end of each note of a MEMORY.md, in the order of `NoteBook.notes`, ready to be taken out.

    The blank line before it belongs to a note, as the host writes it. Raises UnicodeDecodeError.
    """
    text = data.removeprefix(BOM)
    book = parse_notes(text.decode())
    spans: list[tuple[int, int]] = []
    at = len(data) - len(text) + len(book.preface.encode())
    for note in book.notes:
        size = len(note.encode())
        spans.append(span_of(data, at, at + len(note.rstrip("\r\n").encode())))
        at += size
    return spans


def span_of(data: bytes, begin: int, end: int) -> tuple[int, int]:
    """Return what goes when a note goes: its lines, with one of the blank lines around it.

    Args:
        begin, end: of its lines, without the last line end.
    """
    after = data.find(b"\n", end) + 1 or len(data)
    if data[:begin].endswith((b"\n\n", b"\n\r\n")):
        return begin - (2 if data[:begin].endswith(b"\r\n") else 1), after
    if begin == 1 and data[:1] == b"\n":
        return 0, after
    following = data[after : after + 2]
    return begin, after + (2 if following == b"\r\n" else following[:1] == b"\n")


def author_of(note: str) -> str:
    """Return who signed a note, `NOBODY` when nobody did."""
    end = note.find("\n")
    end = len(note) if end < 0 else end
    begin = note.rfind(" (", 0, end)
    return _signer(note[begin:end]) if begin >= 0 else NOBODY


def is_pinned(note: str) -> bool:
    """Return whether somebody wrote `(pinned)` into a note: into its text, or before its signature."""
    return PINNED in note


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
