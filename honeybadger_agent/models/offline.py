"""The offline model: saves and searches without a network; the same question gets the same answer.

A host uses it before a model is configured: enough to show the way from a message to memory and back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import orjson

from honeybadger_agent.cli.explaining import WAITS
from honeybadger_agent.models.model import (
    Message,
    ModelSaid,
    OnText,
    Prompt,
    ToolAnswer,
    ToolCall,
    ToolsAnswered,
    UserSaid,
)
from honeybadger_agent.turn.prose import WEAK
from honeybadger_agent.wire import MAX_QUERY_CHARACTERS

NAME = "offline"
_SPACE = r"\s{1,20}"  # bounded: a long run must not take quadratic time

_POLITE = (
    "please|pls|hey|hi|hello|ok|okay|and|also|can you|could you|would you|will you|"
    "i want you to|i would like you to|i'd like you to|i need you to|you should|you must"
)
_REMEMBER = (
    "remember|don't forget|do not forget|never forget|keep in mind|bear in mind|please note|"
    "(?:note|take note|make a note|write down|save|memorise|memorize)(?=:| that| this| down| of)"
)
# Beginnings of a question without a question mark; after `remember` they ask instead of tell.
_ASKING = (
    "what|who|whom|whose|when|where|which|why|how|if|whether|do|does|did|is|are|was|were|can|could|would|will|should|"
    "have|has|any|tell me|show me|recall|search|find|look up|list"
)


def _phrases(phrases: str) -> str:
    return f"(?:{phrases})".replace(" ", _SPACE).replace("'", "['’]")


_BEFORE = rf"(?:^|[.!?;:,]{_SPACE}|\n)(?:{_phrases(_POLITE)}[,!]?{_SPACE})*"
_LINK = rf"(?:{_SPACE}(?:that|this|down|of|about)\b)*\s{{0,20}}[:,]?\s{{0,20}}"
# A request to remember something; `what` is the rest of the text.
_WANTS_KEPT = re.compile(rf"{_BEFORE}{_phrases(_REMEMBER)}\b{_LINK}(?P<what>.*)", re.IGNORECASE | re.DOTALL)
_QUESTION = re.compile(rf"{_phrases(_ASKING)}\b", re.IGNORECASE)
_SPEAKER = re.compile(r"\[([^\[\]\n]{1,80})\]: ")
_HIT = re.compile(r"\[(?P<id>[^\]]*)\] \((?P<about>[^)]*)\) (?P<text>.*)")

_SAVED = "I saved this: "
_NOT_YET = "This is not saved yet. "
_FOUND = "This is what I remember:"
_NOTHING = "I remember nothing about that."
_WHAT_I_AM = (
    "I am the offline model: I save what you ask me to remember (“remember that …”), answer questions by quoting what "
    "was saved and said, and can do no more: `honeybadger-agent delete ID` removes an entry, and a note goes with its "
    "lines in MEMORY.md. For a model that thinks, configure one: `[model]` in config/honeybadger.toml."
)


class OfflineModel:
    """Saves facts, quotes what it finds, and says when it cannot do more."""

    name = NAME

    async def answer(self, prompt: Prompt, on_text: OnText) -> ModelSaid:
        said = reply(prompt.messages, {tool.name for tool in prompt.tools})
        for line in said.text.splitlines(keepends=True):
            await on_text(line)
        return said

    async def aclose(self) -> None:
        """Do nothing: it has no connections."""


def reply(messages: Sequence[Message], tools: set[str]) -> ModelSaid:
    """Return the next answer: first a call of a tool if one helps, then a text about its result."""
    asked = next((message.text for message in reversed(messages) if isinstance(message, UserSaid)), "")
    asked = asked.encode("utf-8", "replace").decode()  # a lone surrogate, which JSON cannot hold
    speaker, asked = _split_speaker(asked)
    if messages and isinstance(messages[-1], ToolsAnswered):
        return ModelSaid(_about(messages[-1].answers, asked))
    if (fact := fact_in(asked)) is not None:
        saver = next((name for name in ("update_memory", "save_memory") if name in tools), None)
        if saver is None:
            return ModelSaid("I may not save anything here: this agent has neither update_memory nor save_memory.")
        return _calling(saver, {"content": f'{speaker} said: "{fact}"'})
    if not is_question(asked):
        return ModelSaid(_WHAT_I_AM)
    if "search_memory" not in tools:
        return ModelSaid("I may not search here: this agent has no search_memory.")
    wanted = {"query": asked.strip()[:MAX_QUERY_CHARACTERS], "limit": 3}
    return _calling("search_memory", *({**wanted, "scope": scope} for scope in ("notes", "entries", "turns")))


def fact_in(text: str) -> str | None:
    """Return the fact that the text asks to remember, word for word, or None if there is none."""
    if not (found := _WANTS_KEPT.search(text)):
        return None
    words, said = found["what"].strip(), text[found.start() : found.start("what")].lower()
    tells = "that" in said or ":" in said
    if not words.strip(".!?:,; ") or (not tells and (words.endswith("?") or _QUESTION.match(words))):
        return None
    return words.rstrip("?").rstrip()  # the mark belongs to the wish: `could you remember that …?`


def is_question(text: str) -> bool:
    stripped = text.strip()
    return any(map(str.isalnum, stripped)) and (stripped.endswith(("?", "？")) or bool(_QUESTION.match(stripped)))


def _split_speaker(text: str) -> tuple[str, str]:
    """Return the speaker and the text: a message of a speaker other than `user` begins with `[name]: `."""
    found = _SPEAKER.match(text)
    return (found[1], text[found.end() :]) if found else ("User", text)


def _calling(name: str, *arguments: dict[str, object]) -> ModelSaid:
    calls = enumerate(arguments, 1)
    return ModelSaid("", tuple(ToolCall(f"{NAME}-{number}", name, orjson.dumps(one).decode()) for number, one in calls))


def _about(answers: Sequence[ToolAnswer], asked: str) -> str:
    first = answers[0]
    if first.call.name != "search_memory":
        if not first.ok:
            return f"I could not save this: {first.content}"
        if first.content.startswith(WAITS):
            return _NOT_YET + first.content
        content = str(orjson.loads(first.call.arguments)["content"])
        is_as_said = "Made harmless" not in first.content  # else it may hold a credential
        return _SAVED + (content if is_as_said else first.summary)
    if all(not answer.ok for answer in answers):
        return f"I could not search: {first.content}"
    hits = list(_quotes(answers, asked))
    return "\n".join([_FOUND, *hits]) if hits else f"{_NOTHING} {_WHAT_I_AM}"


def _quotes(answers: Sequence[ToolAnswer], asked: str) -> Iterator[str]:
    """Yield a row for each hit worth quoting: notes and entries, or turns if there are none.

    Skips weak matches, the question itself, which may be in the log already, and this model's earlier answers.
    """
    is_found = False
    for answer in answers:
        is_said = b'"turns"' in answer.call.arguments.encode()
        if not answer.ok or (is_said and is_found):
            continue
        for line in answer.content.splitlines():
            if (hit := _HIT.fullmatch(line)) is None or hit["about"].endswith(WEAK):
                continue
            text = hit["text"].strip().removeprefix("- ")  # a note of one line is a list item
            is_own = text.startswith((_SAVED, _NOT_YET, _FOUND, _NOTHING, _WHAT_I_AM[:20]))
            if is_said and (is_own or is_question(text) or text.split() == asked.split()):
                continue
            is_found = True
            yield f"- {text} [{hit['id']}] ({hit['about']})"
