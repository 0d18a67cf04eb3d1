"""The context for the next call of a model, with its explanation."""

from typing import Annotated, Final, Literal, get_args

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
PART_NAMES: Final[tuple[PartName, ...]] = get_args(PartName)


class Recalled(Result):
    id: str = Field(description="Id, as `get_memory` takes it.")
    kind: Literal["entry", "turn", "note", "history"] = "entry"
    state: Literal["new", "in_view", "near_miss", "newest"] = Field(
        description="`new`: recalled for this message; `in_view`: recalled for an earlier message that is still shown; "
        "`newest`: nothing matched at the beginning of a session; `near_miss`: not in the context."
    )
    score: float | None = Field(default=None, description="Points; what they are made of is in `points`.")
    points: dict[str, float] = Field(default_factory=dict, description="What earned how many points.")
    words: dict[str, float] = Field(default_factory=dict, description="What each word of the question earned.")
    why: str | None = Field(default=None, description="Why it is in the context, or why it is not.")
    origin: OriginKind | None = Field(default=None, description="Where it comes from; null: nobody said.")
    origin_claimed: bool = Field(default=False, description="Whether the host has only the sender's word for it.")
    origin_from: str | None = Field(default=None, description="Which file, page or tool it was.")


SectionState = Literal["whole", "cut", "left_out", "absent", "unreadable"]


class ContextSection(Result):
    title: str
    source: str = Field(description="The file it came from, below the home folder, or `request`.")
    state: SectionState
    tokens: int = Field(description="Estimate for what is in the context, heading included; 0 when nothing is.")
    left_out: str | None = Field(default=None, description="What is not in the context.")
    why: str | None = Field(
        default=None, description="Why it is not; of a whole MEMORY.md how its notes stand together."
    )


class PastContext(Result):
    seq: int = Field(description="The moment: every change up to this one is in the context.")
    at: str = Field(description="The moment, in UTC.")
    served: str | None = Field(
        default=None, description="Hash of the context that was served then; null: none is known."
    )
    is_identical: bool | None = Field(
        default=None, description="Whether this is it, byte for byte; null: none is known, these are the files."
    )
    why: list[str] = Field(default_factory=list, description="Why it is not the context that was served.")


class ContextResult(Result):
    system: str = Field(description="System text; `system` and `messages` together are the whole input of the model.")
    messages: list[Message]
    hash: str = Field(default="", description="32 hex digits of the SHA-256 of `system`; `as_of` takes it.")
    stable_hash: str = Field(
        default="",
        description="Likewise of the beginning of `system` that stays the same, byte by byte, while nothing it shows "
        "has changed: identity, persona, notes, summary.",
    )
    stable_characters: int = Field(default=0, description="How long that beginning is, for a provider's cache.")
    seq: int = Field(default=0, description="Every change of the group up to this one is in it; `as_of` takes it, too.")
    sections: list[ContextSection] = Field(description="One row per part, in the order of the text.")
    tokens: int
    budget_tokens: int = Field(description="0 means no limit.")
    is_over_budget: bool = Field(description="The parts that are never cut are over the budget alone.")
    recalled: list[Recalled] = Field(
        default_factory=list,
        description="What was considered for this message: entries, turns, notes, paragraphs of HISTORY.md (RB2).",
    )
    as_of: PastContext | None = Field(default=None, description="Of a context as it was.")


class GetContext(Request[ContextResult], audience="default"):
    """Get the whole context for the next answer: persona, remembered facts, summary, recent conversation."""

    message: Annotated[str, StringConstraints(min_length=1)] | None = Field(
        default=None, description="What the user says now; it becomes `messages`."
    )
    budget_tokens: Count | None = Field(default=None, description="Default 32000; 0 means no limit.")
    most_turns: Annotated[int, Field(ge=1, le=10_000)] | None = Field(
        default=None, description="Newest turns of the conversation to replay, at most; default: what the host replays."
    )
    parts: Annotated[list[PartName], Field(min_length=1)] | None = Field(
        default=None,
        description="Only these parts; default: all. Without `conversation` the asker has it: what was recalled for "
        "earlier messages is not repeated.",
        json_schema_extra=FOR_PROGRAMS,
    )
    max_characters: Annotated[int, Field(ge=1, le=4_000_000)] | None = Field(
        default=None,
        description="`system` has at most this many; a character that is not ASCII counts as four.",
        json_schema_extra=FOR_PROGRAMS,
    )
    as_of: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = Field(
        default=None,
        description="The context as it was served at an earlier moment: the number of a change, a date, a time, "
        "`yesterday`, or the hash of a context. Where none was served, the group's files as they were.",
    )


class PreviewContext(GetContext, audience="operator"):
    """Return what `get_context` would return to an agent, and note nothing; only the operator may ask."""

    agent: str | None = Field(default=None, description="By its id in `config/agents`; without one nobody's identity.")
