"""The texts of an entry as a request gives them: neutralised, screened for credentials, and not blank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from honeybadger_agent.wire import MAX_NOTE_CHARACTERS, EditMemory, Refusal, SaveMemory, is_store
from honeybadger_host.handler_kinds import Asked
from honeybadger_host.handlers.redaction import CleanTexts, Screen
from honeybadger_host.memory.entries.entry import Json
from honeybadger_host.text.labels import each_once


@dataclass(frozen=True, slots=True)
class Texts:
    """The members of an entry in a request; None: left out.

    Args:
        neutralised: number of changes by kind.
    """

    content: str | None
    name: str | None
    title: str | None
    aliases: tuple[str, ...] | None
    tags: tuple[str, ...] | None
    metadata: Mapping[str, Json] | None
    neutralised: Mapping[str, int]
    origin_from: str | None = None


def _is_json(text: str) -> bool:
    """Return whether a text is a JSON object or array."""
    try:
        return isinstance(orjson.loads(text), dict | list)
    except orjson.JSONDecodeError:
        return False


def cleaned(
    asked: Asked, payload: SaveMemory | EditMemory, screen: Screen, *, heading: str = "", category: str = ""
) -> Texts:
    """Return the texts of a payload. Raises Refusal.

    Args:
        heading: the heading above the text when the payload has no title.
        category: where the entry is when the payload does not say.
    """
    texts = CleanTexts(asked, screen)

    def line(member: str, text: str | None) -> str | None:
        return None if text is None else texts.line(f"payload.{member}", text)

    def lines(member: str, given: list[str] | None) -> tuple[str, ...] | None:
        if given is None:
            return None
        return each_once(texts.line(f"payload.{member}.{at}", text) for at, text in enumerate(given))

    if payload.category is not None:
        screen.path("payload.category", payload.category)
    name = None if payload.name is None else texts.name("payload.name", payload.name)
    title, origin_from = line("title", payload.title), line("origin_from", payload.origin_from)
    if origin_from is not None and payload.origin is None:
        why = "payload.origin_from says where exactly: say payload.origin, too, as web or imported"
        raise Refusal("invalid", why, field="payload.origin")
    aliases, tags = lines("aliases", payload.aliases), lines("tags", payload.tags)
    content = None
    is_document = is_store(payload.category or category)
    if payload.content is not None and not is_document and len(payload.content) > MAX_NOTE_CHARACTERS:
        why = f"payload.content has {len(payload.content)} characters, the limit is {MAX_NOTE_CHARACTERS}: send less"
        raise Refusal("too_large", why, field="payload.content")
    if payload.content is not None and is_document and _is_json(payload.content):
        content, changed = screen.data(asked, "payload.content", payload.content)  # exact: it is shown to no model
        texts.changed.update(changed)
    elif payload.content is not None:
        content = texts.said("payload.content", payload.content, heading=title or heading)
    metadata = None if payload.metadata is None else texts.tree("payload.metadata", payload.metadata)
    return Texts(content, name, title, aliases, tags, metadata, dict(texts.changed), origin_from)
