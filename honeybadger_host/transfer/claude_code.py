"""Importer for Claude Code: transcripts of a project (`<session>.jsonl`) and its memory (Markdown files)."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from honeybadger_agent.hooks.program.transcripts import claude_code
from honeybadger_host.transfer.importing import session_of
from honeybadger_host.transfer.json_elements import read_lines
from honeybadger_host.transfer.markdown_import import facts_of
from honeybadger_host.transfer.records import Found, SaidTurn, Skipped, SourceFile, time_of

NAME = "claude-code"


def read_claude_code(file: SourceFile) -> Iterator[Found]:
    """Yield the turns of a transcript, or the facts of memory. Calls and results of tools are not imported."""
    if file.name.endswith(".jsonl"):
        yield from _transcript(file)
    elif file.name.endswith(".md"):
        yield from facts_of(file, _from_project(file))


def _from_project(file: SourceFile) -> str:
    """Return the path of a file of memory from its project on: the same whichever folder above it was named."""
    parts = [file.folder, *file.name.split("/")]
    begin = parts.index("memory", 1) - 1 if "memory" in parts[1:-1] else 1
    return "/".join(parts[begin:])


def _transcript(file: SourceFile) -> Iterator[Found]:
    pending: SaidTurn | None = None  # a model's message takes several lines, such as before and after a tool call
    for number, said in read_lines(file):
        turn = said if isinstance(said, Skipped) else _turn(said, file, number)
        if isinstance(turn, Skipped):
            yield turn
        elif pending is not None and turn is not None and turn.role == "assistant" and turn.place == pending.place:
            pending = replace(pending, content=f"{pending.content}\n\n{turn.content}")
        elif turn is not None:
            if pending is not None:
                yield pending
            pending = turn
    if pending is not None:
        yield pending


def _turn(said: Mapping[str, Any], file: SourceFile, number: int) -> SaidTurn | None:
    """Return the turn in a line, or None if it is no message of a person or of the model in this conversation."""
    turn = claude_code({"uuid": f"{file.stem}:{number}", **said})
    if turn is None or not turn["content"].strip():
        return None
    message = said["message"] if turn["role"] == "assistant" else {}
    model = message.get("model")
    return SaidTurn(
        session=session_of(NAME, file.stem),
        place=str(message.get("id") or turn["key"]),
        where=f"{file.name}, line {number}",
        role=turn["role"],
        content=turn["content"].strip(),
        at=time_of(turn.get("at")) or file.modified,
        sender=model if isinstance(model, str) else None,
        is_copied=True,
    )
