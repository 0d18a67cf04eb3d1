"""A model whose answers are free of thinking and credentials, and timed."""

import time
from dataclasses import dataclass, replace

import orjson

from honeybadger_agent.models.model import Model, ModelSaid, OnText, Prompt, ToolCall
from honeybadger_agent.turn.thinking import Visible
from honeybadger_host.handler_kinds import Asked
from honeybadger_host.handlers.redaction import Texts
from honeybadger_host.text.redaction import redact, redact_line


@dataclass(slots=True)
class CleanModel:
    """A model that counts its seconds and removes thinking and credentials from its answers.

    A model's text is cleaned once, before it is kept, shown and appended. A credential is removed even where a person's
    message would be refused, since nobody can correct a model's answer and send it again.
    """

    model: Model
    asked: Asked
    redacts: bool
    seconds: float = 0.0

    @property
    def name(self) -> str:
        return self.model.name

    async def answer(self, prompt: Prompt, on_text: OnText) -> ModelSaid:
        visible = Visible()

        async def pass_on(piece: str) -> None:
            if shown := visible.feed(piece):
                await on_text(shown)

        began = time.monotonic()
        try:
            said = await self.model.answer(prompt, pass_on)
        finally:
            self.seconds += time.monotonic() - began
        if rest := visible.end():
            await on_text(rest)
        said = replace(said, text=Visible.of(said.text).text)
        if not self.redacts:
            return said
        calls = tuple(ToolCall(call.id, call.name, self._clean(call.arguments)) for call in said.calls)
        return replace(said, text=redact_line(said.text), calls=calls)

    def _clean(self, arguments: str) -> str:
        """Return the arguments of a call without credentials in them, still JSON if they were."""
        try:
            value = orjson.loads(arguments)
            clean = Texts(self.asked, "redact").tree("a tool call", value)
            return arguments if clean == value else orjson.dumps(clean).decode()
        except (orjson.JSONDecodeError, orjson.JSONEncodeError, RecursionError):  # no JSON, or too deep to be read
            return redact(arguments)[0]

    async def aclose(self) -> None:
        await self.model.aclose()
