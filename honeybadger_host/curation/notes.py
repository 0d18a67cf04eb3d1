"""The notes of a MEMORY.md by the ids that operations name, with their texts and protection. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from honeybadger_agent.mailbox import HUMAN, OPERATOR
from honeybadger_host.files.file_cache import NEVER_SEEN
from honeybadger_host.files.home import MEMORY
from honeybadger_host.memory.markdown.notes import NOBODY, SIGNED, is_pinned, note_spans
from honeybadger_host.search.pieces import pieces_of
from honeybadger_host.search.sources import Source

NOTE_ID: Final = f"{MEMORY}#"
# Reasons for protection.
A_PERSON: Final = "a person wrote it"
PINNED: Final = "it is pinned"
_PEOPLE: Final = (NOBODY, HUMAN, OPERATOR)


@dataclass(frozen=True, slots=True)
class NotePlace:
    """A note in MEMORY.md, with the span that is removed with it; its author may be `NOBODY`."""

    span: tuple[int, int]
    section: str
    author: str
    text: str
    is_pinned: bool


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


def protected_notes(notes: Mapping[str, NotePlace]) -> dict[str, str]:
    """Return id -> why only a person may change it: a person wrote it, or it is pinned."""
    return {
        note: A_PERSON if place.author in _PEOPLE else PINNED
        for note, place in notes.items()
        if place.author in _PEOPLE or place.is_pinned
    }
