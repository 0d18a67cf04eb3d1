"""The working memory of a session: what is kept for some minutes."""

# Without `from __future__ import annotations`, as in every room here: see `base`.

from typing import Annotated, Final

from pydantic import Field, StringConstraints

from honeybadger_agent.wire.base import OneLine, Result, Wire
from honeybadger_agent.wire.labels import Tags
from honeybadger_agent.wire.search import MAX_QUERY_CHARACTERS

MAX_KEY_CHARACTERS: Final = 100
Key = Annotated[str, StringConstraints(min_length=1, max_length=MAX_KEY_CHARACTERS)]


class SaveToWorkingMemory(Wire):
    """Keep something for a while in the working memory of the session; the same key again replaces it (RB6)."""

    key: Key = Field(description="Unique in the session, one visible line, 1-100 characters.")
    data: Annotated[str, StringConstraints(min_length=1)] = Field(description="At most 131,072 bytes by default.")
    ttl_minutes: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None, description="Minutes until it expires, by default 5, at most 1440."
    )
    category: OneLine | None = Field(default=None, description="As `web-content` or `web-content/github`.")
    tags: Tags | None = None


class WorkingSaved(Result):
    key: str
    expires_at: str = Field(description="UTC, RFC 3339")
    replaced: bool = Field(description="Whether the key held something that had not expired.")
    neutralised: dict[str, int] = Field(
        default_factory=dict,
        description="What was changed in the text so that it forges and betrays nothing: kind and count.",
    )


class WorkingLabel(Result):
    key: str
    expires_at: str = Field(description="UTC, RFC 3339")
    category: str | None = None
    tags: list[str]
    by: str = Field(description="The sender's folder it came from.")
    characters: int = Field(description="Length of its data.")


class GetFromWorkingMemory(Wire):
    """Return one entry of the session's working memory, with its data (RB6)."""

    key: Key


class WorkingEntryResult(WorkingLabel):
    stored_at: str = Field(description="UTC, RFC 3339")
    data: str


class SearchWorkingMemory(Wire):
    """Search the session's working memory: key, data, tags and category (RB6)."""

    query: Annotated[str, StringConstraints(min_length=1, max_length=MAX_QUERY_CHARACTERS)]
    category: OneLine | None = Field(default=None, description="`a` finds `a` and `a/b`, not `ab`.")
    tags: Tags | None = Field(default=None, description="An entry must have them all.")


class WorkingHit(WorkingLabel):
    score: float
    text: str = Field(description="A piece of its data around what was found, one line, at most 200 characters.")


class WorkingHits(Result):
    hits: list[WorkingHit] = Field(description="Best first.")


class ListWorkingMemory(Wire):
    """List what the session's working memory holds, without data (RB6)."""


class WorkingList(Result):
    entries: list[WorkingLabel] = Field(description="By key; what has expired is not there.")
    max_entries: int = Field(description="How many there may be.")
    skipped: int = Field(description="Files in its folder that are no entries; the host's log names them.")
