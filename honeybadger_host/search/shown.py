"""How hits are shown: name, score by signal, and last editor."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from honeybadger_host.errors import FileProblem
from honeybadger_host.memory.markdown.group_files import GroupFiles
from honeybadger_host.memory.markdown.notes import EditedBy
from honeybadger_host.search.lookups import Found
from honeybadger_host.search.pieces import as_found

if TYPE_CHECKING:
    from honeybadger_host.search.scoring import Hit

_TEXT: Final = frozenset(("terms", "around", "session"))  # signals of the text itself, see `scoring`


def name_of(found: Found) -> str:
    """Return a hit's name: an entry's id, `session#number` of a turn, `MEMORY.md#hash` of a note."""
    match found.kind:
        case "entry":
            return found.key
        case "turn":
            return f"{found.session}#{found.key}"
        case _:
            return f"{found.file.rpartition('/')[2]}#{found.key}"


def earned(hit: Hit) -> dict[str, Any]:
    """Return a hit's score and its parts, as shown.

    A document that is not a turn has no text around it: its own text counts instead, and is shown as one part.
    """
    points = {name: round(value, 3) for name, value in hit.parts.items()}
    if hit.kind != "turn":
        text = sum(value for name, value in hit.parts.items() if name in _TEXT)
        points = {"terms": round(text, 3), **{name: value for name, value in points.items() if name not in _TEXT}}
    words = {word: round(value, 3) for word, value in hit.terms.items()}
    return {"score": round(hit.score, 3), "points": points, "words": words}


def edited_notes(files: GroupFiles, file: str) -> Mapping[tuple[str, str], EditedBy]:
    """Return author and text of a note, as search finds it -> the person who edited it, and when."""
    with suppress(FileProblem):
        if (text := files.read(file)) is not None:
            return {as_found(note): edited for note, edited in text.edited.items()}
    return {}
