"""The texts of an entry as a request gives them: neutralised, screened for credentials, and not blank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from honeybadger_agent.wire import EditMemory, Refusal, SaveMemory
from honeybadger_host.domain import Asked
from honeybadger_host.handlers.redaction import Screen
from honeybadger_host.memory.entry import Json
from honeybadger_host.memory.labels import each_once
from honeybadger_host.text.neutralise import is_blank, one_line


@dataclass(frozen=True, slots=True)
class Texts:
    """What a request says of an entry; None: it does not.

    Args:
        neutralised: what was changed, kind to count.
    """

    content: str | None
    name: str | None
    title: str | None
    aliases: tuple[str, ...] | None
    tags: tuple[str, ...] | None
    metadata: Mapping[str, Json] | None
    neutralised: Mapping[str, int]
    origin_from: str | None = None


def cleaned(asked: Asked, payload: SaveMemory | EditMemory, screen: Screen, *, heading: str = "") -> Texts:
    """Return the texts of a payload. Raises Refusal.

    Args:
        heading: what the text stands below when the payload has no title.
    """
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

    def lines(member: str, texts: list[str] | None) -> tuple[str, ...] | None:
        return None if texts is None else each_once(line(f"{member}.{at}", text) for at, text in enumerate(texts))

    if payload.category is not None:
        screen.path("payload.category", payload.category)
    name = None if payload.name is None else _name(asked, payload.name, screen)
    title = None if payload.title is None else line("title", payload.title)
    origin_from = None if payload.origin_from is None else line("origin_from", payload.origin_from)
    if origin_from is not None and payload.origin is None:
        raise Refusal(
            "invalid",
            "payload.origin_from says where exactly: say payload.origin, too, as web or imported",
            field="payload.origin",
        )
    aliases, tags = lines("aliases", payload.aliases), lines("tags", payload.tags)
    content = None
    if payload.content is not None:
        content, how = screen.clean(asked, "payload.content", payload.content, heading=title or heading)
        changed.update(how)
        if is_blank(content):
            raise Refusal("invalid", "payload.content is blank: nothing was saved", field="payload.content")
    metadata = None
    if payload.metadata is not None:
        metadata, how = screen.tree(asked, "payload.metadata", payload.metadata)
        changed.update(how)
    return Texts(content, name, title, aliases, tags, metadata, dict(changed), origin_from)


def _name(asked: Asked, name: str, screen: Screen) -> str:
    """Return a name as it is: what one sees must be what it is called. Raises Refusal."""
    if one_line(name).text != name or is_blank(name):
        raise Refusal(
            "invalid",
            "payload.name must be one visible line, without hidden characters: choose another",
            field="payload.name",
        )
    screen.path("payload.name", name)
    return name
