"""A group's memory as a capability of PydanticAI: `Agent(…, capabilities=[MemoryCapability(Client(…))])`.

It adds memory to the instructions, offers the tools of memory, and records the conversation. It imports `pydantic_ai`
(the extra `pydantic-ai`). Its limits: docs/adapters.md.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any

from pydantic_ai import RunContext, Tool
from pydantic_ai.capabilities import AbstractCapability, WrapRunHandler
from pydantic_ai.run import AgentRunResult
from pydantic_ai.toolsets import FunctionToolset

from honeybadger_agent.client import Client
from honeybadger_agent.errors import AgentError
from honeybadger_agent.escaping import escaped
from honeybadger_agent.hooks.program.events import MAX_CONTEXT_CHARACTERS, NOTICE
from honeybadger_agent.tools import description_of, parsed, schema_of, tool_names
from honeybadger_agent.turn.dispatch import Memory, complaint_of
from honeybadger_agent.wire import REQUEST_TYPES, PartName, Role

_PARTS: Sequence[PartName] = ("notes", "summary", "recalled")
_ANSWERING = ("get_context",)  # default tools that are not offered, as the capability replaces them
log = logging.getLogger(__name__)


@dataclass
class MemoryCapability(AbstractCapability[Any]):
    """Recalls memory before each answer, offers tools, and records what people say and agents answer.

    If the memory cannot be reached, the run continues without it and a warning is logged.

    Args:
        client: its sender signs what is recorded. Each conversation is a session, named by `escaped`.
        keeps_turns: False: turns are not recorded; for agents whose conversations are recorded elsewhere in the group.
    """

    client: Client
    keeps_turns: bool = True
    _: KW_ONLY
    id: str | None = "honeybadger"
    _unanswered: dict[tuple[str, str, str], str] = field(default_factory=dict, init=False, repr=False)  # see `Memory`

    def get_instructions(self) -> Any:
        """Return the function that makes the instructions of each request: notes, summary and recalled entries."""
        return self._recalled

    async def _recalled(self, ctx: RunContext[Any]) -> str | None:
        said = _text(ctx.prompt)
        try:
            context = await self._session(ctx).get_context(
                message=said if said.strip() else None, parts=_PARTS, max_characters=MAX_CONTEXT_CHARACTERS
            )
        except AgentError as error:
            log.warning("nothing is recalled: %s", error)
            return None
        return f"Memory, {NOTICE}\n\n{context.system}" if context.system.strip() else None

    def get_toolset(self) -> FunctionToolset[Any]:
        """Return the tools of memory that a model is offered by default."""
        return FunctionToolset([self._tool(name) for name in tool_names("default") if name not in _ANSWERING])

    def _tool(self, name: str) -> Tool[Any]:
        schema = schema_of(REQUEST_TYPES[name])
        return Tool.from_schema(partial(self._use, name), name, description_of(name), schema, takes_ctx=True)

    async def _use(self, name: str, ctx: RunContext[Any], **arguments: Any) -> Any:
        """Return the result of a tool, or its error in words for the model."""
        given = {member: value for member, value in arguments.items() if value is not None}
        memory = Memory(self._session(ctx), self._unanswered)
        try:
            result = await memory.ask(parsed(REQUEST_TYPES[name], given))
            return result.model_dump(mode="json", exclude_none=True)
        except AgentError as error:
            return complaint_of(error)

    async def wrap_run(self, ctx: RunContext[Any], *, handler: WrapRunHandler) -> AgentRunResult[Any]:
        """Record the prompt before the run and the answer after it, each once for its run."""
        await self._keep(ctx, "user", _text(ctx.prompt))
        result = await handler()
        await self._keep(ctx, "assistant", result.output if isinstance(result.output, str) else repr(result.output))
        return result

    async def _keep(self, ctx: RunContext[Any], role: Role, text: str) -> None:
        if not self.keeps_turns or not text.strip():
            return
        turn = {"key": escaped(f"{ctx.run_id}/{role}"), "role": role, "content": text}
        try:
            await self._session(ctx).append_turns([turn])
        except AgentError as error:
            log.warning("a turn is not kept: %s", error)

    def _session(self, ctx: RunContext[Any]) -> Client:
        """Return a client for the conversation of a run."""
        if ctx.conversation_id is None:
            return self.client
        client = copy.copy(self.client)
        client.session = escaped(ctx.conversation_id)
        return client


def _text(prompt: object) -> str:
    """Return the text of a prompt without pictures and files."""
    if isinstance(prompt, str):
        return prompt
    parts = prompt if isinstance(prompt, Sequence) else ()
    return "\n".join(part for part in parts if isinstance(part, str))
