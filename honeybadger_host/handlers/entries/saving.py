"""Long-term entries: `save_memory`, `get_memory`, `delete_memory` (RB1, RB4, RB5, AM3, AM6).

The file of an entry is named after its text, so one look shows whether the text is known
(docs/decisions/013-entries.md).
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson

from honeybadger_agent.mailbox import GLOBAL_GROUP
from honeybadger_agent.wire import GENERAL, MAX_METADATA_BYTES, MAX_TAGS, DeleteMemory, GetMemory, Refusal, SaveMemory
from honeybadger_host.handler_kinds import Asked, Outcome
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.handlers.entries import places
from honeybadger_host.handlers.entries.answers import (
    check_one_key,
    check_version,
    shown,
)
from honeybadger_host.handlers.entries.places import Holding, with_name
from honeybadger_host.handlers.entries.similar import Similar
from honeybadger_host.handlers.entries.superseding import Write, screened, superseded
from honeybadger_host.handlers.redaction import check_size, with_neutralised
from honeybadger_host.handlers.search import as_edited, edits_of_entries, is_pinned_note
from honeybadger_host.journal.changes import FileRemoved, FileWritten
from honeybadger_host.memory.entries.entry import (
    Entry,
    author_in,
    dump_entry,
    name_in,
    reinforce,
    version_of,
    with_origin,
)
from honeybadger_host.search.lookups import Found
from honeybadger_host.search.sources import archive_of
from honeybadger_host.text.labels import folded
from honeybadger_host.text.time_stamps import time_stamp


def save_memory(deps: Dependencies, similar: Similar, asked: Asked[SaveMemory], now: datetime) -> Outcome:
    """Save a new entry, reinforce the one with the same text, or replace the one of its name.

    Raises Refusal, WorldFailed.
    """
    _check_replacing(asked.payload)
    write, name = screened(deps, asked, now), asked.payload.name
    payload, group, ids = write.payload, asked.group, write.payload.supersedes or ()
    category = deps.entry_files.place(group, payload.category or GENERAL)
    alike = similar.to(group, payload.content) if name is None else None  # first: it reads what people wrote lately
    key = name or folded(payload.content)
    looked_at = [*places.candidates(deps, deps.whole_files.view, group, category, key, is_name=name is not None)]
    standing = places.standing_in(deps.entry_files, looked_at)
    if name is None:
        held = next((one for one in standing if folded(one.entry.content) == key), None)
    else:
        held = with_name(standing, category, name)
        check_version(name, payload.expected_version, None if held is None else version_of(held.data))
        if not payload.replace:
            places.check_free(held, category)
    file = looked_at[-1][0] if held is None else held.file
    entry = _entry_of(asked, write, category, name_in(file), now)
    if held is not None:
        entry = reinforce(held.entry, entry) if name is None else _in_place_of(held.entry, entry, payload)
    archived = superseded(deps, group, entry, ids, existed=held is not None)
    data = dump_entry(entry)
    check_size("payload.tags", len(entry.tags), MAX_TAGS, "tags")
    check_size("payload.aliases", len(entry.aliases), MAX_TAGS, "aliases")
    check_size("payload.metadata", len(orjson.dumps(entry.metadata)), MAX_METADATA_BYTES, "bytes of metadata")
    result = with_neutralised(shown(entry, file, data), write.neutralised)
    if alike is not None:
        result["similar"] = [one for one in alike if one["id"] not in (entry.id, *ids)]
    written = FileWritten(group, "entry", file, data, None if held is None else held.data)
    return Outcome(result, (written, *archived))


def delete_memory(deps: Dependencies, asked: Asked[DeleteMemory], now: datetime) -> Outcome:
    """Remove an entry: its file goes, the journal keeps it."""
    payload = asked.payload
    check_one_key(payload)
    if payload.name is None:
        file, data, entry = places.the_one(deps, asked.group, payload.id or "")
    else:
        file, data, entry = _named(deps, deps.whole_files.view, asked.group, payload.category, payload.name)
    return Outcome(shown(entry, file, data), (FileRemoved(asked.group, "entry", file, data),))


def _named(deps: Dependencies, read: places.Read, group: str, category: str | None, name: str) -> Holding:
    """Return the entry of a name. Raises Refusal if there is none."""
    category = deps.entry_files.place(group, category or GENERAL, is_new=False)
    found = places.candidates(deps, read, group, category, name, is_name=True)
    if (held := with_name(places.standing_in(deps.entry_files, found), category, name)) is None:
        raise Refusal("not_found", f"no entry of {category} has the name {name}", field="payload.name")
    return held


def get_memory(deps: Dependencies, asked: Asked[GetMemory], now: datetime) -> Mapping[str, Any]:
    """Return the entry, note or turn of an id, or the entry of a name."""
    payload, group, entries = asked.payload, asked.group, deps.entry_files
    check_one_key(payload)
    if payload.name is not None:
        return _opened(deps, _named(deps, entries.read, group, payload.category, payload.name))
    id_ = payload.id or ""
    if "#" in id_:
        return _found(deps, group, id_)
    found = next(filter(None, (entries.find(each, id_) for each in (group, archive_of(group), GLOBAL_GROUP))), [])
    return _opened(deps, places.one_of(deps, id_, found, entries.read))


def _opened(deps: Dependencies, held: Holding) -> Mapping[str, Any]:
    """Return an entry as it is shown, with the person who edited it since it was saved."""
    author, at = edits_of_entries(deps.journal.path, [held.file]).get(held.file, (None, 0))
    saved_at = 0.0 if held.entry.updated is None else held.entry.updated.timestamp()
    opened = shown(held.entry, held.file, held.data)
    edited_by = author if at / 1000 > saved_at else author_in(opened["by"], opened)
    return opened if edited_by == opened["by"] else {**opened, "edited_by": edited_by}


def _found(deps: Dependencies, group: str, id_: str) -> Mapping[str, Any]:
    """Return a note or a turn as an entry is shown. Raises Refusal."""
    found = deps.index.opened(group, id_)
    if found is None:
        raise Refusal("not_found", f"nothing has the id {id_} any more: search again", field="payload.id")
    entry = Entry(id_, "", found.text, by=found.author or None, pinned=is_pinned_note(found))
    of_note = {"kind": found.kind, "created": _shown_time(found), "file": found.file, "origin": None, "version": ""}
    edited = as_edited(deps.journal.path, deps.files, [found])[found.number]
    if edited is not found:
        of_note |= {"edited_by": edited.author, "updated": _shown_time(edited)}
    return {**shown(entry, found.file, b""), **of_note}


def _shown_time(found: Found) -> str | None:
    return None if found.at is None else time_stamp(datetime.fromtimestamp(found.at, UTC))


def _entry_of(asked: Asked, write: Write[SaveMemory], category: str, id_: str, now: datetime) -> Entry:
    payload = write.payload
    return Entry(
        id=id_,
        category=category,
        content=payload.content,
        tags=tuple(payload.tags or ()),
        created=now,
        updated=now,
        metadata=payload.metadata or {},
        by=asked.sender,
        name=payload.name,
        title=payload.title,
        aliases=tuple(payload.aliases or ()),
        pinned=bool(payload.pinned),
        origin=write.origin,
        supersedes=tuple(dict.fromkeys(payload.supersedes or ())),
        valid_until=write.valid_until,
    )


def _check_replacing(payload: SaveMemory) -> None:
    """Raise Refusal if a save that replaces has no name, or one that does not replace expects a version."""
    if payload.replace and payload.name is None:
        raise Refusal(
            "invalid", "payload.replace needs payload.name: what has no name has no place", field="payload.name"
        )
    if payload.expected_version is not None and not payload.replace:
        raise Refusal(
            "invalid",
            "payload.expected_version is for payload.replace: true; edit_memory takes it, too",
            field="payload.expected_version",
        )


def _in_place_of(before: Entry, entry: Entry, payload: SaveMemory) -> Entry:
    """Return the entry that replaces one of the same name. Its first author and their time stay."""
    replaced = replace(
        entry,
        created=before.created,
        by=before.by,
        reinforced=before.reinforced,
        more=before.more,
        supersedes=tuple(dict.fromkeys((*before.supersedes, *entry.supersedes))),
    )
    return with_origin(before, replaced, entry.origin, is_claimed=payload.origin is not None)
