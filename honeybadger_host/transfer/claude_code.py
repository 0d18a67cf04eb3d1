"""Importer for Claude Code: transcripts of a project (`<session>.jsonl`) and its memory (Markdown files)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import orjson

from honeybadger_agent.wire import Role
from honeybadger_host.transfer.importing import session_of
from honeybadger_host.transfer.markdown_import import facts_of
from honeybadger_host.transfer.places import MAX_PIECE_BYTES
from honeybadger_host.transfer.records import Found, SaidTurn, Skipped, SourceFile, time_of

NAME: Final = "claude-code"
_OF_PROGRAM: Final = ("isMeta", "isCompactSummary", "toolUseResult", "sourceToolUseID")
_NOT_TYPED: Final = ("<command-", "<local-command-", "<bash-", "<task-notification", "[Request interrupted")
# What editors and the program put before a prompt.
_PUT_BEFORE: Final = re.compile(r"\A\s*(?:<(ide_\w+|system-reminder)>.*?</\1>\s*)+", re.DOTALL)
_NO_MODEL: Final = "<synthetic>"  # model of error messages, such as those about limits
_ROLES: Final[Mapping[str, Role]] = {"user": "user", "assistant": "assistant"}


def read_claude_code(file: SourceFile) -> Iterator[Found]:
    """Yield the turns of a transcript, or the facts of memory. Results of tools are not imported."""
    if file.name.endswith(".jsonl"):
        yield from _transcript(file)
    elif file.name.endswith(".md"):
        yield from facts_of(file)


def _transcript(file: SourceFile) -> Iterator[Found]:
    pending: SaidTurn | None = None  # a model's message may take several lines
    try:
        with file.open() as opened:
            number = 0
            while line := opened.readline(MAX_PIECE_BYTES):
                number += 1
                turn = _turn(line, file, number) if line.strip() else None
                if isinstance(turn, SaidTurn) and pending is not None and _is_one_answer(pending, turn):
                    text = "\n\n".join(filter(None, (pending.content, turn.content)))
                    pending = replace(pending, content=text, tools=pending.tools + turn.tools)
                    continue
                if isinstance(turn, Skipped):
                    yield turn
                elif turn is not None:
                    if pending is not None and pending.content:
                        yield pending
                    pending = turn
    except (OSError, ValueError) as error:
        yield Skipped(f"{file.name}, line {number + 1}", str(error))
    if pending is not None and pending.content:
        yield pending


def _turn(line: bytes, file: SourceFile, number: int) -> SaidTurn | Skipped | None:
    """Return the turn in a line, or None if it is no message of a person or of the model in this conversation."""
    where = f"{file.name}, line {number}"
    try:
        said = orjson.loads(line)
    except orjson.JSONDecodeError:
        return Skipped(where, "it is not JSON")
    if not isinstance(said, dict):
        return Skipped(where, "it is not an object")
    said = _as_message(said)
    message, role = said.get("message"), _ROLES.get(str(said.get("type")))
    if role is None or not isinstance(message, dict) or said.get("isSidechain") or said.get("forkedFrom"):
        return None
    if message.get("model") == _NO_MODEL:
        return None
    text, tools = _content(message.get("content"))
    if (not text and not tools) or (role == "user" and not _is_typed(said, text)):
        return None
    if (at := time_of(said.get("timestamp"))) is None:
        at = file.modified
    place = message.get("id") if role == "assistant" else said.get("uuid")
    sender = message.get("model") if role == "assistant" else None
    return SaidTurn(
        session=session_of(NAME, file.stem),
        place=str(place or said.get("uuid") or f"{file.stem}:{number}"),
        where=where,
        role=role,
        content=text,
        at=at,
        sender=sender if isinstance(sender, str) else None,
        tools=tools,
        is_copied=True,
    )


def _as_message(said: dict[str, Any]) -> dict[str, Any]:
    """Return a line of a transcript; a prompt that was typed while the model worked, as a message of the user."""
    queued = said.get("attachment")
    if isinstance(queued, dict) and queued.get("type") == "queued_command" and queued.get("commandMode") == "prompt":
        return {**said, **queued, "type": "user", "message": {"content": queued.get("prompt")}}
    return said


def _is_typed(said: Mapping[str, Any], text: str) -> bool:
    """Return whether a person typed a message with the role `user`, which tools and summaries have, too."""
    origin = said.get("origin")
    if isinstance(origin, dict) and origin.get("kind", "human") != "human":
        return False
    return not (said.get("promptSource") == "system" or any(map(said.get, _OF_PROGRAM)) or text.startswith(_NOT_TYPED))


def _content(content: Any) -> tuple[str, tuple[str, ...]]:
    """Return the text of a message, and the tools it asks for."""
    if isinstance(content, str):
        return _PUT_BEFORE.sub("", content).strip(), ()
    texts: list[str] = []
    tools: list[str] = []
    for block in content if isinstance(content, list) else ():
        match block:
            case {"type": "text", "text": str(text)}:
                texts.append(_PUT_BEFORE.sub("", text))
            case {"type": "tool_use", "name": str(name)}:
                tools.append(name)
            case {"type": "image" | "document" as kind}:
                texts.append(f"[{kind}]")
    return "\n\n".join(text.strip() for text in texts if text.strip()), tuple(tools)


def _is_one_answer(before: SaidTurn, after: SaidTurn) -> bool:
    """Return whether two messages are parts of one answer, such as before and after a tool call."""
    return before.role == after.role == "assistant" and (before.session, before.place) == (after.session, after.place)
