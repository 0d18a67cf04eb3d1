"""The tools of a turn over a client: a call becomes an ordinary request in the sender's inbox."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Any

from honeybadger_agent import wire
from honeybadger_agent.client import Client
from honeybadger_agent.errors import AgentError
from honeybadger_agent.models.model import ToolAnswer, ToolCall, ToolSpec, one_line
from honeybadger_agent.tools import description_of, parsed, schema_of, tool_names
from honeybadger_agent.turn import prose
from honeybadger_agent.turn.dispatch import Memory, complaint_of
from honeybadger_agent.turn.orchestrator import arguments_of
from honeybadger_agent.wording import count_of

# About 15,000 tokens: the most one result may add to the model's context. MEMORY.md may be larger.
MAX_RESULT_CHARACTERS = 60_000


class MemoryTools:
    """The tool table for one turn. A `Toolbox`.

    Args:
        prefix: names the turn; with `.` and a call's key it is the request id, so that the same call of the same turn
            is one change, also after a crash.
        allowed: names of tools; None: all tools for models. Raises ValueError for another name.
    """

    def __init__(self, client: Client, prefix: str, allowed: Collection[str] | None = None) -> None:
        self.specs: Sequence[ToolSpec] = specs_of(allowed)
        self._memory = Memory(client)
        self._prefix = prefix

    async def run(self, call: ToolCall, key: str) -> ToolAnswer:
        """Send the call as a request and return its result; a refusal is an answer, too."""
        try:
            request = parsed(wire.REQUEST_TYPES[call.name], arguments_of(call))
            result = await self._memory.ask(request, f"{self._prefix}.{key}")
        except AgentError as error:
            return ToolAnswer.refused(call, complaint_of(error))
        content = _cut(prose.text_of(request.type_name, result))
        tokens = result.tokens if isinstance(result, wire.DelegationResult) else 0
        return ToolAnswer(call, ok=True, content=content, summary=summary_of(request, result), tokens=tokens)


def specs_of(allowed: Collection[str] | None = None) -> tuple[ToolSpec, ...]:
    """Return the descriptions of the tools a model may use, in the order of the table.

    Args:
        allowed: names of tools; None: all of them. Raises ValueError for another name.
    """
    if allowed is None:
        return tuple(map(_spec, tool_names()))
    known = tool_names(allowed=wire.REQUEST_TYPES.keys())
    if strange := sorted(set(allowed) - set(known)):
        raise ValueError(f"there is no tool {', '.join(map(repr, strange))}; the tools are {', '.join(known)}")
    return tuple(_spec(name) for name in known if name in allowed)


@cache
def _spec(name: str) -> ToolSpec:
    return ToolSpec(name, description_of(name), schema_of(wire.REQUEST_TYPES[name]))


def summary_of(request: wire.Request[Any], result: wire.Wire) -> str:
    """Return in words for people what a tool did, on one line of at most 200 characters.

    A stored text is shown only if the host changed nothing in it: else it may have had a credential.
    """
    tool = request.type_name
    is_waiting = getattr(result, "proposal", None) is not None
    summary = _SUMMARIES[tool](request, result) if tool in _SUMMARIES and not is_waiting else _in_short(tool, result)
    return one_line(summary)


def _in_short(tool: str, result: wire.Wire) -> str:
    if tool in prose.PROSE:
        return prose.text_of(tool, result).partition("\n")[0]
    members = prose.members_of(result).items()
    return ", ".join(f"{name}: {len(one) if isinstance(one, list | dict) else one}" for name, one in members) or "Done"


def _stored(said: str, text: str, neutralised: Mapping[str, int]) -> str:
    return said if neutralised else f"{said}: {text}"


def _note(asked: wire.UpdateMemory, result: wire.NoteResult) -> str:
    return _stored(f"Saved in {result.file}, section {result.section}", asked.content, result.neutralised)


def _entry(asked: wire.SaveMemory, result: wire.SavedEntry) -> str:
    did = f"Known already, said {count_of(result.reinforced + 1, 'time')}" if result.reinforced else "Saved"
    return _stored(f"{did}: [{result.id}] in {result.category}", result.content, result.neutralised)


def _found(_: wire.SearchMemory, result: wire.SearchResult) -> str:
    if not result.hits:
        return "Nothing found"
    best = result.hits[0]
    return f"{len(result.hits)} found, first [{best.id}] {best.text}"


def _read(asked: wire.Request[Any], result: wire.Wire) -> str:
    return f"Read {count_of(len(prose.text_of(asked.type_name, result)), 'character')}"


def _delegated(asked: wire.DelegateToAgent, result: wire.DelegationResult) -> str:
    return f"{result.agent}, {result.state.replace('_', ' ')}: {result.content}"


# Request type -> its summary; all others have the first line of their prose, or the numbers of their members.
_SUMMARIES: Mapping[str, Callable[[Any, Any], str]] = {
    "update_memory": _note,
    "save_memory": _entry,
    "search_memory": _found,
    "read_group_files": _read,
    "get_history": _read,
    "get_context": _read,
    "delegate_to_agent": _delegated,
}


def _cut(text: str) -> str:
    if len(text) <= MAX_RESULT_CHARACTERS:
        return text
    cut = f"(Cut here: {MAX_RESULT_CHARACTERS} of {len(text)} characters. Ask for less, or search.)"
    return f"{text[:MAX_RESULT_CHARACTERS]}\n{cut}"
