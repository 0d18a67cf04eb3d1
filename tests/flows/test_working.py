"""Working memory over the whole path: it expires, survives a restart and a kill, and stays in its session (RB6)."""

from __future__ import annotations

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
