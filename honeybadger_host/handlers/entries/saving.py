"""Long-term entries: `save_memory`, `get_memory`, `delete_memory` (RB1, RB4, RB5, AM3, AM6).

The file of an entry is named after its text, so one look shows whether the text is known
(docs/decisions/013-entries.md).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import orjson

from honeybadger_agent.mailbox import GLOBAL_GROUP
from honeybadger_agent.wire import GENERAL, MAX_METADATA_BYTES, MAX_TAGS, DeleteMemory, GetMemory, Refusal, SaveMemory
from honeybadger_host.handler_kinds import Asked, Outcome
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.handlers.entries import places
from honeybadger_host.handlers.entries.answers import (
    check_future,
    check_one_key,
    check_version,
    no_name,
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
    Standing,
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


@dataclass(frozen=True, slots=True)
class _Said:
    """A save, the files that may already have its text or that it may go to, and similar entries."""

    write: Write[SaveMemory]
    category: str
    files: tuple[str, ...]
    similar: Sequence[Mapping[str, Any]] | None


def prepare_save_memory(deps: Dependencies, asked: Asked[SaveMemory], similar: Similar) -> _Said:
    """Return the entry, and load the files it may go to. Raises Refusal, WorldFailed."""
    _check_replacing(asked.payload)
    write = screened(deps, asked)
    payload, group = write.payload, asked.group
    category = deps.entry_files.place(group, payload.category or GENERAL)
    key = payload.name or folded(payload.content)
    found = places.candidates(deps, group, category, key, is_name=payload.name is not None)
    alike = similar.to(group, payload.content) if payload.name is None else None
    return _Said(write, category, tuple(found), alike)


def save_memory(deps: Dependencies, asked: Asked[SaveMemory], said: _Said, now: datetime) -> Outcome:
    """Save a new entry, or reinforce the one with the same text."""
    check_future(said.write.valid_until, now)
    payload = said.write.payload
    if (name := payload.name) is not None:
        held = with_name(places.standing(deps, said.files), said.category, name)
        if payload.replace and held is not None:
            file, data, before = held
            check_version(name, payload.expected_version, version_of(data))
            entry = _in_place_of(before, _entry_of(asked, said, file, now), payload)
            return _saved(deps, asked, said, entry, file, data)
        check_version(name, payload.expected_version, None)
        file = places.free(deps, said.files, said.category, name)
        return _saved(deps, asked, said, _entry_of(asked, said, file, now), file, None)
    normalised = folded(payload.content)
    for file, data, entry in places.standing(deps, said.files):
        if folded(entry.content) == normalised:
            entry = reinforce(entry, _entry_of(asked, said, file, now))
            return _saved(deps, asked, said, entry, file, data)
    place = places.first_free(deps, said.files)
    return _saved(deps, asked, said, _entry_of(asked, said, place, now), place, None)


def prepare_delete_memory(deps: Dependencies, asked: Asked[DeleteMemory]) -> tuple[str, Sequence[str]]:
    """Return the category, and the files that an entry of a name may have; all are loaded."""
    payload = asked.payload
    check_one_key(payload)
    if payload.name is not None:
        category = deps.entry_files.place(asked.group, payload.category or GENERAL, is_new=False)
        return category, places.candidates(deps, asked.group, category, payload.name, is_name=True)
    places.load(deps, asked.group, payload.id or "")
    return "", ()


def delete_memory(
    deps: Dependencies, asked: Asked[DeleteMemory], prepared: tuple[str, Sequence[str]], now: datetime
) -> Outcome:
    """Remove an entry: its file goes, the journal keeps it."""
    payload, (category, files) = asked.payload, prepared
    if payload.name is None:
        found: Holding | None = places.the_one(deps, asked.group, payload.id or "")
    else:
        found = with_name(places.standing(deps, files), category, payload.name)
    if found is None:
        raise no_name(category, payload.name or "")
    file, data, entry = found
    return Outcome(shown(entry, file, data), (FileRemoved(asked.group, "entry", file, data),))


def get_memory(deps: Dependencies, asked: Asked[GetMemory], now: datetime) -> Mapping[str, Any]:
    """Return the entry, note or turn of an id, or the entry of a name."""
    payload, group, entries = asked.payload, asked.group, deps.entry_files
    check_one_key(payload)
    if payload.name is not None:
        category = entries.place(group, payload.category or GENERAL, is_new=False)
        named = places.as_saved(deps, group, category, payload.name)
        if named is None:
            raise no_name(category, payload.name)
        return _opened(deps, named)
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
    return {**opened, "edited_by": author} if at / 1000 > saved_at else opened


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


def _entry_of(asked: Asked, said: _Said, file: str, now: datetime) -> Entry:
    payload = said.write.payload
    return Entry(
        id=name_in(file),
        category=said.category,
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
        origin=said.write.origin,
        standing=Standing(tuple(dict.fromkeys(payload.supersedes or ())), None, said.write.valid_until),
    )


def _check_replacing(payload: SaveMemory) -> None:
    """Raise Refusal if a save that replaces has no name, or one that does not replace expects a version."""
    if payload.replace and payload.name is None:
        raise Refusal(
            "invalid", "payload.replace needs payload.name: what has no name has no place", field="payload.name"
        )
    if payload.expected_version is not None and not payload.replace:
        why = "payload.expected_version is for payload.replace: true; edit_memory takes it, too"
        raise Refusal("invalid", why, field="payload.expected_version")


def _in_place_of(before: Entry, entry: Entry, payload: SaveMemory) -> Entry:
    """Return the entry that replaces one of the same name. Its first author and their time stay."""
    supersedes = tuple(dict.fromkeys((*before.standing.supersedes, *entry.standing.supersedes)))
    replaced = replace(
        entry,
        created=before.created,
        by=before.by,
        reinforced=before.reinforced,
        more=before.more,
        standing=replace(entry.standing, supersedes=supersedes),
    )
    return with_origin(before, replaced, entry.origin, is_claimed=payload.origin is not None)


def _saved(deps: Dependencies, asked: Asked, said: _Said, entry: Entry, file: str, replaces: bytes | None) -> Outcome:
    """Return the outcome of a save. Raises Refusal if the entry would become too large."""
    ids: Sequence[str] = said.write.payload.supersedes or ()
    archived = superseded(deps, asked.group, entry, ids, said.write.gone, existed=replaces is not None)
    data = dump_entry(entry)
    check_size("payload.tags", len(entry.tags), MAX_TAGS, "tags")
    check_size("payload.aliases", len(entry.aliases), MAX_TAGS, "aliases")
    check_size("payload.metadata", len(orjson.dumps(entry.metadata)), MAX_METADATA_BYTES, "bytes of metadata")
    result = with_neutralised(shown(entry, file, data), said.write.neutralised)
    if said.similar is not None:
        result["similar"] = [one for one in said.similar if one["id"] not in (entry.id, *ids)]
    return Outcome(result, (FileWritten(asked.group, "entry", file, data, replaces), *archived))
