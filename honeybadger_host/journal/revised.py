"""Notes that leave a file, return to it or change in it: the decisions, and their rows in the journal.

See docs/decisions/026-removing-notes.md; `revised_files` writes it. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Final, Literal, NamedTuple

import orjson

from honeybadger_host.journal.atomic_files import ABSENT, WHOLE_KINDS, fingerprint
from honeybadger_host.journal.changes import EDIT_UNDONE, NOTE_EDITED, NOTE_REMOVED, NOTE_RESTORED, NotesRevised
from honeybadger_host.journal.line_hunks import Hunk, apply_hunks, lines_of, reversed_hunks
from honeybadger_host.journal.schema import EDIT_KINDS, Row

LINE_KINDS: Final = frozenset((EDIT_UNDONE, NOTE_EDITED))  # kinds of rows that name replaced lines
# Kinds of rows that take notes or lines out of a file or put them back; `Row.offset` is the fingerprint of what was
# there.
REVISED_KINDS: Final = LINE_KINDS | {NOTE_REMOVED, NOTE_RESTORED}


@dataclass(frozen=True, slots=True)
class NotePlace:
    """A note as written in a file, with the blank line before it.

    Args:
        at: its offset in the text that has it and all other notes of the same change.
        above: fingerprint of the text above it without the notes of the change.
    """

    at: int
    text: str
    above: int = 0

    @property
    def data(self) -> bytes:
        return self.text.encode()


class Revision(NamedTuple):
    """A revision as the journal keeps it.

    Args:
        size: of the new text; `to` is its fingerprint.
        hunks: lines that took the place of others, of `LINE_KINDS`.
    """

    size: int
    to: int
    notes: list[NotePlace]
    hunks: Sequence[Hunk] = ()


# ------------------------------------------------------------------------------------------------------------- deciding


def remove_notes(group: str, file: str, base: bytes, spans: Sequence[tuple[int, int]]) -> NotesRevised:
    """Return the change that takes notes out of a file.

    Args:
        base: what the file holds.
        spans: begin and end of each note, in order, each apart from the others.
    Raises ValueError: a note is not UTF-8.
    """
    text = bytearray()
    notes: list[NotePlace] = []
    end = 0
    for begin, after in spans:
        text += base[end:begin]
        notes.append(NotePlace(begin, base[begin:after].decode(), fingerprint(bytes(text))))
        end = after
    text += base[end:]
    return _revised(group, file, base, bytes(text), notes, NOTE_REMOVED)


def restore_notes(group: str, file: str, base: bytes, removed: Sequence[NotePlace]) -> NotesRevised:
    """Return the change that puts notes back: at their places where all above is as it was, else at the end."""
    shifts = accumulate((len(note.data) for note in removed), initial=0)
    places = [note.at - shift for note, shift in zip(removed, shifts, strict=False)]
    text = bytearray()
    notes: list[NotePlace] = []
    last: list[NotePlace] = []
    end = 0
    for place, note in zip(places, removed, strict=True):
        if place < end or fingerprint(base[:place]) != note.above:
            last.append(note)
            continue
        text += base[end:place]
        notes.append(NotePlace(len(text), note.text, note.above))
        text += note.data
        end = place
    text += base[end:]
    for note in last:
        notes.append(NotePlace(len(text), note.text, fingerprint(base)))
        text += note.data
    return _revised(group, file, base, bytes(text), notes, NOTE_RESTORED)


def edit_note(group: str, file: str, base: bytes, span: tuple[int, int], note: bytes) -> NotesRevised:
    """Return the change that gives a note another text, in its place and with the blank lines around it.

    Args:
        span: of the note in `base`, see `remove_notes`.
        note: as it would be appended.
    Raises ValueError: a line is not UTF-8.
    """
    begin, end = base.rfind(b"\n", 0, span[0]) + 1, span[1]
    old = base[begin:end]
    new = old.replace(base[slice(*span)].strip(b"\r\n"), note.strip(b"\n"), 1)
    hunk = Hunk(base.count(b"\n", 0, begin), lines_of(old), lines_of(new))
    return put_back_lines(group, file, base, [hunk], NOTE_EDITED)


def put_back_lines(
    group: str,
    file: str,
    base: bytes,
    hunks: Sequence[Hunk],
    kind: Literal["edit_undone", "note_edited"] = EDIT_UNDONE,
) -> NotesRevised:
    """Return the change that lets lines take the place of others in a file that the host adds to.

    Args:
        hunks: of the lines of `base`.
    Raises ValueError: a line is not UTF-8.
    """
    text = b"".join(apply_hunks(lines_of(base), hunks))
    told = [[hunk.at, *([line.decode() for line in side] for side in hunk[1:])] for hunk in hunks]
    data = orjson.dumps({"size": len(text), "to": fingerprint(text), "notes": [], "hunks": told})
    return NotesRevised(group, file, base, text, data, kind)


def _revised(
    group: str,
    file: str,
    base: bytes,
    text: bytes,
    notes: Sequence[NotePlace],
    kind: Literal["note_removed", "note_restored"],
) -> NotesRevised:
    data = orjson.dumps({"size": len(text), "to": fingerprint(text), "notes": notes}, default=asdict)
    return NotesRevised(group, file, base, text, data, kind)


# ------------------------------------------------------------------------------------------------------ reading a row


def is_append(row: Row) -> bool:
    """Return whether a change added something at the end of its file."""
    return not (row.kind in WHOLE_KINDS or row.kind in REVISED_KINDS or row.kind in EDIT_KINDS)


def is_first(row: Row) -> bool:
    """Return whether there was no such file before a change, or an empty one."""
    return row.kind not in REVISED_KINDS and row.offset == (0 if is_append(row) else ABSENT)


def revision_of(data: bytes) -> Revision:
    """Return what a row says."""
    value = orjson.loads(data)
    hunks = [Hunk(at, *([line.encode() for line in side] for side in sides)) for at, *sides in value.get("hunks", ())]
    return Revision(value["size"], value["to"], [NotePlace(**note) for note in value["notes"]], hunks)


def count_notes(kind: str, data: bytes) -> Counter[bytes]:
    """Return how many more of each note, as it is appended, a row leaves in its file; fewer are negative."""
    sign = 1 if kind == NOTE_RESTORED else -1
    counts: Counter[bytes] = Counter()
    revision = revision_of(data)
    signed = [(note.data, sign) for note in revision.notes]
    for hunk in revision.hunks if kind == NOTE_EDITED else ():  # what a person took out was never counted
        signed += (b"".join(hunk.removed), -1), (b"".join(hunk.added), 1)
    for note, count in signed:
        counts[b"\n" + note.strip(b"\n") + b"\n"] += count
    return counts


def new_text(held: bytes, row: Row) -> bytes:
    """Return what a row makes of the text it was decided upon."""
    revision = revision_of(row.data)
    if row.kind in LINE_KINDS:
        return b"".join(apply_hunks(lines_of(held), revision.hunks))
    return _with_notes(held, revision.notes) if row.kind == NOTE_RESTORED else _without_notes(held, revision.notes)


def old_text(text: bytes, row: Row) -> bytes:
    """Return what a row was decided upon, if it made this text."""
    revision = revision_of(row.data)
    if row.kind in LINE_KINDS:
        return undo_hunks(text, revision.hunks)
    return _without_notes(text, revision.notes) if row.kind == NOTE_RESTORED else _with_notes(text, revision.notes)


def undo_hunks(text: bytes, hunks: Sequence[Hunk]) -> bytes:
    """Return what hunks made a text of. Raises ValueError: they made another one."""
    return b"".join(apply_hunks(lines_of(text), reversed_hunks(hunks)))


def _with_notes(text: bytes, notes: Sequence[NotePlace]) -> bytes:
    for note in notes:
        text = text[: note.at] + note.data + text[note.at :]
    return text


def _without_notes(text: bytes, notes: Sequence[NotePlace]) -> bytes:
    for note in reversed(notes):
        text = text[: note.at] + text[note.at + len(note.data) :]
    return text
