"""The notes of a MEMORY.md as operations name them: by ids, with what they say and what may be done with them. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from honeybadger_agent.mailbox import HUMAN, OPERATOR
from honeybadger_host.domain import MEMORY
from honeybadger_host.memory.notes import NOBODY, SIGNED, is_pinned, note_spans
from honeybadger_host.search.pieces import pieces_of
from honeybadger_host.search.sources import Source
from honeybadger_host.storage.file_cache import NEVER_SEEN

NOTE_ID: Final = f"{MEMORY}#"
A_PERSON: Final = "a person wrote it"
PINNED: Final = "it is pinned"
"""Why something is protected."""
_PEOPLE: Final = (NOBODY, HUMAN, OPERATOR)


@dataclass(frozen=True, slots=True)
class NotePlace:
    """A note as it stands in MEMORY.md, with the span that goes when it goes; its author may be `NOBODY`."""

    span: tuple[int, int]
    section: str
    author: str
    text: str
    is_pinned: bool

    @property
    def digest(self) -> str:
        """SHA-256 of what it says."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def notes_of(group: str, data: bytes) -> dict[str, NotePlace]:
    """Return the notes of a MEMORY.md by their ids; none when it is not UTF-8."""
    try:
        spans = note_spans(data)
    except UnicodeDecodeError:
        return {}
    pieces = pieces_of(Source(f"groups/{group}/{MEMORY}", "note", group), data, NEVER_SEEN)
    found: dict[str, NotePlace] = {}
    for piece, span in zip(pieces[len(pieces) - len(spans) :], spans, strict=True):
        note = data[slice(*span)].decode()
        is_signed = SIGNED.fullmatch(note.strip().partition("\n")[0]) is not None
        text = piece.text.removeprefix("- ").replace("\n  ", "\n") if is_signed else piece.text.removeprefix("- ")
        author = piece.author if is_signed else NOBODY
        found[f"{NOTE_ID}{piece.key}"] = NotePlace(span, piece.names[0], author, text, is_pinned(note))
    return found


def digests_of(notes: Mapping[str, NotePlace]) -> dict[str, str]:
    """Return id -> SHA-256 of what each note says."""
    return {note: place.digest for note, place in notes.items()}


def protected_notes(notes: Mapping[str, NotePlace]) -> dict[str, str]:
    """Return id -> why only a person may touch it: nobody but a person signed it, or it is pinned."""
    return {
        note: A_PERSON if place.author in _PEOPLE else PINNED
        for note, place in notes.items()
        if place.author in _PEOPLE or place.is_pinned
    }
