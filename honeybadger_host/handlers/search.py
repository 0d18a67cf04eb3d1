"""Search: `search_memory` (RB2, RB3, RB5, AM2)."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from honeybadger_agent.wire import Refusal, SearchMemory, SearchScope
from honeybadger_host.context.recall import MAX_RANKED
from honeybadger_host.context.subject import GROUNDS
from honeybadger_host.errors import JournalError
from honeybadger_host.handler_kinds import Asked
from honeybadger_host.journal.edits import EditReader
from honeybadger_host.memory.entries.entry import author_in
from honeybadger_host.memory.markdown.group_files import GroupFiles
from honeybadger_host.memory.markdown.notes import is_pinned
from honeybadger_host.search.documents import KINDS, Kind
from honeybadger_host.search.index import Index
from honeybadger_host.search.lookups import Found, earned, name_of, note_as_edited
from honeybadger_host.search.sources import archive_of
from honeybadger_host.text.time_stamps import read_moment, time_stamp

if TYPE_CHECKING:
    from honeybadger_host.search.corpus import Corpus
    from honeybadger_host.search.ranking import Hit

_MAX_OTHERS = 5  # equal notes named with a hit: a model reads them all
MAX_TEXT_LENGTH = 2000  # characters of a hit's text
_KINDS: Mapping[SearchScope, tuple[Kind, ...]] = {
    "all": KINDS,
    "entries": ("entry",),
    "turns": ("turn",),
    "notes": ("note", "history", "session"),
}
DEFAULT_LIMIT = 8  # hits of a reply to a request that gives no limit


def search_memory(
    index: Index, journal: Path, files: GroupFiles, asked: Asked[SearchMemory], now: datetime
) -> Mapping[str, Any]:
    """Return what is found. The last person who edited an entry or a note is shown as its author.

    Args:
        journal: says who edited which entries.
        files: say who edited which notes.
    """
    payload = asked.payload
    since = moment(payload.since, "since", now)
    until = moment(payload.until, "until", now, is_end=True)
    if since is not None and until is not None and since > until:
        raise Refusal(
            "invalid",
            f"payload.until {payload.until} is before payload.since {payload.since}: exchange them",
            field="payload.until",
        )
    limit = payload.limit or DEFAULT_LIMIT
    vector = None if payload.query is None else index.vector_of(payload.query)
    looks = [asked.group, archive_of(asked.group)] if payload.archived else [asked.group]

    def ask(corpus: Corpus, most: int, group: str) -> dict[int, Hit | None]:
        from honeybadger_host.search.ranking import Filters, newest, search

        filters = Filters(
            kinds=_KINDS["entries" if payload.category or payload.tags else payload.scope or "all"],
            category=payload.category or "",
            tags=payload.tags or (),
            since=since,
            until=until,
            hidden=index.lookups.expired(asked.group, now.timestamp()),
            only_hidden=payload.archived is True and group == asked.group,
        )
        if payload.query is None:
            return dict.fromkeys(newest(corpus, limit=most, filters=filters))
        hits = search(corpus, payload.query, now=now, limit=most, filters=filters, vector=vector)
        return {hit.number: hit for hit in hits}

    for most in (limit, MAX_RANKED):  # again where too few are left without equal notes
        answers = [index.search(group, partial(ask, most=most, group=group)) for group in looks]
        hits = {number: hit for found, _ in answers for number, hit in found.items()}
        stored = index.lookups.show([*hits])
        documents = [stored[number] for number in hits if number in stored]
        if payload.archived:  # without the global group
            documents = _in_order((one for one in documents if one.group in looks), hits)
        folded = _folded(documents)
        if len(folded) >= limit or len(documents) < most:
            break
    edited = as_edited(journal, files, [one for same in folded[:limit] for one in same])
    shown = [_shown([edited[one.number] for one in same], hits[same[0].number]) for same in folded[:limit]]
    if payload.archived:
        shown = [{**one, "archived": True} for one in shown]
    return {"hits": shown, "is_complete": all(is_whole for _, is_whole in answers)}


def as_edited(journal: Path, files: GroupFiles, found: Sequence[Found]) -> dict[int, Found]:
    """Return number -> document; one that a person edited later has that person as its author, and the edit's time."""
    entries = {one.file for one in found if one.kind == "entry"}
    edited = edits_of_entries(journal, entries) if entries else {}
    shown: dict[int, Found] = {}
    for one in found:
        author, at = edited.get(one.file, ("", 0))
        if one.kind != "entry":
            shown[one.number] = note_as_edited(files, one)
        elif at / 1000 > (one.at or 0.0):
            shown[one.number] = one._replace(author=author, at=at / 1000)
        else:
            shown[one.number] = one._replace(author=author_in(one.author, one.marks) or "")
    return shown


def edits_of_entries(journal: Path, files: Collection[str]) -> Mapping[str, tuple[str, int]]:
    """Return file -> author and time of its newest edit; nothing if the journal cannot be read."""
    with contextlib.suppress(JournalError):
        edits = EditReader(journal).edits_of(files)
        return {row.file: (row.sender, row.at) for row in edits if row.kind != "edit_removed"}
    return {}


def is_pinned_note(found: Found) -> bool:
    """Return whether somebody pinned a note: in its text, or in its heading."""
    return found.kind == "note" and is_pinned(f"{found.names}\n{found.text}")


def _in_order(documents: Iterable[Found], hits: Mapping[int, Hit | None]) -> list[Found]:
    """Return the documents of several groups, best first, or newest first when nothing was asked."""

    def rank(one: Found) -> tuple[float, float]:
        hit = hits[one.number]
        return 0.0 if hit is None else hit.score, one.at or 0.0

    return sorted(documents, key=rank, reverse=True)


def _folded(documents: Iterable[Found]) -> list[list[Found]]:
    """Return the documents in order; equal notes of one file and section are grouped with the first of them."""
    folded: dict[tuple[str, ...], list[Found]] = {}
    for one in documents:
        is_note = one.kind == "note"
        folded.setdefault((one.file, one.names, one.text) if is_note else (str(one.number),), []).append(one)
    return list(folded.values())


def moment(text: str | None, member: str, now: datetime, *, is_end: bool = False) -> float | None:
    """Return seconds since the epoch; for a date its first moment, or as an end its last. Raises Refusal."""
    if text is None:
        return None
    try:
        at = read_moment(text, now) / 1000
    except ValueError as error:
        field = f"payload.{member}"
        raise Refusal("invalid", f"{field}: {error}", field=field) from None
    return at + 86_400 - 1e-6 if is_end and ":" not in text else at


def _shown(same: Sequence[Found], hit: Hit | None) -> dict[str, Any]:
    from honeybadger_host.search.ranking import objection  # imports numpy

    found, *others = same
    shown: dict[str, Any] = {
        "id": name_of(found),
        "kind": found.kind,
        "score": None,
        "text": found.text[:MAX_TEXT_LENGTH],
        "is_cut": len(found.text) > MAX_TEXT_LENGTH,
        "source": found.file,
    }
    if hit is not None:
        shown |= earned(hit)
        if GROUNDS.isdisjoint(hit.parts) and (why := objection(hit)) is not None:
            shown["why_weak"] = why
    shown |= _signature(found)
    if found.kind == "entry":
        shown |= {"category": found.category, "tags": list(found.tags), **found.marks}
    if is_pinned_note(found):
        shown["pinned"] = True
    if found.kind == "turn":
        shown["session"] = found.session
    if others:
        shown["also"] = [{"id": name_of(other), **_signature(other)} for other in others[:_MAX_OTHERS]]
    return shown


def _signature(found: Found) -> dict[str, str]:
    """Return when it was said and by whom, as far as that is known."""
    signature = {} if found.at is None else {"time": time_stamp(datetime.fromtimestamp(found.at, UTC))}
    return signature | ({"author": found.author} if found.author else {})
