"""The memory tool for the SDK of Anthropic: pass one of these to `client.beta.messages.tool_runner`.

It imports `anthropic` (the extra `anthropic`).
"""

from __future__ import annotations

from collections.abc import Mapping

from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
from anthropic.types.beta import BetaCacheControlEphemeralParam
from pydantic import BaseModel

from honeybadger_agent.client import Client, SyncClient
from honeybadger_agent.errors import CommandFailed
from honeybadger_agent.integrations.memory_tool import AsyncMemoryTool, MemoryTool


class GroupMemory(BetaAbstractMemoryTool):
    """A group's memory below `/memories`, for `Anthropic`.

    Args:
        client: its mailbox carries the commands; saved entries are signed with its sender.
    """

    def __init__(self, client: SyncClient, *, cache_control: BetaCacheControlEphemeralParam | None = None) -> None:
        super().__init__(cache_control=cache_control)
        self._tool = MemoryTool(client)

    def call(self, input: object) -> str:  # noqa: A002  the SDK's name
        """Run a command as the model sent it. Raises ToolError."""
        try:
            return self._tool.run(_command(input))
        except CommandFailed as error:
            raise ToolError(str(error)) from error

    def _parsed(self, command: BaseModel) -> str:
        return self.call(command.model_dump(mode="json", exclude_unset=True))

    view = create = str_replace = insert = delete = rename = _parsed


class AsyncGroupMemory(BetaAsyncAbstractMemoryTool):
    """The memory tool for `AsyncAnthropic`."""

    def __init__(self, client: Client, *, cache_control: BetaCacheControlEphemeralParam | None = None) -> None:
        super().__init__(cache_control=cache_control)
        self._tool = AsyncMemoryTool(client)

    async def call(self, input: object) -> str:  # noqa: A002  the SDK's name
        """Run a command as the model sent it. Raises ToolError."""
        try:
            return await self._tool.run(_command(input))
        except CommandFailed as error:
            raise ToolError(str(error)) from error

    async def _parsed(self, command: BaseModel) -> str:
        return await self.call(command.model_dump(mode="json", exclude_unset=True))

    view = create = str_replace = insert = delete = rename = _parsed


def _command(sent: object) -> Mapping[str, object]:
    if not isinstance(sent, Mapping):
        raise CommandFailed("invalid", "the command must be a JSON object")
    return sent
