"""Importers for exports of ChatGPT and of Claude: both have conversations in `conversations.json`.

A conversation of ChatGPT is a tree of messages. Claude exports `projects.json` and `memories.json`, too.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from honeybadger_agent.wire import Role
from honeybadger_host.transfer.importing import session_of
from honeybadger_host.transfer.json_elements import CONVERSATIONS, Kinds, misshapen
from honeybadger_host.transfer.records import Fact, Found, SaidTurn, Skipped, SourceFile, time_of

CHATGPT = "chatgpt"
_ROLES: Mapping[str, Role] = {"user": "user", "assistant": "assistant", "system": "system", "tool": "tool"}
_NOT_SAID = ("thoughts", "reasoning_recap", "model_editable_context")
_CANVAS = "canmore."  # the tool that gets the documents which the model writes for a person
_CITATION = re.compile("\ue200[^\ue201]*\ue201")  # a number of a source that the export does not have
CLAUDE = "claude"
_SENDERS: Mapping[str, Role] = {"human": "user", "user": "user", "assistant": "assistant"}


def _turns(conversation: Mapping[str, Any], where: str, file: SourceFile) -> Iterator[Found]:
    """Yield the turns of a conversation along the branch that was shown last."""
    if not isinstance(conversation.get("mapping"), dict):
        yield Skipped(where, "it has no messages (mapping)")
        return
    name = conversation.get("conversation_id") or conversation.get("id")
    session = session_of(CHATGPT, str(name or f"{conversation.get('title')} {conversation.get('create_time')}"))
    last = time_of(conversation.get("create_time")) or file.modified
    for node, message in _shown(conversation):
        try:
            role = _ROLES[message["author"]["role"]]
            text = _text(message.get("content") or {})
            at = last = time_of(message.get("create_time")) or last
        except (KeyError, TypeError, AttributeError) as error:
            yield misshapen(f"{where}, message {node}", "message", error)
            continue
        metadata = message.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        if not text or role == "tool" or metadata.get("is_visually_hidden_from_conversation"):
            continue
        if role == "user" and not _is_typed(message, metadata):
            continue
        called = str(message.get("recipient") or "all")
        if role == "assistant" and called != "all" and not called.startswith(_CANVAS):
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
        )


def _is_typed(message: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    """Return whether a person typed a message with the role `user`, which instructions of an account have, too."""
    if metadata.get("is_user_system_message") or (message["author"].get("metadata") or {}).get("real_author"):
        return False
    return (message.get("content") or {}).get("content_type") in ("text", "multimodal_text")


def _shown(conversation: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the messages of the branch that was shown last, oldest first."""
    mapping = conversation["mapping"]
    node = conversation.get("current_node")
    if node not in mapping:
        node = next(reversed(mapping), None)
    branch: list[tuple[str, Mapping[str, Any]]] = []
    seen: set[str] = set()
    while isinstance(node, str) and node not in seen and isinstance(held := mapping.get(node), dict):
        seen.add(node)
        if isinstance(message := held.get("message"), dict):
            branch.append((node, message))
        node = held.get("parent")
    return branch[::-1]


def _text(content: Mapping[str, Any]) -> str:
    """Return the text of a message; other content is named in brackets."""
    if content.get("content_type") in _NOT_SAID:
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


CHATGPTS_FILES: Kinds = {CONVERSATIONS: ("conversation", _turns)}

# --------------------------------------------------------------------------------------------------- Claude


def _messages(conversation: Mapping[str, Any], where: str, file: SourceFile) -> Iterator[Found]:
    session, last = session_of(CLAUDE, str(conversation["uuid"])), time_of(conversation.get("created_at"))
    for number, message in enumerate(conversation["chat_messages"], 1):
        at = f"{where}, message {number}"
        try:
            role = _SENDERS[message["sender"]]
            last = time_of(message.get("created_at")) or last or file.modified
            text = _said(message)
            attached = list(_attached(message))
        except (KeyError, TypeError, AttributeError) as error:
            yield misshapen(at, "message", error)
            continue
        place = str(message.get("uuid") or number)
        for index, file_text in enumerate(attached):  # no person typed the text of a file
            yield SaidTurn(session, f"{place}/attached/{index}", at, "tool", file_text, last)
        if text:
            yield SaidTurn(session, place, at, role, text, last)


def _said(message: Mapping[str, Any]) -> str:
    """Return the text of a message.

    Where a message has blocks, its own text has notices in place of those that a device does not show.
    """
    blocks = message.get("content") or [{"text": message.get("text")}]
    parts = [(block.get("text") or "").strip() for block in blocks]
    return "\n\n".join(filter(None, parts))


def _attached(message: Mapping[str, Any]) -> Iterator[str]:
    """Yield the name and the text of each file that was attached to a message."""
    for attached in [*(message.get("attachments") or ()), *(message.get("files") or ())]:
        if attached.get("file_name") or attached.get("extracted_content"):
            yield f"[{attached.get('file_name') or 'file'}]\n{attached.get('extracted_content') or ''}".strip()


def _documents(project: Mapping[str, Any], where: str, file: SourceFile) -> Iterator[Found]:
    name = str(project.get("name") or project["uuid"])
    texts = [("instructions", "instructions", project.get("prompt_template"), project.get("updated_at"))]
    for document in project.get("docs") or ():
        title = document.get("filename") or document.get("uuid")
        texts.append((str(document.get("uuid")), str(title), document.get("content"), document.get("created_at")))
    for place, title, text, at in texts:
        if isinstance(text, str) and text.strip():
            yield Fact(
                place=f"{project['uuid']}/{place}",
                where=where,
                content=text,
                category=f"projects/{name.replace('/', '-')}",
                title=f"{name}: {title}",
                created=time_of(at) or file.modified,
            )


def _memories(memory: Mapping[str, Any], where: str, file: SourceFile) -> Iterator[Found]:
    texts = {"conversations": memory.get("conversations_memory"), **(memory.get("project_memories") or {})}
    for name, text in texts.items():
        if isinstance(text, str) and text.strip():
            yield Fact(f"memory/{name}", where, text, "memory", f"Memory of {name}", created=file.modified)


CLAUDES_FILES: Kinds = {
    CONVERSATIONS: ("conversation", _messages),
    re.compile(r"(?:.*/)?projects(?:/[^/]+)?\.json"): ("project", _documents),
    re.compile(r"(?:.*/)?memories(?:/[^/]+)?\.json"): ("memory", _memories),
}
