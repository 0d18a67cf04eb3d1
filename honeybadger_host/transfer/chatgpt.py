"""Importer for exports of ChatGPT: `conversations.json`, in which each conversation is a tree of messages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from honeybadger_agent.wire import Role
from honeybadger_host.transfer.importing import session_of
from honeybadger_host.transfer.json_elements import CONVERSATIONS, read_elements
from honeybadger_host.transfer.records import Found, SaidTurn, Skipped, SourceFile, time_of

NAME: Final = "chatgpt"
_ROLES: Final[Mapping[str, Role]] = {"user": "user", "assistant": "assistant", "system": "system", "tool": "tool"}
_NOT_SAID: Final = ("thoughts", "reasoning_recap", "model_editable_context")
_CANVAS: Final = "canmore."  # the tool that gets the documents which the model writes for a person
_CITATION: Final = re.compile("\ue200[^\ue201]*\ue201")  # a number of a source that the export does not have


def read_chatgpt(file: SourceFile) -> Iterator[Found]:
    """Yield the turns of each conversation along the branch that was shown last."""
    if CONVERSATIONS.fullmatch(file.name):
        yield from read_elements(file, "conversation", _turns)


def _turns(conversation: Mapping[str, Any], where: str, file: SourceFile) -> Iterator[Found]:
    if not isinstance(conversation.get("mapping"), dict):
        yield Skipped(where, "it has no messages (mapping)")
        return
    begun = time_of(conversation.get("create_time"))
    name = conversation.get("conversation_id") or conversation.get("id")
    session = session_of(NAME, str(name or f"{conversation.get('title')} {conversation.get('create_time')}"))
    last = begun or file.modified
    tools: list[str] = []  # that the model has called for its next answer
    for node, message in _shown(conversation):
        try:
            role = _ROLES[message["author"]["role"]]
            text = _text(message.get("content") or {})
            at = last = time_of(message.get("create_time")) or last
        except (KeyError, TypeError, AttributeError) as error:
            yield Skipped(f"{where}, message {node}", f"it has not the form of a message: {error!r}")
            continue
        metadata = message.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        if not text or metadata.get("is_visually_hidden_from_conversation"):
            continue
        if role == "tool" or (role == "user" and not _is_typed(message, metadata)):
            continue
        called = message.get("recipient")
        if role == "assistant" and isinstance(called, str) and called != "all":
            tools.append(called)
            if not called.startswith(_CANVAS):
                continue
        model = metadata.get("model_slug") if role == "assistant" else message["author"].get("name")
        yield SaidTurn(
            session=session,
            place=str(message.get("id") or node),
            where=f"{where}, message {node}",
            role=role,
            content=text,
            at=at,
            sender=model if isinstance(model, str) else None,
            tools=tuple(tools) if role == "assistant" else (),
        )
        tools = []


def _is_typed(message: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    """Return whether a person typed a message with the role `user`, which instructions of an account have, too."""
    kind = (message.get("content") or {}).get("content_type")
    of_program = metadata.get("is_user_system_message") or (message["author"].get("metadata") or {}).get("real_author")
    return kind in ("text", "multimodal_text") and not of_program


def _shown(conversation: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the messages of the branch that was shown last, oldest first."""
    mapping = conversation["mapping"]
    node = conversation.get("current_node")
    if node not in mapping:
        node = _newest_leaf(mapping)
    branch: list[tuple[str, Mapping[str, Any]]] = []
    seen: set[str] = set()
    while isinstance(node, str) and node not in seen and isinstance(held := mapping.get(node), dict):
        seen.add(node)
        if isinstance(message := held.get("message"), dict):
            branch.append((node, message))
        node = held.get("parent")
    return branch[::-1]


def _newest_leaf(mapping: Mapping[str, Any]) -> str | None:
    def said_at(node: str) -> float:
        at = time_of((mapping[node].get("message") or {}).get("create_time"))
        return 0.0 if at is None else at.timestamp()

    leaves = [node for node, held in mapping.items() if isinstance(held, dict) and not held.get("children")]
    return max(leaves, key=said_at, default=None)


def _text(content: Mapping[str, Any]) -> str:
    """Return the text of a message; other content is named in brackets."""
    kind = content.get("content_type")
    if kind in _NOT_SAID:
        return ""
    if isinstance(content.get("text"), str):
        return str(content["text"]).strip()
    parts: list[str] = []
    for part in content.get("parts") or ():
        match part:
            case str(text) | {"text": str(text)}:
                parts.append(_CITATION.sub("", text))
            case {"content_type": str(kind)} if "audio" in kind:
                pass  # its transcription is another part
            case dict():
                parts.append(f"[{part.get('content_type') or 'attachment'}]")
    return "\n\n".join(part.strip() for part in parts if part.strip())
