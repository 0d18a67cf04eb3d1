"""Working memory over the whole path: it expires, survives a restart and a kill, and stays in its session (RB6)."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from honeybadger_agent import SyncClient
from honeybadger_agent.errors import NotFound
from tests.commands import cli_text
from tests.conftest import MakeClient
from tests.hosting import HostProcess, wait_for


def is_gone(client: SyncClient, key: str) -> bool:
    try:
        client.get_from_working_memory(key)
    except NotFound:
        return True
    return False


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
