"""Session documents on a real host, over restarts, kills, editors, a corrupt file (CM1-CM6); working memory (RB6)."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from bench.session import bench_session
from honeybadger_agent import SyncClient
from honeybadger_agent.errors import NotFound
from honeybadger_host.memory.compaction import HEADER
from tests.commands import cli_text
from tests.conftest import HostFactory, MakeClient
from tests.hosting import HostProcess, RawSender, request, wait_for

FILE = "data/context/main/main.json"
MEMBERS = [
    *("session_id", "system_state", "facts", "recent_history", "long_term_summary", "active_tasks"),
    *("tool_stats", "last_known_environment", "token_usage", "honeybadger"),
]


def on_disk(home: Path) -> dict[str, Any]:
    """Return the document as a person sees it, empty while there is none."""
    try:
        value = orjson.loads((home / FILE).read_bytes())
    except FileNotFoundError:
        return {}
    assert isinstance(value, dict)
    return value


def contents(client: SyncClient) -> list[str]:
    return [entry.content for entry in client.load_session().recent_history]


def test_a_session_document_file_survives_restarts(home: Path, make_host: HostFactory, client: MakeClient) -> None:
    host = make_host({"memory.session_document_store.WRITE_OUT_SECONDS": 0.2}).start()
    agent = client()
    agent.append_turn("user", "Create a new file")
    agent.append_turn("assistant", "Done", tools_used=["file_write"])
    written = wait_for(lambda: on_disk(home), what="the document written out")
    assert list(written) == MEMBERS
    wait_for(lambda: on_disk(home)["honeybadger"] == {"turns": 2}, what="both turns written out")
    agent.update_session(
        add_facts=["User prefers verbose output"], active_tasks=[{"id": "task_001", "description": "Monitor"}]
    )
    agent.append_turn("user", "the last words before the end")
    host.stop()
    assert [entry["content"] for entry in on_disk(home)["recent_history"]][-1] == "the last words before the end"
    host.start()
    loaded = agent.load_session()
    assert loaded.facts == ["User prefers verbose output"]
    assert (loaded.turns, loaded.active_tasks[0].status, loaded.tool_stats.by_tool) == (3, "Running", {"file_write": 1})
    assert (home / FILE).stat().st_mode & 0o777 == 0o600
    assert host.events("projection.kept") == []


@pytest.mark.parametrize("point", ["placed", "replied"])  # tests/crash/test_kill_points.py has all of them
def test_killed_around_a_compaction_each_turn_is_there_once(
    home: Path, make_host: HostFactory, client: MakeClient, stranger: RawSender, point: str
) -> None:
    first = make_host({"memory.session_document_store.WRITE_OUT_SECONDS": 600}).start()
    for number in range(1, 51):
        stranger.drop(f"r{number:02}", request(f"r{number:02}", "append_turn", payload=said(number)))
    stranger.reply("r50")
    first.kill()
    assert len(on_disk(home)["recent_history"]) < 50
    fault = f"""
import functools, os
from honeybadger_host import daemon
daemon.run = functools.partial(daemon.run, passed=lambda point: point == {point!r} and os.kill(os.getpid(), 9))
"""
    killed = make_host(source=fault).start()
    stranger.drop("r51", request("r51", "append_turn", payload=said(51)))
    assert killed.wait() == -9
    make_host().start()
    assert stranger.reply("r51")["result"]["turn"] == 51
    stranger.wait_until_taken("r51")
    loaded = client().load_session()
    lines = [line.removeprefix("- user: ") for line in loaded.long_term_summary.splitlines()[1:]]
    shown = [entry.content for entry in loaded.recent_history]
    assert len(shown) == 30
    assert lines + shown == [f"message {number}" for number in range(1, 52)]
    assert on_disk(home)["honeybadger"] == {"turns": 51}


def said(number: int) -> dict[str, str]:
    return {"role": "user", "content": f"message {number}"}


def test_the_document_is_searched_and_part_of_a_context(home: Path, make_host: HostFactory, client: MakeClient) -> None:
    host = make_host().start()
    agent = client()
    [row] = [row for row in agent.get_context().sections if row.title == "## This Session"]
    assert (row.state, row.tokens, row.source) == ("absent", 0, FILE)
    agent.update_session(
        add_facts=["The heron deadline is Friday\n## Group Context"],
        active_tasks=[
            {"id": "t1", "description": "Watch the heron logs", "progress": 0.5},
            {"id": "t2", "description": "Buy a ladder", "status": "Completed"},
        ],
        long_term_summary=f"The heron project moved to Oslo.\n\n{HEADER}\n- user: first\n- user: last",
    )
    context = agent.get_context("What about the heron?")
    part = context.system.partition("## This Session\n")[2].partition("\n\n")[0]
    assert part.splitlines() == [
        "Running tasks:",
        "- Watch the heron logs (t1, Running, 50%)",
        "Facts:",
        "- The heron deadline is Friday ## Group Context",
        "Summary:",
        "- The heron project moved to Oslo.",
        "Earlier messages, the newest first:",
        "- user: last",
        "- user: first",
    ]
    hits = agent.search_memory("heron", scope="notes").hits
    assert {(hit.kind, hit.source) for hit in hits} == {("session", FILE)}
    assert {hit.text for hit in hits} == {
        "The heron deadline is Friday ## Group Context",
        "Watch the heron logs",
        "The heron project moved to Oslo.",
    }
    assert [agent.get_memory(hit.id).content for hit in hits] == [hit.text for hit in hits]
    agent.update_session(add_facts=[f"fact {number} " + "x" * 1900 for number in range(100)])
    context = agent.get_context("What about the heron?", budget_tokens=4000)
    [row] = [row for row in context.sections if row.title == "## This Session"]
    assert row.state == "cut"
    assert row.why
    assert row.left_out
    assert row.tokens <= 2000
    assert context.tokens <= 4000
    agent.delete_session()
    assert agent.search_memory("heron").hits == []
    host.stop()
    make_host({"document.in_context": False}).start()
    agent.update_session(add_facts=["once more"])
    context = agent.get_context()
    assert "once more" not in context.system
    [row] = [row for row in context.sections if row.title == "## This Session"]
    assert row.why == "document.in_context is false"


def test_the_bench_measures_load_save_and_compaction(tmp_path: Path) -> None:
    """The figures stand in docs/performance.md; here only that they are taken: a busy machine has others."""
    rows = bench_session(tmp_path, rounds=5)
    assert [row.name.split(",")[0] for row in rows] == ["load", "save", "compaction"]
    assert all(float(row.value.split()[0]) > 0 for row in rows)


def is_gone(client: SyncClient, key: str) -> bool:
    try:
        client.get_from_working_memory(key)
    except NotFound:
        return True
    return False


def test_an_item_and_its_expiry_survive_a_restart(host: HostProcess, client: MakeClient) -> None:
    bee = client()
    saved = bee.save_to_working_memory("page", "text", 60, tags=["t"])
    short = bee.save_to_working_memory("short", "text", 0.01)
    host.kill()
    host.start()
    entry = bee.get_from_working_memory("page")
    assert (entry.data, entry.expires_at, entry.tags) == ("text", saved.expires_at, ["t"])
    assert "page.json  page: text\n" in cli_text("log", "main", "--kind", "working", home=host.home)
    wait_for(lambda: is_gone(bee, "short"))
    assert datetime.now(UTC) >= datetime.fromisoformat(short.expires_at)
