"""`send_message` decided, and `get_messages` where nobody has to wait."""

from __future__ import annotations

import os

import orjson

from honeybadger_host.handler_kinds import WaitingHandler
from tests.host.handlers.room import Room


def test_a_message_has_its_changes_number_and_readers(room: Room) -> None:
    os.makedirs(room.home / "data/ipc/main/ben")
    outcome = room.decide("send_message", content="hi\u202e there", to=["ben", "ben"])
    (change,) = outcome.changes
    line = orjson.loads(change.data)
    assert line["seq"] == outcome.result["seq"] == room.journal.next_seq
    assert (line["sender"], line["content"], line["to"]) == ("researcher", "hi there", ["ben"])
    assert outcome.result["neutralised"]


async def test_who_does_not_wait_is_answered_at_once(room: Room) -> None:
    handler = room.table["get_messages"]
    assert isinstance(handler, WaitingHandler)
    assert await handler.answer(room.asking("get_messages", {"after": 0})) == {"messages": [], "after": 0}
