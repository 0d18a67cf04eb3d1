"""A conversation store of PydanticAI in a group's memory: `store = GroupConversations(Client(…))`.

Each record and each message is a document in `store/pydantic-ai/…`; nothing recalls or searches it. It imports
`pydantic_ai`, the extra `pydantic-ai`. Its limits: docs/adapters.md.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.messages import ModelMessagesTypeAdapter

from honeybadger_agent.client import Client
from honeybadger_agent.errors import Conflict, NotFound
from honeybadger_agent.escaping import escaped
from honeybadger_agent.integrations import in_parts
from honeybadger_agent.wire import MAX_LISTED, MAX_OPERATIONS, EntryResult

_RECORDS = "store/pydantic-ai/records"
_ENTRIES = "store/pydantic-ai/entries"
_RECORD = TypeAdapter(ConversationRecord)


class GroupConversations(ConversationStore):
    """Conversations that stay, each message stored once.

    Args:
        client: its mailbox carries the documents; they are signed with its sender.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation, or None if there is none. Raises `AgentError`."""
        found = await self._found(conversation_id)
        return None if found is None else _RECORD.validate_json(found.content)

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        """Return records, the last saved first. Raises `AgentError`."""
        where = None if scope is None else {"content.scope": scope}
        records: list[ConversationRecord] = []
        while True:
            listed = await self._client.list_memory_entries(
                category=_RECORDS, where=where, limit=MAX_LISTED, offset=len(records), with_content=True
            )
            records += [_RECORD.validate_json(row.content or "") for row in listed.entries]
            if not listed.has_more:
                return sorted(records, key=lambda record: record.updated_at, reverse=True)[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record and its new messages in one change; if they are very many, the first ones in earlier changes.

        Raises ConversationConflict if the record has another revision, or its last message does not exist. Raises
        `AgentError`; messages that were stored before the error belong to no conversation.
        """
        held = await self._held(record.conversation_id, expected_revision)
        if record.head_id is not None and record.head_id not in {entry.id for entry in new_entries}:
            try:
                await self.read_entry(record.head_id)
            except KeyError:
                raise ConversationConflict(record.conversation_id) from None
        operations = [_saving(_ENTRIES, entry.id, _json_of(entry)) for entry in new_entries]
        last = _saving(_RECORDS, record.conversation_id, _RECORD.dump_json(record).decode())
        last["payload"] |= {} if held is None else {"replace": True, "expected_version": held.version}
        *parts, part = in_parts([*operations, last], MAX_OPERATIONS)
        for earlier in parts:
            await self._client.change_many(earlier)
        await self._change(record.conversation_id, part)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a record; its messages stay, since another conversation may continue them.

        Raises ConversationConflict if it has another revision, or is gone. Raises `AgentError`.
        """
        held = await self._held(conversation_id, expected_revision)
        if held is None:
            raise ConversationConflict(conversation_id)
        same = _saving(_RECORDS, conversation_id, held.content)  # a deletion expects no version: a put does
        same["payload"] |= {"replace": True, "expected_version": held.version}
        gone = {"type": "delete_memory", "payload": {"category": _RECORDS, "name": escaped(conversation_id)}}
        await self._change(conversation_id, [same, gone])

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return a message. Raises KeyError if there is none. Raises `AgentError`."""
        try:
            found = await self._client.get_memory(category=_ENTRIES, name=escaped(entry_id))
        except NotFound:
            raise KeyError(entry_id) from None
        value = json.loads(found.content)
        (message,) = ModelMessagesTypeAdapter.validate_python([value["message"]])
        return ConversationEntry(id=value["id"], parent_id=value["parent_id"], message=message)

    async def _found(self, conversation_id: str) -> EntryResult | None:
        try:
            return await self._client.get_memory(category=_RECORDS, name=escaped(conversation_id))
        except NotFound:
            return None

    async def _held(self, conversation_id: str, expected_revision: str | None) -> EntryResult | None:
        """Return the document of the record to replace; None: there is none. Raises ConversationConflict."""
        held = await self._found(conversation_id)
        revision = None if held is None else _RECORD.validate_json(held.content).revision
        if revision != expected_revision:
            raise ConversationConflict(conversation_id)
        return held

    async def _change(self, conversation_id: str, operations: list[dict[str, Any]]) -> None:
        try:
            await self._client.change_many(operations)
        except (Conflict, NotFound):
            raise ConversationConflict(conversation_id) from None


def _saving(category: str, name: str, content: str) -> dict[str, Any]:
    return {"type": "save_memory", "payload": {"category": category, "name": escaped(name), "content": content}}


def _json_of(entry: ConversationEntry) -> str:
    (message,) = ModelMessagesTypeAdapter.dump_python([entry.message], mode="json")
    return json.dumps({"id": entry.id, "parent_id": entry.parent_id, "message": message}, ensure_ascii=False)
