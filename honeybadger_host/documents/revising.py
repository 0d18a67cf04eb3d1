"""Notes that leave a file, return to it or change in it (docs/decisions/026-removing-notes.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import orjson

from honeybadger_host.documents.history import around, read_past
from honeybadger_host.documents.merge import Overlapping, is_note, merge_lines, units_of
from honeybadger_host.journal.changes import NOTE_EDITED, NOTE_REMOVED, NotesRevised, RevisedKind
from honeybadger_host.journal.edits import edit_of, packed_hunks
from honeybadger_host.journal.line_hunks import Hunk, hunks_between, lines_of, reversed_hunks, text_with
from honeybadger_host.journal.schema import Row


def revise(group: str, file: str, base: bytes, text: bytes, kind: RevisedKind) -> NotesRevised:
    """Return the change that gives a file another text, note by note.

    Args:
        base: what the file holds.
    """
    units = units_of(base)
    firsts = [*accumulate((unit.count(b"\n") for unit in units), initial=0)]
    hunks: list[Hunk] = []
    for at, removed, added in hunks_between(units, units_of(text)):
        hunks.append(Hunk(firsts[at], lines_of(b"".join(removed)), lines_of(b"".join(added))))
    return NotesRevised(group, file, base, text, orjson.dumps({"hunks": packed_hunks(hunks)}), kind)


def remove_notes(group: str, file: str, base: bytes, spans: Sequence[tuple[int, int]]) -> NotesRevised:
    """Return the change that takes notes out of a file.

    Args:
        spans: begin and end of each note, in order, each apart from the others.
    """
    text = base
    for begin, end in reversed(spans):
        text = text[:begin] + text[end:]
    return revise(group, file, base, text, NOTE_REMOVED)


def edit_note(group: str, file: str, base: bytes, span: tuple[int, int], note: bytes) -> NotesRevised:
    """Return the change that gives a note another text, in its place and with the blank lines around it.

    Args:
        span: of the note in `base`, see `remove_notes`.
        note: as it would be appended.
    """
    begin, end = span
    made = base[begin:end].replace(base[begin:end].strip(b"\r\n"), note.strip(b"\n"), 1)
    return revise(group, file, base, base[:begin] + made + base[end:], NOTE_EDITED)


def notes_in(lines: Iterable[bytes]) -> list[bytes]:
    """Return the notes in some lines, as they are signed."""
    return [unit for unit in units_of(b"".join(lines)) if is_note(unit)]


class Removal(NamedTuple):
    """A change that took notes out of a file.

    Args:
        after: the file right after it; None: that is not known.
    """

    hunks: Sequence[Hunk]
    after: bytes | None

    @property
    def notes(self) -> list[bytes]:
        return [note for hunk in self.hunks for note in notes_in(hunk.removed)]

    def undone(self, held: bytes, gone: Sequence[bytes]) -> bytes:
        """Return a text with some of its notes again: at their places, or at the end where these are not as they were.

        Args:
            gone: the notes that are to come back.
        """
        if self.after is not None and len(gone) == len(self.notes):
            with suppress(Overlapping):
                return merge_lines(self.after, held, text_with(self.after, reversed_hunks(self.hunks)))
        return held + b"".join(b"\n" + note.strip(b"\r\n") + b"\n" for note in gone)


def removal_of(journal: Path, row: Row) -> Removal:
    """Return the lines that a change removed from its file. Raises JournalError."""
    _, after = around(read_past(journal, row.file), row.seq)
    return Removal(edit_of(row).hunks or (), after.text if after.is_known else None)
