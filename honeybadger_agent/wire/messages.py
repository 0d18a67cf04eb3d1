"""Messages to the people and agents of a group, which they read when they look."""

from typing import Annotated

from pydantic import Field, StringConstraints

from honeybadger_agent.wire.base import MAX_NOTE_CHARACTERS, MAX_NUMBER, Neutralised, Request, Result
from honeybadger_agent.wire.turns import AgentId


class SentMessage(Result):
    seq: int = Field(description="Number of the message; later messages have higher numbers.")
    neutralised: Neutralised = Field(default_factory=dict)


class SendMessage(Request[SentMessage], changes=True):
    """Send a message to the people and agents of the group, or only to some. Use this to tell somebody what your answer
    does not: that a long task is done, or what a scheduled one has found.
    """

    content: Annotated[str, StringConstraints(min_length=1, max_length=MAX_NOTE_CHARACTERS)] = Field(
        description="The message, 1-32,768 characters."
    )
    to: Annotated[list[AgentId], Field(min_length=1, max_length=20)] | None = Field(
        default=None, description="Senders it is for; default: everybody."
    )


class GroupMessage(Result):
    seq: int
    at: str = Field(description="When it was sent: UTC, RFC 3339.")
    sender: str
    content: str
    session: str = Field(description="Session it belongs to.")
    to: list[str] | None = Field(default=None, description="Senders it is for; null: everybody.")


class MessagesResult(Result):
    messages: list[GroupMessage] = Field(description="Oldest first.")
    after: int = Field(description="Value for `after` in the next request, so that each message is read once.")


class GetMessages(Request[MessagesResult]):
    """Read messages of the group, oldest first: the newest ones, or those after a number."""

    after: Annotated[int, Field(ge=0, le=MAX_NUMBER)] | None = Field(
        default=None, description="`after` of the previous reply, 0 for all messages; default: only the newest."
    )
    limit: Annotated[int, Field(ge=1, le=200)] | None = Field(
        default=None, description="Maximum number of messages; default 50."
    )
    wait_seconds: Annotated[int, Field(ge=0, le=300)] | None = Field(
        default=None, description="How long to wait for a message if there is none; default 0."
    )

    @property
    def may_take(self) -> float:
        return self.wait_seconds or 0
