"""`archive_memory`: the operator moves an entry or a note to the archive, where nothing recalls it."""

from __future__ import annotations

from datetime import datetime

from honeybadger_agent.wire import ArchiveMemory, Refusal
from honeybadger_host.curation.notes import NOTE_ID
from honeybadger_host.files.home import ARCHIVE
from honeybadger_host.handler_kinds import Asked, ChangeHandler, Outcome
from honeybadger_host.handlers.entries.places import EntryPlaces
from honeybadger_host.handlers.notes import memory_of, note_is_gone, signed_note
from honeybadger_host.memory.markdown.archive import Retired, archive_entry, archive_notes, archived_file

_WHY = "the operator archived it"


def archive_memory(places: EntryPlaces) -> ChangeHandler[tuple[bytes, tuple[int, int]] | None]:
    """Return the handler of `archive_memory`."""
    files = places.files

    def prepare(asked: Asked) -> tuple[bytes, tuple[int, int]] | None:
        """Return the bytes of MEMORY.md and the span of a note, or None if it is an entry, whose files are loaded."""
        payload: ArchiveMemory = asked.payload
        if payload.id.startswith(NOTE_ID):
            held, note = signed_note(asked, payload.id, files)
            return held, note.span
        if "#" in payload.id:
            raise Refusal("invalid", f"{payload.id} is neither an entry nor a note", field="payload.id")
        for file in places.entries.find(asked.group, payload.id):
            files.load(file)
            files.load(archived_file(file))
        return None

    def decide(asked: Asked, found: tuple[bytes, tuple[int, int]] | None, now: datetime) -> Outcome:
        payload: ArchiveMemory = asked.payload
        if found is not None:
            held, span = found
            if files.view(memory_of(asked)) != held:
                raise note_is_gone(payload.id)
            moved = archive_notes(asked.group, held, [Retired(span, _WHY)], asked.sender, now)
            return Outcome({"id": payload.id, "file": ARCHIVE}, moved)
        file, data, entry = places.the_one(asked.group, payload.id)
        place = archived_file(file)
        try:
            archived = files.view(place)
        except KeyError:  # the entry came with this batch
            raise Refusal("conflict", "it changed meanwhile: nothing was changed, send it again") from None
        result = {"id": payload.id, "file": place.split("/", 2)[2]}
        return Outcome(result, archive_entry(asked.group, file, entry, data, archived, by=None))

    return ChangeHandler(decide, prepare)
