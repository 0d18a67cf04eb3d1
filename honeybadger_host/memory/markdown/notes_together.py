"""Notes as a context shows them: equal notes once, notes of one section and author below one heading. Pure.

A heading that several notes share has no time. Each of these notes begins with its own time, without the year or day
that it has in common with the note before. The file is not changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Final, NamedTuple

from honeybadger_agent.quoting import quoted, set_apart
from honeybadger_agent.wording import count_of
from honeybadger_host.memory.markdown.notes import NOBODY, PREFACE, Note, NoteBook, with_appended
from honeybadger_host.text.neutralise import estimate_tokens

_MAX_OTHERS: Final = 5  # further authors and times that are named with a repeated note
_MORE_TOKENS: Final = 6  # upper bound for the tokens of `and 12 more`


class Together(NamedTuple):
    """Notes ready for a context.

    Args:
        notes: number of signed notes in the text.
        headings: number of headings above these.
        repeated: number of notes that are folded into an equal one.
        of_others: how many of these are folded into a note of another author.
        has_preface: the text above the notes is in it.
    """

    text: str
    notes: int = 0
    headings: int = 0
    repeated: int = 0
    of_others: int = 0
    has_preface: bool = False

    @property
    def why(self) -> str | None:
        """Return a description of the differences from the file, or None if there are none."""
        shared = self.headings < self.notes - self.repeated
        parts = [f"{count_of(self.notes, 'note')} under {count_of(self.headings, 'heading')}"] if shared else []
        if self.repeated:
            parts.append(f"{count_of(self.repeated, 'repeated note')} folded into the newest that says the same")
        return ", ".join(parts) or None


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
    repeated = of_others = 0
    for place in sorted(places, reverse=True):
        note = None if place in instead else book.signed(place)
        if note is None:
            blocks[place] = instead.get(place) or _as_written(book, place)
            continue
        what = note.section, note.content
        if (sayings := said.get(what)) is not None:
            sayings.append(note)
            repeated += 1
            of_others += note.author != sayings[0].author
            continue
        said[what] = sayings = [note]
        group = note.section, note.author
        if group in groups:
            groups[group].append(sayings)
        else:
            groups[group] = [sayings]
        begins[group] = place
    for group, notes in groups.items():
        blocks[begins[group]] = _block(notes[::-1])
    text = "\n\n".join(block for place in sorted(blocks) if (block := blocks[place].strip("\n")).strip())
    return Together(text, len(said) + repeated, len(groups), repeated, of_others, PREFACE in blocks)


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
    edited = book.written_below(place)
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
        lines.append(_line(sayings[0], before, _others(sayings) if len(sayings) > 1 else ""))
        before = sayings[0].at
    return "".join(lines)


def _heading(note: Note, at: str) -> str:
    return f"## {quoted(f'{note.section} ({note.author}{at})')}\n"


def _line(note: Note, before: str, others: str = "") -> str:
    return f"- {_time(note.at, before)}{others}: {note.quoted}\n"


def _others(sayings: Sequence[Note]) -> str:
    """Return the other authors of the same note and their times, latest first, without the author in the heading."""
    more = len(sayings) - 1 - _MAX_OTHERS
    named = "".join(_other(note, sayings[0]) for note in sayings[1 : 1 + _MAX_OTHERS])
    return f"{named}, and {more} more" if more > 0 else named


def _other(note: Note, newest: Note) -> str:
    by = "" if note.author == newest.author else f"{note.author} "
    return f"; also {by}{_time(note.at, newest.at)}"


def _other_at_most(note: Note) -> str:
    return f"; also {note.author} {note.at}"


def _time(at: str, before: str) -> str:
    """Return `2026-11-21 06:05` without the year or the day that it has in common with another time."""
    if at[:10] == before[:10]:
        return at[11:]
    return at[5:] if at[:4] == before[:4] else at


# --------------------------------------------------------------------------------------------------------------- costs


@dataclass(slots=True)
class _Costs:
    """The tokens of an author's newest notes, computed as far as they were needed.

    Args:
        totals: estimated tokens of each note with all newer ones.
        oldest: section -> time of the oldest note so far.
        said: (section, content) -> number of such notes so far.
    """

    totals: list[int] = field(default_factory=list)
    oldest: dict[str, str] = field(default_factory=dict)
    said: dict[tuple[str, str], int] = field(default_factory=dict)

    def copy(self) -> _Costs:
        return _Costs(self.totals.copy(), self.oldest.copy(), self.said.copy())

    def of(self, book: NoteBook, place: int, *, is_alone: bool) -> int:
        """Return an upper bound for the tokens that a note adds to a context with all newer notes of its author.

        Args:
            is_alone: no other author has signed notes.
        """
        note = book.signed(place)
        if note is None:
            return estimate_tokens(_as_written(book, place) + "\n") + 1
        what = note.section, note.content
        times = self.said.get(what, 0)
        self.said[what] = times + 1
        if times:
            if times <= _MAX_OTHERS:
                return estimate_tokens(_other_at_most(note)) + 1
            return _MORE_TOKENS if times == _MAX_OTHERS + 1 else 0
        above = "" if note.section in self.oldest else _heading(note, "") + "\n"
        cost = estimate_tokens(above + _line(note, self.oldest.get(note.section, ""))) + 1
        self.oldest[note.section] = note.at
        if is_alone:
            return cost
        # An equal note of another author may replace it; then the next note cannot shorten its time, either.
        return max(cost, estimate_tokens(_other_at_most(note)) + estimate_tokens(note.at) + 2)


class NotesInContext:
    """The notes of a file, ready for contexts. Any thread: computed values are replaced as a whole."""

    def __init__(self, book: NoteBook) -> None:
        self.book = book
        self._costs: dict[str, _Costs] = {}

    def with_appended(self, text: str) -> NotesInContext:
        """Return the notes of a file that has `text` in addition at its end; other authors' notes cost the same."""
        made = NotesInContext(with_appended(self.book, text))
        if made.is_alone == self.is_alone:
            made._costs = {author: costs for author, costs in self._costs.items() if made._has_same(self, author)}
        return made

    def _has_same(self, before: NotesInContext, author: str) -> bool:
        """Return whether an author's notes are the same in another file that this one goes on from."""
        places = before.book.by_author[author]
        is_same = self.book.by_author.get(author) == places
        return is_same and places[0] != PREFACE and self.book.notes[places[0]] == before.book.notes[places[0]]

    @property
    def is_alone(self) -> bool:
        """Whether one author signed all signed notes."""
        return len(self.book.counts) - (NOBODY in self.book.counts) == 1

    @cached_property
    def whole(self) -> Together:
        return together(self.book, self.book.places)

    def totals(self, author: str, room: float) -> Sequence[int]:
        """Return running totals of tokens of an author's notes, newest first, at least up to the first over the room.

        Each total is an upper bound, whichever notes of others are shown.
        """
        places = self.book.by_author[author]
        costs = self._costs.get(author) or _Costs()
        total = costs.totals[-1] if costs.totals else 0
        if total <= room and len(costs.totals) < len(places):
            costs, is_alone = costs.copy(), self.is_alone
            for place in places[len(costs.totals) :]:
                total += costs.of(self.book, place, is_alone=is_alone)
                costs.totals.append(total)
                if total > room:
                    break
            self._costs[author] = costs
        return costs.totals
