"""`list_memory_entries`: the entries of a group by category and name, as they are indexed; and its categories."""

import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from honeybadger_agent.wire import GENERAL, ListMemoryEntries
from honeybadger_agent.wording import shortened
from honeybadger_host.handler_kinds import MAX_REPLY_BYTES, Asked
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.memory.entries.entry import Entry, entry_file, show_time, version_of
from honeybadger_host.memory.entries.store import EntryFiles
from honeybadger_host.search.documents import Piece
from honeybadger_host.search.lookups import Among
from honeybadger_host.text.json_values import value_in
from honeybadger_host.text.neutralise import one_line

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
_DEFAULT_LIMIT = 200  # entries of a reply to a request that gives no limit
MAX_BEGINNING = 160  # characters of a text in a list: about two lines of a table


def list_memory_categories(deps: Dependencies, asked: Asked, now: datetime) -> Mapping[str, Any]:
    """Return the categories with entries, as they are indexed, and those above them."""
    deps.index.bring_up(asked.group)
    sizes = deps.index.lookups.sizes(asked.group)
    rows = [{name: row[name] for name in ("category", "entries", "total")} for row in _folders(sizes)]
    return {"categories": rows, "total": sum(count for _, count, _ in sizes)}


def list_memory_entries(deps: Dependencies, asked: Asked[ListMemoryEntries], now: datetime) -> Mapping[str, Any]:
    """Return a page of entries from the index, with the content of their files if asked for, and the categories."""
    payload, group, lookups = asked.payload, asked.group, deps.index.lookups
    is_complete = deps.index.bring_up(group)
    among, base = _among(deps.entry_files, group, payload)
    limit = _DEFAULT_LIMIT if payload.limit is None else payload.limit
    offset, is_newest = payload.offset or 0, payload.newest or False
    sizes = [] if payload.name is not None else lookups.sizes(group, payload.author, among.category)
    deepest = 8 if among.levels is None else among.levels  # no category is deeper
    if payload.where is None:
        page = lookups.listed(group, among, limit, offset, newest=is_newest)
        total = sum(count for category, count, _ in sizes if _levels(category) <= deepest)
        if payload.name is not None:
            total = len(page)
    else:
        every = lookups.listed(group, among, newest=is_newest)
        matching = [each for each in every if _holds(deps.entry_files, payload.where, group, each[0])]
        page, total = matching[offset : offset + limit], len(matching)
    rows, has_more = _with_texts(deps.entry_files, group, page, with_content=payload.with_content or False)
    return {
        "entries": rows,
        "total": total,
        "folders": _folders(sizes, base, deepest + 1),
        "has_more": has_more or offset + len(rows) < total,
        "is_complete": is_complete,
    }


def _among(entries: EntryFiles, group: str, payload: ListMemoryEntries) -> tuple[Among, int]:
    """Return the entries that are asked for, and the levels of their category."""
    category = payload.category if payload.name is None else payload.category or GENERAL
    if category is not None:
        category = entries.place(group, category, is_new=False)
    base = 0 if category is None else _levels(category)
    levels = None if payload.depth is None else base + payload.depth
    if payload.name is not None:
        levels = base
    return Among(category, levels, payload.author, payload.name), base


def _holds(entries: EntryFiles, where: Mapping[str, Any], group: str, listed: Piece) -> bool:
    """Return whether the conditions hold for an entry, whose file is read for it."""
    read = _read(entries, group, listed)
    return read is not None and holds(where, read[1])


def _with_texts(
    entries: EntryFiles, group: str, listed: Sequence[tuple[Piece, int]], *, with_content: bool
) -> tuple[list[dict[str, Any]], bool]:
    """Return rows, with the content of their files if asked for, and whether the reply has no room for all."""
    if not with_content:
        return [_row(*each) for each in listed], False
    rows: list[dict[str, Any]] = []
    size = 0
    for each in listed:
        data, entry = _read(entries, group, each[0]) or (b"", None)
        size += len(data)
        if rows and size > MAX_REPLY_BYTES:
            return rows, True
        rows.append(_row(*each) if entry is None else {**_row(*each), **_text(entry, data)})
    return rows, False


def _read(entries: EntryFiles, group: str, listed: Piece) -> tuple[bytes, Entry] | None:
    """Return the bytes of an entry's file and the entry, or None if the file is gone."""
    place = entry_file(group, listed.category, listed.key)
    found = [place] if (entries.home / place).is_file() else entries.find(group, listed.key)
    for file in found:
        with suppress(ValueError):
            data = entries.read(file) or b""
            return data, entries.parse(file, data)
    return None


def _folders(sizes: Sequence[tuple[str, int, int]], base: int = 0, deepest: int = 8) -> list[dict[str, Any]]:
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


def _row(listed: Piece, size: int) -> dict[str, Any]:
    """Return an entry of a list; `size`: bytes of its text."""
    marks = value_in(listed.marks) or {}
    return {
        "id": listed.key,
        "category": listed.category,
        "name": listed.name or None,
        "title": listed.title or None,
        "begins": shortened(one_line(listed.text).text, MAX_BEGINNING),
        "bytes": size,
        "author": listed.author or None,
        "pinned": marks.get("pinned", False),
        "valid_until": marks.get("valid_until"),
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
    held: dict[str, Any] = {"metadata": entry.metadata, "content": value_in(entry.content)}
    for path, condition in where.items():
        value: Any = held
        for part in path.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        operators = condition if isinstance(condition, Mapping) else {"$eq": condition}
        if not all(_compared(value, name, wanted) for name, wanted in operators.items()):
            return False
    return True


def _compared(value: Any, name: str, wanted: Any) -> bool:
    """Return whether a condition holds for a value. Only two numbers, or two texts, have an order."""
    if name in ("$eq", "$ne"):
        is_same = value == wanted and isinstance(value, bool) == isinstance(wanted, bool)
        return is_same == (name == "$eq")
    for kind in (str, int | float):
        if isinstance(value, kind) and isinstance(wanted, kind) and not isinstance(value, bool):
            return _COMPARISONS[name](value, wanted)
    return False
