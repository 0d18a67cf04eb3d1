"""Claude's memory tool (`memory_20250818`) on the group's memory, for any program that talks to a model.

`MemoryTool(SyncClient(…)).run({"command": "view", "path": "/memories"})` returns what the model reads; with the SDK
of Anthropic use `honeybadger_agent.integrations.anthropic_memory`. The meaning of paths: decision 021.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from honeybadger_agent import wire
from honeybadger_agent.client import Client, SyncClient
from honeybadger_agent.errors import AgentError, CommandFailed, NoMailbox, ReplyTimeout
from honeybadger_agent.integrations.memory_commands import Steps, steps_of
from honeybadger_agent.mailbox import new_id
from honeybadger_agent.turn.dispatch import code_of, complaint_of
from honeybadger_agent.wire import Request

DEFINITION: Final[Mapping[str, str]] = {"type": "memory_20250818", "name": "memory"}
"""The tool's definition in a request to the model."""
_MOST_UNANSWERED: Final = 100


@dataclass(slots=True)
class _Run:
    """A running command.

    Args:
        key: the command as bytes.
        call: the current call, sent with `request_id`.
        text: for the model, at the end.
    """

    key: bytes
    steps: Steps[str]
    call: Request[Any]
    request_id: str
    text: str | None = None

    def answer(self, result: wire.Wire) -> None:
        """Continue with the result of the call. Raises CommandFailed."""
        self._go_on(lambda: self.steps.send(result))

    def fail(self, error: AgentError) -> None:
        """Continue after the call was refused. Raises CommandFailed."""
        self._go_on(lambda: self.steps.throw(error))

    def _go_on(self, step: Callable[[], Request[Any]]) -> None:
        try:
            self.call = step()
            self.request_id = new_id()
        except StopIteration as end:
            self.text = end.value
        except CommandFailed:
            raise
        except AgentError as error:
            raise CommandFailed(code_of(error), complaint_of(error)) from None


class _Runs:
    """Shared by both tools: starts commands, and keeps those whose change has no reply yet.

    A model cannot give a request id. So an interrupted command is kept with its id: the same command again continues
    there, and nothing is applied twice.
    """

    def __init__(self) -> None:
        self._unanswered: dict[bytes, _Run] = {}

    def begin(self, command: Mapping[str, object]) -> _Run:
        """Return the run of a command, or the kept run of the same command. Raises CommandFailed."""
        try:
            key = orjson.dumps(dict(command), option=orjson.OPT_SORT_KEYS)
        except TypeError:
            raise CommandFailed("invalid", "the command must be a JSON object of texts and numbers") from None
        if (waiting := self._unanswered.pop(key, None)) is not None:
            return waiting
        steps = steps_of(command)
        return _Run(key, steps, next(steps), new_id())

    def keep(self, run: _Run) -> None:
        """Keep a run that was interrupted, if its call may have changed something."""
        if run.call.changes:
            self._unanswered[run.key] = run
            if len(self._unanswered) > _MOST_UNANSWERED:
                del self._unanswered[next(iter(self._unanswered))]


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
        run = self._runs.begin(command)
        while run.text is None:
            try:
                result = self._client.call(run.call, request_id=run.request_id)
            except (ReplyTimeout, NoMailbox) as error:
                self._runs.keep(run)
                raise CommandFailed(code_of(error), complaint_of(error)) from None
            except AgentError as error:
                run.fail(error)
            except BaseException:  # Ctrl-C: the change may have been made
                self._runs.keep(run)
                raise
            else:
                run.answer(result)
        return run.text


class AsyncMemoryTool:
    """The same for asyncio programs."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._runs = _Runs()

    async def run(self, command: Mapping[str, object]) -> str:
        """Run a command, see `MemoryTool.run`. A cancelled one continues when it is sent again."""
        run = self._runs.begin(command)
        while run.text is None:
            try:
                result = await self._client.call(run.call, request_id=run.request_id)
            except (ReplyTimeout, NoMailbox) as error:
                self._runs.keep(run)
                raise CommandFailed(code_of(error), complaint_of(error)) from None
            except AgentError as error:
                run.fail(error)
            except BaseException:  # cancelled: the change may have been made
                self._runs.keep(run)
                raise
            else:
                run.answer(result)
        return run.text
