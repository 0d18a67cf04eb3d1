"""A folder of Markdown, as Obsidian, basic-memory and OpenClaw's workspaces have it: each file is an entry."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from pathlib import PurePosixPath

import orjson

from honeybadger_agent.wire import MAX_NOTE_CHARACTERS
from honeybadger_host.text.json_values import BOM
from honeybadger_host.text.time_stamps import time_in
from honeybadger_host.transfer.places import MAX_PIECE_BYTES
from honeybadger_host.transfer.records import UNREADABLE, Fact, Found, Skipped, SourceFile

_FENCE = re.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_MEMBER = re.compile(r"([A-Za-z_][\w -]*?)[ \t]*:(?:[ \t]+(.*))?")
_BLOCK = re.compile(r"[>|][-+0-9]*")  # the value is in the lines that follow
_LISTED = re.compile(r"""\s*("[^"]*"|'[^']*'|[^,]+)(?:,|\s*\Z)""")
_ITEM = re.compile(r"[ \t]*-[ \t]+(.*)")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_CREATED = ("created", "created_at", "date")
_UPDATED = ("updated", "updated_at", "modified", "last_updated")
_TAKEN = frozenset(("title", "name", "tags", "aliases", "alias", *_CREATED, *_UPDATED))

Value = str | list[str]


def read_markdown(file: SourceFile) -> Iterator[Found]:
    """Yield the facts of a Markdown file."""
    if file.name.lower().endswith((".md", ".markdown")):
        yield from facts_of(file, f"{file.folder}/{file.name}" if file.folder else file.name)


def facts_of(file: SourceFile, path: str) -> Iterator[Fact | Skipped]:
    """Yield the text of a Markdown file as one fact, or as several if it is longer than an entry may be.

    Args:
        path: its place, the same in each import.
    """
    try:
        with file.open() as opened:
            data = opened.read(MAX_PIECE_BYTES + 1)
        if len(data) > MAX_PIECE_BYTES:
            raise ValueError(f"it has more than {MAX_PIECE_BYTES >> 20} MiB")
        text = data.removeprefix(BOM).decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        yield Skipped(f"{file.name}, line {line}", "it is not UTF-8")
        return
    except (*UNREADABLE, ValueError) as error:
        yield Skipped(file.name, str(error))
        return
    members, body = front_matter(text)
    if not body.strip():
        yield Skipped(file.name, "it has no text")
        return
    title = _one(members, "title") or _one(members, "name") or file.stem
    day = _day_of(file.stem) or file.modified  # a copy of a daily note is of its day, too
    parts = _parts(body.strip("\n"))
    for number, part in enumerate(parts, 1):
        yield Fact(
            place=path if number == 1 else f"{path}\0{number}",
            where=path,
            content=part,
            category=str(PurePosixPath(file.name).parent).removeprefix("."),
            title=title if len(parts) == 1 else f"{title} ({number} of {len(parts)})",
            aliases=(*_many(members, "aliases"), *_many(members, "alias")),
            tags=tuple(tag.lstrip("#") for tag in _many(members, "tags")),
            metadata={name: value for name, value in members.items() if name.lower() not in _TAKEN and value},
            created=_time(members, _CREATED) or day,
            updated=_time(members, _UPDATED) or day,
        )


def front_matter(text: str) -> tuple[dict[str, Value], str]:
    """Return the members of the front matter, and the text after it. Members other than plain YAML are left out."""
    found = _FENCE.match(text)
    if found is None:
        return {}, text
    members: dict[str, Value] = {}
    name = ""
    for line in found[1].splitlines():
        if (member := _MEMBER.fullmatch(line)) is not None:
            name = member[1].strip()
            members[name] = _value((member[2] or "").strip())
        elif name and (item := _ITEM.fullmatch(line)) is not None:
            held = members[name]
            members[name] = [*(held if isinstance(held, list) else []), _unquoted(item[1].strip())]
    return members, text[found.end() :]


def _value(text: str) -> Value:
    """Return a value of front matter: a text, or a list in brackets."""
    if text.startswith("[") and text.endswith("]"):
        try:
            return [str(item) for item in orjson.loads(text)]
        except orjson.JSONDecodeError:
            items = [_unquoted(item.strip()) for item in _LISTED.findall(text[1:-1])]
            return [item for item in items if item]
    return "" if _BLOCK.fullmatch(text) else _unquoted(text)


def _unquoted(text: str) -> str:
    if len(text) < 2 or text[0] != text[-1] or text[0] not in "\"'":
        return text
    return text[1:-1].replace('\\"', '"') if text[0] == '"' else text[1:-1].replace("''", "'")


def _one(members: Mapping[str, Value], name: str) -> str:
    value = members.get(name, "")
    return value if isinstance(value, str) else ""


def _many(members: Mapping[str, Value], name: str) -> list[str]:
    value = members.get(name, [])
    return [part.strip() for part in value.split("," if "," in value else None)] if isinstance(value, str) else value


def _time(members: Mapping[str, Value], names: tuple[str, ...]) -> datetime | None:
    found = (time_in(_one(members, name)) for name in names)
    return next((at for at in found if at is not None), None)


def _day_of(stem: str) -> datetime | None:
    """Return the day in the name of a daily note, or None if there is none."""
    try:
        day = date.fromisoformat(stem[:10]) if _DAY.match(stem) else None
    except ValueError:
        return None
    return None if day is None else datetime(day.year, day.month, day.day, tzinfo=UTC)


def _parts(text: str) -> list[str]:
    """Return a text in pieces that fit into entries, cut before headings or at blank lines if possible."""
    parts: list[str] = []
    while len(text) > MAX_NOTE_CHARACTERS:
        begin = text[:MAX_NOTE_CHARACTERS]
        cut = max(begin.rfind("\n# "), begin.rfind("\n## ")) + 1
        cut = cut or begin.rfind("\n\n") + 1 or begin.rfind("\n") + 1 or begin.rfind(" ") + 1 or MAX_NOTE_CHARACTERS
        parts.append(text[:cut].rstrip())
        text = text[cut:].lstrip("\n")
    return [part for part in (*parts, text) if part.strip()]
