"""Long-term entries: `save_memory`, `get_memory`, `delete_memory`, `list_memory_categories` (RB1, RB4, RB5, AM3, AM6).

Whether a text is known is one look at one file, named after the text (docs/decisions/013-entries.md).
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import orjson

from honeybadger_agent.mailbox import GLOBAL_GROUP
from honeybadger_agent.wire import (
    GENERAL,
    MAX_METADATA_BYTES,
    MAX_TAGS,
    DeleteMemory,
    GetMemory,
    Refusal,
    SaveMemory,
)
from honeybadger_host.domain import Asked, ChangeHandler, FileRemoved, FileWritten, Outcome, QueryHandler
from honeybadger_host.handlers.entry_texts import Texts, cleaned
from honeybadger_host.handlers.redaction import Screen
from honeybadger_host.handlers.similar import Similar
from honeybadger_host.handlers.superseding import Superseding
from honeybadger_host.memory.entry import (
    Entry,
    dump_entry,
    entry_file,
    entry_id,
    marks_of,
    memory_folder,
    name_in,
    named_id,
    reinforce,
    show_time,
    version_of,
)
from honeybadger_host.memory.entry_store import EntryFiles
from honeybadger_host.memory.labels import folded
from honeybadger_host.memory.notes import is_pinned
from honeybadger_host.memory.origin import Origin, origin_of
from honeybadger_host.memory.standing import Standing
from honeybadger_host.search.index import Index
from honeybadger_host.search.lookups import Found
from honeybadger_host.search.sources import archive_of
from honeybadger_host.storage.atomic_files import WholeFiles, read_whole
from honeybadger_host.text.time_stamps import time_stamp

Named: TypeAlias = Callable[[str, str, str], str | None]
"""(group, category, name) -> id of an entry of this name, wherever its id comes from."""
FREE_PLACES: Final = 2
"""Places loaded for a new entry: a person may have removed the first and left the second."""


@dataclass(frozen=True, slots=True)
class _Said:
    """What is to be saved, clean, and the files it may be known in already or go to."""

    content: str
    texts: Texts
    category: str
    files: tuple[str, ...]
    is_pinned: bool
    origin: Origin | None
    valid_until: datetime | None
    gone: Mapping[str, Refusal | str]
    similar: Sequence[Mapping[str, Any]] | None


def save_memory(
    entries: EntryFiles,
    files: WholeFiles,
    screen: Screen,
    index: Index,
    is_agent: Callable[[str], bool],
) -> ChangeHandler[_Said]:
    """Return the handler of `save_memory`: a new entry, or the one that says it already, reinforced.

    Args:
        index: asked first where a text or a name is; the file must say the text still, or have the name.
        is_agent: whether a sender is an agent of this home.
    """

    superseding, similar = Superseding(entries, files), Similar(index)

    def prepare(asked: Asked) -> _Said:
        payload = _payload_of(asked)
        texts = cleaned(asked, payload, screen)
        category = entries.place(asked.group, GENERAL if payload.category is None else payload.category)
        content = texts.content or ""  # a save has one
        found = (
            _places(asked.group, category, content)
            if texts.name is None
            else named_places(entries, files, index.lookups.named, asked.group, category, texts.name)
        )
        origin = origin_of(asked.sender, payload.origin, texts.origin_from, is_agent=is_agent(asked.sender))
        valid_until = read_time(payload.valid_until, "valid_until")
        gone = superseding.prepare(asked.group, payload.supersedes or ())
        return _Said(
            content,
            texts,
            category,
            tuple(found),
            bool(payload.pinned),
            origin,
            valid_until,
            gone,
            similar.to(asked.group, content) if texts.name is None else None,
        )

    def _places(group: str, category: str, content: str) -> list[str]:
        """Return where the text may stand, loaded: where it is known to, then by its salts until places are free."""
        normalised = folded(content)
        found: list[str] = []
        if (elsewhere := index.lookups.known(group, category, normalised)) is not None:
            found = entries.find(group, elsewhere)
            for file in found:
                files.load(file)
        salt = free = 0
        while free < FREE_PLACES:
            file = entry_file(group, category, entry_id(category, normalised, salt))
            free += files.load(file) is None
            found.append(file)
            salt += 1
        return found

    def decide(asked: Asked, said: _Said, now: datetime) -> Outcome:
        now = now.replace(microsecond=now.microsecond // 1000 * 1000)
        check_future(said.valid_until, now)
        if (name := said.texts.name) is not None:
            file = free_place(entries, files, said.files, said.category, name)
            return _saved(superseding, asked, said, _entry_of(asked, said, file, now), file, None)
        normalised = folded(said.content)
        free, standing = _look_at(entries, files, said.files)
        for file, data, entry in standing:
            if folded(entry.content) == normalised:
                entry = reinforce(entry, _entry_of(asked, said, file, now))
                return _saved(superseding, asked, said, entry, file, data)
        place = _free(free)
        return _saved(superseding, asked, said, _entry_of(asked, said, place, now), place, None)

    return ChangeHandler(decide, prepare)


def delete_memory(entries: EntryFiles, files: WholeFiles) -> ChangeHandler[None]:
    """Return the handler of `delete_memory`: the file goes, the journal keeps it."""

    def prepare(asked: Asked) -> None:
        for file in entries.find(asked.group, _id_of(asked)):
            files.load(file)

    def decide(asked: Asked, prepared: None, now: datetime) -> Outcome:
        id_ = _id_of(asked)
        file = the_one(id_, files.named(memory_folder(asked.group), f"{id_}.json"))
        data = files.view(file)
        assert data is not None  # noqa: S101  `named` returns what is there
        entry = parsed(entries, file, data)
        return Outcome(shown(entry, file, data), (FileRemoved(asked.group, "entry", file, data),))

    return ChangeHandler(decide, prepare)


def get_memory(entries: EntryFiles, index: Index) -> QueryHandler:
    """Return the handler of `get_memory`: what search, recall or a context shows the id of, opened."""

    def answer(asked: Asked, now: datetime) -> Mapping[str, Any]:
        payload: GetMemory = asked.payload
        if "#" in payload.id:
            return _found(asked.group, payload.id)
        groups = (asked.group, archive_of(asked.group), GLOBAL_GROUP)
        found = next(filter(None, (entries.find(group, payload.id) for group in groups)), [])
        file = the_one(payload.id, found)
        data = read_whole(entries.home / file)
        if data is None:
            raise _not_found(payload.id)
        return shown(parsed(entries, file, data), file, data)

    def _found(group: str, id_: str) -> Mapping[str, Any]:
        found = index.opened(group, id_)
        if found is None:
            raise Refusal("not_found", f"nothing has the id {id_} by now: search again", field="payload.id")
        at = None if found.at is None else time_stamp(datetime.fromtimestamp(found.at, UTC))
        entry = Entry(id_, "", found.text, by=found.author or None, pinned=is_pinned_note(found))
        of_entries = {"origin": None, "version": ""}
        return {**shown(entry, found.file, b""), "kind": found.kind, "created": at, "file": found.file, **of_entries}

    return QueryHandler(answer)


def is_pinned_note(found: Found) -> bool:
    """Return whether somebody pinned a note: in its text, or in its heading."""
    return found.kind == "note" and is_pinned(f"{found.names}\n{found.text}")


def list_memory_categories(entries: EntryFiles) -> QueryHandler:
    """Return the handler of `list_memory_categories`: categories with entries, and those above them."""

    def answer(asked: Asked, now: datetime) -> Mapping[str, Any]:
        counts = entries.categories(asked.group)
        totals: Counter[tuple[str, ...]] = Counter()
        for category, count in counts.items():
            parts = tuple(category.split("/"))
            for depth in range(1, len(parts) + 1):
                totals[parts[:depth]] += count
        rows = [
            {"category": "/".join(parts), "entries": counts.get("/".join(parts), 0), "total": total}
            for parts, total in sorted(totals.items())
        ]
        return {"categories": rows, "total": sum(counts.values())}

    return QueryHandler(answer)


def _entry_of(asked: Asked, said: _Said, file: str, now: datetime) -> Entry:
    return Entry(
        id=name_in(file),
        category=said.category,
        content=said.content,
        tags=said.texts.tags or (),
        created=now,
        updated=now,
        metadata=said.texts.metadata or {},
        by=asked.sender,
        name=said.texts.name,
        title=said.texts.title,
        aliases=said.texts.aliases or (),
        pinned=said.is_pinned,
        origin=said.origin,
        standing=Standing(tuple(dict.fromkeys(_payload_of(asked).supersedes or ())), None, said.valid_until),
    )


def _saved(
    superseding: Superseding, asked: Asked, said: _Said, entry: Entry, file: str, replaces: bytes | None
) -> Outcome:
    """Return the outcome of a save. Raises Refusal: what was added to an entry is too much for it."""
    ids = _payload_of(asked).supersedes or ()
    archived = superseding.changes(asked.group, entry, ids, said.gone, stood=replaces is not None)
    data = dump_entry(entry)
    for member, size in (("tags", len(entry.tags)), ("aliases", len(entry.aliases))):
        if size > MAX_TAGS:
            raise _too_large(member, f"{size} {member}", MAX_TAGS)
    size = len(orjson.dumps(entry.metadata))
    if size > MAX_METADATA_BYTES:
        raise _too_large("metadata", f"{size} bytes of metadata", MAX_METADATA_BYTES)
    result = shown(entry, file, data)
    if said.texts.neutralised:
        result["neutralised"] = said.texts.neutralised
    if said.similar is not None:
        result["similar"] = [one for one in said.similar if one["id"] not in (entry.id, *ids)]
    return Outcome(result, (FileWritten(asked.group, "entry", file, data, replaces), *archived))


def named_places(
    entries: EntryFiles, files: WholeFiles, named: Named, group: str, category: str, name: str
) -> Iterator[str]:
    """Yield the files that an entry of this name may have, loaded: where one is known, then by its salts until two are
    free. Raises WorldFailed.

    Args:
        category: as it is spelled on disk.
    """
    if (elsewhere := named(group, category, name)) is not None:
        for file in entries.find(group, elsewhere):
            files.load(file)
            yield file
    salt = free = 0
    while free < FREE_PLACES:
        file = entry_file(group, category, named_id(category, name, salt))
        free += files.load(file) is None
        yield file
        salt += 1


def free_place(entries: EntryFiles, files: WholeFiles, places: Iterable[str], category: str, name: str) -> str:
    """Return the first of `places` that is free. Raises Refusal: an entry of the category has the name.

    Args:
        places: see `named_places`.
    """
    free, standing = _look_at(entries, files, places)
    for _, _, entry in standing:
        if (entry.category, entry.name) == (category, name):
            raise Refusal(
                "conflict",
                f"entry {entry.id} of {category} has this name: choose another, or edit that one; nothing was changed",
                field="payload.name",
            )
    return _free(free)


def _look_at(
    entries: EntryFiles, files: WholeFiles, places: Iterable[str]
) -> tuple[str | None, list[tuple[str, bytes, Entry]]]:
    """Return the first of some loaded places that is free, and what entries stand in the others, with their bytes."""
    free: str | None = None
    standing: list[tuple[str, bytes, Entry]] = []
    for file in places:
        data = files.view(file)
        if data is None:
            free = free or file
        else:
            with contextlib.suppress(ValueError):  # it is not an entry, and keeps its place
                standing.append((file, data, entries.parse(file, data)))
    return free, standing


def _free(place: str | None) -> str:
    if place is None:  # other saves of this batch took both: the next batch has new ones
        raise Refusal("conflict", "it changed meanwhile: nothing was saved, send it again")
    return place


def _too_large(member: str, what: str, limit: int) -> Refusal:
    return Refusal(
        "too_large",
        f"with payload.{member} the entry would have {what}, the limit is {limit}: send less; nothing was saved",
        field=f"payload.{member}",
    )


def shown(entry: Entry, file: str, data: bytes) -> dict[str, Any]:
    """Return an entry as it is answered.

    Args:
        data: what its file holds.
    """
    return {
        "id": entry.id,
        "category": entry.category,
        "content": entry.content,
        "name": entry.name,
        "title": entry.title,
        "aliases": [*entry.aliases],
        "tags": [*entry.tags],
        "metadata": entry.metadata,
        "created": None if entry.created is None else show_time(entry.created),
        "updated": None if entry.updated is None else show_time(entry.updated),
        "by": entry.by,
        "reinforced": entry.reinforced,
        "pinned": False,
        **marks_of(entry),
        "file": _shown_file(file),
        "version": version_of(data),
        "archived": "/archive/memory/" in file,
    }


def _shown_file(file: str) -> str:
    """Return a file of an entry below its group's folder, one of `global` below the home folder."""
    _, group, rest = file.split("/", 2)
    return file if group == GLOBAL_GROUP else rest


def read_time(text: str | None, member: str) -> datetime | None:
    """Return the time that a member says, in UTC. Raises Refusal: it is not one, or has no zone."""
    if text is None:
        return None
    why, field = "is not a time", f"payload.{member}"
    try:
        at = datetime.fromisoformat(text)
        if at.tzinfo is not None:
            return at.astimezone(UTC)
        why = "has no time zone"
    except (ValueError, OverflowError):
        pass
    raise Refusal("invalid", f"{field} {text!a} {why}: write 2026-12-24T18:00:00Z, or with +01:00", field=field)


def check_future(valid_until: datetime | None, now: datetime) -> None:
    """Raise Refusal: the time is over."""
    if valid_until is not None and valid_until <= now:
        why = f"payload.valid_until {show_time(valid_until)} is over, it is {show_time(now)} now: say when it will be"
        raise Refusal("invalid", why, field="payload.valid_until")


def _payload_of(asked: Asked) -> SaveMemory:
    payload: SaveMemory = asked.payload
    return payload


def _id_of(asked: Asked) -> str:
    payload: DeleteMemory = asked.payload
    return payload.id


def the_one(id_: str, found: list[str]) -> str:
    """Return the file of an id. Raises Refusal: there is none, or more than one."""
    if not found:
        raise _not_found(id_)
    if len(found) > 1:
        names = " and ".join(file.split("/", 2)[2] for file in sorted(found))
        raise Refusal("conflict", f"{id_} is the id of {names}: rename or remove one of them", field="payload.id")
    return found[0]


def parsed(entries: EntryFiles, file: str, data: bytes) -> Entry:
    try:
        return entries.parse(file, data)
    except ValueError as error:
        raise Refusal(
            "not_found", f"{file.split('/', 2)[2]} is not an entry: {error}; mend or remove it", field="payload.id"
        ) from None


def _not_found(id_: str) -> Refusal:
    return Refusal("not_found", f"no entry of this group has the id {id_}", field="payload.id")
