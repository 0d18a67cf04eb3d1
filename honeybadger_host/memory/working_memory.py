"""Working memory: scratch entries of one session that expire (RB6). Pure.

One file for each key, `data/working/<group>/<session>/<key>.json`, so that a save writes one small file and one row of
the journal, and what a session may see is a folder of its own.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import orjson

from honeybadger_host.memory.labels import has_all, is_below
from honeybadger_host.search.language.analyzer import QueryTerm, analyse_query, entry_terms
from honeybadger_host.text.neutralise import estimate_tokens, list_line, one_line
from honeybadger_host.text.time_stamps import time_stamp

HEADING: Final = (
    "Working memory (scratch space \N{EM DASH} use search_working_memory or get_from_working_memory to retrieve):"
)
ROOT: Final = "data/working"
_PLAIN: Final = re.compile(rb"[a-z0-9_.-]")
_LONGEST_NAME: Final = 180
"""Bytes; with `.json`, and what a temporary file adds, below the 255 that file systems allow."""
_K1: Final = 0.9
_B: Final = 0.4
"""BM25 as `recall` has it for documents."""
_PREVIEW: Final = 200


@dataclass(frozen=True, slots=True)
class Label:
    """An entry without its data.

    Args:
        key: one visible line, unique in its session, case and all.
        tags: each once; may be empty.
        stored_at: UTC, whole milliseconds.
        expires_at: likewise; from then on there is no such entry.
        by: the sender's folder it came from.
        characters: of its data.
    """

    key: str
    category: str | None
    tags: tuple[str, ...]
    stored_at: datetime
    expires_at: datetime
    by: str
    characters: int

    def is_expired(self, now: datetime) -> bool:
        """Return whether there is no such entry any more.

        The clock on the wall decides, so an expiry survives a restart. A clock that is set back may lengthen a life
        once, by at most its own length: an entry from further in the future than it was to live is from another time.
        """
        return now >= self.expires_at or now < self.stored_at - (self.expires_at - self.stored_at)

    def remaining(self, now: datetime) -> timedelta:
        """Return how long it lives on: never longer than it was to live when it was saved."""
        return max(timedelta(0), min(self.expires_at - now, self.expires_at - self.stored_at))


@dataclass(frozen=True, slots=True)
class WorkingEntry:
    """An entry: its label and the data, as it was sent."""

    label: Label
    data: str


@dataclass(frozen=True, slots=True)
class InventoryLine:
    """One entry in the context."""

    text: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Inventory:
    """What the context tells of a session's working memory.

    Args:
        source: the session's folder, below the home folder.
        lines: by key.
        problem: why the folder cannot be read; None: it can.
        absent_why: said when there are no lines.
    """

    source: str
    lines: Sequence[InventoryLine] = ()
    problem: str | None = None
    absent_why: str = "there is nothing in the working memory of this session"


# --------------------------------------------------------------------------------------------------------------- files


def file_name(name: str) -> str:
    """Return a name for a file or a folder that nothing else gets, also where upper and lower case are the same.

    Lower-case ASCII letters, digits, `_`, `-`, and dots behind the first character stand as they are; every other byte
    of its UTF-8 is `%` and two hex digits. What gets too long ends with `~` and its SHA-256.
    """
    data = name.encode()
    parts = [
        chr(byte) if _PLAIN.match(data, at) and (at or byte != ord(".")) else f"%{byte:02x}"
        for at, byte in enumerate(data)
    ]
    encoded = "".join(parts)
    if len(encoded) <= _LONGEST_NAME:
        return encoded
    return f"{encoded[: _LONGEST_NAME - 65].rpartition('%')[0] or encoded[:60]}~{hashlib.sha256(data).hexdigest()}"


def session_folder(group: str, session: str) -> str:
    """Return the folder of a session's working memory, below the home folder."""
    return f"{ROOT}/{group}/{file_name(session)}"


def entry_file(group: str, session: str, key: str) -> str:
    """Return the file of an entry, below the home folder."""
    return f"{session_folder(group, session)}/{file_name(key)}.json"


def dump_entry(entry: WorkingEntry, session: str, request_id: str) -> bytes:
    """Return the entry as its file holds it."""
    label = entry.label
    value = {
        "key": label.key,
        "session": session,
        "category": label.category,
        "tags": label.tags,
        "stored_at": time_stamp(label.stored_at, "milliseconds"),
        "expires_at": time_stamp(label.expires_at, "milliseconds"),
        "by": label.by,
        "request": request_id,
        "data": entry.data,
    }
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def parse_entry(data: bytes) -> tuple[WorkingEntry, str]:
    """Return the entry a file holds and the session it says it is of; a time without a zone is UTC.

    Raises ValueError: what is wrong with it.
    """
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    texts = {name: _text(value, name) for name in ("key", "session", "data", "by")}
    category, tags = value.get("category"), value.get("tags") or []
    if not (category is None or isinstance(category, str)):
        raise ValueError("category must be text or null")
    if not (isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)):
        raise ValueError("tags must be a list of text")
    stored_at, expires_at = _time(value, "stored_at"), _time(value, "expires_at")
    label = Label(texts["key"], category, tuple(tags), stored_at, expires_at, texts["by"], len(texts["data"]))
    return WorkingEntry(label, texts["data"]), texts["session"]


def parse_own(data: bytes, group: str, session: str, file: str) -> WorkingEntry:
    """Return the entry of one file of a session. Raises ValueError: it is none, or another file's."""
    entry, of_session = parse_entry(data)
    if of_session != session or entry_file(group, session, entry.label.key) != file:
        raise ValueError("it holds the entry of another key or session, as a copy does: rename it, or correct it")
    return entry


def _text(value: Mapping[str, Any], name: str) -> str:
    text = value.get(name)
    if not isinstance(text, str):
        raise ValueError(f"{name} must be text")
    return text


def _time(value: Mapping[str, Any], name: str) -> datetime:
    try:
        at = datetime.fromisoformat(value[name])
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be a time, as 2026-11-21T06:05:00Z") from None


# ----------------------------------------------------------------------------------------------------------- inventory


def live(labels: Iterable[Label], now: datetime) -> list[Label]:
    """Return the entries that have not expired, by key."""
    return sorted((label for label in labels if not label.is_expired(now)), key=lambda label: label.key)


def inventory(source: str, labels: Iterable[Label], now: datetime) -> Inventory:
    """Return what the context tells of a session's entries, expired ones left out."""
    lines = [InventoryLine(inventory_line(label, now), label.expires_at) for label in live(labels, now)]
    return Inventory(source, lines)


def inventory_line(label: Label, now: datetime) -> str:
    """Return `- key: expires in 4m32s, category: c, tags: a, b` and a line end; what is blank is left out (RB6)."""
    parts = [f"{one_line(label.key).text}: expires in {span_text(label.remaining(now))}"]
    if category := one_line(label.category or "").text:
        parts.append(f"category: {category}")
    if tags := [text for tag in label.tags if (text := one_line(tag).text)]:
        parts.append(f"tags: {', '.join(tags)}")
    return list_line(", ".join(parts))


def span_text(span: timedelta) -> str:
    """Return `4m32s`, `0m05s`, `1h00m00s`, the begun second left out."""
    minutes, seconds = divmod(int(span.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m{seconds:02}s" if hours else f"{minutes}m{seconds:02}s"


def cut_inventory(lines: Sequence[InventoryLine], share_tokens: int) -> tuple[str, int]:
    """Return the lines that fit a share, in their order, and how many were left out; those that expire first go first.

    Returns:
        ("", all of them) when not even one fits beside the line that says so.
    """
    mark = "[... {} more that expire sooner, see list_working_memory]\n"
    room = share_tokens - estimate_tokens(mark.format(len(lines))) - 1
    kept: set[int] = set()
    for at in sorted(range(len(lines)), key=lambda at: lines[at].expires_at, reverse=True):
        if (cost := estimate_tokens(lines[at].text) + 1) > room:
            break
        room -= cost
        kept.add(at)
    left_out = len(lines) - len(kept)
    if not kept:
        return "", left_out
    return "".join(line.text for at, line in enumerate(lines) if at in kept) + mark.format(left_out), left_out


# -------------------------------------------------------------------------------------------------------------- search


def find(
    entries: Sequence[WorkingEntry], query: str, category: str | None = None, tags: Sequence[str] = ()
) -> list[tuple[WorkingEntry, float]]:
    """Return the entries that a question's words are found in, best first, with their scores (BM25).

    Args:
        category: see `labels.is_below`.
        tags: an entry must have them all, whatever their case.
    Source: RB6; the text of an entry is key, data, tags and category.
    """
    asked = analyse_query(query).terms
    texts = [Counter(_terms_of(entry)) for entry in entries]
    lengths = [max(1, counts.total()) for counts in texts]
    average = sum(lengths) / max(1, len(lengths))
    found: list[tuple[WorkingEntry, float]] = []
    rarities = [_rarity(term, texts) for term in asked]
    for entry, counts, length in zip(entries, texts, lengths, strict=True):
        label = entry.label
        if category is not None and not is_below(label.category, category):
            continue
        if not has_all(label.tags, tags):
            continue
        score = 0.0
        for term, rarity in zip(asked, rarities, strict=True):
            count = _count(term, counts)
            score += term.weight * rarity * count * (_K1 + 1) / (count + _K1 * (1 - _B + _B * length / average))
        if score > 0:
            found.append((entry, score))
    return sorted(found, key=lambda hit: (-hit[1], hit[0].label.key))


def preview(entry: WorkingEntry, query: str) -> str:
    """Return a piece of the data around the first word that was asked for, on one line, at most 200 characters."""
    words = {re.escape(word) for term in analyse_query(query).terms for word in (term.word, *term.forms)}
    first = re.search(rf"(?<![A-Za-z0-9])(?:{'|'.join(sorted(words))})", entry.data, re.IGNORECASE) if words else None
    start = max(0, first.start() - _PREVIEW // 4) if first else 0
    return one_line(entry.data[start : start + _PREVIEW]).text


def _terms_of(entry: WorkingEntry) -> list[str]:
    label = entry.label
    return entry_terms(entry.data, label.category or "", (label.key, *label.tags))


def _count(term: QueryTerm, counts: Counter[str]) -> int:
    return sum(counts[form] for form in term.forms)


def _rarity(term: QueryTerm, texts: Sequence[Counter[str]]) -> float:
    within = sum(1 for counts in texts if _count(term, counts))
    return math.log((len(texts) - within + 0.5) / (within + 0.5) + 1)
