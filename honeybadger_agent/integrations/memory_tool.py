"""Claude's memory tool (`memory_20250818`) on the group's memory, for any program that talks to a model.

`MemoryTool(SyncClient(…)).run({"command": "view", "path": "/memories"})` returns what the model reads; with the SDK
of Anthropic use `honeybadger_agent.integrations.anthropic_memory`. The meaning of paths: decision 021.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

import orjson

from honeybadger_agent import wire
from honeybadger_agent.client import Client, SyncClient, run_through
from honeybadger_agent.errors import AgentError, CommandFailed, NoMailbox, ReplyTimeout
from honeybadger_agent.integrations.memory_commands import Steps, steps_of
from honeybadger_agent.mailbox import new_id
from honeybadger_agent.turn.dispatch import code_of, complaint_of
from honeybadger_agent.wire import Request

# The tool's definition in a request to the model.
DEFINITION: Final[Mapping[str, str]] = {"type": "memory_20250818", "name": "memory"}
_MAX_UNANSWERED: Final = 100
# Sends a request under an id, and returns its result.
_Asking: TypeAlias = Callable[[Request[Any], str], Awaitable[wire.Result]]


@dataclass(slots=True)
class _Run:
    """A command that is under way, and its current call, sent with `request_id`."""

    steps: Steps[str]
    call: Request[Any]
    request_id: str


class _Runs:
    """Shared by both tools: runs commands, and keeps those whose change has no reply yet.

    A model cannot give a request id. So an interrupted command is kept with its id: the same command again continues
    there, and nothing is applied twice.
    """

    def __init__(self) -> None:
        self._unanswered: dict[bytes, _Run] = {}

    async def run(self, command: Mapping[str, object], ask: _Asking) -> str:
        """Run a command and return the text for the model. Raises CommandFailed."""
        try:
            key = orjson.dumps(dict(command), option=orjson.OPT_SORT_KEYS)
        except TypeError:
            raise CommandFailed("invalid", "the command must be a JSON object of texts and numbers") from None
        run = self._unanswered.pop(key, None) or _begun(command)
        while True:
            try:
                go_on = partial(run.steps.send, await ask(run.call, run.request_id))
            except (ReplyTimeout, NoMailbox) as error:
                self._keep(key, run)
                raise CommandFailed(code_of(error), complaint_of(error)) from None
            except AgentError as error:
                go_on = partial(run.steps.throw, error)
            except BaseException:  # Ctrl-C, or cancelled: the change may have been made
                self._keep(key, run)
                raise
            try:
                run.call, run.request_id = go_on(), new_id()
            except StopIteration as end:
                return str(end.value)
            except CommandFailed:
                raise
            except AgentError as error:
                raise CommandFailed(code_of(error), complaint_of(error)) from None

    def _keep(self, key: bytes, run: _Run) -> None:
        """Keep a run that was interrupted, if its call may have changed something."""
        if run.call.changes:
            self._unanswered[key] = run
            if len(self._unanswered) > _MAX_UNANSWERED:
                del self._unanswered[next(iter(self._unanswered))]


def _begun(command: Mapping[str, object]) -> _Run:
    steps = steps_of(command)
    return _Run(steps, next(steps), new_id())


class MemoryTool:
    """The memory tool of one sender."""

    def __init__(self, client: SyncClient) -> None:
        self._client = client
        self._runs = _Runs()

    def run(self, command: Mapping[str, object]) -> str:
        """Run a command and return the text for the model.

        Args:
            command: the `input` of a `tool_use` block, as the model wrote it.
        Raises CommandFailed: its text is for the model, as a `tool_result` with `is_error`.
        """
        return run_through(self._runs.run(command, self._ask))

    async def _ask(self, call: Request[Any], request_id: str) -> wire.Result:
        result: wire.Result = self._client.call(call, request_id=request_id)
        return result


class AsyncMemoryTool:
    """The memory tool for asyncio programs."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._runs = _Runs()

    async def run(self, command: Mapping[str, object]) -> str:
        """Run a command, see `MemoryTool.run`. A cancelled one continues when it is sent again."""
        return await self._runs.run(command, self._ask)

    async def _ask(self, call: Request[Any], request_id: str) -> wire.Result:
        result: wire.Result = await self._client.call(call, request_id=request_id)
        return result
