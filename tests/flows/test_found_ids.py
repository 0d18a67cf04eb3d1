"""Whatever search, recall or a context names by an id is opened by that id, through every interface."""

import functools
from pathlib import Path

import anyio
import orjson
import pytest

from tests.agent.test_mcp import served, text
from tests.conftest import MakeClient
from tests.hosting import HostProcess, run_agent, wait_for

NOTES = {"MEMORY.md": "\n\n## Habits (ann, 2026-11-20 06:00)\n- Ann drinks oolong\n", "HISTORY.md": "Oolong came up.\n"}


@pytest.fixture
def found(home: Path, host: HostProcess, client: MakeClient) -> dict[str, str]:
    """Return what a search for one word finds: id -> what it says."""
    for group in ("main", "global"):
        for name, notes in NOTES.items():
            (home / "groups" / group).mkdir(exist_ok=True)
            (home / "groups" / group / name).write_text(notes.replace("oolong", f"oolong of {group}"))
    shared = home / "groups/global/memory/teas/oolong.json"
    shared.parent.mkdir(parents=True)
    shared.write_text('{"content": "Oolong is a tea for every group"}')
    agent = client()
    agent.save_memory("Oolong is on the list")
    agent.append_turn("user", "Is there oolong?")
    agent.append_turn("assistant", "Oolong is there", sender="bee")
    wait_for(lambda: len(agent.search_memory("oolong", limit=20).hits) == 8)
    return {hit.id: hit.text for hit in agent.search_memory("oolong", limit=20).hits}


async def test_every_hit_of_a_search_can_be_opened(home: Path, client: MakeClient, found: dict[str, str]) -> None:
    agent = client()
    assert {"main#1", "main#2", "oolong"} < found.keys()
    for id_, says in found.items():
        assert agent.get_memory(id_).content == says, id_
        shell = ("call", "get_memory", orjson.dumps({"id": id_}).decode())
        done = await anyio.to_thread.run_sync(functools.partial(run_agent, *shell, home=home))
        assert orjson.loads(done.stdout)["result"]["content"] == says, (id_, done.stderr)
    async with served(home) as mcp:
        for id_, says in found.items():
            result = await mcp.call_tool("get_memory", {"id": id_})
            assert not result.is_error, text(result)
            assert says in text(result)
    turn = agent.get_memory("main#2")
    assert (turn.kind, turn.by, turn.file) == ("turn", "bee via researcher", "data/sessions/main/main.jsonl")
    assert turn.created is not None
    assert agent.get_memory("oolong").file == "groups/global/memory/teas/oolong.json"
