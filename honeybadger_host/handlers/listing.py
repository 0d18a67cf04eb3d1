"""`list_memory_entries`: the entries of a group by category and name, as they are indexed, without their text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from honeybadger_agent.wire import GENERAL, ListMemoryEntries, Refusal
from honeybadger_agent.wording import shortened
from honeybadger_host.domain import Asked, QueryHandler
from honeybadger_host.handlers.entry_places import named_entry
from honeybadger_host.memory.entry import marks_of, show_time
from honeybadger_host.memory.entry_store import EntryFiles
from honeybadger_host.memory.labels import is_below
from honeybadger_host.search.index import Index
from honeybadger_host.search.lookups import Listed
from honeybadger_host.text.neutralise import one_line

_DEFAULT_LIMIT: Final = 200
_MOST_BEGINNING: Final = 160


def list_memory_entries(entries: EntryFiles, index: Index) -> QueryHandler:
    """Return the handler of `list_memory_entries`. An entry that was just saved by name is found without the index."""

    def answer(asked: Asked, now: datetime) -> Mapping[str, Any]:
        payload: ListMemoryEntries = asked.payload
        is_complete = index.bring_up(asked.group)
        if payload.name is not None:
            category = entries.place(asked.group, payload.category or GENERAL, is_new=False)
            row = _named(asked.group, category, payload.name)
            rows = [] if row is None else [row]
            return {"entries": rows, "total": len(rows), "folders": [], "is_complete": is_complete or bool(rows)}
        found = list(index.lookups.sizes(asked.group, payload.author))
        if payload.category is not None:
            found = [row for row in found if is_below(row[0], payload.category)]
        if payload.newest and payload.depth is not None:
            raise Refusal("invalid", "payload.depth is not taken with `newest`", field="payload.depth")
        base = 0 if payload.category is None else _levels(payload.category)
        depth = 8 if payload.depth is None else payload.depth
        counts = {category: count for category, count, _ in found if _levels(category) - base <= depth}
        limit = _DEFAULT_LIMIT if payload.limit is None else payload.limit
        offset = payload.offset or 0
        if payload.newest:
            listed = index.lookups.newest(asked.group, payload.category, payload.author, limit, offset)
        else:
            categories, passed_over = _page(counts, limit, offset)
            listed = index.lookups.listed(asked.group, categories, payload.author, limit, passed_over)
        return {
            "entries": [_row(each) for each in listed],
            "total": sum(counts.values()),
            "folders": _folders(found, base, base + depth + 1),
            "is_complete": is_complete,
        }

    def _named(group: str, category: str, name: str) -> Mapping[str, Any] | None:
        found = named_entry(entries, index.lookups, group, category, name)
        if found is None:
            return None
        _, _, entry = found
        at = entry.updated or entry.created
        seconds = None if at is None else at.timestamp()
        size = len(entry.content.encode("utf-8", "surrogatepass"))
        title, begins, marks = entry.title or "", entry.content[:400], marks_of(entry)
        return _row(Listed(entry.id, category, name, title, begins, size, entry.by or "", seconds, marks))

    return QueryHandler(answer)


def _page(counts: Mapping[str, int], limit: int, offset: int) -> tuple[list[str], int]:
    """Return the categories that a page of entries lies in, and how many of their entries come before it.

    Args:
        counts: category -> entries just in it, sorted; a group may have more than one query takes.
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
    """Return the categories from `base` to `deepest` levels, each before those below it, with what is in them."""
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
        "begins": shortened(one_line(listed.begins).text, _MOST_BEGINNING),
        "bytes": listed.bytes,
        "author": listed.author or None,
        "pinned": listed.marks.get("pinned", False),
        "valid_until": listed.marks.get("valid_until"),
        "updated": None if listed.at is None else show_time(datetime.fromtimestamp(listed.at, UTC)),
    }


def _levels(category: str) -> int:
    return category.count("/") + 1
