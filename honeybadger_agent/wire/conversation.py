"""The conversation of a session: what was said is appended, and its newest part is read."""

from typing import Annotated

from pydantic import Field, StringConstraints

from honeybadger_agent.wire.base import MAX_NUMBER, Count, Neutralised, Request, Result, Role, Wire
from honeybadger_agent.wire.labels import Speaker, ToolsUsed
from honeybadger_agent.wire.refusals import shaped

Moment = Annotated[
    str,
    shaped(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)?", "a time, as 2026-11-21T06:00:00Z"),
]


class TurnResult(Result):
    turn: int = Field(description="Number of the turn in its session, from 1.")
    token_count: int = Field(description="Estimate for the content: ASCII characters // 4 plus one per other one.")
    neutralised: Neutralised = Field(default_factory=dict)


class AppendTurn(Request[TurnResult], changes=True, audience="programs"):
    """Append what was just said to the conversation, once per message."""

    role: Role
    content: Annotated[str, StringConstraints(min_length=1)]
    sender: Speaker | None = Field(
        default=None,
        description="Who speaks, as shown in the history; default: the role.",
    )
    tools_used: ToolsUsed | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    at: Moment | None = Field(
        default=None,
        description="When it was said, for imports: RFC 3339, without a zone UTC; not in the future, and not before "
        "the turn before it. Default: now.",
    )


TurnKey = Annotated[str, shaped(r"[!-~]{1,200}", "1-200 visible ASCII characters")]


class KeyedTurn(Wire):
    """One turn with the key under which its program knows it: the same key in the same session is the same turn."""

    key: TurnKey
    role: Role
    content: Annotated[str, StringConstraints(min_length=1)]
    sender: Speaker | None = None
    tools_used: ToolsUsed | None = None
    at: Moment | None = Field(
        default=None,
        description="When it was said; at least the time of the turn before it, and at most now. Default: now.",
    )


class TurnsResult(Result):
    added: int
    known: int = Field(description="Turns whose keys were there.")
    turns: list[int] = Field(description="The number of each turn in its session, in the order they were given.")
    neutralised: Neutralised = Field(default_factory=dict)


class AppendTurns(Request[TurnsResult], changes=True, settles=True, audience="programs"):
    """Append turns of a conversation in one commit, each once for its key, for ever.

    For programs that read a transcript and may be killed: send what it says again, and what is there is known.
    """

    turns: list[KeyedTurn] = Field(min_length=1, max_length=200)


class Message(Result):
    role: Role
    content: str
    sender: str | None = None
    turn: int | None = None
    at: str | None = Field(default=None, description="UTC, RFC 3339")


class HistoryResult(Result):
    text: str = Field(description="Lines `[sender]: content`, oldest first.")
    messages: list[Message] = Field(description="The same turns, oldest first, content as it was said.")
    tokens: int = Field(description="Estimate for `text`, summed over its lines.")
    dropped: int = Field(description="Turns of the window that did not fit.")
    shortened: bool = Field(description="Whether the newest turn alone was over the budget and was cut and marked.")


class GetHistory(Request[HistoryResult]):
    """Read the newest part of the conversation that fits a token budget."""

    budget_tokens: Count | None = Field(default=None, description="Default 8000; 0 means no limit.")
    max_messages: Annotated[int, Field(ge=1, le=MAX_NUMBER)] | None = Field(
        default=None, description="At most the window of the conversation (50)."
    )
