"""`edit_memory`: an entry changes in place, under the version its editor read (docs/decisions/021-memory-tool.md).

Text and labels change within the file. A new category, or a new name, is a new place: the file is written there and
removed here, in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from honeybadger_agent.wire import EditMemory, Refusal
from honeybadger_host.domain import Asked, Change, ChangeHandler, FileRemoved, FileWritten, Outcome
from honeybadger_host.handlers.entry_answers import check_future, parsed, read_time, shown, the_one
from honeybadger_host.handlers.entry_places import Known, free_place, named_places
from honeybadger_host.handlers.entry_texts import Texts, cleaned
from honeybadger_host.handlers.redaction import Screen
from honeybadger_host.handlers.superseding import Superseding
from honeybadger_host.memory.entry import (
    MAX_ENTRY_FILE_BYTES,
    Entry,
    dump_entry,
    entry_file,
    memory_folder,
    name_in,
    version_of,
)
from honeybadger_host.memory.entry_store import EntryFiles
from honeybadger_host.memory.origin import Origin, origin_of
from honeybadger_host.memory.standing import Standing
from honeybadger_host.storage.atomic_files import WholeFiles
from honeybadger_host.text.time_stamps import to_milliseconds

NEVER: Final = "never"
"""Instead of a time: it stays valid."""
_CHANGED: Final = "it changed meanwhile: nothing was changed; read it again, then decide"


@dataclass(frozen=True, slots=True)
class _Edit:
    """What is to change, clean, and where the entry may go.

    Args:
        category: as it is spelled on disk; None: it stays.
        bound_for: category and name it will have, as far as was known when the places were loaded.
    """

    texts: Texts
    category: str | None
    bound_for: tuple[str, str | None] | None
    places: tuple[str, ...]
    origin: Origin | None
    valid_until: datetime | None
    gone: Mapping[str, Refusal | str]


def edit_memory(
    entries: EntryFiles,
    files: WholeFiles,
    screen: Screen,
    named: Known = lambda group, category, name: None,
    is_agent: Callable[[str], bool] = lambda sender: False,
) -> ChangeHandler[_Edit]:
    """Return the handler of `edit_memory`; its arguments are those of `save_memory`."""

    superseding = Superseding(entries, files)

    def prepare(asked: Asked) -> _Edit:
        payload = _payload_of(asked)
        if payload.model_dump(exclude_none=True).keys() <= {"id", "expected_version"}:
            raise Refusal("invalid", "payload says nothing that is to change", field="payload")
        before = _now_in(asked.group, payload.id)
        texts = cleaned(asked, payload, screen, heading=(before and before.title) or "")
        category = None if payload.category is None else entries.place(asked.group, payload.category)
        bound_for: tuple[str, str | None] | None = None
        places: list[str] = []
        if before is not None:
            bound_for = (category or before.category, texts.name or before.name)
            if bound_for != (before.category, before.name):
                places += _places(asked.group, before.id, *bound_for)
        origin = origin_of(asked.sender, payload.origin, texts.origin_from, is_agent=is_agent(asked.sender))
        valid_until = None if payload.valid_until == NEVER else read_time(payload.valid_until, "valid_until")
        gone = superseding.prepare(asked.group, payload.supersedes or ())
        return _Edit(texts, category, bound_for, tuple(places), origin, valid_until, gone)

    def _now_in(group: str, id_: str) -> Entry | None:
        """Return the entry as it is on disk, its files loaded; None when there is not just one."""
        found = entries.find(group, id_)
        held = [files.load(file) for file in found]
        if len(found) != 1 or held[0] is None:
            return None
        try:
            return entries.parse(found[0], held[0])
        except ValueError:
            return None

    def _places(group: str, id_: str, category: str, name: str | None) -> list[str]:
        if name is not None:
            return list(named_places(entries, files, named, group, category, name))
        file = entry_file(group, category, id_)
        files.load(file)
        return [file]

    def decide(asked: Asked, edit: _Edit, now: datetime) -> Outcome:
        payload = _payload_of(asked)
        file = the_one(payload.id, files.named(memory_folder(asked.group), f"{payload.id}.json"))
        data = files.view(file)
        assert data is not None  # noqa: S101  `named` returns what is there
        before = parsed(entries, file, data)
        if payload.expected_version is not None and payload.expected_version != version_of(data):
            raise Refusal(
                "conflict",
                f"entry {before.id} was changed since it had version {payload.expected_version[:40]}: "
                "read it again, then decide",
                field="payload.expected_version",
            )
        now = to_milliseconds(now)
        after = _edited(before, edit, now)
        if payload.pinned is not None:
            after = replace(after, pinned=payload.pinned)
        if payload.origin is not None or after.content != before.content:
            nobody = None if before.by is not None else Origin("agent", is_claimed=True)  # not the person's any more
            after = replace(after, origin=edit.origin or nobody)
        check_future(edit.valid_until, now)
        ids = payload.supersedes or ()
        if payload.valid_until is not None or ids:
            until = after.standing.valid_until if payload.valid_until is None else edit.valid_until
            supersedes = tuple(dict.fromkeys((*after.standing.supersedes, *ids)))
            after = replace(after, standing=Standing(supersedes, None, until))
        place = file
        if (after.category, after.name) != (before.category, before.name):
            if edit.bound_for != (after.category, after.name):
                raise Refusal("conflict", _CHANGED)
            place = _free(edit.places, after, file)
            after = replace(after, id=name_in(place))
        written = dump_entry(after)
        if len(written) > MAX_ENTRY_FILE_BYTES:
            raise Refusal("too_large", f"the entry would have {len(written)} bytes: send less; nothing was changed")
        changes: tuple[Change, ...] = (FileWritten(asked.group, "entry", place, written, data),)
        if place != file:
            changes = (
                FileRemoved(asked.group, "entry", file, data),
                FileWritten(asked.group, "entry", place, written, None),
            )
        changes += superseding.changes(asked.group, after, ids, edit.gone, stood=True)
        result = shown(after, place, written)
        if edit.texts.neutralised:
            result["neutralised"] = edit.texts.neutralised
        return Outcome(result, changes)

    def _free(places: tuple[str, ...], after: Entry, file: str) -> str:
        """Return the file an entry moves to. Raises Refusal: something is there."""
        if after.name is not None:
            return free_place(entries, files, [place for place in places if place != file], after.category, after.name)
        (place,) = places
        if files.view(place) is not None:
            raise Refusal(
                "conflict", f"{place.split('/', 2)[2]} is there already: nothing was changed", field="payload.category"
            )
        return place

    return ChangeHandler(decide, prepare)


def _edited(entry: Entry, edit: _Edit, now: datetime) -> Entry:
    """Return an entry after an edit. Who saved it first, and when, stays."""
    texts = edit.texts
    return replace(
        entry,
        content=entry.content if texts.content is None else texts.content,
        category=edit.category or entry.category,
        name=texts.name or entry.name,
        title=texts.title or entry.title,
        aliases=entry.aliases if texts.aliases is None else texts.aliases,
        tags=entry.tags if texts.tags is None else texts.tags,
        metadata=entry.metadata if texts.metadata is None else texts.metadata,
        updated=now,
    )


def _payload_of(asked: Asked) -> EditMemory:
    payload: EditMemory = asked.payload
    return payload
