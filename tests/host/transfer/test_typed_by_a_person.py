"""Nothing that another program kept becomes the user's words unless a person typed it."""

import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.transfer.claude_code import read_claude_code
from honeybadger_host.transfer.formats import IMPORTERS
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
    {"message": {"role": "user", "content": "<system-reminder>program</system-reminder>"}},
    {"message": {"role": "user", "content": [{"type": "text", "text": "<ide_selection>program</ide_selection>"}]}},
    {"type": "attachment", "attachment": {"type": "skill_listing", "content": "program"}},
    {
        "type": "attachment",
        "attachment": {
            "type": "queued_command",
            "prompt": "<task-notification>program</task-notification>",
            "commandMode": "task-notification",
        },
    },
]
IDE = "<ide_opened_file>program</ide_opened_file>"


def typed_in_code(text: str) -> list[dict[str, Any]]:
    """Return the forms in which a transcript has what a person typed."""
    queued = {"type": "queued_command", "prompt": text, "commandMode": "prompt", "origin": {"kind": "human"}}
    blocks = [{"type": "text", "text": IDE}, {"type": "text", "text": text}]
    return [
        {"type": "user", "message": {"role": "user", "content": text}},
        {"type": "user", "message": {"role": "user", "content": blocks}},
        {"type": "user", "message": {"role": "user", "content": f"{IDE}\n\n{text}"}},
        {"type": "attachment", "attachment": queued},
        {"type": "attachment", "attachment": queued | {"prompt": [{"type": "text", "text": text}]}},
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


def spoken(text: str) -> list[dict[str, Any]]:
    """Return the parts of a message in voice mode."""
    transcription = {"content_type": "audio_transcription", "text": text, "direction": "in"}
    return [transcription, {"content_type": "real_time_user_audio_video_asset_pointer", "audio_asset_pointer": {}}]


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
        forms = typed_in_code(text)
        line = forms[mark % len(forms)] if is_typed else forms[0] | NOT_TYPED_IN_CODE[mark % len(NOT_TYPED_IN_CODE)]
        told.append(json.dumps({"uuid": f"u{number}"} | line))
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
            if mark % 2:
                message["content"] = {"content_type": "multimodal_text", "parts": [*spoken(text)]}
        else:
            message |= NOT_TYPED_IN_CHATGPT[mark % len(NOT_TYPED_IN_CHATGPT)]
        parent = f"m{number - 1}" if number else None
        mapping[f"m{number}"] = {"message": message, "parent": parent, "children": []}
    told = {"id": "c", "mapping": mapping, "current_node": f"m{len(which) - 1}"}
    assert [*said_by_the_user(IMPORTERS["chatgpt"], "conversations.json", json.dumps([told]).encode())] == typed


@given(lines)
def test_claudes_attachments_are_not_the_users(which: Lines) -> None:
    messages, typed = [], []
    for number, (is_typed, mark) in enumerate(which):
        text = f"person {number}" if is_typed else ""
        message: dict[str, Any] = {"uuid": f"m{number}", "sender": "human", "text": text}
        if is_typed and mark % 2:
            message |= {"text": "", "content": [{"type": "voice_note", "title": "A note", "text": text}]}
        if not is_typed:
            message["files" if mark % 2 else "attachments"] = [{"file_name": "a.txt", "extracted_content": "program"}]
        messages.append(message)
        typed += [text] if is_typed else []
    told = [{"uuid": "c", "chat_messages": messages}]
    assert [*said_by_the_user(IMPORTERS["claude"], "conversations.json", json.dumps(told).encode())] == typed
