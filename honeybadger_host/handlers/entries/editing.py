"""`edit_memory`: an entry changes, if it has the version its editor read (docs/decisions/021-memory-tool.md).

Text and labels change within the file. A new category, or a new name, is a new place: the file is written there and
removed here, in one transaction.
"""

from dataclasses import replace
from datetime import datetime

from honeybadger_agent.wire import MAX_NOTE_CHARACTERS, EditMemory, Refusal, is_store
from honeybadger_host.handler_kinds import Asked, Outcome
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.handlers.entries import places
from honeybadger_host.handlers.entries.answers import check_version, shown
from honeybadger_host.handlers.entries.superseding import Write, screened, superseded
from honeybadger_host.handlers.redaction import check_size, with_neutralised
from honeybadger_host.journal.changes import FileRemoved, FileWritten
from honeybadger_host.memory.entries.entry import (
    MAX_ENTRY_FILE_BYTES,
    Entry,
    dump_entry,
    entry_file,
    name_in,
    version_of,
    with_origin,
)


def edit_memory(deps: Dependencies, asked: Asked[EditMemory], now: datetime) -> Outcome:
    """Change an entry, and move it if its category or name changes. Raises Refusal, WorldFailed."""
    group, id_ = asked.group, asked.payload.id
    if asked.payload.model_dump(exclude_none=True).keys() <= {"id", "expected_version"}:
        raise Refusal("invalid", "payload says nothing that is to change", field="payload")
    file, data, before = places.the_one(deps, group, id_)
    write = screened(deps, asked, now, heading=before.title or "", category=before.category)
    payload = write.payload
    check_version(f"entry {id_}", payload.expected_version, version_of(data))
    category = before.category if payload.category is None else deps.entry_files.place(group, payload.category)
    after = _edited(before, write, category, now)
    if not is_store(after.category):
        check_size("payload.category", len(after.content), MAX_NOTE_CHARACTERS, "characters outside store/")
    is_moved = (after.category, after.name) != (before.category, before.name)
    place = _free_place(deps, group, file, after) if is_moved else file
    after = replace(after, id=name_in(place))
    written = dump_entry(after)
    check_size("payload", len(written), MAX_ENTRY_FILE_BYTES, "bytes")
    removed = (FileRemoved(group, "entry", file, data),) if is_moved else ()
    change = FileWritten(group, "entry", place, written, None if is_moved else data)
    archived = superseded(deps, group, after, payload.supersedes or (), existed=True)
    return Outcome(with_neutralised(shown(after, place, written), write.neutralised), (*removed, change, *archived))


def _free_place(deps: Dependencies, group: str, file: str, moved: Entry) -> str:
    """Return the file to which an entry moves from `file`. Raises Refusal if its place is taken."""
    view = deps.whole_files.view
    if moved.name is not None:
        looked_at = [*places.candidates(deps, view, group, moved.category, moved.name, is_name=True)]
        others = places.standing_in(deps.entry_files, (one for one in looked_at if one[0] != file))
        places.check_free(places.with_name(others, moved.category, moved.name), moved.category)
        return looked_at[-1][0]
    place = entry_file(group, moved.category, moved.id)
    if view(place) is not None:
        raise Refusal(
            "conflict", f"{place.split('/', 2)[2]} is there already: nothing was changed", field="payload.category"
        )
    return place


def _edited(entry: Entry, write: Write[EditMemory], category: str, now: datetime) -> Entry:
    """Return an entry after an edit, with its old id. Its first author and their time stay."""
    payload, ids = write.payload, write.payload.supersedes or ()
    edited = replace(
        entry,
        content=entry.content if payload.content is None else payload.content,
        category=category,
        name=payload.name or entry.name,
        title=payload.title or entry.title,
        aliases=entry.aliases if payload.aliases is None else tuple(payload.aliases),
        tags=entry.tags if payload.tags is None else tuple(payload.tags),
        metadata=entry.metadata if payload.metadata is None else payload.metadata,
        pinned=entry.pinned if payload.pinned is None else payload.pinned,
        supersedes=tuple(dict.fromkeys((*entry.supersedes, *ids))),
        valid_until=entry.valid_until if payload.valid_until is None else write.valid_until,
        updated=now,
    )
    return with_origin(entry, edited, write.origin, is_claimed=payload.origin is not None)
