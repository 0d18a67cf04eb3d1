"""The transcripts of the tools: which of their lines are turns of a person or of the model."""

from __future__ import annotations

import json
import os
import re

from honeybadger_agent.hooks.program.box import within

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any


def turns_of(
    read: Callable[[dict[str, Any]], dict[str, Any] | None], path: str, start: int, *, is_complete: bool
) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield what a person typed and the last text of each answer, in order, each with the byte behind its line.

    Args:
        is_complete: the model has finished: its last text is its answer. Else it may go on, and is left for later.
    """
    last: tuple[dict[str, Any], int] | None = None
    with open(path, "rb") as file:
        end = start if start <= os.fstat(file.fileno()).st_size else 0
        file.seek(end)
        for line in file:
            if not line.endswith(b"\n"):
                break  # it is being written
            end += len(line)
            try:
                value = json.loads(line)
                turn = read(value) if isinstance(value, dict) else None
            except (ValueError, KeyError, TypeError, AttributeError):
                continue  # a kind of line that this reader does not know
            if turn is None or not turn["content"].strip():
                continue
            if turn["role"] == "assistant":
                last = (turn, end)
                continue
            if last is not None:
                yield last
                last = None
            yield turn, end
    if last is not None and is_complete:
        yield last


def await_answer(path: str, said: str) -> None:
    """Wait until the transcript has the end of the answer, which the tool may still be writing."""
    end = json.dumps(said.strip()[-40:], ensure_ascii=False)[1:-1].encode(errors="replace")

    def is_there() -> bool:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 262_144))
            return end in file.read()

    within(is_there)


def turn_of(key: str, role: str, content: str, at: object) -> dict[str, Any]:
    turn = {"key": key, "role": role, "content": content}
    return {**turn, "at": at} if isinstance(at, str) else turn


def claude_code(line: dict[str, Any]) -> dict[str, Any] | None:
    """Return the turn on a line of Claude Code 2.1; None if it is neither typed by a person nor text of the model.

    Summaries, results of tools, notifications and the turns of sub-agents are left out. A turn that a fork copied
    belongs to the session in which it was said.
    """
    queued = line.get("attachment")  # a prompt that was typed while the model worked
    if isinstance(queued, dict) and queued.get("type") == "queued_command" and queued.get("commandMode") == "prompt":
        line = {**line, **queued, "type": "user", "message": {"content": queued.get("prompt")}}
    role, message = line.get("type"), line.get("message")
    if role not in ("user", "assistant") or not isinstance(message, dict) or line.get("isSidechain"):
        return None
    if line.get("forkedFrom") or message.get("model") == "<synthetic>":  # such as an error message
        return None
    if role == "user":
        origin = line.get("origin")
        is_person = not isinstance(origin, dict) or origin.get("kind", "human") == "human"
        of_program = ("isMeta", "isCompactSummary", "toolUseResult", "sourceToolUseID")
        if not is_person or line.get("promptSource") == "system" or any(line.get(name) for name in of_program):
            return None
    put_before = r"\A\s*(?:<(ide_\w+|system-reminder)>.*?</\1>\s*)+"  # by editors and the program
    text = re.sub(put_before, "", text_of(message.get("content")), flags=re.DOTALL)
    if text.startswith(("<command-", "<local-command-", "<bash-", "<task-notification", "[Request interrupted")):
        return None
    return turn_of(line["uuid"], role, text, line.get("timestamp"))


def codex(line: dict[str, Any]) -> dict[str, Any] | None:
    """Return the turn on a line of a rollout of Codex 0.171: `item_completed` of a person's or the model's message."""
    event = line.get("payload")
    if line.get("type") != "event_msg" or not isinstance(event, dict) or event.get("type") != "item_completed":
        return None
    item = event["item"]
    role = {"UserMessage": "user", "AgentMessage": "assistant"}.get(item["type"])
    if role is None:
        return None
    return turn_of(f"{event['turn_id']}-{item['id']}", role, text_of(item["content"]), line.get("timestamp"))


def gemini(line: dict[str, Any]) -> dict[str, Any] | None:
    """Return the turn on a line of a chat of Gemini CLI 0.61, without text that hooks added to the prompt."""
    role = {"user": "user", "gemini": "assistant"}.get(str(line.get("type")))
    if role is None:
        return None
    text = text_of(line.get("displayContent") or line["content"])
    return turn_of(line["id"], role, typed(text) if role == "user" else text, line.get("timestamp"))


def typed(prompt: str) -> str:
    """Return a prompt without the text that Gemini puts around it."""
    return re.sub(r"<(hook_context|session_context)>.*?</\1>\s*", "", prompt, flags=re.DOTALL)


def text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    is_text = ("text", "Text", None)
    return "\n\n".join(str(block["text"]) for block in blocks if block.get("type") in is_text and block.get("text"))


READERS: dict[str, Callable[[dict[str, Any]], dict[str, Any] | None]] = {
    "claude-code": claude_code,
    "codex": codex,
    "gemini": gemini,
}
