"""A long-term entry and its file: parsed, written, named after its text. Pure (RB1, RB4, AM3, AM6).

`groups/<group>/memory/<category>/<id>.json`: category and id are those of the path, so a person moves an entry to
another category by moving its file. Source: docs/decisions/013-entries.md.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Annotated, Any, TypeAlias, get_args

import orjson
from pydantic import AfterValidator, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from honeybadger_agent.mailbox import CONSOLIDATOR, HUMAN, OPERATOR
from honeybadger_agent.wire import CATEGORY, ENTRY_ID, GENERAL, OriginKind
from honeybadger_agent.wire.labels import EntryId, EntryName
from honeybadger_agent.wire.refusals import check_numbers
from honeybadger_host.memory.edited import Count, Edited, Texts, Time, checked, read_json
from honeybadger_host.text.json_values import BOM
from honeybadger_host.text.labels import each_once
from honeybadger_host.text.time_stamps import time_stamp

KINDS = frozenset(get_args(OriginKind))
_BY_AUTHOR: Mapping[str | None, OriginKind] = {None: "human", HUMAN: "human", CONSOLIDATOR: "inferred"}


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of an entry's text.

    Args:
        is_claimed: the sender stated it, and the host cannot check it.
        where: the file, page or tool it came from.
    """

    kind: OriginKind
    is_claimed: bool = False
    where: str | None = None


def origin_of(sender: str, claim: OriginKind | None, where: str | None, *, is_agent: bool) -> Origin | None:
    """Return the origin of a sender's text, or None if it is not known.

    Args:
        claim: the origin that the sender states.
        is_agent: whether the sender is an agent of this home.
    """
    if sender == OPERATOR:  # the operator is a person, or imports others' texts
        return Origin(claim or "human", where=where)
    if claim is None:
        return Origin("agent") if is_agent else None
    return Origin(claim, not (is_agent and claim == "agent"), where)


def origin_members(origin: Origin | None) -> dict[str, Any]:
    """Return an origin as members of a file, without empty ones."""
    if origin is None:
        return {}
    members = {"origin": origin.kind, "origin_claimed": origin.is_claimed, "origin_from": origin.where}
    return {name: value for name, value in members.items() if value}


Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

# Size limit of an entry's file, in bytes: 20 times the largest that a request can make.
MAX_ENTRY_FILE_BYTES = 1024 * 1024
# Crockford's base 32, without letters that look alike; lower case, for file systems that ignore case.
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_ID_CHARACTERS = 12


@dataclass(frozen=True, slots=True)
class Entry:
    """A long-term entry.

    Args:
        tags: labels, no two of which differ only in case; likewise `aliases`.
        created: UTC; None: a person wrote the file and did not say.
        updated: UTC, of the last save through the host; None as above.
        by: the name of the sender who saved it first; None: a person wrote it.
        name: like a file name, unique in the category; None: the entry is known by its text.
        title: a name it is found under; `aliases`: further ones.
        reinforced: how often the same text was saved again.
        pinned: no pass over memory merges or archives it; only people and agents change it.
        more: the file's other members; kept when the host writes it.
        origin: as the file says; None: it says none, see `known_origin`.
        supersedes: ids of the entries that it replaced, each once.
        superseded_by: id of the entry that replaced it; only in the archive.
        valid_until: UTC; from then on it is not recalled.
    """

    id: str
    category: str
    content: str
    tags: tuple[str, ...] = ()
    created: datetime | None = None
    updated: datetime | None = None
    metadata: Mapping[str, Json] = field(default_factory=dict)
    by: str | None = None
    title: str | None = None
    aliases: tuple[str, ...] = ()
    reinforced: int = 0
    more: Mapping[str, Json] = field(default_factory=dict)
    name: str | None = None
    pinned: bool = False
    origin: Origin | None = None
    supersedes: tuple[str, ...] = ()
    superseded_by: str | None = None
    valid_until: datetime | None = None

    @property
    def known_origin(self) -> Origin | None:
        """Return the origin of its text, as stated or as its author implies, or None if it is not known."""
        return self.origin or (Origin(_BY_AUTHOR[self.by]) if self.by in _BY_AUTHOR else None)


# --------------------------------------------------------------------------------------------------------------- places


def memory_folder(group: str) -> str:
    return f"groups/{group}/memory"


def entry_file(group: str, category: str, entry_id: str) -> str:
    return f"{memory_folder(group)}/{category}/{entry_id}.json"


def place_of(file: str) -> tuple[str, str, str]:
    """Return group, category and id of an entry's file, in the archive, too; directly in `memory/` is `general`.

    Args:
        file: below the home folder.
    Raises ValueError if it cannot be an entry's file; the message says which name is wrong.
    """
    parts = file.replace("/archive/memory/", "/memory/", 1).split("/")
    if len(parts) < 4 or parts[0] != "groups" or parts[2] != "memory":
        raise ValueError(f"{file} is not in groups/<group>/memory/")
    category, name = "/".join(parts[3:-1]) or GENERAL, parts[-1]
    if not CATEGORY.fullmatch(category):
        raise ValueError(f"its folder {category!r} is not a category: names of A-Z a-z 0-9 - _, up to 8 deep")
    if not name.endswith(".json") or not ENTRY_ID.fullmatch(name[:-5]):
        raise ValueError(f"its name {name!r} is not an id: 1-64 characters of A-Z a-z 0-9 - _, then .json")
    return parts[1], category, name[:-5]


# ----------------------------------------------------------------------------------------------------------- the file


def _not_blank(value: str) -> str:
    if not value.strip():
        raise PydanticCustomError("must_be", "a text that is not blank")
    return value


class _File(Edited):
    content: Annotated[str, AfterValidator(_not_blank)]
    title: str | None = None
    aliases: Texts = ()
    tags: Texts = ()
    created: Time | None = None
    updated: Time | None = None
    metadata: dict[str, Any] = Field(default={})
    by: str | None = None
    reinforced: Count = 0


# Members with another value are a person's own: they are kept, and the host does not use them.
_USED: Mapping[str, TypeAdapter[Any]] = {
    "name": TypeAdapter(EntryName),
    "pinned": TypeAdapter(bool),
    "supersedes": TypeAdapter(list[EntryId]),
    "superseded_by": TypeAdapter(EntryId),
    "valid_until": TypeAdapter(Time),
    "origin": TypeAdapter(OriginKind),
}
_USED_WITH_ORIGIN: Mapping[str, TypeAdapter[Any]] = {
    "origin_claimed": TypeAdapter(bool),
    "origin_from": TypeAdapter(str),
}
_USED_IF = {
    "name": "a name that a file could have",
    "pinned": "true or false",
    "supersedes": "a list of entries' ids",
    "valid_until": "a time, as 2026-11-21T06:00:00Z or 2026-11-21",
}
_PLACED = ("id", "category")  # members that repeat the path; the path counts


def parse_entry(data: bytes, file: str) -> Entry:
    """Return the entry in a file. `{"content": "..."}` is enough; id and category are those of its path.

    Args:
        file: below the home folder.
    Raises ValueError: names the fault for the person who wrote it.
    """
    _, category, entry_id = place_of(file)
    if len(data) > MAX_ENTRY_FILE_BYTES:
        raise ValueError(f"it has {len(data)} bytes, an entry has at most {MAX_ENTRY_FILE_BYTES}")
    value = read_json(data)
    check_numbers(data.removeprefix(BOM))
    said = checked(_File, value)
    more = {member: what for member, what in (said.model_extra or {}).items() if member not in _PLACED}
    used = _take(more, _USED)
    used["supersedes"] = tuple(dict.fromkeys(used.get("supersedes", ())))
    if "origin" in used:
        about = _take(more, _USED_WITH_ORIGIN)
        used["origin"] = Origin(used["origin"], about.get("origin_claimed", False), about.get("origin_from") or None)
    return Entry(
        id=entry_id,
        category=category,
        content=said.content,
        tags=each_once(said.tags),
        created=said.created,
        updated=said.updated,
        metadata=said.metadata,
        by=said.by,
        title=said.title or None,
        aliases=each_once(said.aliases),
        reinforced=said.reinforced,
        more=more,
        **used,
    )


def _take(members: dict[str, Any], kinds: Mapping[str, TypeAdapter[Any]]) -> dict[str, Any]:
    """Remove the members that are of their kind and return them."""
    taken: dict[str, Any] = {}
    for name in kinds.keys() & members:
        with contextlib.suppress(ValidationError):
            taken[name] = kinds[name].validate_python(members[name], strict=True)
            del members[name]
    return taken


def dump_entry(entry: Entry) -> bytes:
    """Return the bytes of an entry's file: indented JSON, mostly without empty members."""
    members = {
        "id": entry.id,
        "content": entry.content,
        "name": entry.name,
        "title": entry.title,
        "aliases": entry.aliases or None,
        "category": entry.category,
        "tags": entry.tags,
        "created": entry.created and show_time(entry.created),
        "updated": entry.updated and show_time(entry.updated),
        "metadata": entry.metadata,
        "by": entry.by,
        "reinforced": entry.reinforced,
        "pinned": entry.pinned or None,
    }
    value: dict[str, Any] = {member: what for member, what in members.items() if what is not None}
    value |= {**entry.more, **value}
    value |= {**_standing_members(entry), **value}
    if "origin" not in entry.more:  # a person's own member of this name stays
        value |= origin_members(entry.origin)
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def marks_of(entry: Entry) -> dict[str, Any]:
    """Return the marks that are shown with an entry, without empty ones."""
    pinned = {"pinned": True} if entry.pinned else {}
    return {**origin_members(entry.known_origin), **pinned, **_standing_members(entry)}


def author_in(by: str | None, marks: Mapping[str, Any]) -> str | None:
    """Return whose text an entry has: a person's words in the entry of another sender are the operator's.

    Args:
        by: who saved it first.
        marks: as `marks_of` returns them.
    """
    is_persons = marks.get("origin") == "human" and not marks.get("origin_claimed")
    return OPERATOR if is_persons and by not in (None, "", HUMAN) else by


def _standing_members(entry: Entry) -> dict[str, Any]:
    """Return the members that say whether an entry is still valid, without empty ones."""
    until = entry.valid_until
    members = {
        "supersedes": [*entry.supersedes],
        "superseded_by": entry.superseded_by,
        "valid_until": until and time_stamp(until, "auto"),
    }
    return {name: value for name, value in members.items() if value}


def unused_members(entry: Entry) -> list[str]:
    """Return what is wrong with the members that the host would use if they had the right type."""
    return [f"{name} must be {what}" for name, what in _USED_IF.items() if entry.more.get(name)]


def name_in(file: str) -> str:
    return file.rpartition("/")[2].removesuffix(".json")


def version_of(data: bytes) -> str:
    """Return the version of an entry: 16 characters, different after any change of its file."""
    return hashlib.sha256(data).hexdigest()[:16]


def show_time(at: datetime) -> str:
    """Return an aware time in UTC as RFC 3339."""
    return time_stamp(at, "milliseconds" if at.microsecond and not at.microsecond % 1000 else "auto")


# ------------------------------------------------------------------------------------------------------ known entries


def entry_id(category: str, normalised: str, salt: int = 0) -> str:
    """Return the id of an entry, 12 characters (60 bits): equal for the same text in the same category.

    Args:
        normalised: see `labels.folded`.
        salt: the next number if that id belongs to an entry with another text.
    """
    text = f"{category.casefold()}\0{normalised}" + (f"\0{salt}" if salt else "")
    bits = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 4
    return "".join(_ALPHABET[bits >> shift & 31] for shift in range(5 * (_ID_CHARACTERS - 1), -1, -5))


def named_id(category: str, name: str, salt: int = 0) -> str:
    """Return the id of an entry with a name: equal for the same name in the same category; see `entry_id`."""
    return entry_id(category, f"\0{name}", salt)  # no normalised text begins with a zero byte


def with_origin(before: Entry, after: Entry, said: Origin | None, *, is_claimed: bool) -> Entry:
    """Return an entry after a change, with the origin of its text; a new text has another origin.

    Args:
        said: the origin of the new text; None: it is not known.
        is_claimed: the sender stated it, so it counts for the old text, too.
    """
    if not is_claimed and after.content == before.content:
        return replace(after, origin=before.origin)
    nobody = None if before.by is not None else Origin("agent", is_claimed=True)
    return replace(after, origin=said or nobody)


def reinforce(known: Entry, said: Entry) -> Entry:
    """Return the known entry after the same text was saved again.

    The text and its first author stay; tags, aliases and metadata are added; of two titles, or two values of a member
    of the metadata, the new one counts. An expired entry is valid again.
    """
    now = said.updated or datetime.max.replace(tzinfo=UTC)
    is_over = known.valid_until is not None and known.valid_until <= now
    return replace(
        known,
        tags=each_once((*known.tags, *said.tags)),
        aliases=each_once((*known.aliases, *said.aliases)),
        title=said.title or known.title,
        metadata={**known.metadata, **said.metadata},
        updated=said.updated,
        reinforced=known.reinforced + 1,
        pinned=known.pinned or said.pinned,
        origin=known.known_origin or said.origin,
        supersedes=tuple(dict.fromkeys((*known.supersedes, *said.supersedes))),
        superseded_by=None,
        valid_until=said.valid_until or (None if is_over else known.valid_until),
    )
