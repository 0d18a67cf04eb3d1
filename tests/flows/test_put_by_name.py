"""Put by exact key: `save_memory` with `name` and `replace`, `get_memory` and `delete_memory` by category and name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from honeybadger_agent import SyncClient
from honeybadger_agent.errors import Conflict
from honeybadger_agent.mailbox import new_id
from tests.commands import cli_json
from tests.conftest import HostFactory
from tests.hosting import PATIENCE, HostProcess, RawSender, request

PLAN: dict[str, Any] = {"category": "plans", "name": "move.md"}


def test_a_put_makes_or_replaces_the_named_entry(host: HostProcess, home: Path) -> None:
    first = SyncClient(home, "main", "ann", timeout_seconds=PATIENCE).save_memory(
        "in May", **PLAN, replace=True, tags=["home"], metadata={"a": 1}
    )
    agent = SyncClient(home, "main", "ben", timeout_seconds=PATIENCE)
    second = agent.save_memory("in June", **PLAN, replace=True, title="Moving")
    assert (second.id, second.file, second.created, second.by) == (first.id, first.file, first.created, "ann")
    assert (second.content, second.title, second.tags, second.metadata) == ("in June", "Moving", [], {})
    assert second.version != first.version
    found = agent.get_memory(category="Plans", name="move.md")
    assert (found.content, found.version) == ("in June", second.version)
    assert agent.list_memory_entries(category="plans").total == 1
    assert agent.search_memory("June").hits[0].id == first.id
    assert not agent.search_memory("May").hits


def test_a_put_expects_the_version_that_was_read(host: HostProcess, home: Path) -> None:
    agent = SyncClient(home, "main", "ann", timeout_seconds=PATIENCE)
    first = agent.save_memory("in May", **PLAN, replace=True)
    second = agent.save_memory("in June", **PLAN, replace=True, expected_version=first.version)
    with pytest.raises(Conflict, match=r"move\.md was changed since"):
        agent.save_memory("in July", **PLAN, replace=True, expected_version=first.version)
    path = home / "groups/main" / second.file
    path.write_bytes(path.read_bytes().replace(b"in June", b"in August"))
    with pytest.raises(Conflict, match="was changed since"):
        agent.save_memory("in July", **PLAN, replace=True, expected_version=second.version)
    agent.delete_memory(**PLAN)
    with pytest.raises(Conflict, match="was deleted since"):
        agent.save_memory("in July", **PLAN, replace=True, expected_version=second.version)
    assert agent.list_memory_entries(category="plans").total == 0


def test_a_put_is_applied_once_in_order_despite_kills(make_host: HostFactory, home: Path) -> None:
    host = make_host().start()
    first = SyncClient(home, "main", "ann", timeout_seconds=PATIENCE).save_memory("0", **PLAN, replace=True)
    host.kill()
    sender = RawSender(home).make()
    ids = [new_id() for _ in range(4)]
    expecting = {"expected_version": first.version}
    for n, request_id in enumerate(ids, 1):  # they come in one batch
        payload = {"content": str(n), **PLAN, "replace": True, **(expecting if n in (1, 3) else {})}
        sender.drop(request_id, request(request_id, "save_memory", payload=payload))
    host.start()
    replies = [sender.reply(request_id) for request_id in ids]
    assert [reply["ok"] for reply in replies] == [True, True, False, True]
    host.kill()
    data = request(ids[1], "save_memory", payload={"content": "2", **PLAN, "replace": True})
    (sender.replies / f"{ids[1]}.json").unlink()
    sender.drop(ids[1], data)
    host.start()
    assert sender.reply(ids[1]) == replies[1]
    agent = SyncClient(home, "main", "ann", timeout_seconds=PATIENCE)
    assert agent.get_memory(**PLAN).content == "4"
    assert [row["kind"] for row in cli_json("log", "main", home=home)] == ["entry"] * 4
