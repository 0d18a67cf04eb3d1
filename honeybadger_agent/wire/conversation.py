"""The conversation of a session: what was said is appended, and its newest part is read."""

from typing import Annotated, Final

import orjson
from pydantic import AfterValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from honeybadger_agent.wire.base import MAX_NUMBER, Count, Neutralised, Request, Result, Role, Wire
from honeybadger_agent.wire.labels import Speaker, ToolsUsed
from honeybadger_agent.wire.refusals import shaped

MAX_DATA_BYTES: Final = 128 * 1024  # size limit of the JSON that a turn carries, in bytes of UTF-8
MAX_TURNS: Final = 1000  # turns in one reply of `get_turns`
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


def _checked_data(value: str) -> str:
    size = len(value.encode())
    if size > MAX_DATA_BYTES:
        raise PydanticCustomError("too_many_bytes", "", {"size": size, "limit": MAX_DATA_BYTES})
    try:
        orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise PydanticCustomError("must_be", "a text that is JSON: {why}", {"why": str(error)}) from None
    return value


TurnKey = Annotated[
    str, shaped(r"[A-Za-z0-9._:/#+%~-]{1,120}", "a key: 1-120 letters, digits and . _ : / # + % ~ -, as run-4/item-2")
]
TurnData = Annotated[str, AfterValidator(_checked_data)]  # JSON as a text, so that it comes back byte for byte
TurnNumber = Annotated[int, Field(ge=1, le=MAX_NUMBER)]


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
    data: TurnData | None = Field(
        default=None,
        description="Any JSON, as a text of at most 128 KiB, that get_turns gives back byte for byte; it is never "
        "searched or shown.",
    )


class AppendedTurns(Result):
    added: int
    known: int = Field(description="Turns whose keys were there.")
    turns: list[int] = Field(description="The number of each turn in its session, in the order they were given.")
    neutralised: Neutralised = Field(default_factory=dict)


class AppendTurns(Request[AppendedTurns], changes=True, settles=True, audience="programs"):
    """Append turns of a conversation in one commit, each once for its key, for ever.

    For programs that read a transcript and may be killed: send what it says again, and what is there is known.
    """

    turns: list[KeyedTurn] = Field(min_length=1, max_length=200)


class StoredTurn(Result):
    turn: int = Field(description="Number of the turn in its session, from 1.")
    key: str | None = None
    role: Role
    content: str
    sender: str
    data: str | None = Field(
        default=None, description="Byte for byte as it came; null: none came, or it was forgotten."
    )
    at: str = Field(description="UTC, RFC 3339")
    by: str = Field(description="The sender that appended it.")
    withdrawn: bool = Field(default=False, description="Only with `whole`.")


class TurnsResult(Result):
    turns: list[StoredTurn]
    has_more: bool = Field(
        description="More turns follow in this direction: ask again with `after`, or newest first with `before`."
    )


class GetTurns(Request[TurnsResult], audience="programs"):
    """Read turns of the conversation exactly as they were appended, with keys and data, oldest first."""

    after: Count | None = Field(default=None, description="Only turns with a higher number.")
    before: TurnNumber | None = Field(default=None, description="Only turns with a lower number.")
    limit: Annotated[int, Field(ge=1, le=MAX_TURNS)] | None = Field(
        default=None, description="Default 100; a reply has fewer where they are over 1 MiB together."
    )
    newest_first: bool | None = Field(default=None, description="true: from the newest back; default: oldest first.")
    whole: bool | None = Field(
        default=None,
        description="true: also turns before the place where delete_session began again, and those withdrawn.",
    )


class WithdrawnTurns(Result):
    withdrawn: int = Field(description="Turns that were there until now.")
    told: int = Field(default=0, description="Those of them that HISTORY.md and summary.md tell of: edit these.")


class WithdrawTurns(Request[WithdrawnTurns], changes=True, overwrites=True, settles=True, audience="programs"):
    """Take the last turns of the conversation back, as after an edited prompt. The log keeps them, marked.

    History, contexts, search and curation leave them out; their numbers and keys are not given again.
    """

    from_turn: TurnNumber = Field(description="Number of the first turn that is taken back, with all that follow.")


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
