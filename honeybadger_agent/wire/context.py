"""The context for the next call of a model, with its explanation."""

from typing import Annotated, Literal, get_args

from pydantic import Field, StringConstraints

from honeybadger_agent.wire.base import FOR_PROGRAMS, Count, Request, Result
from honeybadger_agent.wire.conversation import Message
from honeybadger_agent.wire.entries import OriginKind

PartName = Literal[
    "identity",
    "global",
    "specialists",
    "persona",
    "notes",
    "summary",
    "recalled",
    "session",
    "working",
    "conversation",
]
PART_NAMES: tuple[PartName, ...] = get_args(PartName)


class Recalled(Result):
    id: str = Field(description="Id, as `get_memory` takes it.")
    kind: Literal["entry", "turn", "note", "history"] = "entry"
    state: Literal["new", "in_view", "near_miss", "newest"] = Field(
        description="`new`: recalled for this message; `in_view`: recalled for an earlier message that is still shown; "
        "`newest`: nothing matched at the beginning of a session; `near_miss`: not in the context."
    )
    score: float | None = Field(default=None, description="Total of `points`.")
    points: dict[str, float] = Field(default_factory=dict, description="Points by what earned them.")
    words: dict[str, float] = Field(default_factory=dict, description="Points by word of the question.")
    why: str | None = Field(default=None, description="Why it is in the context, or why it is not.")
    origin: OriginKind | None = Field(default=None, description="Its origin; null: nobody said.")
    origin_claimed: bool = Field(default=False, description="Whether the origin is only the sender's claim.")
    origin_from: str | None = Field(default=None, description="The file, page or tool it came from.")


SectionState = Literal["whole", "cut", "left_out", "absent", "unreadable"]


class ContextSection(Result):
    title: str
    source: str = Field(description="The file it came from, below the home folder, or `request`.")
    state: SectionState
    tokens: int = Field(
        description="Estimated tokens of this part with its heading; 0: nothing of it is in the context."
    )
    left_out: str | None = Field(default=None, description="What was left out.")
    why: str | None = Field(
        default=None, description="Why it was left out; for a whole MEMORY.md, how its notes were grouped."
    )


class PastContext(Result):
    seq: int = Field(description="Number of the last change that the context includes.")
    at: str = Field(description="Time of the moment: UTC, RFC 3339.")
    served: str | None = Field(
        default=None,
        description="Hash of the context that was served then, which this is byte for byte; null: none was kept, and "
        "these are the files as they were, without conversation and recalled lines.",
    )


class ContextResult(Result):
    system: str = Field(
        description="The system prompt; `system` and `messages` together are the whole input of the model."
    )
    messages: list[Message]
    hash: str = Field(default="", description="32 hex digits of the SHA-256 of `system`; `as_of` takes it.")
    stable_hash: str = Field(
        default="",
        description="The same hash of the beginning of `system` that stays the same, byte for byte, until "
        "identity, persona, notes or summary change.",
    )
    stable_characters: int = Field(
        default=0, description="Length of that beginning in characters, for a provider's prompt cache."
    )
    seq: int = Field(
        default=0, description="Number of the last change of the group that it includes; `as_of` takes it."
    )
    sections: list[ContextSection] = Field(description="One row per part, in the order of the text.")
    tokens: int
    budget_tokens: int = Field(description="0: no limit.")
    is_over_budget: bool = Field(description="The parts that are never cut exceed the budget by themselves.")
    recalled: list[Recalled] = Field(
        default_factory=list,
        description="Entries, turns, notes and paragraphs of HISTORY.md that were considered for this message (RB2).",
    )
    as_of: PastContext | None = Field(default=None, description="Only in a context as of an earlier moment.")


class GetContext(Request[ContextResult], audience="default"):
    """Get the whole context for the next answer: persona, remembered facts, summary, recent conversation."""

    message: Annotated[str, StringConstraints(min_length=1)] | None = Field(
        default=None, description="The user's current message; it becomes `messages`."
    )
    budget_tokens: Count | None = Field(default=None, description="Tokens; default 32000, 0: no limit.")
    most_turns: Annotated[int, Field(ge=1, le=10_000)] | None = Field(
        default=None, description="Maximum number of turns to replay; default: the host's setting."
    )
    parts: Annotated[list[PartName], Field(min_length=1)] | None = Field(
        default=None,
        description="Only these parts; default: all. Without `conversation`, memories recalled for earlier "
        "messages are not repeated.",
        json_schema_extra=FOR_PROGRAMS,
    )
    max_characters: Annotated[int, Field(ge=1, le=4_000_000)] | None = Field(
        default=None,
        description="Maximum length of `system`; a character that is not ASCII counts as four.",
        json_schema_extra=FOR_PROGRAMS,
    )
    as_of: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = Field(
        default=None,
        description="Return the context that was served at an earlier moment: the number of a change, a date, a "
        "time, `yesterday`, or the hash of a context. If none was served then, the group's files as "
        "they were.",
    )


class PreviewContext(GetContext, audience="operator"):
    """Return what `get_context` would return to an agent, without recording it; only the operator may ask."""

    agent: str | None = Field(
        default=None,
        description="Agent whose identity the context begins with, by its id in `config/agents`; default: none.",
    )
