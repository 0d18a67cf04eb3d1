"""The notes of a MEMORY.md by the ids that searches show, with their places and texts. Pure."""

from dataclasses import dataclass

from honeybadger_host.files.file_cache import NEVER_SEEN
from honeybadger_host.files.home import MEMORY
from honeybadger_host.memory.markdown.notes import NOBODY, SIGNED, is_pinned, note_spans
from honeybadger_host.search.pieces import pieces_of
from honeybadger_host.search.sources import Source

NOTE_ID = f"{MEMORY}#"


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
        found[f"{NOTE_ID}{piece.key}"] = NotePlace(
            span, piece.names[0], piece.author if is_signed else NOBODY, text, is_pinned(note)
        )
    return found
