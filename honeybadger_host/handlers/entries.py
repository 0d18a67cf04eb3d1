"""Long-term entries: `save_memory`, `get_memory`, `delete_memory`, `list_memory_categories` (RB1, RB4, RB5, AM3, AM6).

Whether a text is known is one look at one file, named after the text (docs/decisions/013-entries.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, TypeAlias

import orjson

from honeybadger_agent.wire import (
    GENERAL,
    MAX_METADATA_BYTES,
    MAX_TAGS,
    DeleteMemory,
    GetMemory,
    ListMemoryCategories,
    Refusal,
    SaveMemory,
)
from honeybadger_host.domain import Asked, ChangeHandler, FileRemoved, FileWritten, Outcome, QueryHandler
from honeybadger_host.handlers.screening import Screen
from honeybadger_host.memory.entries import (
    Entry,
    Json,
    dump_entry,
    each_once,
    entry_file,
    entry_id,
    memory_folder,
    normalise,
    reinforce,
    show_time,
)
from honeybadger_host.memory.entry_files import EntryFiles
from honeybadger_host.memory.whole_files import WholeFiles, read_whole
from honeybadger_host.text import is_blank, one_line

Known: TypeAlias = Callable[[str, str, str], str | None]
"""(group, category, normalised text) -> id of an entry that says it, wherever its id comes from."""
_FREE_PLACES: Final = 2
"""Places loaded for a new entry: a person may have removed the first and left the second."""


@dataclass(frozen=True, slots=True)
class _Said:
    """What is to be saved, clean, and the files it may be known in already or go to."""

    content: str
    title: str | None
    aliases: tuple[str, ...]
    tags: tuple[str, ...]
    metadata: Mapping[str, Json]
    category: str
    files: tuple[str, ...]
    neutralised: Mapping[str, int]


def save_memory(
    entries: EntryFiles, files: WholeFiles, screen: Screen, known: Known = lambda group, category, normalised: None
) -> ChangeHandler:
    """Return the handler of `save_memory`: a new entry, or the one that says it already, reinforced.

    Args:
        known: asked first; the file it names must say the text still.
    """
    prepared: dict[tuple[str, str, str], _Said] = {}  # from `prepare` to the `decide` that follows it

    def prepare(asked: Asked) -> None:
        payload = asked.payload
        assert isinstance(payload, SaveMemory)  # noqa: S101  the table pairs type and payload
        said = _cleaned(asked, payload, screen)
        category = entries.place(asked.group, said.category)
        said = replace(said, category=category, files=tuple(_places(asked.group, category, said.content)))
        prepared[asked.group, asked.sender, asked.request_id] = said

    def _places(group: str, category: str, content: str) -> list[str]:
        """Return where the text may stand, loaded: where it is known to, then by its salts until places are free."""
        normalised = normalise(content)
        found: list[str] = []
        if (elsewhere := known(group, category, normalised)) is not None:
            found = entries.find(group, elsewhere)
            for file in found:
                files.load(file)
        salt = free = 0
        while free < _FREE_PLACES:
            file = entry_file(group, category, entry_id(category, normalised, salt))
            free += files.load(file) is None
            found.append(file)
            salt += 1
        return found

    def decide(asked: Asked, now: datetime) -> Outcome:
        said = prepared.pop((asked.group, asked.sender, asked.request_id))
        now = now.replace(microsecond=now.microsecond // 1000 * 1000)
        normalised = normalise(said.content)
        free: str | None = None
        for file in said.files:
            data = files.get(file)
            if data is None:
                free = free or file
                continue
            try:
                entry = entries.parse(file, data)
            except ValueError:
                continue
            if normalise(entry.content) == normalised:
                return _saved(asked, said, reinforce(entry, _entry_of(asked, said, file, now)), file, data)
        if free is None:  # other saves of this slice took both: the next slice has new ones
            raise Refusal("conflict", "it changed meanwhile: nothing was saved, send it again")
        return _saved(asked, said, _entry_of(asked, said, free, now), free, None)

    return ChangeHandler(decide, prepare)


def delete_memory(entries: EntryFiles, files: WholeFiles) -> ChangeHandler:
    """Return the handler of `delete_memory`: the file goes, the journal keeps it."""

    def prepare(asked: Asked) -> None:
        for file in entries.find(asked.group, _id_of(asked)):
            files.load(file)

    def decide(asked: Asked, now: datetime) -> Outcome:
        id_ = _id_of(asked)
        file = _the_one(id_, files.named(memory_folder(asked.group), f"{id_}.json"))
        data = files.get(file)
        assert data is not None  # noqa: S101  `named` returns what is there
        entry = _parsed(entries, file, data)
        return Outcome(_shown(entry, file), (FileRemoved(asked.group, "entry", file, data),))

    return ChangeHandler(decide, prepare)


def get_memory(entries: EntryFiles) -> QueryHandler:
    """Return the handler of `get_memory`."""

    def answer(asked: Asked, now: datetime) -> Mapping[str, Any]:
        id_ = _id_of(asked)
        file = _the_one(id_, entries.find(asked.group, id_))
        data = read_whole(entries.home / file)
        if data is None:
            raise _not_found(id_)
        return _shown(_parsed(entries, file, data), file)

    return QueryHandler(answer)


def list_memory_categories(entries: EntryFiles) -> QueryHandler:
    """Return the handler of `list_memory_categories`: categories with entries, and those above them."""

    def answer(asked: Asked, now: datetime) -> Mapping[str, Any]:
        assert isinstance(asked.payload, ListMemoryCategories)  # noqa: S101  the table pairs type and payload
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


def _cleaned(asked: Asked, payload: SaveMemory, screen: Screen) -> _Said:
    """Return what is to be saved, neutralised and screened. Raises Refusal."""
    changed: Counter[str] = Counter()

    def line(member: str, text: str) -> str:
        clean, how = screen.clean(asked, f"payload.{member}", text)
        changed.update(how)
        line = one_line(clean).text
        if is_blank(line):
            raise Refusal(
                "invalid", f"payload.{member} is blank: nothing visible is left of it", field=f"payload.{member}"
            )
        return line

    category = GENERAL if payload.category is None else payload.category
    screen.folder(asked, "payload.category", category)
    title = None if payload.title is None else line("title", payload.title)
    aliases = each_once(line(f"aliases.{at}", alias) for at, alias in enumerate(payload.aliases or ()))
    tags = each_once(line(f"tags.{at}", tag) for at, tag in enumerate(payload.tags or ()))
    content, how = screen.clean(asked, "payload.content", payload.content, heading=title or "")
    changed.update(how)
    if is_blank(content):
        raise Refusal("invalid", "payload.content is blank: nothing was saved", field="payload.content")
    metadata, how = screen.tree(asked, "payload.metadata", payload.metadata or {})
    changed.update(how)
    return _Said(content, title, aliases, tags, metadata, category, (), dict(changed))


def _entry_of(asked: Asked, said: _Said, file: str, now: datetime) -> Entry:
    return Entry(
        id=file.rpartition("/")[2].removesuffix(".json"),
        category=said.category,
        content=said.content,
        tags=said.tags,
        created=now,
        updated=now,
        metadata=said.metadata,
        by=asked.sender,
        title=said.title,
        aliases=said.aliases,
    )


def _saved(asked: Asked, said: _Said, entry: Entry, file: str, replaces: bytes | None) -> Outcome:
    """Return the outcome of a save. Raises Refusal: what was added to an entry is too much for it."""
    for member, size in (("tags", len(entry.tags)), ("aliases", len(entry.aliases))):
        if size > MAX_TAGS:
            raise _too_large(member, f"{size} {member}", MAX_TAGS)
    size = len(orjson.dumps(entry.metadata))
    if size > MAX_METADATA_BYTES:
        raise _too_large("metadata", f"{size} bytes of metadata", MAX_METADATA_BYTES)
    result = _shown(entry, file)
    if said.neutralised:
        result["neutralised"] = said.neutralised
    return Outcome(result, (FileWritten(asked.group, "entry", file, dump_entry(entry), replaces),))


def _too_large(member: str, what: str, limit: int) -> Refusal:
    return Refusal(
        "too_large",
        f"with payload.{member} the entry would have {what}, the limit is {limit}: send less; nothing was saved",
        field=f"payload.{member}",
    )


def _shown(entry: Entry, file: str) -> dict[str, Any]:
    """Return an entry as it is answered."""
    return {
        "id": entry.id,
        "category": entry.category,
        "content": entry.content,
        "title": entry.title,
        "aliases": [*entry.aliases],
        "tags": [*entry.tags],
        "metadata": entry.metadata,
        "created": None if entry.created is None else show_time(entry.created),
        "updated": None if entry.updated is None else show_time(entry.updated),
        "by": entry.by,
        "reinforced": entry.reinforced,
        "file": file.split("/", 2)[2],
    }


def _id_of(asked: Asked) -> str:
    payload = asked.payload
    assert isinstance(payload, GetMemory | DeleteMemory)  # noqa: S101  the table pairs type and payload
    return payload.id


def _the_one(id_: str, found: list[str]) -> str:
    """Return the file of an id. Raises Refusal: there is none, or more than one."""
    if not found:
        raise _not_found(id_)
    if len(found) > 1:
        names = " and ".join(file.split("/", 2)[2] for file in sorted(found))
        raise Refusal("conflict", f"{id_} is the id of {names}: rename or remove one of them", field="payload.id")
    return found[0]


def _parsed(entries: EntryFiles, file: str, data: bytes) -> Entry:
    try:
        return entries.parse(file, data)
    except ValueError as error:
        raise Refusal(
            "not_found", f"{file.split('/', 2)[2]} is no entry: {error}; mend or remove it", field="payload.id"
        ) from None


def _not_found(id_: str) -> Refusal:
    return Refusal("not_found", f"no entry of this group has the id {id_}", field="payload.id")
