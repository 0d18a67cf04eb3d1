"""Reads a model's answer: one JSON object somewhere in its text, checked against a pydantic model. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, Self

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from honeybadger_agent.turn.thinking import Visible
from honeybadger_host.memory.edited import Edited, ModelT, checked

_MAX_DEPTH: Final = 50
_CLOSERS: Final = {"{": "}", "[": "]"}
# Models write line ends into texts; `12.10` is the tenth sentence of a turn and no number.
_DECODER: Final = json.JSONDecoder(strict=False, parse_float=str)


class WrongAnswer(Exception):
    """The model's answer does not have the requested form; the message says why."""


class Answered(Edited):
    """An answer that has at least one of its members."""

    @model_validator(mode="after")
    def _answers_something(self) -> Self:
        members = type(self).model_fields
        if not self.model_fields_set & members.keys():
            raise PydanticCustomError("must_be", "an object with one of {members}", {"members": ", ".join(members)})
        return self


def read_answer(text: str, wanted: type[ModelT]) -> ModelT:
    """Return the answer in a text; the JSON may follow thoughts, or stand in a fence or among words.

    An answer that breaks off is returned up to its last whole item. Raises WrongAnswer.
    """
    text = Visible.of(text).text
    begin = text.find("{")
    if begin < 0:
        raise WrongAnswer(f"the answer has no JSON object: {text.strip()!r:.60}")
    value = _decoded(text[begin:])
    try:
        return checked(wanted, value)
    except ValueError as error:
        raise WrongAnswer(f"the answer is wrong: {error}") from None


def _decoded(text: str) -> Any:
    try:
        return _DECODER.raw_decode(text)[0]
    except (ValueError, RecursionError) as error:
        for whole in _whole_beginnings(text):
            try:
                return _DECODER.raw_decode(whole)[0]
            except ValueError:
                continue
        raise WrongAnswer(f"the answer is not JSON: {error}") from None


def _whole_beginnings(text: str) -> Iterator[str]:
    """Yield the beginnings of broken-off JSON that end behind a whole item, with closing brackets, longest first."""
    open_brackets: list[str] = []
    ends: list[tuple[int, str]] = []
    in_text = is_escaped = False
    for place, character in enumerate(text):
        if in_text:
            in_text = is_escaped or character != '"'
            is_escaped = character == "\\" and not is_escaped
        elif character == '"':
            in_text = True
        elif character in _CLOSERS:
            open_brackets.append(_CLOSERS[character])
            if len(open_brackets) > _MAX_DEPTH:
                return
        elif character in "]}" and open_brackets:
            open_brackets.pop()
            ends.append((place + 1, "".join(reversed(open_brackets))))
        elif character == ",":
            ends.append((place, "".join(reversed(open_brackets))))
    yield from (text[:end] + closing for end, closing in reversed(ends[-_MAX_DEPTH:]))
