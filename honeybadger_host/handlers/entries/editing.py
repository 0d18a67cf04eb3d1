"""`edit_memory`: an entry changes, if it has the version its editor read (docs/decisions/021-memory-tool.md).

Text and labels change within the file. A new category, or a new name, is a new place: the file is written there and
removed here, in one transaction.
"""

import contextlib
from dataclasses import dataclass, replace
from datetime import datetime

from honeybadger_agent.wire import MAX_NOTE_CHARACTERS, EditMemory, Refusal, is_store
from honeybadger_host.handler_kinds import Asked, Outcome
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.handlers.entries import places
from honeybadger_host.handlers.entries.answers import check_future, check_version, shown
from honeybadger_host.handlers.entries.superseding import Write, screened, superseded
from honeybadger_host.handlers.redaction import check_size, with_neutralised
from honeybadger_host.journal.changes import Change, FileRemoved, FileWritten
from honeybadger_host.memory.entries.entry import (
    MAX_ENTRY_FILE_BYTES,
    Entry,
    Standing,
    dump_entry,
    entry_file,
    name_in,
    version_of,
    with_origin,
)


@dataclass(frozen=True, slots=True)
class _Edit:
    """The screened changes of an entry, and the places it may go to.

    Args:
        category: as it is spelled on disk; None: it stays.
        bound_for: category and name it will have, as far as was known when the places were loaded.
    """

    write: Write[EditMemory]
    category: str | None
    bound_for: tuple[str, str | None] | None
    places: tuple[str, ...]


def prepare_edit_memory(deps: Dependencies, asked: Asked[EditMemory]) -> _Edit:
    """Return the changes, and load the files they need. Raises Refusal, WorldFailed."""
    if asked.payload.model_dump(exclude_none=True).keys() <= {"id", "expected_version"}:
        raise Refusal("invalid", "payload says nothing that is to change", field="payload")
    before: Entry | None = None
    places.load(deps, asked.group, asked.payload.id)
    with contextlib.suppress(Refusal):  # an earlier change of the batch may make it
        before = places.the_one(deps, asked.group, asked.payload.id).entry
    heading, held_in = ("", "") if before is None else (before.title or "", before.category)
    write = screened(deps, asked, heading=heading, category=held_in)
    payload = write.payload
    category = None if payload.category is None else deps.entry_files.place(asked.group, payload.category)
    bound_for: tuple[str, str | None] | None = None
    free: list[str] = []
    if before is not None:
        bound_for = (category or before.category, payload.name or before.name)
        if bound_for != (before.category, before.name):
            free += _places(deps, asked.group, before.id, *bound_for)
    return _Edit(write, category, bound_for, tuple(free))


def _places(deps: Dependencies, group: str, id_: str, category: str, name: str | None) -> list[str]:
    """Return the files that an entry may move to, loaded."""
    if name is not None:
        return places.candidates(deps, group, category, name, is_name=True)
    file = entry_file(group, category, id_)
    deps.whole_files.load(file)
    return [file]


def edit_memory(deps: Dependencies, asked: Asked[EditMemory], edit: _Edit, now: datetime) -> Outcome:
    """Return the edited entry, and the changes that make it. Raises Refusal."""
    payload = edit.write.payload
    file, data, before = places.the_one(deps, asked.group, payload.id)
    check_version(f"entry {before.id}", payload.expected_version, version_of(data))
    check_future(edit.write.valid_until, now)
    after = _edited(before, edit, now)
    if not is_store(after.category):
        check_size("payload.category", len(after.content), MAX_NOTE_CHARACTERS, "characters outside store/")
    place = _place_of(deps, before, after, file, edit)
    after = replace(after, id=name_in(place))
    written = dump_entry(after)
    check_size("payload", len(written), MAX_ENTRY_FILE_BYTES, "bytes")
    changes: list[Change] = [FileWritten(asked.group, "entry", place, written, data if place == file else None)]
    if place != file:
        changes.insert(0, FileRemoved(asked.group, "entry", file, data))
    changes += superseded(deps, asked.group, after, payload.supersedes or (), edit.write.gone, existed=True)
    return Outcome(with_neutralised(shown(after, place, written), edit.write.neutralised), tuple(changes))


def _place_of(deps: Dependencies, before: Entry, after: Entry, file: str, edit: _Edit) -> str:
    """Return the file of an entry after an edit. Raises Refusal if it moves and the new place is taken."""
    if (after.category, after.name) == (before.category, before.name):
        return file
    if edit.bound_for != (after.category, after.name):
        raise Refusal("conflict", "it changed meanwhile: nothing was changed; read it again, then decide")
    if after.name is not None:
        return places.free(deps, [place for place in edit.places if place != file], after.category, after.name)
    (place,) = edit.places
    if deps.whole_files.view(place) is not None:
        why = f"{place.split('/', 2)[2]} is there already: nothing was changed"
        raise Refusal("conflict", why, field="payload.category")
    return place


def _edited(entry: Entry, edit: _Edit, now: datetime) -> Entry:
    """Return an entry after an edit, with its old id. Its first author and their time stay."""
    payload = edit.write.payload
    edited = replace(
        entry,
        content=entry.content if payload.content is None else payload.content,
        category=edit.category or entry.category,
        name=payload.name or entry.name,
        title=payload.title or entry.title,
        aliases=entry.aliases if payload.aliases is None else tuple(payload.aliases),
        tags=entry.tags if payload.tags is None else tuple(payload.tags),
        metadata=entry.metadata if payload.metadata is None else payload.metadata,
        pinned=entry.pinned if payload.pinned is None else payload.pinned,
        standing=_standing(entry.standing, edit.write),
        updated=now,
    )
    return with_origin(entry, edited, edit.write.origin, is_claimed=payload.origin is not None)


def _standing(before: Standing, write: Write[EditMemory]) -> Standing:
    payload, ids = write.payload, write.payload.supersedes or ()
    if payload.valid_until is None and not ids:
        return before
    until = before.valid_until if payload.valid_until is None else write.valid_until
    return Standing(tuple(dict.fromkeys((*before.supersedes, *ids))), None, until)
