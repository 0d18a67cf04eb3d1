"""Notes as a context shows them: equal notes once, notes of one section and author below one heading. Pure.

A heading that several notes share has no time. Each of these notes begins with its own time, without the year or day
that it has in common with the note before. The file is not changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from honeybadger_agent.mailbox import HUMAN
from honeybadger_agent.quoting import quoted, set_apart
from honeybadger_agent.wording import count_of
from honeybadger_host.memory.markdown.notes import PREFACE, EditedBy, Note, NoteBook, with_appended
from honeybadger_host.text.neutralise import estimate_tokens

_MAX_OTHERS = 5  # further authors and times that are named with a repeated note


class Together(NamedTuple):
    """Notes ready for a context.

    Args:
        repeated: number of notes that are folded into an equal one.
        has_preface: the text above the notes is in it.
    """

    text: str
    repeated: int
    has_preface: bool

    @property
    def why(self) -> str | None:
        """Return what became of repeated notes, or None if there are none."""
        folded = f"{count_of(self.repeated, 'repeated note')} folded into the newest that says the same"
        return folded if self.repeated else None


def together(book: NoteBook, places: Iterable[int], instead: Mapping[int, str] = MappingProxyType({})) -> Together:
    """Return some notes of a file as blocks, in the order of their first notes.

    Unsigned text is shown as it is written; a person's text below a signed note gets a heading. Equal notes are shown
    once, at the place of the last.

    Args:
        instead: place -> text to show for it.
    """
    blocks: dict[int, str] = {}
    said: dict[tuple[str, str], list[Note]] = {}
    groups: dict[tuple[str, str], list[list[Note]]] = {}
    begins: dict[tuple[str, str], int] = {}
    for place in sorted(places, reverse=True):
        note = None if place in instead else book.signed(place)
        if note is None:
            blocks[place] = instead.get(place) or _as_written(book, place)
            continue
        what = note.section, note.content
        if (sayings := said.get(what)) is not None:
            sayings.append(note)
            continue
        said[what] = sayings = [note]
        group = note.section, note.author
        groups.setdefault(group, []).append(sayings)
        begins[group] = place
    for group, notes in groups.items():
        blocks[begins[group]] = _block(notes[::-1])
    text = "\n\n".join(block for place in sorted(blocks) if (block := blocks[place].strip("\n")).strip())
    return Together(text, sum(map(len, said.values())) - len(said), PREFACE in blocks)


def alone(book: NoteBook, place: int) -> str:
    """Return a note, or the preface, as a context shows it without other notes."""
    note = book.signed(place)
    return _as_written(book, place) if note is None else _block([[note]])


def _as_written(book: NoteBook, place: int) -> str:
    """Return an unsigned text in which no line looks like one of the context itself.

    Text below a signed note gets a heading with its author.
    """
    if place == PREFACE:
        return set_apart(book.preface)
    text = set_apart(book.notes[place])
    if (above := book.above(place)) is None:
        return text
    edited = book.edited.get(book.notes[place].strip(), EditedBy(HUMAN, ""))
    heading = _heading(above._replace(author=edited.author), f", {edited.at}" if edited.at else "")
    body = text.strip("\r\n")
    return f"{heading}{body}\n"


def _block(group: Sequence[Sequence[Note]]) -> str:
    """Return the notes of one section and author below their heading.

    Args:
        group: oldest first, each followed by the earlier notes that are equal to it.
    """
    newest = group[0][0]
    if len(group) == 1:
        return f"{_heading(newest, f', {newest.at}{_others(group[0])}')}- {newest.quoted}\n"
    lines = [_heading(newest, "")]
    before = ""
    for sayings in group:
        note = sayings[0]
        lines.append(f"- {_time(note.at, before)}{_others(sayings)}: {note.quoted}\n")
        before = note.at
    return "".join(lines)


def _heading(note: Note, at: str) -> str:
    return f"## {quoted(f'{note.section} ({note.author}{at})')}\n"


def _others(sayings: Sequence[Note]) -> str:
    """Return the other authors of the same note and their times, latest first, without the author in the heading."""
    more = len(sayings) - 1 - _MAX_OTHERS
    named = "".join(_other(note, sayings[0]) for note in sayings[1 : 1 + _MAX_OTHERS])
    return f"{named}, and {more} more" if more > 0 else named


def _other(note: Note, newest: Note) -> str:
    by = "" if note.author == newest.author else f"{note.author} "
    return f"; also {by}{_time(note.at, newest.at)}"


def _time(at: str, before: str) -> str:
    """Return `2026-11-21 06:05` without the year or the day that it has in common with another time."""
    if at[:10] == before[:10]:
        return at[11:]
    return at[5:] if at[:4] == before[:4] else at


# --------------------------------------------------------------------------------------------------------------- costs


class NotesInContext:
    """The notes of a file, ready for contexts. Any thread."""

    def __init__(self, book: NoteBook) -> None:
        self.book = book

    def with_appended(self, text: str) -> NotesInContext:
        """Return the notes of a file that has `text` in addition at its end."""
        return NotesInContext(with_appended(self.book, text))

    @cached_property
    def whole(self) -> Together:
        return together(self.book, self.book.places)

    def costs(self, author: str) -> Iterator[int]:
        """Yield the approximate tokens of each note of an author, newest first, as if nobody else said the same."""
        headed: set[str] = set()
        said: set[tuple[str, str]] = set()
        for place in self.book.by_author[author]:
            note = self.book.signed(place)
            if note is None:
                yield estimate_tokens(_as_written(self.book, place)) + 1
                continue
            what = note.section, note.content
            if what in said:
                yield 0
                continue
            said.add(what)
            heading = 0 if note.section in headed else estimate_tokens(_heading(note, "")) + 1
            headed.add(note.section)
            yield heading + note.tokens + 1
