"""Turns and entries of another program, with their own times, brought in by the operator."""

from typing import Annotated

from pydantic import Field, StringConstraints

from honeybadger_agent.wire.base import MAX_NOTE_CHARACTERS, Neutralised, OneLine, Request, Result, Role, Wire
from honeybadger_agent.wire.conversation import Moment
from honeybadger_agent.wire.entries import Metadata, OriginFrom
from honeybadger_agent.wire.labels import MAX_TAGS, Category, EntryId, Tag, Title, ToolsUsed
from honeybadger_agent.wire.refusals import shaped

ImportedId = Annotated[str, shaped(r"import-[0-9a-f]{24}", "import- and 24 digits: a digest of where it stood")]


class ImportedTurn(Wire):
    """One turn. The same id in the same session is the same turn."""

    id: ImportedId
    role: Role
    content: Annotated[str, StringConstraints(min_length=1)]
    at: Moment
    sender: OneLine | None = None
    tools_used: ToolsUsed | None = None


class ImportedEntry(Wire):
    """One entry. The same id is the same entry, also after it was moved."""

    id: EntryId
    content: Annotated[str, StringConstraints(min_length=1, max_length=MAX_NOTE_CHARACTERS)]
    category: Category
    origin_from: OriginFrom
    title: Title | None = None
    aliases: list[Title] | None = Field(default=None, max_length=MAX_TAGS)
    tags: list[Tag] | None = Field(default=None, max_length=MAX_TAGS)
    metadata: Metadata | None = None
    created: Moment | None = None
    updated: Moment | None = None


class RefusedRecord(Result):
    id: str
    why: str


class ImportResult(Result):
    added: int
    known: int = Field(description="Entries that were known.")
    refused: list[RefusedRecord] = Field(default_factory=list)
    neutralised: Neutralised = Field(default_factory=dict)


class ImportRecords(Request[ImportResult], changes=True, audience="operator"):
    """Bring in turns of one conversation, or entries, from another program; only the operator may.

    A record that cannot be taken is named in `refused`; the others are imported.
    """

    turns: list[ImportedTurn] | None = Field(default=None, max_length=1000)
    entries: list[ImportedEntry] | None = Field(default=None, max_length=1000)
