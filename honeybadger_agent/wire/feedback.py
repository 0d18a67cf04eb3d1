"""Feedback of people and agents on an agent's answers and tools."""

from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from honeybadger_agent.wire.base import MAX_NUMBER, Neutralised, Request, Result

MAX_FEEDBACK_CHARACTERS: Final = 4096
FeedbackKind = Literal["correction", "praise", "complaint", "tool_failed"]


class FeedbackResult(Result):
    turn: int | None = Field(description="Number of the turn it concerns; null: the session has no turns.")
    neutralised: Neutralised = Field(default_factory=dict)


class RecordFeedback(Request[FeedbackResult], changes=True):
    """Record that the user corrected, praised or criticised an answer, or that a tool failed; memory learns from it.

    Quote the user's words. A correction that says what to do instead (`Don't use X for Y, use Z`) helps most.
    """

    kind: FeedbackKind
    content: Annotated[str, StringConstraints(min_length=1, max_length=MAX_FEEDBACK_CHARACTERS)] | None = Field(
        default=None, description="What the user said or what failed; required for a correction."
    )
    turn: Annotated[int, Field(ge=1, le=MAX_NUMBER)] | None = Field(
        default=None, description="Number of the turn it concerns; default: the newest."
    )
