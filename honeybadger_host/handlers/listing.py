"""`list_memory_entries`: the entries of a group by category and name, as they are indexed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from honeybadger_agent.wire import GENERAL, ListMemoryEntries, Refusal
from honeybadger_agent.wording import shortened
from honeybadger_host.domain import Asked, QueryHandler
from honeybadger_host.handlers.entry_places import named_entry
from honeybadger_host.memory.conditions import holds
from honeybadger_host.memory.entry import Entry, entry_file, marks_of, show_time, version_of
from honeybadger_host.memory.entry_store import EntryFiles
from honeybadger_host.memory.labels import is_below
from honeybadger_host.search.index import Index
from honeybadger_host.search.lookups import Listed
from honeybadger_host.storage.atomic_files import read_whole
from honeybadger_host.text.neutralise import one_line

_DEFAULT_LIMIT: Final = 200
_MOST_BEGINNING: Final = 160
_READ_AT_ONCE: Final = 500
_MOST_REPLY_BYTES: Final = 1 << 20


def list_memory_entries(entries: EntryFiles, index: Index) -> QueryHandler:
    """Return the handler of `list_memory_entries`. An entry that was just saved by name is found without the index."""

    def answer(asked: Asked, now: datetime) -> Mapping[str, Any]:
        payload: ListMemoryEntries = asked.payload
        is_complete = index.bring_up(asked.group)
        if payload.name is not None:
            category = entries.place(asked.group, payload.category or GENERAL, is_new=False)
            rows = _named(payload, asked.group, category, payload.name)
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

        def page(limit: int, offset: int) -> Sequence[Listed]:
            if payload.newest:
                return index.lookups.newest(asked.group, payload.category, payload.author, limit, offset)
            categories, passed_over = _page(counts, limit, offset)
            return index.lookups.listed(asked.group, categories, payload.author, limit, passed_over)

        total = sum(counts.values())
        if payload.where is not None:
            rows, total, has_more = _matching(payload, asked.group, page, limit, offset)
        elif payload.with_content:
            rows, has_more = _with_texts(payload, asked.group, page(limit, offset))
        else:
            rows, has_more = [_row(each) for each in page(limit, offset)], False
        return {
            "entries": rows,
            "total": total,
            "folders": _folders(found, base, base + depth + 1),
            "is_complete": is_complete,
            "has_more": has_more or offset + len(rows) < total,
        }

    def _matching(
        payload: ListMemoryEntries, group: str, page: Callable[[int, int], Sequence[Listed]], limit: int, offset: int
    ) -> tuple[list[dict[str, Any]], int, bool]:
        """Return the rows for which the conditions hold, how many such there are, and whether some are left out."""
        wanted: list[Listed] = []
        total = at = 0
        while listed := page(_READ_AT_ONCE, at):
            at += len(listed)
            for each in listed:
                read = _read(group, each)
                if read is not None and holds(payload.where or {}, read[1]):
                    total += 1
                    if offset < total <= offset + limit:
                        wanted.append(each)
        rows, has_more = _with_texts(payload, group, wanted)
        return rows, total, has_more

    def _with_texts(
        payload: ListMemoryEntries, group: str, listed: Sequence[Listed]
    ) -> tuple[list[dict[str, Any]], bool]:
        """Return rows, where asked for with what the files hold, and whether a reply has no room for all."""
        if not payload.with_content:
            return [_row(each) for each in listed], False
        rows: list[dict[str, Any]] = []
        size = 0
        for each in listed:
            data, entry = _read(group, each) or (b"", None)
            size += len(data)
            if rows and size > _MOST_REPLY_BYTES:
                return rows, True
            rows.append(_row(each) if entry is None else {**_row(each), **_text(entry, data)})
        return rows, False

    def _read(group: str, listed: Listed) -> tuple[bytes, Entry] | None:
        """Return what the file of an entry holds now, and the entry; None: it went away meanwhile."""
        place = entry_file(group, listed.category, listed.key)
        found = [place] if (entries.home / place).is_file() else entries.find(group, listed.key)
        for file in found:
            with suppress(ValueError):
                data = read_whole(entries.home / file) or b""
                return data, entries.parse(file, data)
        return None

    def _named(payload: ListMemoryEntries, group: str, category: str, name: str) -> list[dict[str, Any]]:
        found = named_entry(entries, index.lookups, group, category, name)
        if found is None or (payload.where is not None and not holds(payload.where, found[2])):
            return []
        _, data, entry = found
        at = entry.updated or entry.created
        seconds = None if at is None else at.timestamp()
        size = len(entry.content.encode("utf-8", "surrogatepass"))
        title, begins, marks = entry.title or "", entry.content[:400], marks_of(entry)
        row = _row(Listed(entry.id, category, name, title, begins, size, entry.by or "", seconds, marks))
        return [{**row, **_text(entry, data)} if payload.with_content else row]

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


def _text(entry: Entry, data: bytes) -> dict[str, Any]:
    """Return the members of a row that has the text of its entry."""
    return {
        "content": entry.content,
        "metadata": entry.metadata,
        "created": None if entry.created is None else show_time(entry.created),
        "version": version_of(data),
    }


def _levels(category: str) -> int:
    return category.count("/") + 1
