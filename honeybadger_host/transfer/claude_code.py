"""Importer for Claude Code: transcripts of a project (`<session>.jsonl`) and its memory (Markdown files)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import orjson

from honeybadger_agent.hooks.hook import claude_code
from honeybadger_host.transfer.importing import session_of
from honeybadger_host.transfer.markdown_import import facts_of
from honeybadger_host.transfer.places import MAX_PIECE_BYTES
from honeybadger_host.transfer.records import Fact, Found, SaidTurn, Skipped, SourceFile, time_of

NAME: Final = "claude-code"


def read_claude_code(file: SourceFile) -> Iterator[Found]:
    """Yield the turns of a transcript, or the facts of memory. Results of tools are not imported."""
    if file.name.endswith(".jsonl"):
        yield from _transcript(file)
    elif file.name.endswith(".md"):
        path = _from_project(file)
        for found in facts_of(file):
            if isinstance(found, Fact):
                found = replace(found, place=found.place.replace(file.name, path, 1), where=path)
            yield found


def _from_project(file: SourceFile) -> str:
    """Return the path of a file of memory from its project on: the same whichever folder above it was named."""
    parts = [file.folder, *file.name.split("/")]
    begin = parts.index("memory", 1) - 1 if "memory" in parts[1:-1] else 1
    return "/".join(parts[begin:])


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
    turn = claude_code({"uuid": f"{file.stem}:{number}", **said})
    if turn is None:
        return None
    sender: object = None
    tools: tuple[str, ...] = ()
    key = turn["key"]
    if turn["role"] == "assistant":
        message = said["message"]
        sender, tools, key = message.get("model"), _tools_of(message.get("content")), message.get("id") or key
    if not turn["content"].strip() and not tools:
        return None
    return SaidTurn(
        session=session_of(NAME, file.stem),
        place=str(key),
        where=where,
        role=turn["role"],
        content=turn["content"].strip(),
        at=time_of(turn.get("at")) or file.modified,
        sender=sender if isinstance(sender, str) else None,
        tools=tools,
        is_copied=True,
    )


def _tools_of(content: object) -> tuple[str, ...]:
    """Return the tools that a message of the model asks for."""
    used = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    return tuple(str(block["name"]) for block in used if block.get("type") == "tool_use" and block.get("name"))


def _is_one_answer(before: SaidTurn, after: SaidTurn) -> bool:
    """Return whether two messages are parts of one answer, such as before and after a tool call."""
    return before.role == after.role == "assistant" and (before.session, before.place) == (after.session, after.place)
