"""Working memory: `save_to_working_memory`, `get_from_…`, `search_…`, `list_working_memory` (RB6, RB12)."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from honeybadger_agent.wire import (
    MAX_DATA_BYTES,
    GetFromWorkingMemory,
    Refusal,
    SaveToWorkingMemory,
    SearchWorkingMemory,
)
from honeybadger_host.handler_kinds import Asked, Outcome
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.handlers.redaction import check_size, not_blank, with_neutralised
from honeybadger_host.journal.changes import FileWritten
from honeybadger_host.memory.working_memory import (
    WorkingEntry,
    dump_working,
    live,
    own_entry,
    span_text,
    working_file,
)
from honeybadger_host.search.working_search import find, preview
from honeybadger_host.text.labels import each_once
from honeybadger_host.text.time_stamps import time_stamp

DEFAULT_TTL_MINUTES = 5.0
MAX_ENTRIES = 50  # entries of a session; expired ones do not count
OFF = "working memory is off on this host (working.enabled): do without it"


def save(deps: Dependencies, asked: Asked[SaveToWorkingMemory], now: datetime) -> Outcome:
    """Save an entry; one that exists gets the new data and the new expiry."""
    payload = asked.payload
    texts = deps.texts(asked)
    key = texts.name("payload.key", payload.key)
    data = texts.said("payload.data", payload.data, heading=key)
    check_size("payload.data", len(data.encode()), MAX_DATA_BYTES, "bytes")
    file = working_file(asked.group, asked.session, key)
    held = deps.whole_files.view(file)
    if held is not None:
        own_entry(held, asked.group, asked.session, file)
    entries = deps.working_memory.view(asked.group, asked.session).items()
    lives = {name: entry.remaining(now) for name, entry in entries if not entry.is_expired(now)}
    if file not in lives and len(lives) >= MAX_ENTRIES:
        raise Refusal(
            "too_large",
            f"the working memory of session {asked.session} holds {len(lives)} entries, the limit is {MAX_ENTRIES}: "
            f"save under a key it has (list_working_memory), which replaces that entry, or "
            f"wait: the next one expires in {span_text(min(lives.values()))}; nothing was saved",
            field="payload.key",
        )
    minutes = DEFAULT_TTL_MINUTES if payload.ttl_minutes is None else payload.ttl_minutes
    entry = WorkingEntry(
        key=key,
        session=asked.session,
        category=None if payload.category is None else texts.line("payload.category", payload.category),
        tags=each_once(texts.line("payload.tags", tag) for tag in payload.tags or ()),
        stored_at=now,
        expires_at=now + timedelta(minutes=minutes),
        by=asked.sender,
        request=asked.request_id,
        data=data,
    )
    change = FileWritten(asked.group, "working", file, dump_working(entry), held)
    result = {"key": key, "expires_at": time_stamp(entry.expires_at, "milliseconds"), "replaced": file in lives}
    return Outcome(with_neutralised(result, texts.changed), (change,))


def get(deps: Dependencies, asked: Asked[GetFromWorkingMemory], now: datetime) -> Mapping[str, Any]:
    entry = deps.working_memory.read(asked.group, asked.session, asked.payload.key)
    if entry is None or entry.is_expired(now):
        raise Refusal(
            "not_found",
            f"the working memory of session {asked.session} has no such key, or it has expired; list_working_memory "
            "shows what is there",
            field="payload.key",
        )
    return {**_label(entry), "stored_at": time_stamp(entry.stored_at, "milliseconds"), "data": entry.data}


def search(deps: Dependencies, asked: Asked[SearchWorkingMemory], now: datetime) -> Mapping[str, Any]:
    payload = asked.payload
    not_blank("payload.query", payload.query)
    entries, _ = deps.working_memory.look(asked.group, asked.session)
    found = find(live(entries, now), payload.query, payload.category, payload.tags or (), now=now)
    hits = [
        {**_label(entry), "score": round(score, 4), "text": preview(entry, payload.query)} for entry, score in found
    ]
    return {"hits": hits}


def list_entries(deps: Dependencies, asked: Asked, now: datetime) -> Mapping[str, Any]:
    """Return the entries by key, without data."""
    entries, skipped = deps.working_memory.look(asked.group, asked.session)
    return {
        "entries": [_label(entry) for entry in live(entries, now)],
        "max_entries": MAX_ENTRIES,
        "skipped": skipped,
    }


def _label(entry: WorkingEntry) -> dict[str, Any]:
    return {
        "key": entry.key,
        "expires_at": time_stamp(entry.expires_at, "milliseconds"),
        "category": entry.category,
        "tags": list(entry.tags),
        "by": entry.by,
        "characters": len(entry.data),
    }
