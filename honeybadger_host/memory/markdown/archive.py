"""The archive of a group: notes that left memory, with their signatures, and entries, each in its file. Pure."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from honeybadger_host.documents.history import Removal, remove_notes, revise
from honeybadger_host.files.home import ARCHIVE, MEMORY
from honeybadger_host.journal.changes import NOTE_RESTORED, Added, Change, FileRemoved, FileWritten, NotesRevised
from honeybadger_host.memory.entries.entry import Entry, dump_entry
from honeybadger_host.memory.markdown.notes import begins_of, span_of, standing_span
from honeybadger_host.text.neutralise import one_line
from honeybadger_host.text.time_stamps import time_stamp

_RETIRED = b"> Archived "


class Retired(NamedTuple):
    """A note that leaves MEMORY.md.

    Args:
        span: its begin and end in bytes, see `notes.note_spans`.
        why: what replaced it, or why it is archived; one line for people.
    """

    span: tuple[int, int]
    why: str


def archived_file(file: str) -> str:
    """Return the place in the archive of an entry's file."""
    group, rest = file.removeprefix("groups/").split("/", 1)
    return f"groups/{group}/archive/{rest}"


def archive_entry(
    group: str, file: str, entry: Entry, data: bytes, archived: bytes | None, *, by: str | None
) -> tuple[FileWritten, FileRemoved]:
    """Return the changes that move an entry to the archive.

    Args:
        data: the content of its file.
        archived: the content of its place in the archive; None: it is free.
        by: id of the entry that replaces it; None: none does, and its bytes stay as they are.
    """
    kept = data if by is None else dump_entry(replace(entry, superseded_by=by))
    return (
        FileWritten(group, "archived", archived_file(file), kept, archived),
        FileRemoved(group, "entry", file, data),
    )


def archive_notes(
    group: str, held: bytes, retired: Sequence[Retired], by: str, now: datetime
) -> tuple[NotesRevised | Added, ...]:
    """Return the changes that move notes from MEMORY.md to the archive. They must come first in a request.

    Args:
        held: the bytes of MEMORY.md that the spans were found in.
        retired: at least one; no two have the same span.
        by: who moves them.
    """
    retired = sorted(retired)
    removed = remove_notes(group, f"groups/{group}/{MEMORY}", held, [note.span for note in retired])
    archived: list[Added] = []
    for note in retired:
        text = held[slice(*note.span)].strip(b"\r\n")
        line = f"{time_stamp(now)} by {by}: {one_line(note.why).text}".encode()
        archived.append(Added.of("note_archived", group, b"\n%b\n%b%b\n" % (text, _RETIRED, line)))
    return removed, *archived


def archive_standing(
    group: str, held: bytes | None, notes: Iterable[bytes], why: str, by: str, now: datetime
) -> tuple[Change, ...]:
    """Return the changes that move those notes to the archive that stand unchanged in MEMORY.md; there may be none.

    Args:
        held: the bytes of MEMORY.md, None: there is none.
        notes: as they were written.
    """
    spans = {span for note in notes if (span := standing_span(held or b"", note)) is not None}
    return archive_notes(group, held or b"", [Retired(span, why) for span in spans], by, now) if spans else ()


def bring_back_notes(
    group: str, held: bytes | None, archive: bytes | None, removed: Sequence[Removal], gone: Sequence[bytes]
) -> tuple[Change, ...]:
    """Return the changes that put notes back into MEMORY.md, as they were signed, and take them out of the archive.

    They return to their old places if these are unchanged, else to the end; also when a person has removed them from
    the archive.

    Args:
        held: the bytes of MEMORY.md, None: there is none.
        archive: those of the archive.
        removed: the changes that took them out, newest first.
        gone: the notes to put back.
    """
    text = held or b""
    for removal in removed:
        text = removal.undone(text, [note for note in removal.notes if note in gone])
    file = f"groups/{group}/{MEMORY}"
    back = revise(group, file, held, text, NOTE_RESTORED) if held else Added.of("note", group, text)
    return back, *leave_archive(group, archive, gone)


def leave_archive(group: str, archive: bytes | None, notes: Iterable[bytes]) -> tuple[Change, ...]:
    """Return the change that removes notes from the archive; none if the archive has none of them.

    Args:
        notes: with their signatures.
    """
    spans: set[tuple[int, int]] = set()
    for note in notes:
        if (span := _archived_span(archive or b"", note, spans)) is not None:
            spans.add(span)
    return (remove_notes(group, f"groups/{group}/{ARCHIVE}", archive or b"", sorted(spans)),) if spans else ()


def _archived_span(archive: bytes, note: bytes, taken: Container[tuple[int, int]]) -> tuple[int, int] | None:
    """Return the last span in the archive, not in `taken`, of a note with its line that says why."""
    head = note.strip(b"\r\n") + b"\n" + _RETIRED
    spans = (span_of(archive, begin, begin + len(head)) for begin in begins_of(archive, head))
    return next((span for span in spans if span not in taken), None)
