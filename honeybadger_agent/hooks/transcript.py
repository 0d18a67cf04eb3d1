"""Read a transcript of Claude Code: one JSON object a line, appended while the session runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

PERSON: Final = ("user", "sdk")
"""The values of `source` of a prompt that a person, or a person's program, wrote."""
_MACHINE_TEXTS: Final = ("<command-", "<local-command-", "<bash-", "<task-notification", "[Request interrupted")


@dataclass(frozen=True, slots=True)
class Said:
    """One turn of a transcript.

    Args:
        key: the line's uuid: the same turn has the same key in every copy of the transcript.
        end: byte behind its line.
    """

    key: str
    role: str
    content: str
    at: str | None
    end: int


def turns_of(path: Path, start: int, *, is_complete: bool) -> Iterator[Said]:
    """Yield what a person typed, and the last text of each answer, in order. Raises OSError.

    Args:
        start: byte of the first line to read.
        is_complete: the model has finished: its last text is its answer. Else it may go on, and is left for later.
    """
    answer: Said | None = None
    with path.open("rb") as file:
        end = start if start <= path.stat().st_size else 0
        file.seek(end)
        for line in file:
            if not line.endswith(b"\n"):
                break  # it is being written
            end += len(line)
            said = _said(line, end)
            if said is None:
                continue
            if said.role == "assistant":
                answer = said
                continue
            if answer is not None:
                yield answer
                answer = None
            yield said
    if answer is not None and is_complete:
        yield answer


def _said(line: bytes, end: int) -> Said | None:
    """Return what a line says; None: nothing of a person, and no text of the model."""
    if b'"type":"user"' not in line and b'"type":"assistant"' not in line:
        return None
    try:
        value = json.loads(line)
    except ValueError:
        return None
    message, key = value.get("message"), value.get("uuid")
    role = value.get("type")
    if not isinstance(message, dict) or not isinstance(key, str) or value.get("isSidechain"):
        return None
    if role == "user" and not _is_typed(value):
        return None
    text = _text(message.get("content"))
    if role not in ("user", "assistant") or not text.strip() or text.startswith(_MACHINE_TEXTS):
        return None
    at = value.get("timestamp")
    text = text.encode(errors="replace").decode()  # half a surrogate pair is no text
    return Said(key, role, text, at if isinstance(at, str) else None, end)


def _is_typed(value: dict[str, Any]) -> bool:
    """Return whether a person typed it, not the program: no summary, no result of a tool, no notification."""
    origin = value.get("origin")
    kind = origin.get("kind") if isinstance(origin, dict) else "human"
    marks = ("isMeta", "isCompactSummary", "toolUseResult", "sourceToolUseID")
    return kind == "human" and value.get("promptSource") != "system" and not any(value.get(mark) for mark in marks)


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    return "\n\n".join(str(block["text"]) for block in blocks if block.get("type") == "text" and block.get("text"))
