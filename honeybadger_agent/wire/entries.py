"""Entries of long-term memory: saved, read, changed, deleted, listed."""

from typing import Annotated, Any, Literal

import orjson
from pydantic import AfterValidator, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from honeybadger_agent.wire.base import (
    FOR_PROGRAMS,
    MAX_LISTED,
    Count,
    Neutralised,
    OneLine,
    Request,
    Result,
    Wire,
)
from honeybadger_agent.wire.labels import MAX_TAGS, Category, EntryId, EntryName, FoundId, Tags, Title
from honeybadger_agent.wire.refusals import checked_json

MAX_METADATA_BYTES = 8192
MAX_OPERATIONS = 100
MAX_ORIGIN_CHARACTERS = 500
OriginKind = Literal["human", "agent", "tool", "web", "imported", "inferred", "recalled"]
# The length is that of a text in a category `store/…`; the host limits any other to `MAX_NOTE_CHARACTERS`.
Content = Annotated[str, StringConstraints(min_length=1, max_length=131_072)]
Superseded = Annotated[list[EntryId], Field(max_length=32)]
ValidUntil = Annotated[str, StringConstraints(max_length=40)]
OriginFrom = Annotated[str, StringConstraints(min_length=1, max_length=MAX_ORIGIN_CHARACTERS)]


def _checked_metadata(value: dict[str, Any]) -> dict[str, Any]:
    size = len(orjson.dumps(checked_json(value)))
    if size > MAX_METADATA_BYTES:
        raise PydanticCustomError("too_many_bytes", "", {"size": size, "limit": MAX_METADATA_BYTES})
    return value


Metadata = Annotated[dict[str, Any], AfterValidator(_checked_metadata)]


class EntryResult(Result):
    id: str
    kind: Literal["entry", "turn", "note", "history", "session"] = Field(
        default="entry", description="A note or a turn has only text, time, author and file."
    )
    category: str
    content: str
    name: str | None = Field(
        default=None, description="Like a file name, unique in its category; most entries have none."
    )
    title: str | None = None
    aliases: list[str] = Field(default_factory=list)
    tags: list[str]
    metadata: dict[str, Any]
    created: str | None = Field(description="UTC, RFC 3339; null: a person wrote the file without one.")
    updated: str | None = Field(description="Last save: UTC, RFC 3339; null as for `created`.")
    by: str | None = Field(description="Sender that saved it first; null: a person wrote the file.")
    edited_by: str | None = Field(
        default=None, description="Only in `get_memory`: the person who changed its words last, after `by` signed it."
    )
    reinforced: int = Field(description="How often the same text was saved again.")
    pinned: bool = Field(default=False, description="Curation never merges or retires it.")
    origin: OriginKind | None = Field(default=None, description="Its origin; null: nobody said.")
    origin_claimed: bool = Field(default=False, description="Whether the origin is only the sender's claim.")
    origin_from: str | None = Field(default=None, description="The file, page or tool it came from.")
    supersedes: list[str] = Field(default_factory=list, description="Ids of the entries it replaces.")
    superseded_by: str | None = Field(default=None, description="Id of the entry that replaces it.")
    valid_until: str | None = Field(
        default=None, description="UTC, RFC 3339; it is no longer recalled after this time."
    )
    archived: bool = Field(default=False, description="Whether it is in the archive and no longer recalled.")
    proposal: str | None = Field(
        default=None, description="Id of the proposal that waits for a person; nothing has changed yet."
    )
    file: str = Field(description="Below the group's folder; for `global`, notes and turns below the home folder.")
    version: str = Field(default="", description="Hash of its file; it changes with every change.")


class SimilarEntry(Result):
    id: str
    score: float = Field(description="Share of words in common, 0.6 to 1.")
    what_differs: str = Field(description="Words that only one of the two has.")


class SavedEntry(EntryResult):
    neutralised: Neutralised = Field(default_factory=dict)


class NewEntry(SavedEntry):
    similar: list[SimilarEntry] | None = Field(
        default=None,
        description="At most three entries that say nearly the same; nothing was merged. null: not looked for.",
    )


class SaveMemory(Request[NewEntry], changes=True, audience="default"):
    """Save one durable fact, preference or lesson as a separate entry that later conversations find by search.

    Use this for what you learn that stays true; what the user asks you to remember goes to update_memory. One entry for
    each fact, in words understood without this conversation. Categories: user-preferences/... for what the user likes,
    user-preferences/inferred for what you concluded, anti-patterns/{domain} for what went wrong ("Don't X because Y -
    instead Z"), project-context/{project} for facts about a project, general for the rest.
    """

    content: Content = Field(
        description="The fact, in words understood without this conversation: 1-32,768 characters."
    )
    category: Category | None = Field(
        default=None,
        description="Its category, as user-preferences/timezone, anti-patterns/email, project-context/website. "
        "Default: general.",
    )
    tags: Tags | None = Field(default=None, description="Labels to search by, at most 32.")
    metadata: Metadata | None = Field(default=None, description="Anything else, as an object of at most 8 KiB of JSON.")
    title: Title | None = Field(default=None, description="A short name to find it under, at most 200 characters.")
    aliases: list[Title] | None = Field(
        default=None, max_length=MAX_TAGS, description="Other words that people may search it by."
    )
    name: EntryName | None = Field(
        default=None,
        description="Name, as notes.md, unique in its category (else conflict); entries with the same text are "
        "not looked for. Default: none.",
    )
    pinned: bool | None = Field(default=None, description="true: curation never merges or retires it.")
    origin: OriginKind | None = Field(
        default=None,
        description="Its origin: human (the user said it), web, recalled (from memory), ...",
    )
    origin_from: OriginFrom | None = Field(default=None, description="The file, address or tool it comes from.")
    supersedes: Superseded | None = Field(
        default=None, description="Ids of entries that are no longer true; they go to the archive."
    )
    valid_until: ValidUntil | None = Field(
        default=None, description="Time at which it stops being true, as 2026-12-24T18:00:00+01:00."
    )
    replace: bool | None = Field(
        default=None,
        description="true: replace the entry with this `name`, if there is one.",
        json_schema_extra=FOR_PROGRAMS,
    )
    expected_version: str | None = Field(
        default=None,
        description="With `replace`: the `version` you read; conflict if it has changed. null: there must be none.",
        json_schema_extra=FOR_PROGRAMS,
    )

    @model_validator(mode="before")
    @classmethod
    def _must_not_exist(cls, value: Any) -> Any:
        """Treat an explicit null as a save that replaces nothing; a taken name is a conflict anyway."""
        if isinstance(value, dict) and "expected_version" in value and value["expected_version"] is None:
            return {name: item for name, item in value.items() if name not in ("replace", "expected_version")}
        return value


class GetMemory(Request[EntryResult], audience="default"):
    """Read one entry, note or turn as a whole, by the id that search or recall showed in [brackets]."""

    id: FoundId | None = None
    category: Category | None = Field(
        default=None, description="Category of `name`; default: general.", json_schema_extra=FOR_PROGRAMS
    )
    name: EntryName | None = Field(
        default=None, description="Name of the entry, instead of `id`.", json_schema_extra=FOR_PROGRAMS
    )


class EditMemory(Request[SavedEntry], changes=True, overwrites=True, audience="default"):
    """Correct an entry of long-term memory in place; what you leave out stays as it is.

    Use this when something has changed or was imprecise. Read it with get_memory first and give its version as
    expected_version: then nobody else's change is overwritten.
    """

    id: EntryId
    content: Content | None = Field(default=None, description="New text.")
    category: Category | None = Field(default=None, description="Move it to this category.")
    name: EntryName | None = Field(default=None, description="New name; conflict if the category has it already.")
    title: Title | None = None
    aliases: list[Title] | None = Field(default=None, max_length=MAX_TAGS, description="Replaces all of them.")
    tags: Tags | None = Field(default=None, description="Replaces all of them.")
    metadata: Metadata | None = Field(default=None, description="Replaces the whole object.")
    pinned: bool | None = Field(default=None, description="Whether curation never merges or retires it.")
    origin: OriginKind | None = Field(default=None, description="See save_memory.")
    origin_from: OriginFrom | None = None
    supersedes: Superseded | None = Field(default=None, description="Ids to add.")
    valid_until: ValidUntil | None = Field(default=None, description="A time, or `never`.")
    expected_version: str | None = Field(
        default=None, description="The `version` you read; conflict if the entry has changed."
    )


class DeleteMemory(Request[EntryResult], changes=True, overwrites=True, settles=True, audience="default"):
    """Remove an entry of long-term memory that is wrong or out of date. Use this when the user asks you to forget.

    Search for its id first. When only a part of it changed, correct it with edit_memory.
    """

    id: EntryId | None = None
    category: Category | None = Field(
        default=None, description="Category of `name`; default: general.", json_schema_extra=FOR_PROGRAMS
    )
    name: EntryName | None = Field(
        default=None, description="Name of the entry, instead of `id`.", json_schema_extra=FOR_PROGRAMS
    )


class Operation(Wire):
    """One change among several."""

    type: Literal["save_memory", "edit_memory", "delete_memory"]
    payload: dict[str, Any] = Field(description="Payload of that request type.")


class ChangesResult(Result):
    results: list[NewEntry] = Field(description="Result of each operation, in order.")
    proposal: str | None = Field(
        default=None, description="Id of the proposal in which all of it waits for a person; nothing has changed yet."
    )


class ChangeMany(Request[ChangesResult], changes=True, overwrites=True, audience="programs"):
    """Save, edit and delete entries in one commit: all of it or, when one operation is refused, nothing.

    Each operation sees the changes of those before it.
    """

    operations: list[Operation] = Field(min_length=1, max_length=MAX_OPERATIONS)


class CategoryCount(Result):
    category: str
    entries: int = Field(description="Entries in this category itself.")
    total: int = Field(description="Entries in it and below it.")


class CategoriesResult(Result):
    categories: list[CategoryCount] = Field(description="All categories, parents before children.")
    total: int


class ListMemoryCategories(Request[CategoriesResult], audience="default"):
    """List the categories of long-term memory with their counts. Use this before saving, to reuse a category."""


OPERATORS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")


def _checked_where(value: dict[str, Any]) -> dict[str, Any]:
    for path, condition in value.items():
        if path.partition(".")[0] not in ("content", "metadata"):
            raise PydanticCustomError("must_be", "conditions on paths as content.status or metadata.year")
        if not isinstance(condition, dict):
            continue
        for operator, wanted in condition.items():
            if operator not in OPERATORS:
                raise PydanticCustomError("must_be", f"values, or objects of {', '.join(OPERATORS)}")
            if operator[1] in "gl" and (not isinstance(wanted, int | float | str) or isinstance(wanted, bool)):
                raise PydanticCustomError("must_be", "conditions with a number or a text after $gt, $gte, $lt and $lte")
    return value


# Conditions that all hold: a dotted path -> the value there, or an object of operators and values.
Where = Annotated[dict[str, Any], Field(max_length=16), AfterValidator(_checked_where)]


class EntryRow(Result):
    id: str
    category: str
    name: str | None
    title: str | None
    begins: str = Field(description="Its first words: one line of at most 160 characters.")
    bytes: int = Field(description="Size of its text in UTF-8.")
    author: str | None = Field(default=None, description="Who saved it; null: a person wrote the file.")
    pinned: bool = False
    valid_until: str | None = Field(default=None, description="UTC, RFC 3339")
    updated: str | None = Field(description="UTC, RFC 3339")
    content: str | None = Field(default=None, description="Only with `with_content`, like the next three.")
    metadata: dict[str, Any] | None = None
    created: str | None = Field(default=None, description="UTC, RFC 3339")
    version: str | None = None


class EntryFolder(CategoryCount):
    bytes: int = Field(description="Size of all texts in it and below it.")


class EntriesResult(Result):
    entries: list[EntryRow] = Field(description="By category, then name, unnamed ones last; with `newest` by time.")
    total: int = Field(description="Number of matches, regardless of `limit` and `offset`.")
    folders: list[EntryFolder] = Field(
        description="The requested category and those below it, one level deeper than `depth`; empty with `name`."
    )
    is_complete: bool = Field(description="False while files of the group are still being indexed.")
    has_more: bool = Field(default=False, description="More entries follow: ask again with a greater `offset`.")


class ListMemoryEntries(Request[EntriesResult], audience="programs"):
    """List the entries of long-term memory by category and name, with sizes; on request with their texts."""

    category: Category | None = Field(default=None, description="Only this category and below; default: all.")
    depth: Annotated[int, Field(ge=0, le=8)] | None = Field(
        default=None, description="Levels below the category; 0: only the category itself. Default: all."
    )
    name: EntryName | None = Field(
        default=None, description="Only the entry with this name in `category` (default general)."
    )
    newest: bool | None = Field(default=None, description="true: newest first, with all levels below `category`.")
    author: OneLine | None = Field(default=None, description="Only entries saved by this sender.")
    limit: Annotated[int, Field(ge=1, le=MAX_LISTED)] | None = Field(default=None, description="Default 200.")
    offset: Count | None = Field(default=None, description="Number to skip; default 0.")
    with_content: bool | None = Field(
        default=None, description="true: include text, metadata and version, up to 1 MiB in a reply."
    )
    where: Where | None = Field(
        default=None,
        description='Only entries that meet all conditions, as {"content.status": "open", "metadata.year": '
        '{"$gte": 2020}}: paths into JSON content or metadata.',
    )
