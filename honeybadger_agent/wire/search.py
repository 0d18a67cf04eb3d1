"""The search in everything a group remembers."""

from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from honeybadger_agent.wire.base import Request, Result
from honeybadger_agent.wire.entries import OriginKind
from honeybadger_agent.wire.labels import MAX_TAGS, Category, Tag
from honeybadger_agent.wire.refusals import shaped

MAX_QUERY_CHARACTERS: Final = 4096
SearchScope = Literal["all", "entries", "turns", "notes"]
Day = Annotated[
    str,
    shaped(
        r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)?)?",
        "a date or a time, as 2026-11-21 or 2026-11-21T06:00:00Z",
    ),
]


class SameNote(Result):
    id: str
    time: str | None = Field(default=None, description="UTC, RFC 3339; null when unknown.")
    author: str | None = None


class Hit(Result):
    id: str = Field(
        description="Of an entry its id; of a turn `session#number`; of a note `MEMORY.md#hash`, of a "
        "session's document `main.json#hash`."
    )
    kind: Literal["entry", "turn", "note", "history", "session"]
    score: float | None = Field(description="Points, comparable within this answer; null without a query.")
    text: str = Field(description="What it says, its first 2,000 characters.")
    is_cut: bool = Field(default=False, description="Whether the text goes on.")
    time: str | None = Field(default=None, description="UTC, RFC 3339; null when unknown.")
    category: str | None = None
    tags: list[str] = Field(default_factory=list)
    author: str | None = Field(default=None, description="Who said or saved it.")
    origin: OriginKind | None = Field(default=None, description="Of an entry: where it comes from.")
    origin_claimed: bool = Field(default=False, description="Whether the host has only the sender's word for it.")
    origin_from: str | None = Field(default=None, description="Which file, page or tool it was.")
    pinned: bool = Field(default=False, description="Whether it is never merged or retired by itself.")
    supersedes: list[str] = Field(default_factory=list, description="Ids of those whose place it took.")
    superseded_by: str | None = Field(default=None, description="Id of the one that took its place.")
    valid_until: str | None = Field(default=None, description="UTC, RFC 3339")
    session: str | None = Field(default=None, description="Of a turn.")
    source: str = Field(description="The file it stands in, below the home folder.")
    archived: bool = Field(default=False, description="Whether it is not remembered any more.")
    also: list[SameNote] = Field(
        default_factory=list, description="Of a note that was written several times: the others, at most five."
    )
    points: dict[str, float] = Field(default_factory=dict, description="What earned how many points.")
    words: dict[str, float] = Field(default_factory=dict, description="What each word of the question earned.")
    why_weak: str | None = Field(
        default=None, description="Why it has little to do with the query: recall would not show it unasked."
    )


class SearchResult(Result):
    hits: list[Hit] = Field(description="Best first; ties by time, newest first.")
    is_complete: bool = Field(description="False while files of the group are still being indexed.")


class SearchMemory(Request[SearchResult], audience="default"):
    """Search everything this group remembers: saved memories, notes, and all that was said in earlier conversations.

    Use this before you say that you do not know something about the user, the project or what was agreed. Ask in plain
    words, as `When did Ann change jobs?`; dates in the question count. `since` and `until` narrow it to a time.
    """

    query: Annotated[str, StringConstraints(min_length=1, max_length=MAX_QUERY_CHARACTERS)] | None = Field(
        default=None, description="Words, or a question as a person asks it."
    )
    category: Category | None = Field(
        default=None, description="Only entries of this category or below it: `a` takes `a` and `a/b`, not `ab`."
    )
    tags: Annotated[list[Tag], Field(max_length=MAX_TAGS)] | None = Field(
        default=None, description="Only entries that have all of these tags."
    )
    since: Day | None = Field(default=None, description="RFC 3339 date or time; without a zone it is UTC.")
    until: Day | None = Field(default=None, description="As `since`; a date takes the whole day in.")
    limit: Annotated[int, Field(ge=1, le=100)] | None = Field(default=None, description="Most hits; default 8.")
    scope: SearchScope | None = Field(
        default=None,
        description="`entries`, `turns` of every session, `notes` of MEMORY.md and HISTORY.md and the facts "
        "and tasks of sessions, or `all`; default all. "
        "With `category` or `tags` only entries are looked at.",
    )
    archived: bool | None = Field(
        default=None,
        description="true: look instead through what was merged, replaced or retired, or has expired, and is not "
        "remembered any more.",
    )
