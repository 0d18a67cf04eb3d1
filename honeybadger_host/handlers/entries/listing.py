"""`list_memory_entries`: the entries of a group by category and name, as they are indexed."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from honeybadger_agent.wire import GENERAL, ListMemoryEntries, Refusal
from honeybadger_agent.wording import shortened
from honeybadger_host.handler_kinds import MAX_REPLY_BYTES, Asked, QueryHandler
from honeybadger_host.handlers.entries.places import named_entry
from honeybadger_host.memory.entries.entry import Entry, entry_file, marks_of, show_time, version_of
from honeybadger_host.memory.entries.store import EntryFiles
from honeybadger_host.search.index import Index
from honeybadger_host.search.index_db import IN_ONE_QUERY
from honeybadger_host.search.lookups import Listed
from honeybadger_host.text.labels import is_below
from honeybadger_host.text.neutralise import one_line

_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
_DEFAULT_LIMIT: Final = 200  # entries of a reply to a request that gives no limit
_MAX_BEGINNING: Final = 160  # characters of an entry's text in a list


def list_memory_entries(entries: EntryFiles, index: Index) -> QueryHandler:
    """Return the handler of `list_memory_entries`. An entry asked for by name is found before it is indexed."""
    listing = _Listing(entries, index)

    def answer(asked: Asked, now: datetime) -> Mapping[str, Any]:
        payload: ListMemoryEntries = asked.payload
        is_complete = index.bring_up(asked.group)
        if payload.name is not None:
            rows = listing.named(asked.group, payload, payload.name)
            return {"entries": rows, "total": len(rows), "folders": [], "is_complete": is_complete or bool(rows)}
        return {**listing.paged(asked.group, payload), "is_complete": is_complete}

    return QueryHandler(answer)


@dataclass(frozen=True, slots=True)
class _Listing:
    """Lists entries from the index, with the content of their files if that is asked for."""

    entries: EntryFiles
    index: Index

    def named(self, group: str, payload: ListMemoryEntries, name: str) -> list[dict[str, Any]]:
        """Return the row of the entry with a name; empty when there is none, or the conditions do not hold."""
        category = self.entries.place(group, payload.category or GENERAL, is_new=False)
        found = named_entry(self.entries, self.index.lookups, group, category, name)
        if found is None or (payload.where is not None and not holds(payload.where, found[2])):
            return []
        _, data, entry = found
        at = entry.updated or entry.created
        seconds = None if at is None else at.timestamp()
        size = len(entry.content.encode("utf-8", "surrogatepass"))
        title, begins, marks = entry.title or "", entry.content[:400], marks_of(entry)
        row = _row(Listed(entry.id, category, name, title, begins, size, entry.by or "", seconds, marks))
        return [{**row, **_text(entry, data)} if payload.with_content else row]

    def paged(self, group: str, payload: ListMemoryEntries) -> dict[str, Any]:
        """Return the members of a reply with a page of entries, and with the categories. Raises Refusal."""
        if payload.newest and payload.depth is not None:
            raise Refusal("invalid", "payload.depth is not taken with `newest`", field="payload.depth")
        sizes = list(self.index.lookups.sizes(group, payload.author))
        base = 0
        if payload.category is not None:
            base = _levels(payload.category)
            sizes = [row for row in sizes if is_below(row[0], payload.category)]
        depth = 8 if payload.depth is None else payload.depth  # 8 is the largest that a request may ask for
        deepest = base + depth
        counts = {category: count for category, count, _ in sizes if _levels(category) <= deepest}
        limit = _DEFAULT_LIMIT if payload.limit is None else payload.limit
        offset = payload.offset or 0
        if payload.where is None:
            total = sum(counts.values())
            page = self._page(group, payload, counts, limit, offset)
        else:
            matching = self._matching(group, payload, counts, payload.where)
            total = len(matching)
            page = matching[offset : offset + limit]
        rows, has_more = self._with_texts(payload, group, page)
        return {
            "entries": rows,
            "total": total,
            "folders": _folders(sizes, base, deepest + 1),
            "has_more": has_more or offset + len(rows) < total,
        }

    def _page(
        self, group: str, payload: ListMemoryEntries, counts: Mapping[str, int], limit: int, offset: int
    ) -> Sequence[Listed]:
        """Return a page of the entries that are asked for.

        Args:
            counts: category -> entries directly in it, sorted.
        """
        if payload.newest:
            return self.index.lookups.newest(group, payload.category, payload.author, limit, offset)
        categories, passed_over = _page(counts, limit, offset)
        return self.index.lookups.listed(group, categories, payload.author, limit, passed_over)

    def _matching(
        self, group: str, payload: ListMemoryEntries, counts: Mapping[str, int], where: Mapping[str, Any]
    ) -> list[Listed]:
        """Return the entries for which the conditions hold; each file is read for it."""
        matching: list[Listed] = []
        offset = 0
        while listed := self._page(group, payload, counts, IN_ONE_QUERY, offset):
            offset += len(listed)
            for each in listed:
                read = self._read(group, each)
                if read is not None and holds(where, read[1]):
                    matching.append(each)
        return matching

    def _with_texts(
        self, payload: ListMemoryEntries, group: str, listed: Sequence[Listed]
    ) -> tuple[list[dict[str, Any]], bool]:
        """Return rows, with the content of their files if asked for, and whether the reply has no room for all."""
        if not payload.with_content:
            return [_row(each) for each in listed], False
        rows: list[dict[str, Any]] = []
        size = 0
        for each in listed:
            data, entry = self._read(group, each) or (b"", None)
            size += len(data)
            if rows and size > MAX_REPLY_BYTES:
                return rows, True
            rows.append(_row(each) if entry is None else {**_row(each), **_text(entry, data)})
        return rows, False

    def _read(self, group: str, listed: Listed) -> tuple[bytes, Entry] | None:
        """Return the bytes of an entry's file and the entry, or None if the file is gone."""
        place = entry_file(group, listed.category, listed.key)
        found = [place] if (self.entries.home / place).is_file() else self.entries.find(group, listed.key)
        for file in found:
            with suppress(ValueError):
                data = self.entries.read(file) or b""
                return data, self.entries.parse(file, data)
        return None


def _page(counts: Mapping[str, int], limit: int, offset: int) -> tuple[list[str], int]:
    """Return the categories of a page of entries, and the number of their entries before the page.

    Args:
        counts: category -> entries directly in it, sorted; a group may have more categories than one query takes.
    """
    taken: list[str] = []
    start = 0
    for category, count in counts.items():
        if start + count > offset and start < offset + limit:
            taken.append(category)
        elif not taken:
            offset -= count
            continue
        start += count
    return taken, offset


def _folders(sizes: Sequence[tuple[str, int, int]], base: int, deepest: int) -> list[dict[str, Any]]:
    """Return the categories from `base` down to `deepest` levels with their entries, parents first."""
    counts: dict[tuple[str, ...], list[int]] = {}
    for category, entries, size in sizes:
        parts = tuple(category.split("/"))
        for level in range(max(base, 1), min(len(parts), deepest) + 1):
            row = counts.setdefault(parts[:level], [0, 0, 0])
            row[0] += entries if level == len(parts) else 0
            row[1] += entries
            row[2] += size
    return [
        {"category": "/".join(parts), "entries": just, "total": total, "bytes": size}
        for parts, (just, total, size) in sorted(counts.items())
    ]


def _row(listed: Listed) -> dict[str, Any]:
    return {
        "id": listed.key,
        "category": listed.category,
        "name": listed.name or None,
        "title": listed.title or None,
        "begins": shortened(one_line(listed.begins).text, _MAX_BEGINNING),
        "bytes": listed.bytes,
        "author": listed.author or None,
        "pinned": listed.marks.get("pinned", False),
        "valid_until": listed.marks.get("valid_until"),
        "updated": None if listed.at is None else show_time(datetime.fromtimestamp(listed.at, UTC)),
    }


def _text(entry: Entry, data: bytes) -> dict[str, Any]:
    """Return the members that a row has in addition if the content is asked for."""
    return {
        "content": entry.content,
        "metadata": entry.metadata,
        "created": None if entry.created is None else show_time(entry.created),
        "version": version_of(data),
    }


def _levels(category: str) -> int:
    return category.count("/") + 1


# ------------------------------------------------------------------------------------------------- conditions (`where`)


def holds(where: Mapping[str, Any], entry: Entry) -> bool:
    """Return whether all conditions hold for an entry. A missing member is null."""
    held: dict[str, Any] = {"metadata": entry.metadata, "content": _json_of(entry.content)}
    for path, condition in where.items():
        value: Any = held
        for part in path.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        operators = condition if isinstance(condition, Mapping) else {"$eq": condition}
        if not all(_compared(value, name, wanted) for name, wanted in operators.items()):
            return False
    return True


def _json_of(content: str) -> Any:
    """Return the JSON that a text is, or None if it is not."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return None


def _compared(value: Any, name: str, wanted: Any) -> bool:
    """Return whether a condition holds for a value. Only two numbers, or two texts, have an order."""
    if name in ("$eq", "$ne"):
        is_same = value == wanted and isinstance(value, bool) == isinstance(wanted, bool)
        return is_same == (name == "$eq")
    for kind in (str, int | float):
        if isinstance(value, kind) and isinstance(wanted, kind) and not isinstance(value, bool):
            return _COMPARISONS[name](value, wanted)
    return False
