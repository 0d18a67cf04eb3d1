"""The working memory of a session: entries that live for some minutes."""

from typing import Annotated

from pydantic import Field, StringConstraints

from honeybadger_agent.wire.base import Neutralised, OneLine, Request, Result
from honeybadger_agent.wire.labels import Tags
from honeybadger_agent.wire.search import Query

Key = Annotated[str, StringConstraints(min_length=1, max_length=100)]


class WorkingSaved(Result):
    key: str
    expires_at: str = Field(description="UTC, RFC 3339")
    replaced: bool = Field(description="Whether the key held something that had not expired.")
    neutralised: Neutralised = Field(default_factory=dict)


class SaveToWorkingMemory(Request[WorkingSaved], changes=True, overwrites=True, audience="default"):
    """Keep an intermediate result out of the conversation for some minutes, in the scratch space of this session.

    Use this for large tool results, parts you are assembling, or drafts. It expires (5 minutes by default): what is to
    last belongs into the persistent memory. The same key again replaces what it held.
    """

    key: Key = Field(description="Unique in the session, one visible line, 1-100 characters.")
    data: Annotated[str, StringConstraints(min_length=1)] = Field(description="At most 131,072 bytes by default.")
    ttl_minutes: Annotated[float, Field(gt=0, le=1440, allow_inf_nan=False)] | None = Field(
        default=None, description="Minutes until it expires, by default 5, at most 1440."
    )
    category: OneLine | None = Field(default=None, description="As `web-content` or `web-content/github`.")
    tags: Tags | None = None


class WorkingLabel(Result):
    key: str
    expires_at: str = Field(description="UTC, RFC 3339")
    category: str | None = None
    tags: list[str]
    by: str = Field(description="The sender's folder it came from.")
    characters: int = Field(description="Length of its data.")


class WorkingEntryResult(WorkingLabel):
    stored_at: str = Field(description="UTC, RFC 3339")
    data: str


class GetFromWorkingMemory(Request[WorkingEntryResult], audience="default"):
    """Get one entry of the scratch space. Use this when the inventory shows a key whose content you need."""

    key: Key


class WorkingHit(WorkingLabel):
    score: float
    text: str = Field(description="A piece of its data around what was found, one line, at most 200 characters.")


class WorkingHits(Result):
    hits: list[WorkingHit] = Field(description="Best first.")


class SearchWorkingMemory(Request[WorkingHits], audience="default"):
    """Search the scratch space of this session by words. Use this when you do not know which key holds something."""

    query: Query
    category: OneLine | None = Field(default=None, description="`a` finds `a` and `a/b`, not `ab`.")
    tags: Tags | None = Field(default=None, description="An entry must have them all.")


class WorkingList(Result):
    entries: list[WorkingLabel] = Field(description="By key; what has expired is not there.")
    max_entries: int = Field(description="How many there may be.")
    skipped: int = Field(description="Files in its folder that are not entries; the host's log names them.")


class ListWorkingMemory(Request[WorkingList], audience="default"):
    """List the keys in the scratch space of this session, with expiry, category and tags, without their data."""
