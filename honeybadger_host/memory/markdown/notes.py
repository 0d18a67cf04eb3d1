"""MEMORY.md as notes: where one ends and the next begins, and who signed it. Pure."""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from operator import neg
from types import MappingProxyType
from typing import NamedTuple

from honeybadger_agent.quoting import quoted
from honeybadger_host.text.json_values import BOM
from honeybadger_host.text.neutralise import estimate_tokens

_HEADING = "## "
_SIGNATURE = re.compile(r" \((?P<author>[^(),]+), (?P<at>\d{4}-\d\d-\d\d \d\d:\d\d)\)\s*")
# The first line of a note that the host wrote.
SIGNED = re.compile(rf"## (?P<section>.*){_SIGNATURE.pattern}")
PREFACE = -1  # place of the text above the notes
_MAX_KEPT_LENGTH = 500  # a note with more characters is parsed each time
PINNED = "(pinned)"
NOBODY = ""  # author of unsigned text, which people write into the file


class Note(NamedTuple):
    """A signed note.

    Args:
        at: as in the file, `2026-11-21 06:05`.
        content: without the dash and the indentation of its lines.
        quoted: the content as a context shows it.
        tokens: estimate for these and the time.
    """

    section: str
    author: str
    at: str
    content: str
    quoted: str
    tokens: int


class EditedBy(NamedTuple):
    """The person who changed a note last, and when, in the form of a note: `2026-11-21 06:05`."""

    author: str
    at: str


NOT_EDITED: Mapping[str, EditedBy] = MappingProxyType({})


@dataclass(frozen=True)
class NoteBook:
    """A MEMORY.md, cut at its second-level headings and after the host's text of each signed note.

    Args:
        preface: the text before the first heading; may be empty.
        notes: oldest first, each with its heading and the blank line after it. Text that a person wrote below a signed
            note is a separate note without a heading.
        edited: text of a note, stripped -> the person who changed it.
    """

    preface: str
    notes: Sequence[str]
    edited: Mapping[str, EditedBy] = field(default_factory=lambda: NOT_EDITED)

    @cached_property
    def places(self) -> Sequence[int]:
        """Places of the preface and the notes; a signed heading without text is not a note: a person deleted that."""
        preface = [PREFACE] if self.preface.strip() else []
        return preface + [place for place, note in enumerate(self.notes) if not _is_deleted(note)]

    def signed(self, place: int) -> Note | None:
        """Return the parts of a signed note, or None if it is unsigned. A person who changed it is its author."""
        if place == PREFACE or (note := signed(self.notes[place])) is None:
            return None
        edited = self.edited.get(self.notes[place].strip()) if self.edited else None
        return note if edited is None else note._replace(**edited._asdict())

    def above(self, place: int) -> Note | None:
        """Return the signed note above a person's text, or None if the place is anything else."""
        is_below = place > 0 and not self.notes[place].startswith(_HEADING)
        return signed(self.notes[place - 1]) if is_below else None

    def _author(self, note: str) -> str | None:
        """Return the author of a note; None: a person deleted its text."""
        heading, _, body = note.partition("\n")
        author = _author_in(heading)
        if author == NOBODY:
            return author
        if not body.strip():
            return None
        edited = self.edited.get(note.strip()) if self.edited else None
        return author if edited is None else edited.author

    @cached_property
    def by_author(self) -> Mapping[str, Sequence[int]]:
        """Author -> places of notes, newest first; the author of the newest first.

        The preface counts as the oldest unsigned note.
        """
        places = self._by_author(0)
        if self.preface.strip():
            places.setdefault(NOBODY, []).append(PREFACE)
        return places

    def _by_author(self, first: int) -> dict[str, list[int]]:
        """Return author -> places of notes, newest first, for the notes from a place on."""
        places: dict[str, list[int]] = {}
        for place in range(len(self.notes) - 1, first - 1, -1):
            if (author := self._author(self.notes[place])) is not None:
                places.setdefault(author, []).append(place)
        return places

    @cached_property
    def counts(self) -> Counter[str]:
        return +Counter({author: len(places) - (PREFACE in places[-1:]) for author, places in self.by_author.items()})


def parse_notes(text: str, edited: Mapping[str, EditedBy] = NOT_EDITED) -> NoteBook:
    """Return the parts of a MEMORY.md; joined in order they are the text again."""
    first, *rest = f"\n{text}".split(f"\n{_HEADING}")  # a regular expression takes ten times as long for 1 MiB
    if not rest:
        return NoteBook(text, (), edited)
    notes: list[str] = []
    for note in rest:
        notes.append(f"{_HEADING}{note}\n")
        if note.count("\n", 0, -1) > 1:  # else it has one line below its heading
            own = len(_own_text(notes[-1]))
            if notes[-1][own:].strip():
                own = notes[-1].index("\n", own) + 1
                notes[-1:] = notes[-1][:own], notes[-1][own:]
    notes[-1] = notes[-1][:-1]
    return NoteBook(f"{first[1:]}\n" if first else "", notes, edited)


def with_appended(book: NoteBook, text: str) -> NoteBook:
    """Return a book whose file has `text` in addition at its end: only the last note is parsed again."""
    first = next((place for place in reversed(range(len(book.notes))) if book.notes[place].startswith(_HEADING)), 0)
    added = parse_notes("".join(book.notes[first:]) + text)
    if not first:
        return NoteBook(book.preface + added.preface, added.notes, book.edited)
    made = NoteBook(book.preface, [*book.notes[:first], *added.notes], book.edited)
    places = made._by_author(first)
    kept = [(author, old[bisect_right(old, -first, key=neg) :]) for author, old in book.by_author.items()]
    for author, old in sorted(kept, key=lambda each: [*each[1][:1]], reverse=True):
        if old:
            places[author] = [*places.get(author, ()), *old]
    vars(made)["by_author"] = places
    return made


def note_spans(data: bytes) -> list[tuple[int, int]]:
    """Return begin and end, in bytes, of each note of a MEMORY.md, in the order of `NoteBook.places`.

    A span has all bytes to remove with its note, one blank line next to it included. Raises UnicodeDecodeError.
    """
    text = data.removeprefix(BOM)
    book = parse_notes(text.decode())
    spans: list[tuple[int, int]] = []
    at = len(data) - len(text) + len(book.preface.encode())
    for note in book.notes:
        if not _is_deleted(note):
            own = note.lstrip("\r\n")
            begin = at + len(note) - len(own)
            spans.append(span_of(data, begin, begin + len(_own_text(own).encode())))
        at += len(note.encode())
    return spans


# The text of a note that the host wrote: a list item with indented lines below it; in the archive also a line that says
# why it was archived.
_ITEM = re.compile(r"- [^\n]*(?:\n(?:[ \t\r]*\n)*  [^\n]*)*(?:\n> Archived [^\n]*)?")


def _own_text(note: str) -> str:
    """Return a note's heading and list item, without text below them and without the last line end."""
    heading, end, body = note.partition("\n")
    item = _ITEM.match(body) if author_of(note) != NOBODY else None
    return f"{heading}{end}{item[0]}".rstrip("\r") if item else note.rstrip("\r\n")


def span_of(data: bytes, begin: int, end: int) -> tuple[int, int]:
    """Return the span to remove with a note: its lines and one of the blank lines around it.

    Args:
        begin, end: of its lines, in bytes, without the last line end.
    """
    after = data.find(b"\n", end) + 1 or len(data)
    if data.endswith((b"\n\n", b"\n\r\n"), 0, begin):
        return begin - (2 if data.endswith(b"\r\n", 0, begin) else 1), after
    if begin == 1 and data[:1] == b"\n":
        return 0, after
    following = data[after : after + 2]
    return begin, after + (2 if following == b"\r\n" else following[:1] == b"\n")


def standing_span(held: bytes, note: bytes) -> tuple[int, int] | None:
    """Return the span of a note in MEMORY.md, the last if there are several, or None if no note there is unchanged.

    Args:
        note: as it was written; blank lines around it do not matter.
    """
    note = note.strip(b"\r\n")
    for begin in begins_of(held, note):
        after = held[begin + len(note) :]
        if after[:1] in (b"", b"\n", b"\r") and not after.lstrip(b"\r").startswith(b"\n  "):
            return span_of(held, begin, begin + len(note))
    return None


def begins_of(text: bytes, part: bytes) -> Iterator[int]:
    """Yield the places where a part begins a line, the last first."""
    begin = text.rfind(part)
    while begin >= 0:
        if begin == 0 or text[begin - 1 : begin] == b"\n":
            yield begin
        begin = text.rfind(part, 0, begin + len(part) - 1)


def _is_deleted(note: str) -> bool:
    """Return whether only the signed heading of a note is left."""
    heading, _, body = note.partition("\n")
    return not body.strip() and _author_in(heading) != NOBODY


def author_of(note: str) -> str:
    """Return the name that signed a note, or `NOBODY`."""
    signature = _signature(note)
    return signature[1] if signature else NOBODY


# `author_of` for headings, cached: after a change of 1 MiB of notes 6,000 are asked for again, which takes 3 ms
# without the cache. It takes 4 MiB at most.
_author_in = lru_cache(maxsize=16_384)(author_of)


def signed(note: str) -> Note | None:
    """Return the parts of a signed note, or None if it is unsigned."""
    return _kept(note) if len(note) <= _MAX_KEPT_LENGTH else _signed(note)


def _signed(note: str) -> Note | None:
    signature = _signature(note)
    if signature is None:
        return None
    content = note[signature.end() :].strip("\n").removeprefix("- ")
    if "\n" in content:
        content = content.replace("\n  ", "\n")
    shown = quoted(content)
    tokens = estimate_tokens(f"- {signature[2]}: {shown}\n")
    return Note(note[len(_HEADING) : signature.start()], signature[1], signature[2], content, shown, tokens)


_kept = lru_cache(maxsize=4096)(_signed)  # a change of a file changes few of its notes; 6 MiB at most


def is_pinned(note: str) -> bool:
    """Return whether somebody wrote `(pinned)` into a note: into its text, or before its signature."""
    return PINNED in note


def with_pin(note: str, *, pinned: bool) -> str:
    """Return a note with `(pinned)` behind its text, or without it."""
    if pinned:
        return note if is_pinned(note) else f"{note.rstrip()} {PINNED}"
    return note.replace(f" {PINNED}", "").replace(PINNED, "").rstrip()


def _signature(note: str) -> re.Match[str] | None:
    if not note.startswith(_HEADING):
        return None
    end = note.find("\n")
    end = len(note) if end < 0 else end
    begin = note.rfind(" (", 0, end)
    return _SIGNATURE.fullmatch(note, begin, end) if begin >= 0 else None
