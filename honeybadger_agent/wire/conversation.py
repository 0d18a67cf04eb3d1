"""The conversation of a session: what was said is appended, and its newest part is read."""

from typing import Annotated

import orjson
from pydantic import AfterValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from honeybadger_agent.wire.base import MAX_LISTED, MAX_NUMBER, Count, Neutralised, OneLine, Request, Result, Role, Wire
from honeybadger_agent.wire.labels import ToolsUsed
from honeybadger_agent.wire.refusals import shaped

MAX_DATA_BYTES = 128 * 1024  # of the JSON that a turn carries, and of an entry in working memory, in UTF-8
MAX_APPENDED = 200  # turns in one request
Moment = Annotated[
    str,
    shaped(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)?", "a time, as 2026-11-21T06:00:00Z"),
]


class TurnResult(Result):
    turn: int = Field(description="Number of the turn in its session, from 1.")
    token_count: int = Field(
        description="Estimated tokens of the content: ASCII characters // 4, plus one for each other character."
    )
    neutralised: Neutralised = Field(default_factory=dict)


class AppendTurn(Request[TurnResult], changes=True, audience="programs"):
    """Append what was just said to the conversation, once per message."""

    role: Role
    content: Annotated[str, StringConstraints(min_length=1)]
    sender: OneLine | None = Field(
        default=None,
        description="Who speaks, as shown in the history; default: the role.",
    )
    tools_used: ToolsUsed | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None


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
TurnData = Annotated[str, AfterValidator(_checked_data)]  # JSON text, so that it comes back byte for byte
TurnNumber = Annotated[int, Field(ge=1, le=MAX_NUMBER)]


class KeyedTurn(Wire):
    """One turn with its program's key for it: the same key in the same session is the same turn."""

    key: TurnKey
    role: Role
    content: Annotated[str, StringConstraints(min_length=1)]
    sender: OneLine | None = None
    tools_used: ToolsUsed | None = None
    at: Moment | None = Field(
        default=None,
        description="When it was said: RFC 3339, UTC without a zone. At the latest now, which is the default; at the "
        "earliest when the turn before it was said.",
    )
    data: TurnData | None = Field(
        default=None,
        description="Any JSON, as a text of at most 128 KiB, that get_turns gives back byte for byte; it is never "
        "searched or shown.",
    )


class AppendedTurns(Result):
    added: int
    known: int = Field(description="Turns that were known by their keys.")
    turns: list[int] = Field(description="Number of each turn in its session, in the order given.")
    neutralised: Neutralised = Field(default_factory=dict)


class AppendTurns(Request[AppendedTurns], changes=True, settles=True, audience="programs"):
    """Append turns of a conversation in one commit, each key only once, for ever.

    For programs that follow a transcript and may be killed: send its turns again, known keys are skipped.
    """

    turns: list[KeyedTurn] = Field(min_length=1, max_length=MAX_APPENDED)


class StoredTurn(Result):
    turn: int = Field(description="Number of the turn in its session, from 1.")
    key: str | None = None
    role: Role
    content: str
    sender: str
    data: str | None = Field(
        default=None, description="Byte for byte as it was sent; null: none was sent, or it was forgotten."
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

    after: Count | None = Field(default=None, description="Only turns after this number.")
    before: TurnNumber | None = Field(default=None, description="Only turns before this number.")
    limit: Annotated[int, Field(ge=1, le=MAX_LISTED)] | None = Field(
        default=None, description="Default 100; fewer when the reply would exceed 1 MiB."
    )
    newest_first: bool | None = Field(default=None, description="true: newest first; default: oldest first.")
    whole: bool | None = Field(
        default=None,
        description="true: include turns from before delete_session with `begin_again`, and withdrawn turns.",
    )


class WithdrawnTurns(Result):
    withdrawn: int = Field(description="Turns that this request took back.")
    told: int = Field(
        default=0, description="How many of them HISTORY.md and summary.md already mention; edit these files."
    )


class WithdrawTurns(Request[WithdrawnTurns], changes=True, overwrites=True, settles=True, audience="programs"):
    """Take the last turns of the conversation back, as after an edited prompt. The log keeps them, marked.

    History, contexts, search and curation leave them out; their numbers and keys are not given again.
    """

    from_turn: TurnNumber = Field(description="Number of the first turn to take back; all later ones go, too.")


class Message(Result):
    role: Role
    content: str
    sender: str | None = None
    turn: int | None = None
    at: str | None = Field(default=None, description="UTC, RFC 3339")


class HistoryResult(Result):
    text: str = Field(description="Lines `[sender]: content`, oldest first.")
    messages: list[Message] = Field(description="The same turns with their original content, oldest first.")
    tokens: int = Field(description="Estimated tokens of `text`, summed over its lines.")
    dropped: int = Field(description="Number of turns in the window that did not fit.")
    shortened: bool = Field(description="Whether the newest turn alone exceeded the budget and was cut.")


class GetHistory(Request[HistoryResult]):
    """Read the newest part of the conversation that fits a token budget."""

    budget_tokens: Count | None = Field(default=None, description="Default 8000; 0: no limit.")
    max_messages: Annotated[int, Field(ge=1, le=MAX_NUMBER)] | None = Field(
        default=None, description="Maximum number of turns; at most the window of the conversation (50)."
    )
