"""What a model answers: one JSON object somewhere in its text, checked against a model of what was asked for. Pure."""

from __future__ import annotations

import json

from honeybadger_agent.turn.thinking import Visible
from honeybadger_host.memory.edited import ModelT, checked


class WrongAnswer(Exception):
    """A model's answer that is not what was asked for; the message says why."""


def read_answer(text: str, wanted: type[ModelT]) -> ModelT:
    """Return an answer, perhaps behind thoughts, in a fence or among words. Raises WrongAnswer."""
    text = Visible.of(text).text
    begin = text.find("{")
    if begin < 0:
        raise WrongAnswer(f"the answer has no JSON object: {text.strip()!r:.60}")
    try:
        value, _ = json.JSONDecoder(strict=False).raw_decode(text, begin)  # models write line ends into texts
    except (ValueError, RecursionError) as error:
        raise WrongAnswer(f"the answer is not JSON: {error}") from None
    try:
        return checked(wanted, value)
    except ValueError as error:
        raise WrongAnswer(f"the answer is wrong: {error}") from None
