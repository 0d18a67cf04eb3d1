"""The tool table: what an agent can do with its memory, typed, with descriptions a model can read.

Each function builds a `Call`; a client sends it and returns the result model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from pydantic import ValidationError

from honeybadger_agent import wire
from honeybadger_agent.errors import BY_CODE

ResultT = TypeVar("ResultT", bound=wire.Wire)


@dataclass(frozen=True, slots=True)
class Call(Generic[ResultT]):
    """One request that was not sent yet, and the model of its result."""

    type_name: str
    payload: wire.Wire
    result: type[ResultT]


def ping() -> Call[wire.PingResult]:
    """Ask whether the memory host is there."""
    return Call("ping", wire.Ping(), wire.PingResult)


def update_memory(content: str, section: str | None = None) -> Call[wire.NoteResult]:
    """Save a note to the group's persistent memory. Use this when the user asks you to remember something."""
    return Call("update_memory", _payload(wire.UpdateMemory, content=content, section=section), wire.NoteResult)


def read_group_files() -> Call[wire.GroupFilesResult]:
    """Read the group's persona, its remembered facts and its conversation summary as they are now."""
    return Call("read_group_files", wire.ReadGroupFiles(), wire.GroupFilesResult)


def append_turn(
    role: wire.Role,
    content: str,
    sender: str | None = None,
    tools_used: Sequence[str] | None = None,
    input_tokens: int | None = None,
    output_tokens: int | None = None,
) -> Call[wire.TurnResult]:
    """Append what was just said to the conversation, once per message."""
    payload = _payload(
        wire.AppendTurn,
        role=role,
        content=content,
        sender=sender,
        tools_used=None if tools_used is None else list(tools_used),
        input_tokens=input_tokens,
        output_tokens=output_tokens,
    )
    return Call("append_turn", payload, wire.TurnResult)


def get_history(budget_tokens: int | None = None, max_messages: int | None = None) -> Call[wire.HistoryResult]:
    """Read the newest part of the conversation that fits a token budget."""
    payload = _payload(wire.GetHistory, budget_tokens=budget_tokens, max_messages=max_messages)
    return Call("get_history", payload, wire.HistoryResult)


def get_context(message: str | None = None, budget_tokens: int | None = None) -> Call[wire.ContextResult]:
    """Get the whole context for the next answer: persona, remembered facts, summary, recent conversation."""
    payload = _payload(wire.GetContext, message=message, budget_tokens=budget_tokens)
    return Call("get_context", payload, wire.ContextResult)


TOOLS: Final[Mapping[str, Callable[..., Call[Any]]]] = {
    tool.__name__: tool for tool in (ping, update_memory, read_group_files, append_turn, get_history, get_context)
}
"""Name -> function; its docstring is the description for a model, `wire.REQUEST_TYPES[name].payload` its schema."""

PayloadT = TypeVar("PayloadT", bound=wire.Wire)


def _payload(model: type[PayloadT], **members: Any) -> PayloadT:
    """Build a payload, refusing here what the host would refuse, in its words. Raises `Invalid`, `TooLarge`."""
    try:
        return model(**members)
    except ValidationError as error:
        refusal = wire.refusal_of(error, "payload.")
        raise BY_CODE[refusal.code](refusal.message, field=refusal.field) from None
