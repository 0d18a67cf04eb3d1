"""Working memory over the whole path: it expires, survives a restart and a kill, and stays in its session (RB6)."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from honeybadger_agent import SyncClient
from honeybadger_agent.errors import NotFound
from tests.commands import cli_text
from tests.conftest import HostFactory, MakeClient
from tests.hosting import HostProcess, wait_for

QUICK_HOUSE = "import honeybadger_host.ops.maintenance as housekeeping\nhousekeeping.HOUSEKEEPING_SECONDS = 0.1"


def is_gone(client: SyncClient, key: str) -> bool:
    try:
        client.get_from_working_memory(key)
    except NotFound:
        return True
    return False


def files_of(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "data/working").rglob("*.json"))


def test_a_saved_item_is_found_until_it_expires(member: MakeClient) -> None:
    bee = member("researcher", session="a")
    saved = bee.save_to_working_memory("page", "Badgers dig.", 0.02, "web", ["zoo"])
    expires_at = datetime.fromisoformat(saved.expires_at)
    bee.save_to_working_memory("draft", "Dear Ann")
    assert member("cook", session="a").get_from_working_memory("draft").by == "researcher"
    context = bee.get_context().system
    if datetime.now(UTC) < expires_at:
        assert "- page: expires in 0m0" in context
    assert re.search(r"^- draft: expires in 4m\d\ds$", context, re.MULTILINE)
    wait_for(lambda: is_gone(bee, "page"))
    assert datetime.now(UTC) >= expires_at
    assert [entry.key for entry in bee.list_working_memory().entries] == ["draft"]
    assert bee.search_working_memory("badgers").hits == []
    assert "- page" not in bee.get_context().system


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_an_item_and_its_expiry_survive_a_restart(host: HostProcess, client: MakeClient, end: str) -> None:
    bee = client()
    saved = bee.save_to_working_memory("page", "text", 60, tags=["t"])
    short = bee.save_to_working_memory("short", "text", 0.01)
    if end == "kill":
        host.kill()
        host.start()
    else:
        host.restart()
    entry = bee.get_from_working_memory("page")
    assert (entry.data, entry.expires_at, entry.tags) == ("text", saved.expires_at, ["t"])
    assert "page.json  page: text\n" in cli_text("log", "main", "--kind", "working", home=host.home)
    wait_for(lambda: is_gone(bee, "short"))
    assert datetime.now(UTC) >= datetime.fromisoformat(short.expires_at)


def test_expired_items_are_swept_and_can_be_saved_again(make_host: HostFactory, client: MakeClient) -> None:
    host = make_host(source=QUICK_HOUSE).start()
    bee = client()
    bee.save_to_working_memory("kept", "x")
    bee.save_to_working_memory("page", "x", 0.001)
    wait_for(lambda: files_of(host.home) == ["kept.json"])
    wait_for(lambda: any(line["working_expired"] for line in host.events("house.kept")))
    bee.save_to_working_memory("page", "again")
    assert bee.get_from_working_memory("page").data == "again"
    host.kill()
    host.start()
    assert bee.get_from_working_memory("page").data == "again"
    host.stop()
    assert "somebody changed it" not in host.log_text()


def test_saves_and_sweeps_at_once_lose_nothing(make_host: HostFactory, client: MakeClient) -> None:
    make_host({"ops.maintenance.HOUSEKEEPING_SECONDS": 0.001}).start()
    bee = client()
    end = time.monotonic() + 1.5
    rounds = 0
    while time.monotonic() < end or rounds < 4:
        bee.save_to_working_memory("page", "gone", 0.00001)
        bee.save_to_working_memory("page", f"round {rounds}", 1)
        assert bee.get_from_working_memory("page").data == f"round {rounds}"
        rounds += 1


def test_an_editor_and_an_agent_change_one_entry(host: HostProcess, client: MakeClient) -> None:
    bee = client()
    bee.save_to_working_memory("page", "read on Monday", 60, tags=["zoo"])
    path = host.home / "data/working/main/main/page.json"
    opened = orjson.loads(path.read_bytes())
    client("cook").save_to_working_memory("page", "read on Tuesday", 90, tags=["zoo"])
    path.write_bytes(orjson.dumps(opened | {"category": "animals"}))
    entry = bee.get_from_working_memory("page")
    assert (entry.data, entry.category, entry.by) == ("read on Tuesday", "animals", "cook")
    bee.save_to_working_memory("other", "x", 60)
    wait_for(lambda: "page.json" in cli_text("log", "main", "--by", "human", home=host.home))
    host.kill()
    host.start()
    assert bee.get_from_working_memory("page").category == "animals"
    path.write_bytes(b"{")
    assert bee.get_from_working_memory("page").data == "read on Tuesday"
    bee.save_to_working_memory("page", "read on Wednesday", 60, "animals")
    assert bee.get_from_working_memory("page").data == "read on Wednesday"
    path.write_bytes(orjson.dumps(opened | {"category": "birds"}))
    wait_for(lambda: bee.get_from_working_memory("page").category == "birds")
    assert bee.get_from_working_memory("page").data == "read on Wednesday"
