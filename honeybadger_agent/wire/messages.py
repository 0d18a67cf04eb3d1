"""Messages to the people and agents of a group, which they read when they look."""

from typing import Annotated

from pydantic import Field, StringConstraints

from honeybadger_agent.wire.base import MAX_NOTE_CHARACTERS, MAX_NUMBER, Neutralised, Request, Result
from honeybadger_agent.wire.turns import AgentId


class SentMessage(Result):
    seq: int = Field(description="Number of the message: later ones have greater numbers.")
    neutralised: Neutralised = Field(default_factory=dict)


class SendMessage(Request[SentMessage], changes=True):
    """Send a message to the people and agents of the group, or only to some. Use this to tell somebody what your answer
    does not: that a long task is done, or what a scheduled one has found.
    """

    content: Annotated[str, StringConstraints(min_length=1, max_length=MAX_NOTE_CHARACTERS)] = Field(
        description="The message, 1-32,768 characters."
    )
    to: Annotated[list[AgentId], Field(min_length=1, max_length=20)] | None = Field(
        default=None, description="Names of senders of the group whom it is for; default: everybody."
    )


class GroupMessage(Result):
    seq: int
    at: str = Field(description="When it was sent, UTC.")
    sender: str
    content: str
    session: str = Field(description="The conversation it belongs to.")
    to: list[str] | None = Field(default=None, description="Whom it is for; null: everybody.")


class MessagesResult(Result):
    messages: list[GroupMessage] = Field(description="Oldest first.")
    after: int = Field(description="What to give as `after` next time, so that each message is read once.")


class GetMessages(Request[MessagesResult]):
    """Read messages of the group, oldest first: the newest ones, or those after a number."""

    after: Annotated[int, Field(ge=0, le=MAX_NUMBER)] | None = Field(
        default=None, description="The `after` of the last answer, 0 for all; default: only the newest are read."
    )
    limit: Annotated[int, Field(ge=1, le=200)] | None = Field(default=None, description="At most so many (50).")
    wait_seconds: Annotated[int, Field(ge=0, le=300)] | None = Field(
        default=None, description="How long to wait for a message when there is none; default: not at all."
    )

    @property
    def may_take(self) -> float:
        return self.wait_seconds or 0
