"""The notes of a MEMORY.md that a person changed: their words are not the signer's.

They are found by the lines of recorded edits. So an agent's note counts as edited, too, if a person typed one of its
lines elsewhere in the file. `blame` follows each line through all versions, but that takes too long for a context.
"""

import contextlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from honeybadger_host.errors import HostError
from honeybadger_host.files.home import MEMORY
from honeybadger_host.journal.edits import EditReader, edit_of
from honeybadger_host.journal.schema import Row
from honeybadger_host.memory.markdown.notes import NOT_EDITED, PINNED, EditedBy, parse_notes


def with_typed(typed: Mapping[str, EditedBy], edits: Iterable[Row]) -> Mapping[str, EditedBy]:
    """Return line -> who typed it last, and when. A line that an edit only moved or pinned is not typed."""
    found = dict(typed)
    for row in edits:
        hunks = edit_of(row).hunks or ()
        before = {_unpinned(line) for hunk in hunks for line in hunk.removed}
        who = EditedBy(row.sender, f"{datetime.fromtimestamp(row.at / 1000, UTC):%Y-%m-%d %H:%M}")
        for line in (line for hunk in hunks for line in hunk.added):
            if line.strip() and _unpinned(line) not in before:
                found[line.rstrip(b"\r\n").decode("utf-8", "replace")] = who
    return found


def _unpinned(line: bytes) -> bytes:
    return line.replace(PINNED.encode(), b"").rstrip()


def edited_notes(text: str, typed: Mapping[str, EditedBy]) -> Mapping[str, EditedBy]:
    """Return text of a note -> who changed it last, for the notes with a typed line; see `NoteBook.edited`.

    A person who changes only a note's heading does not become the author of its words.
    """
    if not typed:
        return NOT_EDITED
    found: dict[str, EditedBy] = {}
    book = parse_notes(text)
    for place, note in enumerate(book.notes):
        lines = [line.rstrip("\r") for line in note.split("\n")]
        if typed.keys().isdisjoint(lines):
            continue
        signed = book.signed(place)
        if signed is None and book.above(place) is None:
            continue
        since = signed.at if signed is not None and lines.pop(0) not in typed else ""
        edits = [typed[line] for line in lines if line in typed and typed[line].at >= since]
        if edits:
            found[note.strip()] = max(edits, key=lambda one: one.at)
    return found


class EditedNotes:
    """The edited notes of all files of a home. Any thread."""

    def __init__(self, reader: EditReader) -> None:
        self._reader = reader
        # File -> the last edit that was read, and the result of `with_typed` up to it.
        self._typed: dict[str, tuple[int, Mapping[str, EditedBy]]] = {}

    def of(self, file: str, text: str) -> Mapping[str, EditedBy]:
        """Return `edited_notes` of a file with this text; edits that cannot be read are read next time."""
        if not file.endswith(f"/{MEMORY}"):
            return NOT_EDITED
        last, typed = self._typed.get(file, (0, NOT_EDITED))
        with contextlib.suppress(HostError):
            if edits := self._reader.edits_of([file], last):
                typed = with_typed(typed, edits)
                self._typed[file] = edits[-1].seq, typed
        return edited_notes(text, typed)
