"""The port to a model, and the values that cross it. A provider's library is imported by the room that uses it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model is told of it.

    Args:
        schema: JSON Schema of its arguments, an object.
    """

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """What a model wants done.

    Args:
        id: the provider's, for pairing with the answer; unique within one answer.
        arguments: as the model wrote them, JSON; not checked.
    """

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What came of a tool call.

    Args:
        content: for the model.
        summary: for people: one line of at most 200 characters.
    """

    call: ToolCall
    ok: bool
    content: str
    summary: str


@dataclass(frozen=True, slots=True)
class UserSaid:
    text: str


@dataclass(frozen=True, slots=True)
class ModelSaid:
    """One answer of a model.

    Args:
        calls: tools it wants run before it goes on; none: the answer is final.
        input_tokens, output_tokens: as the provider counts them; None: it does not say.
        note: what the user should know about the text, shown behind it: that it was cut.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    input_tokens: int | None = None
    output_tokens: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class ToolsAnswered:
    """The answers to the calls of the `ModelSaid` before, in their order."""

    answers: tuple[ToolAnswer, ...]


Message: TypeAlias = UserSaid | ModelSaid | ToolsAnswered


class ModelFailed(Exception):
    """The model gave no answer; the message says what, which and what now, without a key in it.

    Args:
        is_passing: it may answer later: a timeout, no connection, overload. Else somebody has to do something: the key,
            the name of the model, the request itself.
    """

    def __init__(self, message: str, *, is_passing: bool) -> None:
        super().__init__(message)
        self.is_passing = is_passing


class Model(Protocol):
    """A model that answers a conversation."""

    @property
    def name(self) -> str:
        """What it is called in replies and logs, as `openai:gpt-5-mini`."""
        ...

    async def answer(
        self,
        system: str,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        on_text: Callable[[str], Awaitable[None]],
    ) -> ModelSaid:
        """Return the next answer.

        Args:
            messages: oldest first; the last is the user's or the tools'.
            on_text: gets the text piece by piece while it comes; after a retry of the provider it may begin anew only
                when nothing was given to it yet.
        Raises ModelFailed.
        """
        ...

    async def aclose(self) -> None:
        """Let go of connections."""
        ...
