"""The scripted model: gives prepared answers, for tests and the demo. No network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import orjson
from pydantic import Field, ValidationError

from honeybadger_agent.models.model import Message, ModelFailed, ModelSaid, OnText, Prompt, ToolCall, UserSaid
from honeybadger_agent.wire import Count, Wire, refusal_of

PIECE_CHARACTERS = 12  # characters of a piece of a streamed answer


@dataclass(slots=True)
class ScriptedModel:
    """Gives the answers of a script.

    Args:
        script: returns the answer to a prompt, or raises `ModelFailed`.
        piece_characters: length of the streamed pieces.
        delay_seconds: before each piece, and before an answer without text.
    """

    script: Callable[[Prompt], ModelSaid]
    name: str = "scripted"
    piece_characters: int = PIECE_CHARACTERS
    delay_seconds: float = 0.0

    async def answer(self, prompt: Prompt, on_text: OnText) -> ModelSaid:
        said = self.script(prompt)
        for begin in range(0, max(len(said.text), 1), self.piece_characters):
            if self.delay_seconds:
                import asyncio  # takes 60 ms, too long for importing the package

                await asyncio.sleep(self.delay_seconds)
            if piece := said.text[begin : begin + self.piece_characters]:
                await on_text(piece)
        return said

    async def aclose(self) -> None:
        """Do nothing: it has no connections."""


# ------------------------------------------------------------------------------------------------------------ as a file


class ScriptedCall(Wire):
    """A tool the model wants run."""

    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)


class ScriptedAnswer(Wire):
    """One answer, or a failure instead of it."""

    text: str = ""
    calls: list[ScriptedCall] = Field(default_factory=list)
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    fails: str | None = Field(default=None, description="The model fails with this message instead.")
    is_passing: bool = Field(default=True, description="Whether that failure may be over later.")


class ScriptedTurn(Wire):
    """The answers to one message of the user, in their order."""

    when: str = Field(default="", description="Words that the message has in it, in any case; empty: any message.")
    answers: Annotated[list[ScriptedAnswer], Field(min_length=1)]


class ScriptFile(Wire):
    """A script as a file, for other programs. The first turn whose `when` is in the message is played."""

    delay_seconds: Annotated[float, Field(ge=0)] = 0.0
    piece_characters: Annotated[int, Field(ge=1)] = PIECE_CHARACTERS
    turns: list[ScriptedTurn]


def load_script(path: Path) -> ScriptedModel:
    """Return the model of a script file (`ScriptFile` as JSON).

    The next answer is derived from the conversation, not counted here: the same script serves many groups at once and
    continues after a restart.
    Raises ModelFailed if the file cannot be read, or is not a script.
    """
    name = f"scripted:{path.name}"
    try:
        script = ScriptFile.model_validate(orjson.loads(path.read_bytes()))
    except OSError as error:
        raise ModelFailed(f"{name}: {path} cannot be read: {error.strerror}", is_passing=False) from None
    except orjson.JSONDecodeError as error:
        raise ModelFailed(f"{name}: {path} is not JSON: {error}", is_passing=False) from None
    except ValidationError as error:
        why = refusal_of(error).message
        raise ModelFailed(f"{name}: {path} is not a script: {why}", is_passing=False) from None

    def play(prompt: Prompt) -> ModelSaid:
        return _played(name, script, prompt.messages)

    return ScriptedModel(play, name=name, piece_characters=script.piece_characters, delay_seconds=script.delay_seconds)


def _played(name: str, script: ScriptFile, messages: Sequence[Message]) -> ModelSaid:
    asked = max((at for at, message in enumerate(messages) if isinstance(message, UserSaid)), default=-1)
    message = messages[asked] if asked >= 0 else None
    text = message.text.casefold() if isinstance(message, UserSaid) else ""
    number = sum(isinstance(message, ModelSaid) for message in messages[asked + 1 :])
    for turn in script.turns:
        if turn.when.casefold() in text:
            break
    else:
        raise ModelFailed(f"{name}: no turn of the script is for this message", is_passing=False)
    if number >= len(turn.answers):
        raise ModelFailed(
            f"{name}: the script has {len(turn.answers)} answers for this message and was asked for one more",
            is_passing=False,
        )
    answer = turn.answers[number]
    if answer.fails is not None:
        raise ModelFailed(f"{name}: {answer.fails}", is_passing=answer.is_passing)
    calls = tuple(
        ToolCall(f"call-{number + 1}-{index}", call.name, orjson.dumps(call.arguments).decode())
        for index, call in enumerate(answer.calls)
    )
    return ModelSaid(answer.text, calls, answer.input_tokens, answer.output_tokens)
