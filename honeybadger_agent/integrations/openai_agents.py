"""A session of the OpenAI Agents SDK in a group's memory: `Runner.run(agent, text, session=GroupSession(client, "4"))`.

Each item is a turn with the item as its `data`, so every agent of the group finds what is said there. It imports
`agents`, the extra `openai-agents`. Its limits: docs/adapters.md.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

from agents import TResponseInputItem
from agents.memory import SessionSettings
from agents.memory.session_settings import resolve_session_limit

from honeybadger_agent.client import Client
from honeybadger_agent.escaping import escaped
from honeybadger_agent.integrations import in_parts
from honeybadger_agent.mailbox import new_id
from honeybadger_agent.turn.thinking import Visible
from honeybadger_agent.wire import MAX_APPENDED, Role, StoredTurn

T = TypeVar("T")
# Role of an item -> of its turn; all other items are of the role `tool`, or `system`.
_ROLES: Mapping[object, Role] = {"user": "user", "assistant": "assistant"}
_MAX_SHOWN = 16_384  # characters of an item that people and search see; `data` has all of it


class GroupSession:
    """A session whose items are turns of a conversation, for `Runner.run(..., session=...)`.

    Args:
        client: its mailbox carries the turns, which are by its sender.
        session_id: any text; `escaped` makes it the name of the conversation.
    """

    def __init__(self, client: Client, session_id: str, *, session_settings: SessionSettings | None = None) -> None:
        self.session_id = session_id
        self.session_settings: SessionSettings | None = session_settings or SessionSettings()
        self._owner = client  # a copy shares its connection
        self._client = copy.copy(client)
        self._client.session = escaped(session_id)
        self._changing = asyncio.Lock()

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the newest items, oldest first; turns of other programs as messages. Raises `AgentError`."""
        most = resolve_session_limit(limit, self.session_settings)
        items: list[TResponseInputItem] = []
        before: int | None = None
        while most is None or most < 0 or len(items) < most:
            page = await self._client.get_turns(before=before, limit=1000, newest_first=True)
            items += [item for turn in page.turns if (item := _item_of(turn)) is not None]
            if not page.has_more:
                break
            before = page.turns[-1].turn
        newest = items if most is None or most < 0 else items[:most]
        return newest[::-1]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items. A cancelled call is finished first: a run that ends early keeps what was said.

        Raises `TooLarge` if an item has over 128 KiB of JSON. Raises `AgentError`.
        """
        await _finished(self._add(items))

    async def _add(self, items: Sequence[TResponseInputItem]) -> None:
        async with self._changing:
            for turns in in_parts((_turn_of(item) for item in items), MAX_APPENDED):
                await self._client.append_turns(turns)

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the newest item back and return it; None if there is none. Raises `AgentError`."""
        return await _finished(self._pop())

    async def _pop(self) -> TResponseInputItem | None:
        async with self._changing:
            while turns := (await self._client.get_turns(limit=1, newest_first=True)).turns:
                await self._client.withdraw_turns(turns[0].turn)
                if (item := _item_of(turns[0])) is not None:
                    return item
            return None

    async def clear_session(self) -> None:
        """Begin the conversation again; its log keeps what was said. Raises `AgentError`."""
        async with self._changing:
            await _finished(self._client.delete_session(begin_again=True))


async def _finished(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`, which continues even if the caller is cancelled."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _turn_of(item: TResponseInputItem) -> dict[str, Any]:
    members = cast(Mapping[str, Any], item)
    given = members.get("role")
    role: Role = _ROLES.get(given, "system" if given in ("system", "developer") else "tool")
    text = "\n".join(_texts(members))[:_MAX_SHOWN]
    text = Visible.of(text).text if role == "assistant" else text
    if not any(character.isprintable() and not character.isspace() for character in text):
        text = f"({members.get('type') or 'item'})"
    # each call adds new items, as the contract says: keys only tell a request that is sent again
    return {"key": new_id(), "role": role, "content": text, "data": json.dumps(item, ensure_ascii=False)}


def _texts(members: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts of an item for people, or its tool call."""
    if "name" in members and "arguments" in members:
        yield f"{members['name']}({members['arguments']})"
    for part in (members.get("content"), members.get("output"), members.get("text"), members.get("refusal")):
        if isinstance(part, str):
            yield part
        for each in part if isinstance(part, list) else ():
            if isinstance(each, Mapping):
                yield from _texts(each)


def _item_of(turn: StoredTurn) -> TResponseInputItem | None:
    """Return the item of a turn, or None if it is another program's and cannot be given to a model."""
    if turn.data is not None:
        return cast(TResponseInputItem, json.loads(turn.data))
    if turn.role == "tool":
        return None
    return cast(TResponseInputItem, {"role": turn.role, "content": turn.content})
