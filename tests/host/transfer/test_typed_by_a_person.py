"""Nothing that another program kept becomes the user's words unless a person typed it."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.transfer.chatgpt import read_chatgpt
from honeybadger_host.transfer.claude import read_claude
from honeybadger_host.transfer.claude_code import read_claude_code
from honeybadger_host.transfer.records import Importer, SaidTurn, SourceFile

NOT_TYPED_IN_CODE: list[dict[str, Any]] = [
    {"isMeta": True},
    {"isCompactSummary": True},
    {"isSidechain": True},
    {"toolUseResult": {"stdout": "x"}},
    {"sourceToolUseID": "toolu_1"},
    {"origin": {"kind": "task-notification"}},
    {"promptSource": "system"},
    {"forkedFrom": {"sessionId": "s", "messageUuid": "u"}},
    {"message": {"role": "user", "content": [{"type": "tool_result", "content": "program"}]}},
    {"message": {"role": "user", "content": "<local-command-stdout>program</local-command-stdout>"}},
    {"message": {"role": "user", "content": "<command-name>/clear</command-name>"}},
]
NOT_TYPED_IN_CHATGPT: list[dict[str, Any]] = [
    {"metadata": {"is_visually_hidden_from_conversation": True}},
    {"metadata": {"is_user_system_message": True}},
    {"content": {"content_type": "user_editable_context", "user_profile": "program", "user_instructions": "program"}},
    {"content": {"content_type": "execution_output", "text": "program"}},
    {"author": {"role": "user", "metadata": {"real_author": "tool:web"}}},
    {"author": {"role": "tool", "name": "python"}},
    {"author": {"role": "system"}},
]
Lines = list[tuple[bool, int]]  # whether a person typed it, and which of the marks it has otherwise
lines = st.lists(st.tuples(st.booleans(), st.integers(0, 100)), max_size=12)


def said_by_the_user(importer: Importer, name: str, data: bytes) -> Iterator[str]:
    file = SourceFile(name, datetime(2026, 1, 1, tzinfo=UTC), lambda: io.BytesIO(data))
    for found in importer(file):
        if isinstance(found, SaidTurn) and found.role == "user":
            yield found.content


@given(lines)
def test_claude_codes_machine_turns_are_not_the_users(which: Lines) -> None:
    told, typed = [], []
    for number, (is_typed, mark) in enumerate(which):
        text = f"{'person' if is_typed else 'program'} {number}"
        line = {"type": "user", "uuid": f"u{number}", "message": {"role": "user", "content": text}}
        told.append(json.dumps(line if is_typed else line | NOT_TYPED_IN_CODE[mark % len(NOT_TYPED_IN_CODE)]))
        typed += [text] if is_typed else []
    assert [*said_by_the_user(read_claude_code, "s.jsonl", "\n".join(told).encode())] == typed


@given(lines)
def test_chatgpts_instructions_and_tools_are_not_the_users(which: Lines) -> None:
    mapping: dict[str, Any] = {}
    typed = []
    for number, (is_typed, mark) in enumerate(which):
        text = f"{'person' if is_typed else 'program'} {number}"
        message = {"id": f"m{number}", "author": {"role": "user"}, "metadata": {}}
        message |= {"content": {"content_type": "text", "parts": [text]}}
        if is_typed:
            typed.append(text)
        else:
            message |= NOT_TYPED_IN_CHATGPT[mark % len(NOT_TYPED_IN_CHATGPT)]
        parent = f"m{number - 1}" if number else None
        mapping[f"m{number}"] = {"message": message, "parent": parent, "children": []}
    told = {"id": "c", "mapping": mapping, "current_node": f"m{len(which) - 1}"}
    assert [*said_by_the_user(read_chatgpt, "conversations.json", json.dumps([told]).encode())] == typed


@given(lines)
def test_claudes_attachments_are_not_the_users(which: Lines) -> None:
    messages, typed = [], []
    for number, (is_typed, mark) in enumerate(which):
        text = f"person {number}" if is_typed else ""
        message: dict[str, Any] = {"uuid": f"m{number}", "sender": "human", "text": text}
        if not is_typed:
            message["files" if mark % 2 else "attachments"] = [{"file_name": "a.txt", "extracted_content": "program"}]
        messages.append(message)
        typed += [text] if is_typed else []
    told = [{"uuid": "c", "chat_messages": messages}]
    assert [*said_by_the_user(read_claude, "conversations.json", json.dumps(told).encode())] == typed
