"""The memory tool for the SDK of Anthropic: hand one of these to `client.beta.messages.tool_runner`.

It imports `anthropic`, the extra of the same name.
"""

from __future__ import annotations

from collections.abc import Mapping

from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
from anthropic.types.beta import (
    BetaCacheControlEphemeralParam,
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818RenameCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818ViewCommand,
)

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

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        return self.call(command.to_dict())

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        return self.call(command.to_dict())

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        return self.call(command.to_dict())

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        return self.call(command.to_dict())

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        return self.call(command.to_dict())

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        return self.call(command.to_dict())


class AsyncGroupMemory(BetaAsyncAbstractMemoryTool):
    """The same for `AsyncAnthropic`."""

    def __init__(self, client: Client, *, cache_control: BetaCacheControlEphemeralParam | None = None) -> None:
        super().__init__(cache_control=cache_control)
        self._tool = AsyncMemoryTool(client)

    async def call(self, input: object) -> str:  # noqa: A002  the SDK's name
        """Run a command as the model sent it. Raises ToolError."""
        try:
            return await self._tool.run(_command(input))
        except CommandFailed as error:
            raise ToolError(str(error)) from error

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        return await self.call(command.to_dict())

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        return await self.call(command.to_dict())

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        return await self.call(command.to_dict())

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        return await self.call(command.to_dict())

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        return await self.call(command.to_dict())

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        return await self.call(command.to_dict())


def _command(sent: object) -> Mapping[str, object]:
    if not isinstance(sent, Mapping):
        raise CommandFailed("invalid", "the command must be a JSON object")
    return sent
