"""The port to a model, its values, and the settings of a provider, whose library only `providers` imports."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as described to a model.

    Args:
        schema: JSON Schema of its arguments, an object.
    """

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's call of a tool.

    Args:
        id: from the provider, to pair the call with its answer; unique within one answer of the model.
        arguments: JSON as the model wrote it, not checked.
    """

    id: str
    name: str
    arguments: str


MAX_SUMMARY_CHARACTERS = 200  # of a tool's answer on one line for people


def one_line(text: str) -> str:
    """Return the beginning of a text on one line, without control characters."""
    line = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    return line if len(line) <= MAX_SUMMARY_CHARACTERS else line[: MAX_SUMMARY_CHARACTERS - 1].rstrip() + "…"


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The result of a tool call.

    Args:
        content: for the model.
        summary: for people, one line of at most 200 characters.
        tokens: tokens of models that the tool asked, such as another agent.
    """

    call: ToolCall
    ok: bool
    content: str
    summary: str
    tokens: int = 0

    @classmethod
    def refused(cls, call: ToolCall, why: str) -> ToolAnswer:
        """Return the result of a call that did nothing."""
        return cls(call, ok=False, content=why, summary=one_line(why))


@dataclass(frozen=True, slots=True)
class UserSaid:
    text: str


@dataclass(frozen=True, slots=True)
class ModelSaid:
    """One answer of a model.

    Args:
        calls: tools to run before it continues; without any the answer is final.
        input_tokens, output_tokens: as the provider counts them; None: it does not say.
        note: for the user, shown after the text: for example that it was cut.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    input_tokens: int | None = None
    output_tokens: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class ToolsAnswered:
    """The answers to the calls of the previous `ModelSaid`, in order."""

    answers: tuple[ToolAnswer, ...]


Message: TypeAlias = UserSaid | ModelSaid | ToolsAnswered
OnText: TypeAlias = Callable[[str], Awaitable[None]]  # takes each piece of an answer's text as it comes


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt of one call of a model.

    Args:
        system: the system text.
        messages: oldest first; the last is the user's or the tools'.
        stable_characters: length of the beginning of `system` that does not change from turn to turn, so that a
            provider can cache it; 0: none.
        is_booked: the caller books each attempt, so one that may have cost something is not repeated here.
    """

    system: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    stable_characters: int = 0
    is_booked: bool = False


class ModelFailed(Exception):
    """The model gave no answer; the message names the fault, the model and the remedy, and never contains a key.

    Args:
        is_passing: a retry may succeed: a timeout, no connection, overload. Else somebody must fix the key, the model's
            name or the request.
        is_free: nothing was answered, and nothing is charged: no connection, or the server refused.
    """

    def __init__(self, message: str, *, is_passing: bool, is_free: bool = False) -> None:
        super().__init__(message)
        self.is_passing = is_passing
        self.is_free = is_free


class Model(Protocol):
    """A model that answers a conversation."""

    @property
    def name(self) -> str:
        """Its name in replies and logs, such as `openai:gpt-5-mini`."""

    async def answer(self, prompt: Prompt, on_text: OnText) -> ModelSaid:
        """Return the next answer; once `on_text` was called, the prompt is not sent again. Raises ModelFailed."""

    async def aclose(self) -> None:
        """Close connections."""


# Provider -> default of `base_url`.
DEFAULT_URLS = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "ollama": "http://127.0.0.1:11434/v1",
}


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The settings of a provider. `offline` and `scripted` need none.

    Args:
        base_url: of the provider, or of any server with its protocol; empty: see `DEFAULT_URLS`.
        api_key: never shown; empty: none is sent.
        key_name: the setting or variable of the key, for messages.
        timeout_seconds: for a connection (10 at most), and for silence before and within the answer.
        retries: after a passing failure, while no text has come yet.
    """

    base_url: str = ""
    api_key: str = field(default="", repr=False)
    timeout_seconds: float = 120
    retries: int = 2
    max_output_tokens: int = 4096
    key_name: str = "HONEYBADGER_MODEL_API_KEY"

    @property
    def key(self) -> str:
        """The key, without the line end of a key file."""
        return self.api_key.strip()


def checked_url(name: str, base_url: str) -> str:
    """Return the address of a model's server without a slash at its end. Raises ModelFailed."""
    try:
        url = urlsplit(base_url)
        is_right = url.scheme in ("http", "https") and bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError:
        is_right = False
    if not is_right or url.username is not None or url.password is not None or url.query or url.fragment:
        raise ModelFailed(
            f"{name}: base_url must be http(s)://host[:port][/path], without user, password or query", is_passing=False
        )
    return base_url.rstrip("/")
