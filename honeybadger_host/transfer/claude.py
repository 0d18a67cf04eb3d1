"""Importer for exports of Claude: `conversations.json`, `projects.json` and `memories.json`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from honeybadger_agent.wire import Role
from honeybadger_host.transfer.importing import session_of
from honeybadger_host.transfer.json_elements import CONVERSATIONS, read_elements
from honeybadger_host.transfer.records import Fact, Found, SaidTurn, Skipped, SourceFile, time_of

NAME: Final = "claude"
_PROJECTS: Final = re.compile(r"(?:.*/)?projects(?:/[^/]+)?\.json")
_MEMORIES: Final = re.compile(r"(?:.*/)?memories(?:/[^/]+)?\.json")
_ROLES: Final[Mapping[str, Role]] = {"human": "user", "user": "user", "assistant": "assistant"}


def read_claude(file: SourceFile) -> Iterator[Found]:
    """Yield the turns of conversations, the documents of projects, and memories."""
    if CONVERSATIONS.fullmatch(file.name):
        yield from read_elements(file, "conversation", _turns)
    elif _PROJECTS.fullmatch(file.name):
        yield from read_elements(file, "project", _documents)
    elif _MEMORIES.fullmatch(file.name):
        yield from read_elements(file, "memory", _memories)


def _turns(conversation: Mapping[str, Any], where: str, file: SourceFile) -> Iterator[Found]:
    session, last = session_of(NAME, str(conversation["uuid"])), time_of(conversation.get("created_at"))
    for number, message in enumerate(conversation["chat_messages"], 1):
        at = f"{where}, message {number}"
        try:
            role = _ROLES[message["sender"]]
            last = time_of(message.get("created_at")) or last or file.modified
            text, tools = _said(message)
            attached = list(_attached(message))
        except (KeyError, TypeError, AttributeError) as error:
            yield Skipped(at, f"it has not the form of a message: {error!r}")
            continue
        place = str(message.get("uuid") or number)
        for index, file_text in enumerate(attached):  # no person typed the text of a file
            yield SaidTurn(session, f"{place}/attached/{index}", at, "tool", file_text, last)
        if text:
            yield SaidTurn(session, place, at, role, text, last, tools=tools)


def _said(message: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Return the text of a message, and the tools that it calls.

    Where a message has blocks, its own text has notices in place of those that a device does not show.
    """
    blocks = message.get("content") or [{"text": message.get("text")}]
    parts = [block["text"] for block in blocks if block.get("text")]
    tools = tuple(str(block["name"]) for block in blocks if block.get("type") == "tool_use" and block.get("name"))
    return "\n\n".join(part.strip() for part in parts if part.strip()), tools


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
            said = time_of(at) or file.modified
            category = f"projects/{name.replace('/', '-')}"
            yield Fact(f"{project['uuid']}/{place}", where, text, category, f"{name}: {title}", created=said)


def _memories(memory: Mapping[str, Any], where: str, file: SourceFile) -> Iterator[Found]:
    texts = {"conversations": memory.get("conversations_memory"), **(memory.get("project_memories") or {})}
    for name, text in texts.items():
        if isinstance(text, str) and text.strip():
            yield Fact(f"memory/{name}", where, text, "memory", f"Memory of {name}", created=file.modified)
