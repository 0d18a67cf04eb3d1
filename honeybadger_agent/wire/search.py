"""The search in everything a group remembers."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from honeybadger_agent.wire.base import Request, Result
from honeybadger_agent.wire.entries import OriginKind
from honeybadger_agent.wire.labels import Category, Tags
from honeybadger_agent.wire.refusals import shaped

MAX_QUERY_CHARACTERS = 4096
Query = Annotated[str, StringConstraints(min_length=1, max_length=MAX_QUERY_CHARACTERS)]
SearchScope = Literal["all", "entries", "turns", "notes"]
Day = Annotated[
    str,
    shaped(
        r"(today|yesterday|\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)?)?)",
        "a date or a time, as 2026-11-21 or 2026-11-21T06:00:00Z, `today` or `yesterday`",
    ),
]


class SameNote(Result):
    id: str
    time: str | None = Field(default=None, description="UTC, RFC 3339; null when unknown.")
    author: str | None = None


class Hit(Result):
    id: str = Field(
        description="An entry's id, a turn's `session#number`, a note's `MEMORY.md#hash`, or `main.json#hash` in "
        "a session document."
    )
    kind: Literal["entry", "turn", "note", "history", "session"]
    score: float | None = Field(description="Points, comparable within this answer; null without a query.")
    text: str = Field(description="Its first 2,000 characters.")
    is_cut: bool = Field(default=False, description="Whether the text is longer.")
    time: str | None = Field(default=None, description="UTC, RFC 3339; null when unknown.")
    category: str | None = None
    tags: list[str] = Field(default_factory=list)
    author: str | None = Field(default=None, description="Who said or saved it.")
    origin: OriginKind | None = Field(default=None, description="Origin of an entry.")
    origin_claimed: bool = Field(default=False, description="Whether the origin is only the sender's claim.")
    origin_from: str | None = Field(default=None, description="The file, page or tool it came from.")
    pinned: bool = Field(default=False, description="Whether curation never merges or retires it.")
    supersedes: list[str] = Field(default_factory=list, description="Ids of the entries it replaces.")
    superseded_by: str | None = Field(default=None, description="Id of the entry that replaces it.")
    valid_until: str | None = Field(default=None, description="UTC, RFC 3339")
    session: str | None = Field(default=None, description="Session of a turn.")
    source: str = Field(description="File that holds it, below the home folder.")
    archived: bool = Field(default=False, description="Whether it is in the archive or has expired.")
    also: list[SameNote] = Field(
        default_factory=list, description="At most five other copies of a note that was written several times."
    )
    points: dict[str, float] = Field(default_factory=dict, description="Points by what earned them.")
    words: dict[str, float] = Field(default_factory=dict, description="Points by word of the question.")
    why_weak: str | None = Field(
        default=None, description="Why it is only loosely related, so that recall would not show it."
    )


class SearchResult(Result):
    hits: list[Hit] = Field(description="Best first; equal ones newest first.")
    is_complete: bool = Field(description="False while files of the group are still being indexed.")


class SearchMemory(Request[SearchResult], audience="default"):
    """Search everything this group remembers: saved memories, notes, and all that was said in earlier conversations.

    Use this before you say that you do not know something about the user, the project or what was agreed. Ask in plain
    words, as `When did Ann change jobs?`; dates in the question count. `since` and `until` narrow it to a time.
    """

    query: Query | None = Field(default=None, description="Words, or a question as a person asks it.")
    category: Category | None = Field(
        default=None, description="Only entries of this category and below: `a` matches `a` and `a/b`, not `ab`."
    )
    tags: Tags | None = Field(default=None, description="Only entries with all of these tags.")
    since: Day | None = Field(default=None, description="Date or time, RFC 3339, or `yesterday`; UTC without a zone.")
    until: Day | None = Field(default=None, description="Like `since`; a date includes the whole day.")
    limit: Annotated[int, Field(ge=1, le=100)] | None = Field(
        default=None, description="Maximum number of hits; default 8."
    )
    scope: SearchScope | None = Field(
        default=None,
        description="`entries`; `turns` of all sessions; `notes`: MEMORY.md, HISTORY.md, facts and tasks of "
        "sessions; or `all`, the default. With `category` or `tags` only entries are searched.",
    )
    archived: bool | None = Field(
        default=None,
        description="true: search only what was merged, replaced, retired or has expired.",
    )
