"""An entry as a request gives it and as a reply shows it, and the refusals of both.

Texts of a request are neutralised, screened for credentials, and not blank.
"""

from datetime import UTC, datetime
from typing import Any, TypeVar

from honeybadger_agent.mailbox import GLOBAL_GROUP
from honeybadger_agent.wire import (
    MAX_NOTE_CHARACTERS,
    DeleteMemory,
    EditMemory,
    GetMemory,
    Refusal,
    SaveMemory,
    is_store,
)
from honeybadger_host.handlers.redaction import Texts, check_size
from honeybadger_host.memory.entries.entry import Entry, marks_of, show_time, version_of
from honeybadger_host.text.json_values import value_in
from honeybadger_host.text.labels import each_once


def shown(entry: Entry, file: str, data: bytes) -> dict[str, Any]:
    """Return an entry as a reply shows it; `data` is the content of its file."""
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
        "file": file if file.startswith(f"groups/{GLOBAL_GROUP}/") else file.split("/", 2)[2],
        "version": version_of(data),
        "archived": "/archive/memory/" in file,
    }


def read_valid_until(text: str | None, now: datetime) -> datetime | None:
    """Return the time that `valid_until` says, in UTC. Raises Refusal if it is not one, has no zone, or is past."""
    if text is None:
        return None
    field = "payload.valid_until"
    try:
        at = datetime.fromisoformat(text)
        if at.tzinfo is None:
            raise ValueError(text)
        at = at.astimezone(UTC)
    except (ValueError, OverflowError):
        raise Refusal(
            "invalid",
            f"{field} {text!r} is not a time, or has no time zone: write 2026-12-24T18:00:00Z, or with +01:00",
            field=field,
        ) from None
    if at <= now:
        raise Refusal(
            "invalid", f"{field} {show_time(at)} is over, it is {show_time(now)} now: say when it will be", field=field
        )
    return at


def check_version(what: str, expected: str | None, version: str | None) -> None:
    """Raise Refusal if something has changed since it was read.

    Args:
        expected: the version that was read; None: any.
        version: its version now; None: it is gone.
    """
    if expected in (None, version):
        return
    why = "deleted since" if version is None else f"changed since, and has version {version} now"
    raise Refusal(
        "conflict",
        f"{what} was {why}: read it again, then decide; nothing was changed",
        field="payload.expected_version",
    )


def check_one_key(payload: GetMemory | DeleteMemory) -> None:
    """Raise Refusal if a request has neither id nor name, or both, or a category without a name."""
    if (payload.id is None) == (payload.name is None) or (payload.category is not None and payload.name is None):
        raise Refusal("invalid", "payload needs either id, or name with its category", field="payload")


def not_found(id_: str, field: str = "payload.id") -> Refusal:
    return Refusal(
        "not_found",
        f"no entry of this group has the id {id_}: search again; if it is in the archive, the operator's `undo` "
        "brings it back",
        field=field,
    )


WriteT = TypeVar("WriteT", SaveMemory, EditMemory)


def cleaned(texts: Texts, payload: WriteT, *, heading: str = "", category: str = "") -> WriteT:
    """Return a payload with its texts cleaned. Raises Refusal.

    Args:
        heading: the heading above the text when the payload has no title.
        category: where the entry is when the payload does not say.
    """
    clean: dict[str, Any] = {}
    if payload.category is not None:
        texts.path("payload.category", payload.category)
    if payload.name is not None:
        texts.name("payload.name", payload.name)
    if payload.title is not None:
        clean["title"] = texts.line("payload.title", payload.title)
    if payload.origin_from is not None:
        clean["origin_from"] = texts.line("payload.origin_from", payload.origin_from)
        if payload.origin is None:
            raise Refusal(
                "invalid",
                "payload.origin_from says where exactly: say payload.origin, too, as web or imported",
                field="payload.origin",
            )
    for member, labels in (("aliases", payload.aliases), ("tags", payload.tags)):
        if labels is not None:
            lines: list[str] = [texts.line(f"payload.{member}.{at}", label) for at, label in enumerate(labels)]
            clean[member] = [*each_once(lines)]
    content, is_document = payload.content, is_store(payload.category or category)
    if content is not None and is_document and isinstance(value_in(content), dict | list):
        clean["content"] = texts.data("payload.content", content)  # exact: no model reads it
    elif content is not None:
        if not is_document:
            check_size("payload.content", len(content), MAX_NOTE_CHARACTERS, "characters")
        clean["content"] = texts.said("payload.content", content, heading=clean.get("title") or heading)
    if payload.metadata is not None:
        clean["metadata"] = texts.tree("payload.metadata", payload.metadata)
    return payload.model_copy(update=clean)
